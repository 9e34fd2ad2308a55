"""One process per lab host: holds its disk and its network, carries its packets, boots it and switches it off.

    python -m lab.keeper FOLDER NAME PARENT

One JSON object per line on stdin is a request, one on stdout its answer. When stdin ends, or the tests die, the
host is switched off and nothing of it is left: all mounts and the host's end of the cable are in namespaces of ours.
"""

from __future__ import annotations

import contextlib
import ctypes
import json
import os
import secrets
import select
import signal
import subprocess
import sys
import time
from collections.abc import Callable
from pathlib import Path
from typing import Any

from lab.cable import Cable, tun

_LIBC = ctypes.CDLL(None, use_errno=True)
_NEW_MOUNT, _NEW_NET = 0x00020000, 0x40000000
_HIDDEN = (
    "root",
    "tmp",
    "srv",
    "home",
    "var/tmp",
    "var/log",
    "var/lib/systemd",
    "etc/systemd/system",
    "etc/ssh",
)
"""folders of this machine that a host starts without"""
_FIRST_PART = "0/256"
"""the quota group of the first subvolume of a btrfs"""
BOOT = Path(__file__).with_name("boot.sh")


def die_with_parent(number: int = signal.SIGKILL) -> None:
    """PR_SET_PDEATHSIG: survives exec."""
    _LIBC.prctl(1, number)


def _call(*argv: str) -> None:
    done = subprocess.run(argv, check=False, capture_output=True, text=True)
    if done.returncode:
        raise OSError(f"{' '.join(argv)}: {done.stderr.strip()}")


def _unshare(what: int) -> None:
    if _LIBC.unshare(what):
        raise OSError(ctypes.get_errno(), "unshare")


class Keeper:
    """A host's disk, network and power switch."""

    def __init__(self, folder: Path, name: str) -> None:
        self.folder, self.name = folder, name
        self.disk = folder / "disk"
        self.root = self.disk / "root"
        self.boot_process: subprocess.Popen[bytes] | None = None
        self.cable = self._network()
        self._mounts()
        self.cgroup = self._cgroup()

    def _network(self) -> Cable:
        ours, device = tun("knoblab%d")
        number = int(device.removeprefix("knoblab"))
        # 198.18.0.0/15 is for measuring network devices (RFC 2544) and used by nobody; two addresses for each host.
        first = (198 << 24 | 18 << 16) + 2 * number + 2
        near, self.address = (
            ".".join(str(first + n >> bits & 255) for bits in (24, 16, 8, 0)) for n in (0, 1)
        )
        _call("ip", "address", "add", near, "peer", self.address, "dev", device)
        _call("ip", "link", "set", device, "up")
        _unshare(_NEW_NET)
        theirs, inside = tun("eth%d")
        _call("ip", "link", "set", "lo", "up")
        _call("ip", "address", "add", self.address, "peer", near, "dev", inside)
        _call("ip", "link", "set", inside, "up")
        return Cable((ours, theirs))

    def _mounts(self) -> None:
        _unshare(_NEW_MOUNT)
        _call("mount", "--make-rprivate", "/")
        self.disk.mkdir()
        _call("mount", "-t", "tmpfs", "-o", "mode=755", "lab", str(self.disk))
        upper, work = self.disk / "upper", self.disk / "work"
        for path in (upper, work, self.root):
            path.mkdir(mode=0o755)
        for hidden in _HIDDEN:
            path = upper / hidden
            path.mkdir(parents=True, exist_ok=True)
            path.chmod(0o1777 if hidden.endswith("tmp") else 0o755)
            os.setxattr(path, "trusted.overlay.opaque", b"y")
        (upper / "root").chmod(0o700)
        options = f"lowerdir=/,upperdir={upper},workdir={work}"
        _call("mount", "-t", "overlay", "-o", options, "lab", str(self.root))
        # What is mounted later in here appears in the running host too.
        _call("mount", "--make-shared", str(self.root))
        (self.root / "etc/machine-id").write_text(f"{secrets.token_hex(16)}\n")
        (self.root / "etc/hostname").write_text(f"{self.name}\n")

    def _cgroup(self) -> Path:
        top = self.disk / "cgroup"
        top.mkdir()
        _call("mount", "-t", "cgroup2", "cgroup2", str(top))
        for left in top.glob("knoblab.*"):
            if not Path(f"/proc/{left.name.partition('.')[2]}").exists():
                _remove_cgroup(left)
        cgroup = top / f"knoblab.{os.getpid()}"
        cgroup.mkdir()
        return cgroup

    def boot(self, init: list[str]) -> dict[str, Any]:
        """Switches the host on. The answer has the process id of its process 1, as seen from here."""

        def before_exec() -> None:
            die_with_parent()
            (self.cgroup / "cgroup.procs").write_text(str(os.getpid()))

        namespaces = ("--mount", "--propagation", "slave", "--pid", "--uts", "--ipc", "--cgroup")
        command = ("unshare", *namespaces, "--fork", "--kill-child", "--", "sh", str(BOOT))
        with (self.folder / "console.log").open("ab") as console:
            self.boot_process = subprocess.Popen(
                [*command, str(self.root), self.name, *init],
                stdin=subprocess.DEVNULL,
                stdout=console,
                stderr=console,
                preexec_fn=before_exec,
            )
        process = self.boot_process
        children = Path(f"/proc/{process.pid}/task/{process.pid}/children")
        while not (child := children.read_text().split()):
            if process.poll() is not None:
                raise OSError(f"unshare ended: {(self.folder / 'console.log').read_text()}")
            time.sleep(0.002)
        return {"init": int(child[0])}

    def off(self) -> dict[str, Any]:
        """Switches the host off, as by its plug: no process of it has the time to say goodbye."""
        if self.boot_process is not None:
            self.boot_process.kill()
            self.boot_process.wait()
            self.boot_process = None
            _empty(self.cgroup)
        return {}

    def weather(self, round_trip_s: float, loss: float, seed: int) -> dict[str, Any]:
        """See `LabHost.line`."""
        self.cable.weather(round_trip_s / 2, loss, seed)
        return {}

    def small_disk(self, path: str, options: str) -> dict[str, Any]:
        """A file system of its own at a path of the host: a tmpfs with these options."""
        point = self.root / path.lstrip("/")
        point.mkdir(parents=True, exist_ok=True)
        _call("mount", "-t", "tmpfs", "-o", options, "lab", str(point))
        return {}

    def quota_disk(self, path: str) -> dict[str, Any]:
        """See `LabHost.quota_disk`: a btrfs in a file, because its quotas need nothing of the kernel but btrfs."""
        image, self.quota_top, point = (
            self.disk / "quota.img",
            self.disk / "quota",
            self.root / path.lstrip("/"),
        )
        # The smallest that mkfs.btrfs accepts; a hole but for what is written.
        with image.open("xb") as file:
            file.truncate(128 << 20)
        _call("mkfs.btrfs", "-q", "-m", "single", str(image))
        self.quota_top.mkdir()
        point.mkdir(parents=True, exist_ok=True)
        _call("mount", "-o", "loop", str(image), str(self.quota_top))
        _call("btrfs", "quota", "enable", str(self.quota_top))
        _call("btrfs", "subvolume", "create", str(self.quota_top / "part"))
        _call("mount", "--bind", str(self.quota_top / "part"), str(point))
        return {}

    def quota(self, used_up: bool) -> dict[str, Any]:
        """See `LabHost.quota`."""
        # By the folder above: a command about a group begins with a write into the folder that it names.
        _call("btrfs", "qgroup", "limit", "1" if used_up else "none", _FIRST_PART, str(self.quota_top))
        return {}

    def mount(self, argv: list[str]) -> dict[str, Any]:
        """`mount` or `umount` with paths as seen from here, for what `small_disk` can't do."""
        _call(*argv)
        return {}

    def close(self) -> None:
        """Off for good; its folder goes too, and that of the lab with the last host, should the tests be dead."""
        self.off()
        _remove_cgroup(self.cgroup)
        with contextlib.suppress(OSError):
            _call("umount", "-l", str(self.disk))
            # Only what is empty: never into a mount.
            self.disk.rmdir()
            (self.folder / "console.log").unlink(missing_ok=True)
            self.folder.rmdir()
            lab = self.folder.parent
            if not any(path.is_dir() for path in lab.iterdir()):
                for path in lab.iterdir():
                    path.unlink(missing_ok=True)
                lab.rmdir()


def _empty(cgroup: Path) -> None:
    deadline = time.monotonic() + 10
    while "populated 1" in (cgroup / "cgroup.events").read_text() and time.monotonic() < deadline:
        (cgroup / "cgroup.kill").write_text("1")
        time.sleep(0.01)


def _remove_cgroup(cgroup: Path) -> None:
    for folder, _, _ in os.walk(cgroup, topdown=False):
        os.rmdir(folder)


def serve(keeper: Keeper, told_to_end: int) -> None:
    """Carries packets and answers requests until stdin ends, or the descriptor `told_to_end` has something."""
    requests = b""
    ends = keeper.cable.ends
    while True:
        ready, _, _ = select.select([0, told_to_end, *ends], [], [], keeper.cable.deliver())
        if told_to_end in ready:
            return
        for end in ready:
            if end in ends:
                keeper.cable.take(end)
        if 0 in ready:
            data = os.read(0, 65536)
            if not data:
                return
            *lines, requests = (requests + data).split(b"\n")
            for line in lines:
                _answer(keeper, json.loads(line))


def _answer(keeper: Keeper, request: dict[str, Any]) -> None:
    does: Callable[..., dict[str, Any]] = getattr(keeper, request.pop("do"))
    try:
        answer = does(**request)
    except OSError as error:
        answer = {"error": str(error)}
    print(json.dumps(answer), flush=True)


def main() -> None:
    """Until the tests are done or dead."""
    folder, name, parent = sys.argv[1:]
    # A signal must not interrupt the switching off.
    told_to_end, wake = os.pipe2(os.O_NONBLOCK | os.O_CLOEXEC)
    signal.set_wakeup_fd(wake)
    signal.signal(signal.SIGTERM, lambda *_: None)
    signal.signal(signal.SIGINT, signal.SIG_IGN)
    die_with_parent(signal.SIGTERM)
    if os.getppid() != int(parent):
        return
    try:
        keeper = Keeper(Path(folder), name)
    except OSError as error:
        print(json.dumps({"error": str(error)}), flush=True)
        return
    try:
        print(json.dumps({"address": keeper.address, "root": str(keeper.root)}), flush=True)
        serve(keeper, told_to_end)
    finally:
        keeper.close()


if __name__ == "__main__":
    main()
