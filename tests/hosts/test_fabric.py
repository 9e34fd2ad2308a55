"""What goes wrong between two machines: keys, logins, lost connections, noise, odd login shells."""

from __future__ import annotations

import os
import shutil
import socket
import subprocess
import threading
import time
from collections.abc import Iterator
from pathlib import Path

import pytest
from rigs import BACKUP_DIR, PASSWD, Dialled, DiskRig, config_of, fake, transaction

import servers
from knobledger.demo.sshd import EmbeddedSshd
from knobledger.errors import HostKeyChanged, StateUnknown, Unreachable
from knobledger.hosts.carrier import Line
from knobledger.hosts.config import Config
from knobledger.hosts.connect import connect
from knobledger.hosts.fabric import FabricHost
from knobledger.hosts.login import log_in
from knobledger.names import digest_of


def test_an_unknown_host_key_makes_no_connection(
    server: servers.Sshd, dialled: Dialled, tmp_path: Path
) -> None:
    empty = tmp_path / "known_hosts"
    empty.write_text("")
    with pytest.raises(HostKeyChanged) as caught:
        dialled(config_of(server, known_hosts=empty)).read(PASSWD)
    assert caught.value.exit_code == 20
    assert "unknown" in caught.value.message
    assert "SHA256:" in caught.value.message
    assert f"ssh-keyscan -p {server.port} 127.0.0.1" in caught.value.hint
    assert empty.read_text() == ""


def test_a_changed_host_key_makes_no_connection(
    server: servers.Sshd, dialled: Dialled, tmp_path: Path
) -> None:
    servers.keygen(tmp_path / "other")
    kind, key = (tmp_path / "other.pub").read_text().split()[:2]
    known = tmp_path / "known_hosts"
    known.write_text(f"[127.0.0.1]:{server.port} {kind} {key}\n")
    for policy in ("strict", "accept-new"):
        with pytest.raises(HostKeyChanged) as caught:
            dialled(config_of(server, known_hosts=known, host_keys=policy)).read(PASSWD)
        assert "is not the known one" in caught.value.message
        assert "ssh-keygen -F" in caught.value.hint


def test_a_revoked_host_key_makes_no_connection(
    server: servers.Sshd, dialled: Dialled, tmp_path: Path
) -> None:
    line = server.known_hosts.read_text()
    known = tmp_path / "known_hosts"
    known.write_text(f"garbage\n@cert-authority * x y\n{line}@revoked * {' '.join(line.split()[1:3])}\n")
    with pytest.raises(HostKeyChanged):
        dialled(config_of(server, known_hosts=known)).read(PASSWD)
    with pytest.raises(HostKeyChanged):
        dialled(config_of(server, known_hosts=known, host_keys="accept-new")).read(PASSWD)


def test_a_hashed_name_is_found_among_the_lines_about_others(
    server: servers.Sshd, dialled: Dialled, tmp_path: Path
) -> None:
    servers.keygen(tmp_path / "other")
    wrong = " ".join((tmp_path / "other.pub").read_text().split()[:2])
    known = tmp_path / "known_hosts"
    shutil.copy(server.known_hosts, known)
    subprocess.run(["ssh-keygen", "-q", "-H", "-f", known], check=True, capture_output=True)
    hashed = known.read_text()
    assert hashed.startswith("|1|")
    known.write_text(f"elsewhere,[127.0.0.1]:1 {wrong}\n{hashed}[127.0.0.2]:{server.port} {wrong}\n")
    assert dialled(config_of(server, known_hosts=known)).read(PASSWD).content
    # The first line that names the host counts, hashed or not, as before.
    known.write_text(f"{hashed}[127.0.0.1]:{server.port} {wrong}\n")
    assert dialled(config_of(server, known_hosts=known)).read(PASSWD).content
    known.write_text(f"[127.0.0.1]:{server.port} {wrong}\n{hashed}")
    with pytest.raises(HostKeyChanged):
        dialled(config_of(server, known_hosts=known)).read(PASSWD)


def test_a_cipher_that_needs_no_mac_is_preferred(running: dict[str, servers.Sshd]) -> None:
    connection = log_in(config_of(running["openssh"]))
    try:
        assert connection.transport.remote_cipher == "aes128-gcm@openssh.com"
    finally:
        connection.close()


def test_accept_new_believes_once_and_writes_it_down(
    server: servers.Sshd, dialled: Dialled, tmp_path: Path
) -> None:
    known = tmp_path / "deep" / "known_hosts"
    assert dialled(config_of(server, known_hosts=known, host_keys="accept-new")).read(PASSWD).content
    assert known.read_text().split()[:3] == server.known_hosts.read_text().split()[:3]
    assert dialled(config_of(server, known_hosts=known)).read(PASSWD).content


def test_a_refused_login_is_unreachable(server: servers.Sshd, dialled: Dialled, tmp_path: Path) -> None:
    servers.keygen(tmp_path / "wrong")
    with pytest.raises(Unreachable) as caught:
        dialled(config_of(server, identity_file=tmp_path / "wrong")).read(PASSWD)
    assert caught.value.exit_code == 20
    assert "login" in caught.value.message
    assert "refused" in caught.value.message
    with pytest.raises(Unreachable) as caught:
        dialled(config_of(server, identity_file=tmp_path / "none")).read(PASSWD)
    assert "no identity file" in caught.value.message


def test_a_host_that_is_down_or_silent(server: servers.Sshd, dialled: Dialled) -> None:
    with pytest.raises(Unreachable) as caught:
        dialled(config_of(server, port=servers.free_port())).read(PASSWD)
    assert "gpu1" in caught.value.message
    with socket.create_server(("127.0.0.1", 0)) as silent:
        with pytest.raises(Unreachable) as caught:
            dialled(config_of(server, port=silent.getsockname()[1], connect_timeout="1s")).read(PASSWD)
        assert "connect time-out of 1 s" in caught.value.message
    with pytest.raises(Unreachable):
        dialled(config_of(server, address="no-such-host.invalid")).read(PASSWD)


def test_connect_returns_at_once(server: servers.Sshd) -> None:
    with socket.create_server(("127.0.0.1", 0)) as silent:
        begun = time.monotonic()
        host = connect(config_of(server, port=silent.getsockname()[1], connect_timeout="1s"), root=Path("/"))
        assert time.monotonic() - begun < 0.5
        host.close()


def test_a_connection_that_died_between_calls_is_made_anew(server: servers.Sshd, dialled: Dialled) -> None:
    host = dialled(config_of(server))
    assert host.read(PASSWD).content
    assert isinstance(host, FabricHost)
    assert isinstance(host._way, Line)
    host._way._carrier._process.kill()
    assert host.read(PASSWD).content
    host.close()
    host.close()


@pytest.fixture
def flaky(tmp_path: Path) -> Iterator[tuple[EmbeddedSshd, DiskRig, Path]]:
    """An embedded server of its own, whose `mv` can be replaced."""
    fakes = tmp_path / "fakes"
    fakes.mkdir()
    box = tmp_path / "box"
    environment = {**os.environ, "PATH": f"{fakes}:{os.environ['PATH']}"}
    with EmbeddedSshd(tmp_path / "ssh", box, environment=environment) as server:
        keys = server.keys
        sshd = servers.Sshd(server.port, server.user, tmp_path, keys.identity_file, keys.known_hosts, box)
        host = connect(config_of(sshd), root=Path("/"))
        yield server, DiskRig("embedded", host, box), fakes
        host.close()


def test_a_lost_answer_is_unknown_and_the_transaction_finishes(
    flaky: tuple[EmbeddedSshd, DiskRig, Path], tmp_path: Path
) -> None:
    server, rig, fakes = flaky
    fake(fakes, "mv", f'touch {tmp_path}/swapping; sleep 0.5; "$real" "$@"')
    path = rig.put("f", b"old")
    planned = transaction(rig.host, path, b"new", grep=("new",))

    def cut() -> None:
        while not (tmp_path / "swapping").exists():
            time.sleep(0.01)
        server.drop()

    threading.Thread(target=cut).start()
    with pytest.raises(StateUnknown) as caught:
        rig.host.replace(planned)
    assert caught.value.exit_code == 22
    assert "connection was lost" in caught.value.message
    assert any("sha256sum" in command for command in caught.value.values["commands"])  # type: ignore[attr-defined]
    deadline = time.monotonic() + 5
    while rig.content(path) != b"new" and time.monotonic() < deadline:
        time.sleep(0.05)
    assert rig.host.read(path).digest == digest_of(b"new")
    time.sleep(0.2)
    assert rig.names() == ["f"]


def test_the_command_time_out_is_unknown_and_named(flaky: tuple[EmbeddedSshd, DiskRig, Path]) -> None:
    _, rig, fakes = flaky
    fake(fakes, "mv", 'sleep 1; "$real" "$@"')
    path = rig.put("f", b"old")
    planned = transaction(rig.host, path, b"new")
    rig.host.command_timeout_s = 0.6  # type: ignore[attr-defined]
    with pytest.raises(StateUnknown) as caught:
        rig.host.replace(planned)
    assert "command time-out of 0.6 s" in caught.value.message


def test_a_connection_cut_before_the_content_came_writes_nothing(
    flaky: tuple[EmbeddedSshd, DiskRig, Path], tmp_path: Path
) -> None:
    server, rig, fakes = flaky
    fake(fakes, "df", f'touch {tmp_path}/probing; sleep 0.3; "$real" "$@"')
    path = rig.put("f", b"old")
    planned = transaction(rig.host, path, b"x" * 20_000_000)

    def cut() -> None:
        while not (tmp_path / "probing").exists():
            time.sleep(0.01)
        server.drop()

    threading.Thread(target=cut).start()
    with pytest.raises(StateUnknown):
        rig.host.replace(planned)
    time.sleep(0.6)
    assert rig.host.read(path).content == b"old"
    assert rig.names() == ["f"]
    assert not rig.exists(rig.path(BACKUP_DIR))


def test_a_login_shell_that_runs_nothing(tmp_path: Path, dialled: Dialled) -> None:
    nologin = tmp_path / "nologin"
    nologin.write_text("#!/bin/sh\necho 'This account is currently not available.'\nexit 1\n")
    nologin.chmod(0o755)
    with EmbeddedSshd(tmp_path / "ssh", tmp_path / "box", shell=(str(nologin),)) as server:
        keys = server.keys
        sshd = servers.Sshd(
            server.port, server.user, tmp_path, keys.identity_file, keys.known_hosts, tmp_path
        )
        with pytest.raises(Unreachable) as caught:
            dialled(config_of(sshd)).read(PASSWD)
        assert "This account is currently not available." in caught.value.message


def test_sudo_that_asks_for_a_password(tmp_path: Path, dialled: Dialled) -> None:
    fakes = fake(tmp_path / "fakes", "sudo", "echo 'sudo: a password is required' >&2; exit 1")
    with EmbeddedSshd(
        tmp_path / "ssh", tmp_path / "box", environment={"PATH": f"{fakes}:/usr/bin:/bin"}
    ) as server:
        keys = server.keys
        sshd = servers.Sshd(
            server.port, server.user, tmp_path, keys.identity_file, keys.known_hosts, tmp_path
        )
        with pytest.raises(Unreachable) as caught:
            dialled(config_of(sshd, sudo=True)).read(PASSWD)
        assert "a password is required" in caught.value.message
        assert "sudo -n" in caught.value.hint
        fake(fakes, "sudo", '[ "$1 $2" = "-n --" ] || exit 9; shift 2; exec "$@"')
        assert dialled(config_of(sshd, sudo=True)).read(PASSWD).content


@pytest.mark.tool("sshd", "ssh-keygen")
def test_ssh_config_is_honoured_and_jump_hosts_are_verified(
    running: dict[str, servers.Sshd], dialled: Dialled, tmp_path: Path
) -> None:
    jump, end = running["openssh"], running["embedded"]
    known = tmp_path / "known_hosts"
    known.write_text(jump.known_hosts.read_text() + end.known_hosts.read_text())
    settings = tmp_path / "config"
    settings.write_text(
        f"Host jump\n HostName 127.0.0.1\n Port {jump.port}\n User {jump.user}\n IdentityFile {jump.identity_file}\n"
        f"Host inner\n HostName 127.0.0.1\n Port {end.port}\n User {end.user}\n IdentityFile {end.identity_file}\n"
        f" ProxyJump jump\nHost *\n UserKnownHostsFile {known}\n"
    )
    toml = f'[hosts.gpu1]\naddress = "inner"\nssh_config = "{settings}"\n'
    config = Config.parse(toml, Path("/")).hosts["gpu1"]
    assert dialled(config).read(PASSWD).content
    known.write_text(end.known_hosts.read_text())
    with pytest.raises(HostKeyChanged) as caught:
        dialled(config).read(PASSWD)
    assert str(jump.port) in caught.value.message


def test_secrets_stay_out_of_process_lists(flaky: tuple[EmbeddedSshd, DiskRig, Path], tmp_path: Path) -> None:
    _, rig, fakes = flaky
    fake(fakes, "mv", f'cat /proc/[0-9]*/cmdline 2>/dev/null >{tmp_path}/seen; "$real" "$@"')
    path = rig.put("f", b"TOKEN=old")
    rig.host.replace(transaction(rig.host, path, b"TOKEN=s3cr3t-value-1"))
    seen = (tmp_path / "seen").read_bytes()
    assert b"dd" in seen or b"knobledger" in seen
    assert b"s3cr3t-value-1" not in seen


def test_many_streams_and_commands_at_once(server: servers.Sshd, dialled: Dialled) -> None:
    host = dialled(config_of(server))

    def echo(listener: socket.socket) -> None:
        while True:
            try:
                stream, _ = listener.accept()
            except OSError:
                return
            with stream:
                stream.sendall(stream.recv(100))

    with socket.create_server(("127.0.0.1", 0)) as listener:
        threading.Thread(target=echo, args=(listener,), daemon=True).start()
        port = listener.getsockname()[1]
        failed: list[str] = []

        def ask(number: int) -> None:
            with host.dial("127.0.0.1", port, timeout_s=10) as stream:
                stream.sendall(b"%d" % number)
                got = stream.recv(100)
            done = host.run(("printf", "%s", str(number)), timeout_s=20)
            if (got, done.stdout) != (b"%d" % number, b"%d" % number):
                failed.append(f"{number}: {got!r} {done!r}")

        threads = [threading.Thread(target=ask, args=(number,)) for number in range(8)]
        for thread in threads:
            thread.start()
        for thread in threads:
            thread.join()
        assert failed == []
        listener.shutdown(socket.SHUT_RDWR)


def test_the_embedded_server_stops_what_it_started(tmp_path: Path) -> None:
    with EmbeddedSshd(tmp_path / "ssh", tmp_path / "box") as server:
        keys = server.keys
        sshd = servers.Sshd(
            server.port, server.user, tmp_path, keys.identity_file, keys.known_hosts, tmp_path
        )
        host = connect(config_of(sshd), root=Path("/"))
        with pytest.raises(StateUnknown):
            host.run(("sleep", "77"), timeout_s=0.3)
        assert server._processes
        running = list(server._processes)
    host.close()
    for process in running:
        assert process.wait(5) is not None
    with pytest.raises(ConnectionRefusedError):
        socket.create_connection(("127.0.0.1", server.port), timeout=1)
    server.stop()


@pytest.mark.tool("sshd", "ssh-keygen", "ssh-agent")
def test_a_key_with_a_passphrase_is_taken_from_the_agent(
    running: dict[str, servers.Sshd], dialled: Dialled, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    server = running["openssh"]
    locked = tmp_path / "id_locked"
    for suffix in ("", ".pub"):
        shutil.copy(f"{server.identity_file}{suffix}", f"{locked}{suffix}")
    subprocess.run(["ssh-keygen", "-q", "-p", "-P", "", "-N", "a passphrase", "-f", locked], check=True)
    with pytest.raises(Unreachable):
        dialled(config_of(server, identity_file=locked)).read(PASSWD)
    sock = f"{tmp_path}/agent"
    agent = subprocess.Popen(["ssh-agent", "-D", "-a", sock], stdout=subprocess.DEVNULL)
    try:
        while not Path(sock).exists():
            time.sleep(0.01)
        monkeypatch.setenv("SSH_AUTH_SOCK", sock)
        subprocess.run(["ssh-add", "-q", str(server.identity_file)], check=True)
        for identity in (locked, f"{locked}.pub"):
            assert dialled(config_of(server, identity_file=identity)).read(PASSWD).content
    finally:
        agent.terminate()
        agent.wait()
