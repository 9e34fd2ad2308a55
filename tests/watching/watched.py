"""A workspace whose host is this machine, services that are real processes, and what `knob` says of them."""

from __future__ import annotations

import contextlib
import io
import json
import os
import signal
import subprocess
import sys
import time
from collections.abc import Callable, Sequence
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

from knobledger.cli.main import run
from knobledger.event import decode

KNOB = "SGLANG_SM120_MMA_TARGET_CTAS"
SCRIPT = f"""\
#!/usr/bin/env bash
export {KNOB}=512
export HF_TOKEN=hf_planted0token0value0123456789
exec {sys.executable} PROGRAM --port 30001 --api-key planted0key0value0987
"""


@dataclass
class Watched:
    """`start` runs a program as the service gpu1/decode; everything it started is stopped, by its id, at the end."""

    root: Path
    """the workspace"""
    folder: Path
    """the host's part"""
    started: list[subprocess.Popen[bytes]] = field(default_factory=list)

    @property
    def script(self) -> Path:
        return self.folder / "serve_decode.sh"

    def configure(self, more: str = "") -> None:
        (self.root / "hosts.toml").write_text(
            '[hosts.gpu1]\ntransport = "local"\n'
            f'[hosts.gpu1.services.decode]\nscript = "{self.script}"\npid = "cat {self.folder}/pid"\n{more}'
        )

    def write(self, text: str) -> None:
        self.script.write_text(text)

    def start(
        self, program: str, argv: Sequence[str] = (), env: dict[str, str] | None = None, script: bool = False
    ) -> int:
        """A Python program (by the script that the service has, if `script`); it has to print a line once it is ready."""
        path = self.folder / "program.py"
        path.write_text(program)
        if script:
            self.write(self.script.read_text().replace("PROGRAM", str(path)))
        words = ["bash", str(self.script)] if script else [sys.executable, str(path), *argv]
        process = subprocess.Popen(
            words,
            stdin=subprocess.PIPE,
            stdout=subprocess.PIPE,
            env={"PATH": os.environ["PATH"], **(env or {})},
            start_new_session=True,
        )
        self.started.append(process)
        assert process.stdout is not None
        assert process.stdout.readline()
        (self.folder / "pid").write_text(f"{process.pid}\n")
        return process.pid

    def stop(self) -> None:
        for process in self.started:
            with contextlib.suppress(ProcessLookupError):
                os.killpg(process.pid, signal.SIGKILL)  # the session that `start` made
            process.wait()
            for stream in (process.stdin, process.stdout):
                if stream is not None:
                    with contextlib.suppress(OSError):
                        stream.close()

    def say(self, *argv: str) -> tuple[int, str, str]:
        """Exit code, stdout, stderr of `knob ...`."""
        out, err = io.StringIO(), io.StringIO()
        with contextlib.redirect_stdout(out), contextlib.redirect_stderr(err):
            code = run(list(argv))
        return code, out.getvalue(), err.getvalue()

    def ask(self, *argv: str) -> dict[str, Any]:
        """The JSON of a command that ends well."""
        code, out, err = self.say(*argv, "--json")
        assert code == 0, out + err
        return dict(json.loads(out))

    def live(self, *names: str) -> dict[str, Any]:
        [target] = self.ask("live", "gpu1/decode", *names)["targets"]
        return dict(target)

    def knob(self, *names: str) -> dict[str, Any]:
        [knob] = self.live(*names)["knobs"]
        return dict(knob)

    def events(self, kind: str) -> list[Any]:
        files = sorted((self.root / "ledger" / "events").rglob("*.json"))
        events = [decode(path.read_bytes()) for path in files]
        return sorted((e for e in events if e.kind == kind), key=lambda e: e.at)

    def everything_written(self) -> str:
        files = (self.root / "ledger").rglob("*.json")
        return "\n".join(path.read_text() for path in files)


def eventually(true: Callable[[], bool], limit_s: float = 10) -> None:
    end = time.monotonic() + limit_s
    while not true():
        assert time.monotonic() < end, "it never came true"
        time.sleep(0.02)
