"""The demo's stage: a host behind an SSH server on loopback, its serve scripts, and a workspace that knows it."""

from __future__ import annotations

import getpass
import os
import shutil
import signal
import socket
import subprocess
import sys
from contextlib import suppress
from pathlib import Path
from types import TracebackType
from typing import Self

from msgspec import Struct

from knobledger.demo.sshd import EmbeddedSshd
from knobledger.errors import Refused
from knobledger.founding import found
from knobledger.quoting import quote
from knobledger.templates import rendered

KNOB = "SGLANG_SM120_MMA_TARGET_CTAS"
SERVICES = ("prefill", "decode", "router")
_HERE = Path(__file__).parent
_KNOBS = {
    "prefill": [("SGLANG_DISAGGREGATION_QUEUE_SIZE", "4"), ("NCCL_DEBUG", "WARN")],
    "decode": [(KNOB, "256"), ("NCCL_DEBUG", "WARN")],
    "router": [],
}
_GPUS = {"prefill": "0,1,2,3", "decode": "4,5,6,7", "router": ""}


class Stage(Struct):
    """A context manager: the SSH server runs inside, and everything that was started is stopped after."""

    root: Path
    ports: dict[str, int]
    sshd: EmbeddedSshd
    proxy: subprocess.Popen[bytes] | None = None

    @classmethod
    def new(cls, root: Path) -> Self:
        """A new stage in an empty or missing folder. Raises `Refused` for one that holds something."""
        if root.exists() and any(root.iterdir()):
            raise Refused(f"{os.fspath(root)!r} is not empty", hint="name a new folder: `knob demo DIR`")
        found(root)
        host = root / "gpu1"
        host.mkdir()
        ports = dict(zip((*SERVICES, "proxy", "sshd"), _free_ports(5), strict=True))
        _write_host(host, ports)
        services = {name: ports[name] for name in SERVICES}
        facts = {"port": ports["sshd"], "user": getpass.getuser(), "root": host, "ports": services}
        text = rendered("demo/hosts.toml.j2", facts)
        (root / "hosts.toml").write_text(text, encoding="utf-8")
        with (root / ".gitignore").open("a", encoding="utf-8") as ignore:
            ignore.write("/gpu1/\n/keys/\n")
        return cls(root, ports, _sshd(root, ports["sshd"]))

    @classmethod
    def again(cls, root: Path) -> Self:
        """The stage that an earlier demo left. Raises `Refused` if the folder holds none."""
        from knobledger.hosts.config import Config

        if not (root / "gpu1" / "service.sh").is_file():
            raise Refused(
                f"{os.fspath(root)!r} is not the folder of a demo", hint="`knob demo DIR` makes one"
            )
        port = Config.load(root).hosts["gpu1"].port or 0
        return cls(root, {"sshd": port}, _sshd(root, port))

    @property
    def host(self) -> Path:
        """The folder that stands for the host's own file system."""
        return self.root / "gpu1"

    def script(self, service: str) -> Path:
        """A service's serve script on the host."""
        return self.host / _script_name(service)

    def start_proxy(self) -> None:
        """Starts the faulty proxy, which is not part of the host."""
        upstream = f"http://127.0.0.1:{self.ports['router']}"
        argv = (
            sys.executable,
            str(_HERE / "proxy.py"),
            "--port",
            str(self.ports["proxy"]),
            "--upstream",
            upstream,
        )
        self.proxy = subprocess.Popen(argv, stdin=subprocess.DEVNULL)
        _wait_for(self.ports["proxy"])

    def __enter__(self) -> Self:
        self.sshd.start()
        return self

    def __exit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        if self.proxy:
            self.proxy.kill()
            self.proxy.wait()
        for service in SERVICES:
            with suppress(OSError, ValueError):
                os.kill(int((self.host / "run" / f"{service}.pid").read_text()), signal.SIGTERM)
        self.sshd.stop()


def _sshd(root: Path, port: int) -> EmbeddedSshd:
    return EmbeddedSshd(folder=root, sandbox=root / "gpu1", user=getpass.getuser(), port=port)


def _write_host(host: Path, ports: dict[str, int]) -> None:
    # The host has its own programs: our interpreter, and the engine.
    (host / "python3").symlink_to(sys.executable)
    shutil.copyfile(_HERE / "engine.py", host / "engine.py")
    peers = {name: f"http://127.0.0.1:{ports[name]}" for name in ("prefill", "decode")}
    for service in SERVICES:
        facts = {
            "role": service,
            "gpus": _GPUS[service],
            "knobs": _KNOBS[service],
            "port": ports[service],
            "peers": list(peers.items()) if service == "router" else [],
        }
        _script(host / _script_name(service), rendered("demo/serve.sh.j2", facts))
    _script(host / "service.sh", rendered("demo/service.sh.j2", {"root": quote(str(host))}))


def _script(path: Path, text: str) -> None:
    path.write_text(text, encoding="utf-8")
    path.chmod(0o755)


def _script_name(service: str) -> str:
    return "serve_router.sh" if service == "router" else f"serve_dsv4_{service}.sh"


def _free_ports(number: int) -> list[int]:
    sockets = [socket.socket() for _ in range(number)]
    for each in sockets:
        each.bind(("127.0.0.1", 0))
    ports = [each.getsockname()[1] for each in sockets]
    for each in sockets:
        each.close()
    return ports


def _wait_for(port: int) -> None:
    import time

    end = time.monotonic() + 10
    while time.monotonic() < end:
        with socket.socket() as probe:
            if probe.connect_ex(("127.0.0.1", port)) == 0:
                return
        time.sleep(0.02)
