"""The process in which fabric's connections live: one for all hosts, and gone when we are, however we end."""

from __future__ import annotations

import os
import signal
import socket
import subprocess
import sys
import time
from pathlib import Path

import pytest
from rigs import CLIENT, PASSWD, Dialled, config_of

import servers
from knobledger.errors import HostKeyChanged

pytestmark = pytest.mark.tool("sshd", "ssh-keygen")


@pytest.fixture
def server(running: dict[str, servers.Sshd]) -> servers.Sshd:
    return running["openssh"]


def carriers(parent: int) -> list[int]:
    """The carriers that this process has started."""
    found = []
    for entry in Path("/proc").iterdir():
        try:
            words = (entry / "cmdline").read_bytes() if entry.name.isdigit() else b""
            if (
                b"knobledger.hosts.carrying" in words
                and f"PPid:\t{parent}\n" in (entry / "status").read_text()
            ):
                found.append(int(entry.name))
        except OSError:
            continue
    return found


def runs(process: int) -> bool:
    try:
        return Path(f"/proc/{process}/cmdline").read_bytes() != b""  # a zombie has none
    except OSError:
        return False


def test_one_process_for_all_hosts(server: servers.Sshd, dialled: Dialled) -> None:
    hosts = [dialled(config_of(server)) for _ in range(3)]
    assert all(host.read(PASSWD).content for host in hosts)
    assert len(carriers(os.getpid())) == 1
    for host in hosts[:2]:
        host.close()
        host.close()
    assert hosts[2].read(PASSWD).content
    hosts[2].close()
    assert carriers(os.getpid()) == []


def test_an_error_comes_through_whole(server: servers.Sshd, dialled: Dialled, tmp_path: Path) -> None:
    (tmp_path / "empty").write_text("")
    host = dialled(config_of(server, known_hosts=tmp_path / "empty"))
    for _ in range(2):
        with pytest.raises(HostKeyChanged) as caught:
            host.read(PASSWD)
        assert caught.value.values["host"] == "gpu1"
        assert str(caught.value.values["fingerprint"]) in caught.value.message


@pytest.mark.parametrize("how", [signal.SIGKILL, signal.SIGINT])
@pytest.mark.parametrize("when", ["connecting", "connected", "in a command"])
def test_a_client_that_ends_leaves_nothing(server: servers.Sshd, when: str, how: signal.Signals) -> None:
    with socket.create_server(("127.0.0.1", 0)) as silent:
        more = {"port": silent.getsockname()[1]} if when == "connecting" else {}
        client = subprocess.Popen(
            [sys.executable, "-c", CLIENT, server.toml(**more), when],
            stdout=subprocess.PIPE,
            stderr=subprocess.DEVNULL,
        )
        assert client.stdout is not None
        assert client.stdout.readline() == b"ready\n"
        deadline = time.monotonic() + 10
        while not (found := carriers(client.pid)) and time.monotonic() < deadline:
            time.sleep(0.01)  # it may not have become the carrier yet
        (carrier,) = found
        if when == "in a command":
            time.sleep(0.2)
        client.send_signal(how)
        client.wait()
        client.stdout.close()
        deadline = time.monotonic() + 5
        while runs(carrier) and time.monotonic() < deadline:
            time.sleep(0.01)
        assert not runs(carrier)
