"""A workspace whose host runs three real services, and the commands of the product in this process."""

from __future__ import annotations

import contextlib
import io
import json
from collections.abc import Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from knobledger.cli.main import run
from knobledger.founding import found

ENGINE = Path(__file__).with_name("engine.py")
NAMES = ("prefill", "decode", "router")


@dataclass(frozen=True)
class Said:
    """What one command came to."""

    code: int
    out: str
    err: str

    @property
    def json(self) -> Any:
        return json.loads(self.out)


@dataclass
class Stand:
    """`host` is the host's name in hosts.toml, which the maker of a stand writes."""

    root: Path
    host: str

    def knob(self, *words: str, code: int | None = 0) -> Said:
        """A command; its JSON is on stdout."""
        out, err = io.StringIO(), io.StringIO()
        with contextlib.redirect_stdout(out), contextlib.redirect_stderr(err):
            done = run(["-C", str(self.root), *words, "--json"])
        if code is not None:
            assert done == code, f"exit {done}: {out.getvalue()}\n{err.getvalue()}"
        return Said(done, out.getvalue(), err.getvalue())

    def restart(self, *words: str, code: int = 0) -> Any:
        return self.knob("restart", *words, "--go-ahead", code=code).json

    def events(self, kind: str) -> list[Any]:
        paths = sorted((self.root / "ledger" / "events").rglob("*.json"))
        events = [json.loads(path.read_bytes()) for path in paths]
        return sorted((event for event in events if event["kind"] == kind), key=lambda event: event["at"])


def workspace(root: Path, hosts_toml: str) -> Path:
    """A workspace with this hosts.toml."""
    if not root.exists():
        found(root)
    (root / "hosts.toml").write_text(hosts_toml, encoding="utf-8")
    return root


def outcomes(report: Any) -> Sequence[tuple[str, str]]:
    """Each service of a restart with its outcome, as JSON has it."""
    return [(one["service"].partition("/")[2], one["outcome"]) for one in report["services"]]
