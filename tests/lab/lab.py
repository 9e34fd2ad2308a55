"""A lab of real hosts, for as long as a `with` block lasts; see docs/lab.md."""

from __future__ import annotations

import json
import os
import shutil
import socket
import subprocess
import sys
import time
from dataclasses import dataclass, field
from pathlib import Path
from types import TracebackType

_HOME = Path(__file__).parents[1]
_SYSTEMD = Path("/lib/systemd/systemd")
_SSHD = """\
Port 22
HostKey /etc/ssh/lab_host_key
AuthorizedKeysFile /etc/ssh/lab_authorized_keys
PidFile /run/lab-sshd.pid
StrictModes no
UsePAM no
PasswordAuthentication no
KbdInteractiveAuthentication no
PermitRootLogin yes
LogLevel ERROR
UseDNS no
MaxSessions 50
MaxStartups 200
Subsystem sftp internal-sftp
"""
_UNIT = """\
[Unit]
DefaultDependencies=no
[Service]
ExecStart=/usr/sbin/sshd -D -e -f /etc/ssh/lab_sshd_config
RuntimeDirectory=sshd
KillMode=process
"""
_PLAIN_INIT = '/usr/sbin/sshd -f "$0"; sleep infinity & while :; do wait; done'


class LabError(Exception):
    """The lab could not do it: a bug in a test, or a machine that does not allow it."""


@dataclass
class LabHost:
    """One host: its own root file system over this machine's, processes, address and sshd.

    With `systemd` it runs a real systemd as process 1.
    """

    name: str
    folder: Path
    identity_file: Path
    known_hosts: Path
    systemd: bool
    address: str = ""
    port: int = 22
    user: str = "root"
    init: int = 0
    """process id of its process 1, as seen from here; 0 while it is off"""
    _keeper: subprocess.Popen[str] = field(init=False)
    _root: Path = field(init=False)

    def __post_init__(self) -> None:
        self.folder.mkdir()
        self._keeper = subprocess.Popen(
            [sys.executable, "-m", "lab.keeper", str(self.folder), self.name, str(os.getpid())],
            env={**os.environ, "PYTHONPATH": str(_HOME)},
            stdin=subprocess.PIPE,
            stdout=subprocess.PIPE,
            text=True,
        )
        try:
            hello = self._answer()
            self.address = hello["address"]
            self._root = Path(f"/proc/{self._keeper.pid}/root{hello['root']}")
            self._furnish()
        except BaseException:
            self.close()
            raise

    @property
    def root(self) -> Path:
        """Its root folder as seen from here, also while it is off; without what only the running host mounts.

        An absolute symbolic link under it leads astray, out of the host. /run, /dev and /proc: by `run`.
        """
        return self._root

    def at(self, path: str) -> Path:
        """A path of the host as seen from here."""
        return self._root / path.lstrip("/")

    def _furnish(self) -> None:
        ssh = self.at("/etc/ssh")
        _keygen(ssh / "lab_host_key")
        kind, key = (ssh / "lab_host_key.pub").read_text().split()[:2]
        self.known_hosts.open("a").write(f"{self.address} {kind} {key}\n")
        (ssh / "lab_authorized_keys").write_bytes(self.identity_file.with_suffix(".pub").read_bytes())
        (ssh / "lab_sshd_config").write_text(_SSHD)
        if self.systemd:
            units = self.at("/etc/systemd/system")
            (units / "lab-sshd.service").write_text(_UNIT)
            (units / "basic.target.wants").mkdir()
            (units / "basic.target.wants/lab-sshd.service").symlink_to("../lab-sshd.service")

    def _ask(self, does: str, **values: object) -> dict[str, str]:
        assert self._keeper.stdin is not None
        self._keeper.stdin.write(json.dumps({"do": does, **values}) + "\n")
        self._keeper.stdin.flush()
        return self._answer()

    def _answer(self) -> dict[str, str]:
        assert self._keeper.stdout is not None
        line = self._keeper.stdout.readline()
        answer: dict[str, str] = json.loads(line) if line else {"error": "its keeper died"}
        if "error" in answer:
            raise LabError(f"{self.name}: {answer['error']}")
        return answer

    def on(self, *, wait: bool = True) -> None:
        """Switches it on, and waits until its sshd answers."""
        if self.systemd:
            init = [str(_SYSTEMD), "--unit=basic.target", "--show-status=no", "--log-target=console"]
        else:
            init = ["sh", "-c", _PLAIN_INIT, "/etc/ssh/lab_sshd_config"]
        self.init = int(self._ask("boot", init=init)["init"])
        if wait:
            self.wait_until_up()

    def wait_until_up(self, limit_s: float = 60) -> None:
        """Until its sshd greets."""
        deadline = time.monotonic() + limit_s
        while time.monotonic() < deadline:
            try:
                with socket.create_connection((self.address, self.port), timeout=2) as stream:
                    if stream.recv(4) == b"SSH-":
                        return
            except OSError:
                pass
            time.sleep(0.02)
        raise LabError(f"{self.name} does not answer: {(self.folder / 'console.log').read_text()[-2000:]}")

    def off(self) -> None:
        """Pulls its plug: every process dies at once, and nobody is told."""
        self._ask("off")
        self.init = 0

    def reboot(self) -> None:
        """Pulls the plug and switches it on again, with the same disk. Connections to it hang, as they would."""
        self._ask("weather", round_trip_s=0, loss=1, seed=0)
        self.off()
        self.line()
        self.on()

    def line(self, *, round_trip_s: float = 0, loss: float = 0, seed: int = 0) -> None:
        """The line to it: how long a packet takes there and back, and how many of 1 are lost. Default: a good line."""
        self._ask("weather", round_trip_s=round_trip_s, loss=loss, seed=seed)

    def blackhole(self) -> None:
        """From now on every packet vanishes, in both directions, and nobody is told. `line()` mends it."""
        self.line(loss=1)

    def small_disk(self, path: str, options: str = "size=64k") -> None:
        """A file system of its own at a path, a tmpfs with these mount options; stays over a reboot."""
        self._ask("small_disk", path=path, options=options)

    def quota_disk(self, path: str) -> None:
        """One file system with a quota, at a path; stays over a reboot. Needs mkfs.btrfs and a kernel with btrfs."""
        self._ask("quota_disk", path=path)

    def quota(self, *, used_up: bool) -> None:
        """From now on nobody may write there (EDQUOT), not even root: only reading and removing work. Or all again."""
        self._ask("quota", used_up=used_up)

    def mount(self, *argv: str) -> None:
        """A command `mount` or `umount` in the host and its later boots; paths by `inner`."""
        self._ask("mount", argv=list(argv))

    def inner(self, path: str) -> str:
        """A path of the host for `mount`."""
        return str(self.folder / "disk/root") + path

    def beside(self) -> tuple[str, ...]:
        """Before a command of this machine: it then sees the host's disk at the paths of `inner`."""
        return ("nsenter", f"--mount=/proc/{self._keeper.pid}/ns/mnt", "--wd=/", "--")

    def ssh(self, *options: str) -> tuple[str, ...]:
        """An `ssh` to it that reads no configuration: the words before the command."""
        known = ("-o", "BatchMode=yes", "-o", f"UserKnownHostsFile={self.known_hosts}")
        return (
            "ssh",
            "-F",
            "/dev/null",
            *known,
            "-i",
            str(self.identity_file),
            *options,
            f"{self.user}@{self.address}",
        )

    def run(
        self, *argv: str, stdin: bytes = b"", timeout_s: float = 60, check: bool = True
    ) -> subprocess.CompletedProcess[bytes]:
        """A command in the host, as its root, without ssh."""
        return subprocess.run(
            ["nsenter", "-t", str(self.init), "-a", "--", *argv],
            check=check,
            input=stdin,
            capture_output=True,
            timeout=timeout_s,
        )

    def processes(self, name: str) -> list[int]:
        """Its processes of this name (15 characters), by their ids as seen from here."""
        found = []
        inside = os.readlink(f"/proc/{self.init}/ns/pid")
        for folder in Path("/proc").glob("[0-9]*"):
            try:
                if (folder / "comm").read_text().strip() == name and os.readlink(folder / "ns/pid") == inside:
                    found.append(int(folder.name))
            except OSError:
                continue  # gone meanwhile
        return found

    def cut(self) -> None:
        """Kills the sshd of every connection, not the one that listens."""
        listener = int(self.run("cat", "/run/lab-sshd.pid").stdout)
        for pid in self.processes("sshd"):
            status = Path(f"/proc/{pid}/status").read_text()
            if f"NSpid:\t{pid}\t{listener}\n" not in status:
                os.kill(pid, 9)

    def toml(self, services: str = "", **more: object) -> str:
        """Its section of a hosts.toml; `services` are the sections of its services."""
        values: dict[str, object] = {
            "address": self.address,
            "user": self.user,
            "identity_file": str(self.identity_file),
            "known_hosts": str(self.known_hosts),
            **more,
        }
        lines = [f"{key} = {json.dumps(value)}" for key, value in values.items()]
        return "\n".join([f"[hosts.{self.name}]", *lines, services, ""])

    def close(self) -> None:
        """Off for good. May be called twice."""
        if self._keeper.stdin is not None:
            self._keeper.stdin.close()
        self._keeper.wait(30)
        if self._keeper.stdout is not None:
            self._keeper.stdout.close()


class Lab:
    """A context manager. Needs root, and a machine that allows namespaces, overlays and TUN devices."""

    def __init__(self, folder: Path) -> None:
        self.folder = folder
        self.hosts: dict[str, LabHost] = {}
        folder.mkdir(parents=True, exist_ok=True)
        _keygen(folder / "id_ed25519")

    def host(self, name: str, *, systemd: bool = False) -> LabHost:
        """A host of this name, made and switched on at the first call."""
        if name not in self.hosts:
            host = LabHost(
                name, self.folder / name, self.folder / "id_ed25519", self.folder / "known_hosts", systemd
            )
            self.hosts[name] = host
            host.on()
        return self.hosts[name]

    def hosts_toml(self, workspace: str = "", **more: object) -> str:
        """The hosts.toml of a workspace with all hosts; `more` are keys for each."""
        head = f"[workspace]\n{workspace}\n" if workspace else ""
        return head + "".join(host.toml(**more) for host in self.hosts.values())

    def close(self) -> None:
        """Every host off for good, and the folder gone."""
        for host in self.hosts.values():
            host.close()
        shutil.rmtree(self.folder, ignore_errors=True)

    def __enter__(self) -> Lab:
        return self

    def __exit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        self.close()


def _keygen(path: Path) -> None:
    subprocess.run(["ssh-keygen", "-q", "-t", "ed25519", "-N", "", "-f", str(path)], check=True)
