"""A real `knob` that is struck just before one of its own writes into the workspace.

    python -m faults.struck NUMBER FAULT ROOT WORDS...

Python's audit events tell of each write before it happens: files opened for writing, linked, renamed or removed, and
git. FAULT `record` strikes nowhere, and writes what there was to `passed` beside the workspace.
"""

from __future__ import annotations

import os
import signal
import subprocess
import sys
from pathlib import Path

_WRITES = os.O_WRONLY | os.O_RDWR | os.O_CREAT | os.O_TRUNC
_CHANGES = {"os.rename", "os.link", "os.mkdir", "os.remove", "os.rmdir", "os.truncate", "os.symlink"}


def kind_of(event: str, args: tuple[object, ...], root: str) -> str:
    """What is about to be written, for the table; empty if it is nothing of the workspace."""
    if event == "subprocess.Popen":
        words = [str(word) for word in args[1]] if isinstance(args[1], (list, tuple)) else []
        return "git command" if words[:1] == ["git"] else ""
    if event == "open":
        if not (isinstance(args[2], int) and args[2] & _WRITES):
            return ""
    elif event not in _CHANGES:
        return ""
    path = os.path.normpath(os.fsdecode(args[0])) if isinstance(args[0], (str, bytes, os.PathLike)) else ""
    if not path.startswith(f"{root}/"):
        return ""
    inside = path.removeprefix(f"{root}/")
    return next((kind for begin, kind in _KINDS if inside.startswith(begin)), "other")


_KINDS = (
    ("ledger/", "event"),
    (".git/objects/", "git objects"),
    (".git/", "git index"),
    (".knobledger/snapshots/", "snapshot"),
    (".knobledger/", "cache"),
)


class Striker:
    """Counts the writes, and strikes once."""

    def __init__(self, number: int, fault: str, root: str) -> None:
        self.number, self.fault, self.root = number, fault, root
        self.passed: list[str] = []
        self.busy = self.done = False

    def __call__(self, event: str, args: tuple[object, ...]) -> None:
        if self.busy or self.done:
            return
        kind = kind_of(event, args, self.root)
        if not kind:
            return
        self.busy = True
        try:
            self.passed.append(kind)
            if self.fault == "record":
                Path(self.root).with_name("passed").write_text("\n".join(self.passed))
            elif len(self.passed) > self.number:
                self.done = getattr(self, self.fault.replace(" ", "_").replace("-", "_"))()
        finally:
            self.busy = False

    def client_killed(self) -> bool:
        os.kill(os.getpid(), signal.SIGKILL)
        return True

    def disk_full(self) -> bool:
        fd = os.open(Path(self.root).with_name("filler"), os.O_WRONLY | os.O_CREAT | os.O_APPEND)
        size = 65536
        while size:
            try:
                os.write(fd, b"0" * size)
            except OSError:
                size //= 2
        os.close(fd)
        return True

    def read_only(self) -> bool:
        # Refused while a file there is open for writing; then the next write is as good.
        disk = str(Path(self.root).parent)
        return (
            subprocess.run(
                ["mount", "-o", "remount,bind,ro", disk], capture_output=True, check=False
            ).returncode
            == 0
        )

    def no_git(self) -> bool:
        os.environ["PATH"] = "/nowhere"
        return True

    def git_lock_held(self) -> bool:
        Path(self.root, ".git/index.lock").write_text("")
        return True

    def caches_corrupt(self) -> bool:
        for path in Path(self.root, ".knobledger").iterdir():
            if path.is_file() and path.name not in ("key", ".gitignore"):
                path.write_bytes(b"\0garbage\xff")
        return True

    def git_index_corrupt(self) -> bool:
        Path(self.root, ".git/index").write_bytes(b"DIRCgarbage")
        return True


FAULTS = tuple(
    name.replace("_", " ").replace("read only", "read-only")
    for name in vars(Striker)
    if not name.startswith("_")
)


def main() -> None:
    """Runs the command to its end; its exit code is ours."""
    number, fault, root, *words = sys.argv[1:]
    sys.argv[1:] = words
    from knobledger.cli.start import main as knob

    sys.addaudithook(Striker(int(number), fault, root))
    knob()


if __name__ == "__main__":
    main()
