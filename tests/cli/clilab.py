"""A workspace and its host behind a real SSH server, and a way to say commands and to see what they print."""

from __future__ import annotations

import contextlib
import io
import re
import shlex
import subprocess
from pathlib import Path

from knobledger.cli.main import run
from knobledger.demo.sshd import EmbeddedSshd
from workspaces import SERVE

_IDS = re.compile(r"\b[0-9a-f]{64}\b|\b[0-9a-f]{16}…|(?<![0-9a-f])[0-9a-f]{8}(?![0-9a-f])")
_PROGRESS = re.compile(r"\S+: \w+, \d+ s( \(at most \d+ s\))?")
"""said where a step takes more than a second, which depends on the machine"""
_MOMENTS = (
    (re.compile(r"\d{4}-\d\d-\d\dT\d\d:\d\d:\d\d(\.\d+)?Z"), "<instant>"),
    (re.compile(r"\d{8}T\d{6}Z"), "<stamp>"),
    (re.compile(r"(\d{4}-)?\d\d-\d\d \d\d:\d\d(:\d\d)?( UTC|Z)?"), "<moment>"),
    (re.compile(r"(?<=gpu1/)port \d+|(?<=127\.0\.0\.1:)\d+|(?<=port )\d+"), "<port>"),
    (re.compile(r'("clock_offset_s": )-?[\d.e-]+'), r"\1<seconds>"),
    (re.compile(r'("mtime": )\d+'), r"\1<mtime>"),
)


class Lab:
    """A workspace and its host, and a shell-like way to run lines of a transcript."""

    def __init__(self, root: Path, sshd: EmbeddedSshd) -> None:
        self.root = root
        self.host = sshd.sandbox
        self.names: dict[str, str] = {}
        (root / "hosts.toml").write_text(
            f'[hosts.gpu1]\naddress = "127.0.0.1"\nport = {sshd.port}\nuser = "demo"\n'
            f'identity_file = "{sshd.keys.identity_file}"\nknown_hosts = "{sshd.keys.known_hosts}"\n'
            f'[hosts.gpu1.services.decode]\nscript = "{self.host}/serve.sh"\n'
        )
        (self.host / "serve.sh").write_bytes(SERVE)
        (self.host / "serve.sh").chmod(0o755)

    def run(self, line: str) -> str:
        """`knob ...` is the product, `gpu1$ ...` a line of shell on the host; `<name>` stands for an id seen before."""
        for name, id_ in self.names.items():
            line = line.replace(f"<{name}>", id_)
        if line.startswith("gpu1$ "):
            argv = ("/bin/sh", "-c", line.removeprefix("gpu1$ "))
            done = subprocess.run(argv, cwd=self.host, capture_output=True, text=True, check=False)
            code, out, err = done.returncode, done.stdout, done.stderr
        else:
            stdout, stderr = io.StringIO(), io.StringIO()
            with contextlib.redirect_stdout(stdout), contextlib.redirect_stderr(stderr):
                code = run(shlex.split(line)[1:])
            out, err = stdout.getvalue(), stderr.getvalue()
        text = out + "".join(f"! {part}\n" for part in err.splitlines() if not _PROGRESS.fullmatch(part))
        return self.named(text) + (f"[exit {code}]\n" if code else "")

    def named(self, text: str) -> str:
        text = text.replace(str(self.host), "/srv").replace(str(self.root), "/ws")
        for pattern, word in _MOMENTS:
            text = pattern.sub(word, text)
        return _IDS.sub(self._name, text)

    def _name(self, found: re.Match[str]) -> str:
        key = found.group().rstrip("…")[:8]
        known = next((name for name, id_ in self.names.items() if id_ == key), None)
        if known is None:
            known = f"id{len(self.names) + 1}"
            self.names[known] = key
        return f"<{known}>"
