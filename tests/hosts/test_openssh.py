"""The openssh transport against a real sshd: keys, logins, time-outs, dead masters, jump hosts, nothing left behind."""

from __future__ import annotations

import os
import shutil
import signal
import socket
import subprocess
import sys
import time
from collections.abc import Iterator
from pathlib import Path

import pytest
import rigs
from rigs import PASSWD, Dialled

import servers
from knobledger.errors import HostKeyChanged, StateUnknown, Unreachable
from knobledger.hosts.config import Config
from knobledger.hosts.reach import HostConfig

pytestmark = [pytest.mark.tool("sshd", "ssh", "ssh-keygen"), pytest.mark.usefixtures("left")]


@pytest.fixture
def server(running: dict[str, servers.Sshd]) -> servers.Sshd:
    return running["openssh"]


@pytest.fixture
def sockets(monkeypatch: pytest.MonkeyPatch) -> Iterator[Path]:
    """Where the private folders are; a long tmp_path would not do."""
    folder = Path(f"/tmp/knob-test-{os.getpid()}")
    folder.mkdir(mode=0o700)
    monkeypatch.setenv("XDG_RUNTIME_DIR", str(folder))
    yield folder
    shutil.rmtree(folder)


@pytest.fixture
def left(sockets: Path) -> Iterator[None]:
    """At the end, when `dialled` has closed what it connected, nothing may be left."""
    yield
    assert list(sockets.iterdir()) == []
    assert processes(sockets) == []


def config_of(server: servers.Sshd, **more: object) -> HostConfig:
    return rigs.config_of(server, transport="openssh", **more)


def processes(folder: Path) -> list[int]:
    """Everything that runs with `folder` on its command line: the supervising shells, and each ssh."""
    found = []
    for entry in Path("/proc").iterdir():
        if entry.name.isdigit():
            try:
                line = (entry / "cmdline").read_bytes()
            except OSError:
                continue
            if f"{folder}/knob-".encode() in line:
                found.append(int(entry.name))
    return found


def masters(folder: Path) -> list[int]:
    return [pid for pid in processes(folder) if Path(f"/proc/{pid}/comm").read_text().strip() == "ssh"]


def gone(folder: Path) -> bool:
    """Does everything end, and its folder go, within 5 s?"""
    deadline = time.monotonic() + 5
    while processes(folder) or list(folder.iterdir()):
        if time.monotonic() > deadline:
            return False
        time.sleep(0.01)
    return True


def test_an_unknown_host_key_makes_no_connection(
    server: servers.Sshd, dialled: Dialled, tmp_path: Path
) -> None:
    empty = tmp_path / "known_hosts"
    empty.write_text("")
    with pytest.raises(HostKeyChanged) as caught:
        dialled(config_of(server, known_hosts=empty)).read(PASSWD)
    assert caught.value.exit_code == 20
    assert "unknown: it shows ssh-ed25519 SHA256:" in caught.value.message
    assert f"ssh-keyscan -p {server.port} 127.0.0.1 >> {empty}" in caught.value.hint
    assert empty.read_text() == ""


def test_a_changed_host_key_makes_no_connection(
    server: servers.Sshd, dialled: Dialled, tmp_path: Path
) -> None:
    servers.keygen(tmp_path / "other")
    known = tmp_path / "known hosts 100%"
    known.write_text(f"[127.0.0.1]:{server.port} {(tmp_path / 'other.pub').read_text()}")
    before = known.read_text()
    for policy in ("strict", "accept-new"):
        with pytest.raises(HostKeyChanged) as caught:
            dialled(config_of(server, known_hosts=known, host_keys=policy)).read(PASSWD)
        assert "not the known one: it shows ssh-ed25519 SHA256:" in caught.value.message
        assert f"ssh-keygen -R '[127.0.0.1]:{server.port}'" in caught.value.hint
    assert known.read_text() == before


def test_accept_new_writes_the_key_down(server: servers.Sshd, dialled: Dialled, tmp_path: Path) -> None:
    known = tmp_path / "known_hosts"
    config = config_of(server, known_hosts=known, host_keys="accept-new")
    assert dialled(config).read(PASSWD).content
    assert " ssh-ed25519 " in known.read_text()
    assert dialled(config._replace(host_keys="strict")).read(PASSWD).content


def test_a_wrong_key_is_a_refused_login(server: servers.Sshd, dialled: Dialled, tmp_path: Path) -> None:
    servers.keygen(tmp_path / "wrong")
    with pytest.raises(Unreachable) as caught:
        dialled(config_of(server, identity_file=tmp_path / "wrong")).read(PASSWD)
    assert f"the login as {server.user!r} was refused" in caught.value.message
    assert "Permission denied (publickey)" in caught.value.message
    with pytest.raises(Unreachable, match="there is no identity file"):
        dialled(config_of(server, identity_file=tmp_path / "none")).read(PASSWD)


def test_a_locked_key_is_not_asked_for(server: servers.Sshd, dialled: Dialled, tmp_path: Path) -> None:
    locked = tmp_path / "locked"
    shutil.copy(server.identity_file, locked)
    subprocess.run(["ssh-keygen", "-q", "-p", "-P", "", "-N", "a passphrase", "-f", locked], check=True)
    with pytest.raises(Unreachable, match="was refused"):
        dialled(config_of(server, identity_file=locked)).read(PASSWD)


def test_a_host_that_is_down(server: servers.Sshd, dialled: Dialled) -> None:
    host = dialled(config_of(server, port=servers.free_port()))
    for _ in range(2):
        with pytest.raises(Unreachable, match="Connection refused"):
            host.read(PASSWD)


@pytest.mark.parametrize("answer", [b"", b"SSH-2.0-slow\r\n"])
def test_a_silent_host_is_a_connect_time_out(server: servers.Sshd, dialled: Dialled, answer: bytes) -> None:
    with socket.create_server(("127.0.0.1", 0)) as silent:
        host = dialled(config_of(server, port=silent.getsockname()[1])._replace(connect_timeout_s=0.5))
        begun = time.monotonic()
        stream, _ = silent.accept()
        with stream:
            stream.sendall(answer)
            with pytest.raises(Unreachable) as caught:
                host.read(PASSWD)
    assert "the connect time-out of 0.5 s was over" in caught.value.message
    assert "so far: " in caught.value.hint
    assert time.monotonic() - begun < 3


def test_a_machine_without_ssh(
    server: servers.Sshd, dialled: Dialled, monkeypatch: pytest.MonkeyPatch, tmp_path: Path
) -> None:
    monkeypatch.setenv("PATH", str(tmp_path))
    host = dialled(config_of(server))
    with pytest.raises(Unreachable, match="there is no `ssh`"):
        host.read(PASSWD)


def test_a_master_that_was_killed_in_between_is_made_anew(
    server: servers.Sshd, dialled: Dialled, sockets: Path
) -> None:
    host = dialled(config_of(server))
    for way in (signal.SIGTERM, signal.SIGKILL):
        assert host.read(PASSWD).content
        (master,) = masters(sockets)
        os.kill(master, way)
        while masters(sockets):
            time.sleep(0.005)
    assert host.run(("echo", "again"), timeout_s=10).stdout == b"again\n"
    assert len(masters(sockets)) == 1


def test_a_connection_lost_in_a_command_is_not_tried_again(
    server: servers.Sshd, dialled: Dialled, sockets: Path, tmp_path: Path
) -> None:
    host = dialled(config_of(server))
    assert host.read(PASSWD).content
    (master,) = masters(sockets)
    with pytest.raises(StateUnknown, match="exit status of 'sh -c' on 'gpu1' was lost"):
        host.run(("sh", "-c", f"echo x >> {tmp_path}/ran; kill -9 {master}; sleep 1"), timeout_s=20)
    assert (tmp_path / "ran").read_text() == "x\n"
    assert masters(sockets) == []


def test_one_connection_serves_every_call(server: servers.Sshd, dialled: Dialled, sockets: Path) -> None:
    host = dialled(config_of(server))
    clients = {host.run(("sh", "-c", "echo $SSH_CLIENT"), timeout_s=10).stdout for _ in range(3)}
    assert len(clients) == 1
    assert len(masters(sockets)) == 1


@pytest.mark.parametrize("when", ["connecting", "connected", "in a command"])
def test_a_client_that_is_killed_leaves_nothing(server: servers.Sshd, sockets: Path, when: str) -> None:
    with socket.create_server(("127.0.0.1", 0)) as silent:
        more = {"port": silent.getsockname()[1]} if when == "connecting" else {}
        toml = server.toml(transport="openssh", **more)
        client = subprocess.Popen([sys.executable, "-c", rigs.CLIENT, toml, when], stdout=subprocess.PIPE)
        assert client.stdout is not None
        assert client.stdout.readline() == b"ready\n"
        while not masters(sockets):
            time.sleep(0.01)
        if when == "in a command":
            time.sleep(0.2)
        client.kill()
        client.wait()
        client.stdout.close()
        assert gone(sockets)


def test_close_is_quick_and_may_be_called_twice(
    server: servers.Sshd, dialled: Dialled, sockets: Path
) -> None:
    host = dialled(config_of(server))
    assert host.read(PASSWD).content
    (folder,) = sockets.iterdir()
    assert folder.stat().st_mode & 0o777 == 0o700
    begun = time.monotonic()
    host.close()
    assert time.monotonic() - begun < 1
    assert (list(sockets.iterdir()), processes(sockets)) == ([], [])
    host.close()
    unused = dialled(config_of(server))
    unused.close()
    assert (list(sockets.iterdir()), processes(sockets)) == ([], [])


def test_no_terminal_and_no_stdin_of_ours(
    server: servers.Sshd, dialled: Dialled, sockets: Path, tmp_path: Path
) -> None:
    host = dialled(config_of(server))
    assert host.run(("tty",), timeout_s=10).stdout == b"not a tty\n"
    for pid in masters(sockets):
        assert os.readlink(f"/proc/{pid}/fd/0") == "/dev/null"
        assert os.getsid(pid) != os.getsid(0)


def test_an_alias_with_a_jump_host_in_a_config_of_its_own(
    server: servers.Sshd, dialled: Dialled, tmp_path: Path
) -> None:
    with servers.openssh(tmp_path / "jump") as jump:
        known = tmp_path / "known_hosts"
        known.write_text(server.known_hosts.read_text() + jump.known_hosts.read_text())
        config = tmp_path / "ssh config"
        config.write_text(
            f"Host far\n  HostName 127.0.0.1\n  Port {server.port}\n  User {server.user}\n  ProxyJump near\n"
            f"  IdentityFile {server.identity_file}\n  RemoteCommand false\n  RequestTTY force\n"
            f"Host near\n  HostName 127.0.0.1\n  Port {jump.port}\n  User {jump.user}\n"
            # What hosts.toml promises holds on the way too.
            f"  IdentityFile {jump.identity_file}\n  StrictHostKeyChecking no\n  UserKnownHostsFile /dev/null\n"
        )
        config.chmod(0o664)
        text = (
            f'[hosts.gpu1]\naddress = "far"\ntransport = "openssh"\nssh_config = "{config}"\n'
            f'known_hosts = "{known}"\n'
        )
        far = Config.parse(text, Path("/")).hosts["gpu1"]
        host = dialled(far)
        assert host.read(PASSWD).content
        came_from = int(host.run(("sh", "-c", "echo $SSH_CLIENT"), timeout_s=10).stdout.split()[1])
        assert came_from > 0
        host.close()
        with pytest.raises(HostKeyChanged) as caught:
            dialled(far._replace(known_hosts=server.known_hosts)).read(PASSWD)
        assert f"([127.0.0.1]:{jump.port}) is unknown" in caught.value.message


def test_dialling_what_is_refused_keeps_the_connection(
    server: servers.Sshd, dialled: Dialled, sockets: Path
) -> None:
    host = dialled(config_of(server))
    before = host.run(("true",), timeout_s=10)
    with pytest.raises(ConnectionRefusedError, match="Connection refused"):
        host.dial("127.0.0.1", servers.free_port(), timeout_s=5)
    assert before.status == host.run(("true",), timeout_s=10).status == 0
    assert len(masters(sockets)) == 1


def test_dialling_what_sshd_forbids(dialled: Dialled, tmp_path: Path) -> None:
    with servers.openssh(tmp_path / "strict", extra="AllowTcpForwarding no\nMaxSessions 1\n") as strict:
        host = dialled(config_of(strict))
        with pytest.raises(Unreachable) as caught:
            host.dial("127.0.0.1", strict.port, timeout_s=5)
        assert "administratively prohibited" in caught.value.message
        # The master itself takes no session, so that one is enough.
        assert host.read(PASSWD).content
        host.close()


def test_a_stream_ends_when_its_far_end_or_the_host_does(server: servers.Sshd, dialled: Dialled) -> None:
    host = dialled(config_of(server))
    with socket.create_server(("127.0.0.1", 0)) as listener:
        port = listener.getsockname()[1]
        stream = host.dial("127.0.0.1", port, timeout_s=5)
        far, _ = listener.accept()
        with stream, far:
            stream.sendall(b"ask")
            stream.shutdown(socket.SHUT_WR)
            far.settimeout(5)
            assert far.recv(100) + far.recv(100) == b"ask"
            far.sendall(b"answer")
            far.close()
            assert stream.recv(100) + stream.recv(100) == b"answer"
        with host.dial("127.0.0.1", port, timeout_s=5) as open_still:
            host.close()
            assert open_still.recv(100) == b""
