"""SSH servers on loopback for the tests: the embedded one, and a real OpenSSH sshd with its own keys and port."""

from __future__ import annotations

import ctypes
import os
import shutil
import signal
import socket
import subprocess
import sys
import time
from collections.abc import Iterator
from contextlib import contextmanager
from dataclasses import dataclass
from pathlib import Path

SSHD = shutil.which("sshd") or shutil.which("sshd", path="/usr/sbin:/usr/local/sbin")


@dataclass(frozen=True, slots=True)
class Sshd:
    """A running server and what a client needs to know of it."""

    port: int
    user: str
    folder: Path
    identity_file: Path
    known_hosts: Path
    home: Path
    """HOME of the commands, where start-up files would be"""

    def toml(self, name: str = "gpu1", **more: object) -> str:
        """The `[hosts.NAME]` section of a hosts.toml for this server."""
        values: dict[str, object] = {
            "address": "127.0.0.1",
            "port": self.port,
            "user": self.user,
            "identity_file": str(self.identity_file),
            "known_hosts": str(self.known_hosts),
            **more,
        }
        lines = [f"{key} = {_toml(value)}" for key, value in values.items()]
        return "\n".join([f"[hosts.{name}]", *lines, ""])


def _toml(value: object) -> str:
    if isinstance(value, bool):
        return str(value).lower()
    return str(value) if isinstance(value, int) else f'"{value}"'


def keygen(path: Path) -> None:
    """A new Ed25519 key without a passphrase."""
    subprocess.run(["ssh-keygen", "-q", "-t", "ed25519", "-N", "", "-f", str(path)], check=True)


def free_port() -> int:
    """A port that was free a moment ago."""
    with socket.create_server(("127.0.0.1", 0)) as server:
        return int(server.getsockname()[1])


@contextmanager
def openssh(folder: Path, *, extra: str = "") -> Iterator[Sshd]:
    """A real sshd, run as whoever runs the tests, stopped by its pid at the end."""
    assert SSHD is not None
    folder.mkdir(parents=True, exist_ok=True)
    home = folder / "home"
    home.mkdir(exist_ok=True)
    if os.geteuid() == 0:
        Path("/run/sshd").mkdir(exist_ok=True, mode=0o755)
    keygen(folder / "host_key")
    keygen(folder / "id_ed25519")
    (folder / "authorized_keys").write_bytes((folder / "id_ed25519.pub").read_bytes())
    user = subprocess.run(["id", "-un"], check=True, capture_output=True, text=True).stdout.strip()
    for _ in range(3):
        port = free_port()
        (folder / "sshd_config").write_text(
            f"Port {port}\nListenAddress 127.0.0.1\nHostKey {folder}/host_key\nPidFile {folder}/sshd.pid\n"
            f"AuthorizedKeysFile {folder}/authorized_keys\nStrictModes no\nUsePAM no\nPasswordAuthentication no\n"
            f"KbdInteractiveAuthentication no\nPermitRootLogin yes\nLogLevel ERROR\nUseDNS no\n"
            f"SetEnv HOME={home}\nMaxSessions 20\nMaxStartups 100\n{extra}"
        )
        process = subprocess.Popen(
            [SSHD, "-D", "-e", "-f", str(folder / "sshd_config")],
            stdin=subprocess.DEVNULL,
            stdout=subprocess.DEVNULL,
            stderr=(folder / "sshd.log").open("wb"),
            preexec_fn=_end_with_us,
        )
        if _listening(port, process):
            break
        process.kill()
        process.wait()
    else:
        raise RuntimeError((folder / "sshd.log").read_text())
    kind, key = (folder / "host_key.pub").read_text().split()[:2]
    (folder / "known_hosts").write_text(f"[127.0.0.1]:{port} {kind} {key}\n")
    try:
        yield Sshd(port, user, folder, folder / "id_ed25519", folder / "known_hosts", home)
    finally:
        # The listener by its pid; each connection's own process ends when its client closes.
        process.send_signal(signal.SIGTERM)
        process.wait(10)


def _end_with_us() -> None:
    """In the child: SIGTERM when the test run is killed (PR_SET_PDEATHSIG, Linux only)."""
    if sys.platform == "linux":
        ctypes.CDLL(None).prctl(1, signal.SIGTERM)


def _listening(port: int, process: subprocess.Popen[bytes]) -> bool:
    deadline = time.monotonic() + 10
    while time.monotonic() < deadline and process.poll() is None:
        try:
            socket.create_connection(("127.0.0.1", port), timeout=1).close()
        except OSError:
            time.sleep(0.02)
        else:
            return True
    return False


@contextmanager
def embedded(
    folder: Path, *, before_exec: bytes = b"", environment: dict[str, str] | None = None
) -> Iterator[Sshd]:
    """The demo's server in this process."""
    from knobledger.demo.sshd import EmbeddedSshd

    with EmbeddedSshd(folder, folder / "home", before_exec=before_exec, environment=environment) as server:
        keys = server.keys
        yield Sshd(server.port, server.user, folder, keys.identity_file, keys.known_hosts, folder / "home")
