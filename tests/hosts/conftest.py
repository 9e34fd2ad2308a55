"""Every kind of host, each as a rig, and servers that live for the session."""

from __future__ import annotations

from collections.abc import Iterator
from contextlib import ExitStack
from pathlib import Path

import pytest
from rigs import Dialled, DiskRig, MemoryRig, Rig, busybox_tools, local

import servers
from knobledger.hosts.config import Config
from knobledger.hosts.connect import connect
from knobledger.hosts.host import Host
from knobledger.hosts.reach import HostConfig

pytest.register_assert_rewrite("conformance")

SHELLS = [
    pytest.param("dash", marks=pytest.mark.tool("dash")),
    "bash",
    pytest.param("busybox", marks=pytest.mark.tool("busybox")),
]
SERVERS = ["embedded", pytest.param("openssh", marks=pytest.mark.tool("sshd", "ssh-keygen"))]
SSH = pytest.param("ssh", marks=pytest.mark.tool("sshd", "ssh", "ssh-keygen"))
"""the same sshd by the openssh transport"""

NOISE = b"Welcome to the host!\nknob-0000 end 3\nok \n"


@pytest.fixture(scope="session")
def running(tmp_path_factory: pytest.TempPathFactory) -> Iterator[dict[str, servers.Sshd]]:
    """The servers that were started so far; stopped at the end."""
    with ExitStack() as stack:
        yield _Servers(tmp_path_factory, stack)


class _Servers(dict[str, servers.Sshd]):
    def __init__(self, factory: pytest.TempPathFactory, stack: ExitStack) -> None:
        super().__init__()
        self._factory = factory
        self._stack = stack

    def __missing__(self, kind: str) -> servers.Sshd:
        folder = self._factory.mktemp(kind)
        if kind == "embedded":
            server = self._stack.enter_context(servers.embedded(folder, before_exec=NOISE))
        else:
            server = self._stack.enter_context(servers.openssh(folder))
            for name in (".bashrc", ".profile", ".zshenv"):
                (server.home / name).write_text("echo 'Welcome to the host!'\nprintf 'and no newline' >&2\n")
        self[kind] = server
        return server


@pytest.fixture(scope="session")
def connected(running: dict[str, servers.Sshd]) -> Iterator[dict[str, Host]]:
    """One connection per server, reused by all tests as a command reuses its own."""
    hosts = _Hosts(running)
    yield hosts
    for host in hosts.values():
        host.close()


class _Hosts(dict[str, Host]):
    def __init__(self, running: dict[str, servers.Sshd]) -> None:
        super().__init__()
        self._running = running

    def __missing__(self, kind: str) -> Host:
        if kind == "ssh":
            toml = self._running["openssh"].toml(kind, transport="openssh")
        else:
            toml = self._running[kind].toml(kind)
        config = Config.parse(toml, Path("/"))
        self[kind] = host = connect(config.hosts[kind], root=Path("/"))
        return host


@pytest.fixture(scope="session")
def tools(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """The folder of busybox tools."""
    return busybox_tools(tmp_path_factory.mktemp("busybox") / "bin")


@pytest.fixture(params=SHELLS)
def shell(request: pytest.FixtureRequest) -> str:
    return str(request.param)


@pytest.fixture(params=SERVERS)
def server(request: pytest.FixtureRequest, running: dict[str, servers.Sshd]) -> servers.Sshd:
    return running[request.param]


@pytest.fixture
def box(tmp_path: Path) -> Path:
    """A folder for targets, with nothing else in it."""
    folder = tmp_path / "box"
    folder.mkdir()
    return folder


@pytest.fixture(params=["memory", *SHELLS, *SERVERS, SSH])
def rig(request: pytest.FixtureRequest, box: Path) -> Rig:
    """Every kind of host."""
    return _rig(request.param, request, box)


@pytest.fixture(params=[*SHELLS, *SERVERS, SSH])
def disk(request: pytest.FixtureRequest, box: Path) -> DiskRig:
    """Every kind of host with a real disk."""
    rig = _rig(request.param, request, box)
    assert isinstance(rig, DiskRig)
    return rig


def _rig(kind: str, request: pytest.FixtureRequest, box: Path) -> Rig:
    match kind:
        case "memory":
            return MemoryRig()
        case "embedded" | "openssh" | "ssh":
            return DiskRig(kind, request.getfixturevalue("connected")[kind], box)
        case _:
            tools = request.getfixturevalue("tools") if kind == "busybox" else Path()
            return DiskRig(kind, local(kind, tools), box)


@pytest.fixture
def on(shell: str, box: Path, request: pytest.FixtureRequest) -> DiskRig:
    """This machine through one of the shells."""
    tools = request.getfixturevalue("tools") if shell == "busybox" else Path()
    return DiskRig(shell, local(shell, tools), box)


@pytest.fixture
def with_fakes(shell: str, box: Path, tmp_path: Path, request: pytest.FixtureRequest) -> tuple[DiskRig, Path]:
    """The same, and a folder for programs that lie or fail."""
    tools = request.getfixturevalue("tools") if shell == "busybox" else Path()
    fakes = tmp_path / "fakes"
    fakes.mkdir()
    return DiskRig(shell, local(shell, tools, fakes=fakes), box), fakes


@pytest.fixture
def dialled() -> Iterator[Dialled]:
    """Connects, and closes at the end."""
    hosts: list[Host] = []

    def dial(config: HostConfig) -> Host:
        hosts.append(connect(config, root=Path("/")))
        return hosts[-1]

    yield dial
    for host in hosts:
        host.close()
