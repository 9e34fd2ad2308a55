"""A rig: one host under test, and a hand on its disk beside it."""

from __future__ import annotations

import os
import shutil
import stat
import subprocess
from collections.abc import Callable
from dataclasses import dataclass, field
from pathlib import Path
from typing import Protocol

import pytest
from msgspec.structs import replace

import servers
from knobledger.hosts.config import Config
from knobledger.hosts.host import Host, Transaction
from knobledger.hosts.local import LocalHost
from knobledger.hosts.memory import MemoryFile, MemoryHost
from knobledger.hosts.reach import HostConfig
from knobledger.names import HostPath, digest_of

BACKUP_DIR = ".knobledger"
PASSWD = HostPath("/etc/passwd")
Dialled = Callable[[HostConfig], Host]
"""connects, and closes at the end"""
CLIENT = (
    "import sys, time; from pathlib import Path\n"
    "from knobledger.hosts.config import Config; from knobledger.hosts.connect import connect\n"
    "host = connect(Config.parse(sys.argv[1], Path('/')).hosts['gpu1'], root=Path('/'))\n"
    "if sys.argv[2] != 'connecting': host.read('/etc/passwd')\n"
    "print('ready', flush=True)\n"
    "if sys.argv[2] == 'in a command': host.run(('sleep', '60'), timeout_s=60)\n"
    "time.sleep(60)\n"
)
"""a client to be killed: `python -c CLIENT HOSTS_TOML WHEN`, at `connecting`, `connected` or `in a command`"""


class Rig(Protocol):
    """What the conformance suite needs."""

    kind: str
    host: Host

    def path(self, name: str) -> HostPath: ...
    def put(self, name: str, content: bytes, mode: int = 0o644) -> HostPath: ...
    def content(self, path: str) -> bytes: ...
    def mode(self, path: str) -> int: ...
    def symlink(self, name: str, to: str) -> HostPath: ...
    def hardlink(self, name: str, to: str) -> HostPath: ...
    def folder(self, name: str) -> HostPath: ...
    def fifo(self, name: str) -> HostPath: ...
    def exists(self, path: str) -> bool: ...
    def names(self) -> list[str]:
        """Everything in the folder but the backup directory."""


@dataclass(slots=True)
class DiskRig:
    """A host whose disk is this machine's."""

    kind: str
    host: Host
    root: Path

    def path(self, name: str) -> HostPath:
        return HostPath(f"{self.root}/{name}")

    def put(self, name: str, content: bytes, mode: int = 0o644) -> HostPath:
        path = self.path(name)
        with open(os.fsencode(path), "wb") as file:
            file.write(content)
        os.chmod(os.fsencode(path), mode)
        return path

    def content(self, path: str) -> bytes:
        with open(os.fsencode(path), "rb") as file:
            return file.read()

    def mode(self, path: str) -> int:
        return stat.S_IMODE(os.stat(os.fsencode(path)).st_mode)

    def symlink(self, name: str, to: str) -> HostPath:
        os.symlink(to, self.path(name))
        return self.path(name)

    def hardlink(self, name: str, to: str) -> HostPath:
        os.link(to, self.path(name))
        return self.path(name)

    def folder(self, name: str) -> HostPath:
        os.mkdir(self.path(name))
        return self.path(name)

    def fifo(self, name: str) -> HostPath:
        os.mkfifo(self.path(name))
        return self.path(name)

    def exists(self, path: str) -> bool:
        return os.path.lexists(os.fsencode(path))

    def names(self) -> list[str]:
        return sorted(name for name in os.listdir(self.root) if name != BACKUP_DIR)


@dataclass(slots=True)
class MemoryRig:
    """The host in memory."""

    kind: str = "memory"
    host: MemoryHost = field(default_factory=MemoryHost)

    def path(self, name: str) -> HostPath:
        return HostPath(f"/srv/{name}")

    def put(self, name: str, content: bytes, mode: int = 0o644) -> HostPath:
        self.host.put(self.path(name), content, mode=f"{mode:04o}")
        return self.path(name)

    def content(self, path: str) -> bytes:
        return self.host.files[path].content

    def mode(self, path: str) -> int:
        return int(self.host.files[path].mode, 8)

    def symlink(self, name: str, to: str) -> HostPath:
        self.host.files[self.path(name)] = MemoryFile(link=to)
        return self.path(name)

    def hardlink(self, name: str, to: str) -> HostPath:
        linked = replace(self.host.files[to], links=2)
        self.host.files[to] = self.host.files[self.path(name)] = linked
        return self.path(name)

    def folder(self, name: str) -> HostPath:
        self.host.files[self.path(name)] = MemoryFile(special="a folder, not a file")
        return self.path(name)

    def fifo(self, name: str) -> HostPath:
        self.host.files[self.path(name)] = MemoryFile(special="a named pipe (FIFO), not a regular file")
        return self.path(name)

    def exists(self, path: str) -> bool:
        return path in self.host.files

    def names(self) -> list[str]:
        names = (path.removeprefix("/srv/") for path in self.host.files)
        return sorted(name for name in names if not name.startswith(f"{BACKUP_DIR}/"))


def config_of(server: servers.Sshd, **more: object) -> HostConfig:
    """How to reach a server; `more` are keys of hosts.toml."""
    return Config.parse(server.toml(**more), Path("/")).hosts["gpu1"]


def transaction(host: Host, path: HostPath, content: bytes, **more: object) -> Transaction:
    """A transaction on what is there now, unless `base` is given."""
    wanted = {
        "path": path,
        "content": content,
        "base": more["base"] if "base" in more else host.read(path).digest,
        "result": digest_of(content),
        "backup_dir": BACKUP_DIR,
        "backup_name": f"{path.rpartition('/')[2]}.20250101T120000.bak",
        "holder": "op@example.org",
        **more,
    }
    return Transaction(**wanted)  # type: ignore[arg-type]


def busybox_tools(folder: Path) -> Path:
    """A folder with nothing but busybox in it, under all its names."""
    busybox = shutil.which("busybox")
    assert busybox is not None
    folder.mkdir()
    for name in os.popen(f"{busybox} --list").read().split():
        (folder / name).symlink_to(busybox)
    (folder / "busybox").unlink(missing_ok=True)
    (folder / "busybox").symlink_to(busybox)
    return folder


def local(
    kind: str, tools: Path = Path(), *, fakes: Path | None = None, user: int | None = None
) -> LocalHost:
    """This machine through one shell, as another user if wanted.

    `fakes` is a folder of programs that come before the real ones.
    """
    drop = () if user is None else ("setpriv", f"--reuid={user}", f"--regid={user}", "--clear-groups")
    before = [] if fakes is None else [str(fakes)]
    if kind == "busybox":
        path = os.pathsep.join([*before, str(tools)])
        return LocalHost(
            kind, shell=(*drop, str(tools / "busybox"), "sh"), environment={"PATH": path}, search=""
        )
    path = os.pathsep.join([*before, os.environ["PATH"]])
    return LocalHost(kind, shell=(*drop, kind), environment={**os.environ, "PATH": path})


def fake(folder: Path, name: str, body: str) -> Path:
    """A program `name` in `folder`; in its body `real` is the path of the true one. Returns the folder."""
    folder.mkdir(exist_ok=True)
    path = folder / name
    path.write_text(f"#!/bin/sh\nPATH=/usr/sbin:/usr/bin:/sbin:/bin\nreal=$(command -v {name})\n{body}\n")
    path.chmod(0o755)
    folder.chmod(0o755)
    return folder


def leftovers(rig: DiskRig) -> list[str]:
    """What should not be there: anything beside the target, or in the backup directory, that is no backup."""
    strays = [name for name in rig.names() if name.startswith(".knobledger")]
    if rig.exists(rig.path(BACKUP_DIR)):
        strays += [name for name in os.listdir(rig.root / BACKUP_DIR) if name.startswith(".")]
    return strays


def untouched(rig: DiskRig, *names: str) -> bool:
    """Nothing but these in the folder, and no trace of an attempt, not even an empty backup directory."""
    return rig.names() == sorted(names) and not rig.exists(rig.path(BACKUP_DIR))


def privileged(*argv: str) -> None:
    """A command that needs more than being root: a container may not allow it. Skips the test then."""
    done = subprocess.run(argv, check=False, capture_output=True, text=True)
    if done.returncode != 0:
        pytest.skip(f"not allowed here: {' '.join(argv[:2])}: {done.stderr.strip()}")


needs_root = pytest.mark.skipif(os.geteuid() != 0, reason="needs root")
