"""What a shell makes of scripts: many of them run by one process, and what their launches saw."""

from __future__ import annotations

import os
import shutil
import signal
import subprocess
import tempfile
from collections.abc import Sequence
from concurrent.futures import ThreadPoolExecutor
from dataclasses import dataclass
from pathlib import Path

STUB = """#!/bin/sh
{ printf 'L%s\\0' "$#"; [ $# -eq 0 ] || printf '%s\\0' "$@"; exec /usr/bin/env -0; } >> "$RECORDS"
"""
_TOOLS = ("bash", "sh", "cat", "echo", "env", "nice", "nohup", "sleep", "timeout", "test", "true", "false")
# Each script is sourced in a subshell: what it does to the shell ends there, and no shell has to be started for it.
_DRIVER = """
for k__ in "$@"; do
    ( RECORDS=$PWD/records.$k__; export RECORDS; f__=./script.$k__; set --; unset k__
      . "$f__" ) < /dev/null > /dev/null 2> errors.$k__
done
"""
_S_EACH = 0.5
"""How long one script may take, on average; seconds."""


@dataclass(frozen=True)
class Seen:
    """What one launch saw."""

    argv: list[bytes]
    env: dict[bytes, bytes]

    def flags(self) -> dict[str, bytes | None]:
        """Each flag's last value; None for a bare one."""
        found: dict[str, bytes | None] = {}
        for at, word in enumerate(self.argv):
            if word.startswith(b"--k"):
                name, equals, value = word.partition(b"=")
                if not equals:
                    rest = self.argv[at + 1 : at + 2]
                    bare = not rest or rest[0].startswith(b"--")
                    found[name.decode()] = None if bare else rest[0]
                else:
                    found[name.decode()] = value
        return found


def run(contents: Sequence[bytes], shell: str = "bash") -> list[list[Seen] | None]:
    """Per script what its launches saw, in the order in which they ran; None if the shell found bad syntax in it."""
    half = (len(contents) + 1) // 2
    with ThreadPoolExecutor(2) as pool:
        return [
            seen
            for part in pool.map(_run, (contents[:half], contents[half:]), (shell, shell))
            for seen in part
        ]


def _run(contents: Sequence[bytes], shell: str) -> list[list[Seen] | None]:
    if not contents:
        return []
    with tempfile.TemporaryDirectory() as name:
        folder = Path(name)
        _lay_tools(folder / "bin")
        for index, content in enumerate(contents):
            (folder / f"script.{index}").write_bytes(content)
        env = {"PATH": str(folder / "bin"), "LC_ALL": "C.UTF-8"}
        path = shutil.which(shell) or shell
        command = [path, "-c", _DRIVER, shell, *map(str, range(len(contents)))]
        limit = 60 + _S_EACH * len(contents)
        with subprocess.Popen(
            command, cwd=folder, env=env, stdin=subprocess.DEVNULL, start_new_session=True
        ) as shell_process:
            try:
                shell_process.wait(limit)
            except subprocess.TimeoutExpired:
                # The shell's children too: one of them runs the script that does not end.
                os.killpg(shell_process.pid, signal.SIGKILL)
                raise
        return [_seen(folder, index) for index in range(len(contents))]


def _seen(folder: Path, index: int) -> list[Seen] | None:
    complaint = (folder / f"errors.{index}").read_bytes().lower()
    if b"syntax error" in complaint or b"unexpected eof" in complaint or b"unterminated" in complaint:
        return None
    records = folder / f"records.{index}"
    return parsed(records.read_bytes()) if records.exists() else []


def _lay_tools(folder: Path) -> None:
    """The stub launch, and the few programs that a script finds."""
    folder.mkdir()
    stub = folder / "srv"
    stub.write_text(STUB)
    stub.chmod(0o755)
    for name in _TOOLS:
        path = shutil.which(name)
        if path:
            (folder / name).symlink_to(path)


def parsed(data: bytes) -> list[Seen]:
    """The records of the stub, in the order in which they were written."""
    fields = data.split(b"\0")
    seen: list[Seen] = []
    at = 0
    while at < len(fields) and fields[at].startswith(b"L"):
        count = int(fields[at][1:])
        argv = fields[at + 1 : at + 1 + count]
        at += 1 + count
        env: dict[bytes, bytes] = {}
        # An entry of the environment has a `=`, and the beginning of the next record has none.
        while at < len(fields) and b"=" in fields[at]:
            name, _, value = fields[at].partition(b"=")
            if name.startswith(b"K"):
                env[name] = value
            at += 1
        seen.append(Seen(argv, env))
    return seen


def is_accepted(content: bytes, shell: str) -> bool:
    """Whether the shell takes the whole text for a script."""
    path = shutil.which(shell) or shell
    return not subprocess.run(
        [path, "-n"], input=content, capture_output=True, check=False, env={}
    ).returncode
