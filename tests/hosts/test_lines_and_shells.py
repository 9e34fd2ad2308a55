"""Both transports against real hosts: login shells, noise, sudo, a /tmp without exec, slow and dead lines.

ansible#2268 (start-up output), pyinfra#1440, #761, #880 (sudo, temporary files, a /tmp that forbids execution),
asyncssh#591, paramiko#489 (no exit status).
"""

from __future__ import annotations

import json
import os
import subprocess
import sys
from collections.abc import Callable, Iterator
from pathlib import Path

import pytest
from rigs import transaction

from knobledger.errors import HostKeyChanged, KnobError, StateUnknown, Unreachable
from knobledger.founding import found
from knobledger.hosts.config import Config
from knobledger.hosts.connect import connect
from knobledger.hosts.host import Host
from knobledger.names import HostPath
from lab import LabHost
from lab.fixtures import MARKS

pytestmark = [*MARKS, pytest.mark.tool("ssh")]
OLD = b"#!/bin/bash\nexport KNOB=1\n"
NEW = OLD.replace(b"1", b"2")
NOISE = "echo 'Welcome to the host!'\nprintf 'and no newline' >&2\n"
START_UP = {
    "bash": (".bashrc", ".profile", ".bash_profile"),
    "zsh": (".zshenv", ".zshrc"),
    "fish": (".config/fish/config.fish",),
    "tcsh": (".cshrc", ".tcshrc", ".login"),
    "dash": (".profile",),
}
SHELLS = [pytest.param(shell, marks=pytest.mark.tool(shell)) for shell in ("dash", "zsh", "fish", "tcsh")]

Dialled = Callable[..., Host]


@pytest.fixture(params=["fabric", "openssh"])
def dialled(request: pytest.FixtureRequest, plain_host: LabHost) -> Iterator[Dialled]:
    """Connects to the lab's host by one of the transports, and closes at the end."""
    hosts: list[Host] = []

    def dial(**more: object) -> Host:
        text = plain_host.toml(transport=request.param, **more)
        hosts.append(connect(Config.parse(text, Path("/")).hosts["gpu1"], root=Path("/")))
        return hosts[-1]

    yield dial
    plain_host.line()
    for host in hosts:
        host.close()


@pytest.fixture
def path(plain_host: LabHost) -> HostPath:
    folder = plain_host.at("/srv/lines")
    folder.mkdir(exist_ok=True)
    folder.chmod(0o777)
    plain_host.run("rm", "-rf", "/srv/lines/.knobledger")
    (folder / "f").write_bytes(OLD)
    return HostPath("/srv/lines/f")


def login(host: LabHost, shell: str, number: int) -> str:
    """A user with this login shell, whose start-up files all make noise."""
    name = f"u{number}"
    passwd = host.at("/etc/passwd")
    if f"{name}:" not in passwd.read_text():
        program = host.run("sh", "-c", f"command -v {shell}").stdout.decode().strip()
        with passwd.open("a") as file:
            file.write(f"{name}:x:{number}:{number}::/home/{name}:{program}\n")
        with host.at("/etc/shadow").open("a") as file:
            file.write(f"{name}:*:20000:0:99999:7:::\n")
        host.at(f"/etc/sudoers.d/{name}").write_text(f"{name} ALL=(ALL) NOPASSWD: ALL\n")
        host.at(f"/etc/sudoers.d/{name}").chmod(0o440)
        for file_name in START_UP.get(shell, ()):
            file = host.at(f"/home/{name}/{file_name}")
            file.parent.mkdir(parents=True, exist_ok=True)
            file.write_text(NOISE)
    return name


@pytest.mark.parametrize("shell", [*SHELLS, "bash"])
@pytest.mark.tool("sudo")
@pytest.mark.parametrize("sudo", [False, True])
def test_login_shells_that_are_noisy(
    dialled: Dialled, plain_host: LabHost, path: HostPath, shell: str, sudo: bool
) -> None:
    number = 2000 + list(START_UP).index(shell)
    user = login(plain_host, shell, number)
    os.chown(plain_host.at(path), *((0, 0) if sudo else (number, number)))
    plain_host.at(path).chmod(0o600)
    host = dialled(user=user, sudo=sudo)
    receipt = host.replace(transaction(host, path, NEW))
    assert plain_host.at(path).read_bytes() == NEW
    assert host.read(path).content == NEW
    assert receipt.manifest.uid == (0 if sudo else number)
    done = host.run(("sh", "-c", "id -u; echo err >&2; exit 3"), timeout_s=20)
    assert (done.status, done.stdout.decode().strip()) == (3, "0" if sudo else str(number))
    assert done.stderr == b"err\n"


def test_nologin_is_named(dialled: Dialled, plain_host: LabHost, path: HostPath) -> None:
    user = login(plain_host, "/usr/sbin/nologin", 2100)
    with pytest.raises(Unreachable) as caught:
        dialled(user=user).read(path)
    assert caught.value.exit_code == 20
    assert "ran no command" in caught.value.message
    assert "This account is currently not available." in caught.value.message


@pytest.mark.tool("sudo")
def test_sudo_that_wants_a_password(dialled: Dialled, plain_host: LabHost, path: HostPath) -> None:
    user = login(plain_host, "dash", 2101)
    plain_host.at(f"/etc/sudoers.d/{user}").unlink(missing_ok=True)
    with pytest.raises(Unreachable) as caught:
        dialled(user=user, sudo=True).read(path)
    assert "a password is required" in caught.value.message
    assert "sudo -n" in caught.value.hint


def test_nothing_is_executed_from_temporary_folders(
    dialled: Dialled, plain_host: LabHost, path: HostPath
) -> None:
    folders = ("/tmp", "/var/tmp", "/dev/shm")
    for folder in folders:
        plain_host.run("mount", "-t", "tmpfs", "-o", "noexec,mode=1777", "lab", folder)
    try:
        host = dialled()
        host.replace(transaction(host, path, NEW, check="bash"))
        assert plain_host.at(path).read_bytes() == NEW
        assert (
            not plain_host.run("ls", "-A", *folders[:2])
            .stdout.replace(b"/var/tmp:\n", b"")
            .replace(b"/tmp:\n", b"")
            .strip()
        )
    finally:
        plain_host.run("umount", *folders)


def test_a_changed_host_key_makes_no_connection(
    dialled: Dialled, plain_host: LabHost, path: HostPath, tmp_path: Path
) -> None:
    subprocess.run(["ssh-keygen", "-q", "-t", "ed25519", "-N", "", "-f", str(tmp_path / "other")], check=True)
    kind, key = (tmp_path / "other.pub").read_text().split()[:2]
    (tmp_path / "known_hosts").write_text(f"{plain_host.address} {kind} {key}\n")
    with pytest.raises(HostKeyChanged) as caught:
        dialled(known_hosts=str(tmp_path / "known_hosts")).read(path)
    assert caught.value.exit_code == 20
    assert "no connection was made" in caught.value.message


def test_the_two_time_outs_are_two(dialled: Dialled, plain_host: LabHost, path: HostPath) -> None:
    host = dialled(connect_timeout="9s", command_timeout="1s")
    planned = transaction(host, path, NEW)
    holder = subprocess.Popen(
        [
            "nsenter",
            "-t",
            str(plain_host.init),
            "-a",
            "--",
            "flock",
            "/srv/lines",
            "sh",
            "-c",
            "echo; read _",
        ],
        stdin=subprocess.PIPE,
        stdout=subprocess.PIPE,
    )
    try:
        assert holder.stdout is not None
        holder.stdout.readline()
        with pytest.raises(StateUnknown) as unknown:
            host.replace(planned)
    finally:
        holder.communicate(b"")
    assert "the command time-out of 1 s was over" in unknown.value.message
    plain_host.blackhole()
    with pytest.raises(Unreachable) as caught:
        dialled(connect_timeout="1s", command_timeout="9s").read(path)
    assert "the connect time-out of 1 s was over" in caught.value.message
    plain_host.line()


def test_a_slow_and_lossy_line_works_and_says_what_is_waited_for(
    dialled: Dialled, plain_host: LabHost, path: HostPath, tmp_path: Path, request: pytest.FixtureRequest
) -> None:
    """200 ms there and back, every twentieth packet lost: within the default time-outs, by a real `knob`."""
    found(tmp_path)
    service = f"[hosts.gpu1.services.s]\nscript = {json.dumps(path)}\n"
    text = plain_host.toml(service, transport=request.node.callspec.params["dialled"])
    (tmp_path / "hosts.toml").write_text(text)
    plain_host.line(round_trip_s=0.2, loss=0.05, seed=7)
    done = subprocess.run(
        [
            Path(sys.executable).with_name("knob"),
            "-C",
            tmp_path,
            "--json",
            "set",
            "gpu1/s",
            "KNOB=2",
            "--go-ahead",
        ],
        env={**os.environ, "KNOBLEDGER_ACTOR": "anna"},
        stdin=subprocess.DEVNULL,
        capture_output=True,
        text=True,
        check=False,
    )
    plain_host.line()
    assert done.returncode == 0, done
    assert plain_host.at(path).read_bytes() == NEW
    assert "gpu1: reading '/srv/lines/f': 1 s so far; the command time-out is 120 s" in done.stderr


def test_a_cut_connection_is_unknown_and_then_settled(
    dialled: Dialled, plain_host: LabHost, path: HostPath
) -> None:
    host = dialled()
    assert host.run(("true",), timeout_s=20).status == 0
    with pytest.raises(StateUnknown) as caught:
        host.run(("sh", "-c", f"kill -9 {' '.join(map(str, _inside(plain_host)))}; sleep 5"), timeout_s=20)
    assert "the exit status of" in caught.value.message
    assert host.read(path).content == OLD


def _inside(host: LabHost) -> list[int]:
    """The sshd of each connection, by its id in the host."""
    listener = int(host.run("cat", "/run/lab-sshd.pid").stdout)
    found = []
    for pid in host.processes("sshd"):
        line = next(
            one for one in Path(f"/proc/{pid}/status").read_text().splitlines() if one.startswith("NSpid")
        )
        found.append(int(line.split()[-1]))
    return [pid for pid in found if pid != listener]


def test_what_was_not_reached_is_an_error_of_ours(dialled: Dialled) -> None:
    with pytest.raises(KnobError) as caught:
        dialled(address="198.19.255.254", connect_timeout="1s").read(HostPath("/etc/passwd"))
    assert caught.value.exit_code == 20
