"""A workspace on this machine, and a folder in which people and tools have worked by hand."""

from __future__ import annotations

import contextlib
import io
import json
import subprocess
from pathlib import Path
from typing import Any

from knobledger.cli.main import run
from knobledger.founding import found
from knobledger.workspace import Workspace
from workspaces import SERVE

KNOB = b"SGLANG_SM120_MMA_TARGET_CTAS"


def set_to(value: str, text: bytes = SERVE) -> bytes:
    return text.replace(KNOB + b"=256", KNOB + b"=" + value.encode())


def without(text: bytes = SERVE) -> bytes:
    return b"".join(line for line in text.splitlines(keepends=True) if KNOB not in line)


def write(path: Path, content: bytes, when: str) -> None:
    """A file that was last written at a moment, such as `2026-11-28 10:00 UTC`."""
    path.write_bytes(content)
    subprocess.run(("touch", "-d", when, str(path)), check=True)


class Folder:
    """One service, or several, whose scripts lie in a folder of this machine."""

    def __init__(self, tmp: Path, *services: str) -> None:
        self.root = tmp / "ws"
        self.host = tmp / "host"
        self.host.mkdir()
        found(self.root)
        self.services = services or ("decode",)
        hosts = '[hosts.gpu1]\ntransport = "local"\n'
        for name in self.services:
            hosts += f'[hosts.gpu1.services.{name}]\nscript = "{self.script_of(name)}"\n'
            self.script_of(name).write_bytes(SERVE)
        (self.root / "hosts.toml").write_text(hosts)

    def script_of(self, service: str) -> Path:
        return self.host / f"serve_dsv4_{service}.sh"

    @property
    def script(self) -> Path:
        return self.script_of(self.services[0])

    def open(self, **env: str) -> Workspace:
        return Workspace.open(self.root, {"KNOBLEDGER_ACTOR": "anna", "TZ": "UTC", **env})

    def knob(self, *words: str, code: int = 0) -> str:
        """A command, as it would be typed in the workspace; its stdout."""
        out, err = io.StringIO(), io.StringIO()
        with contextlib.redirect_stdout(out), contextlib.redirect_stderr(err):
            ended = run(["-C", str(self.root), *words])
        assert ended == code, out.getvalue() + err.getvalue()
        return out.getvalue()

    def json(self, *words: str, code: int = 0) -> dict[str, Any]:
        out: dict[str, Any] = json.loads(self.knob(*words, "--json", code=code))
        return out

    def since(self, when: str) -> dict[str, Any]:
        with self.open() as workspace:
            return workspace.since(workspace.moment(when), None).to_json()
