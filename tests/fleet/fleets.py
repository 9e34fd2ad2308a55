"""A workspace with a dozen hosts behind real SSH servers, some of which are not as they should be."""

from __future__ import annotations

import contextlib
import io
import json
import os
from collections.abc import Iterator
from contextlib import contextmanager
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from knobledger.cli.main import run
from knobledger.founding import found
from servers import Sshd, free_port, keygen, openssh
from workspaces import KNOB, SERVE

HOSTS = int(os.environ.get("KNOBLEDGER_TEST_HOSTS", "12"))
DOWN, STRANGE, SLOW = 3, 1, 1
_SLOWLY = "ForceCommand sh -c 'sleep 1.5; exec /bin/sh -c \"$SSH_ORIGINAL_COMMAND\"'\n"


@dataclass
class Answer:
    code: int
    out: str
    err: str

    @property
    def json(self) -> dict[str, Any]:
        found: dict[str, Any] = json.loads(self.out)
        return found


@dataclass
class Fleet:
    root: Path
    folder: Path
    good: list[str]
    """hosts that answer, the slow one last"""
    down: list[str]
    strange: list[str]
    """the key is another one than the known one"""

    def script(self, host: str) -> Path:
        return self.folder / host / "serve.sh"

    def knob(self, *words: str) -> Answer:
        out, err = io.StringIO(), io.StringIO()
        with contextlib.redirect_stdout(out), contextlib.redirect_stderr(err):
            code = run(["-C", str(self.root), *words])
        return Answer(code, out.getvalue(), err.getvalue())

    def values(self) -> dict[str, str]:
        """The knob's value in each host's file."""
        return {host: value_in(self.script(host)) for host in (*self.good, *self.down, *self.strange)}

    def away(self, host: str) -> None:
        """Nobody gets a connection to the host any more; the way that hosts.toml tells stays, as plans are bound to it."""
        nobody = self.folder / "nobody_known"
        nobody.write_text("")
        path = self.root / "hosts.toml"
        lines = path.read_text().splitlines()
        start = lines.index(f"[hosts.{host}]")
        at = next(n for n in range(start, len(lines)) if lines[n].startswith("known_hosts = "))
        lines[at] = f'known_hosts = "{nobody}"'
        path.write_text("\n".join(lines) + "\n")


def value_in(path: Path) -> str:
    line = next(line for line in path.read_text().splitlines() if KNOB in line)
    return line.partition("=")[2]


@contextmanager
def fleet(folder: Path, *, broken: bool, hosts: int = HOSTS, slow: bool = True) -> Iterator[Fleet]:
    """`broken`: three hosts of the dozen are down and one has a strange key. The slow one is slow in any case."""
    root = folder / "ws"
    found(root)
    names = [f"gpu{n:02}" for n in range(1, hosts + 1)]
    down = names[:DOWN] if broken else []
    strange = names[DOWN : DOWN + STRANGE] if broken else []
    good = [name for name in names if name not in down and name not in strange]
    with contextlib.ExitStack() as stack:
        sshd = stack.enter_context(openssh(folder / "sshd"))
        slowly = stack.enter_context(openssh(folder / "slow", extra=_SLOWLY)) if slow else sshd
        other = folder / "other"
        keygen(other)
        kind, key = other.with_suffix(".pub").read_text().split()[:2]
        (folder / "strange_known").write_text(f"[127.0.0.1]:{sshd.port} {kind} {key}\n")
        parts = []
        for name in names:
            more: dict[str, object] = {"transport": "fabric"}
            server: Sshd = slowly if name == good[-1] else sshd
            if name in down:
                more["port"] = free_port()
            if name in strange:
                more["known_hosts"] = str(folder / "strange_known")
            script = folder / name / "serve.sh"
            script.parent.mkdir()
            script.write_bytes(SERVE)
            parts.append(server.toml(name, **more) + f'[hosts.{name}.services.decode]\nscript = "{script}"\n')
        parts.append('[groups.decode]\nservices = ["gpu*/decode"]\n')
        (root / "hosts.toml").write_text("".join(parts))
        yield Fleet(root, folder, good, down, strange)
