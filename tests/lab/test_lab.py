"""Is the lab what it says: real reboots, real losses, and nothing left behind?"""

from __future__ import annotations

import os
import signal
import socket
import subprocess
import sys
import textwrap
import time
from pathlib import Path

import pytest

from lab import Lab, LabHost
from lab.fixtures import MARKS

pytestmark = MARKS
_TESTS = Path(__file__).parents[1]


def ssh(host: LabHost, command: str, timeout_s: float = 60) -> subprocess.CompletedProcess[str]:
    return subprocess.run(
        [*host.ssh(), command],
        check=False,
        stdin=subprocess.DEVNULL,
        capture_output=True,
        text=True,
        timeout=timeout_s,
    )


@pytest.mark.tool("ssh")
def test_a_host_has_its_own_name_disk_processes_and_address(plain_host: LabHost) -> None:
    done = ssh(
        plain_host, "hostname; pwd; readlink /proc/self/ns/pid >/srv/here; ls /proc | grep -c '^[0-9]'"
    )
    assert done.stderr == ""
    name, home, processes = done.stdout.split()
    assert (name, home) == ("gpu1", "/root")
    assert int(processes) < 30
    assert not Path("/srv/here").exists()
    assert plain_host.at("/srv/here").read_text().strip() != os.readlink("/proc/self/ns/pid")


@pytest.mark.tool("ssh")
def test_systemd_is_process_1_and_a_reboot_is_one(systemd_host: LabHost) -> None:
    systemd_host.at("/etc/systemd/system/lab-test.service").write_text("[Service]\nExecStart=sleep 600\n")
    systemd_host.run("systemctl", "daemon-reload")
    systemd_host.run("systemctl", "start", "lab-test.service")
    assert ssh(systemd_host, "systemctl is-active lab-test.service").stdout == "active\n"
    before = ssh(systemd_host, "cat /proc/1/comm /proc/1/stat").stdout.split()
    systemd_host.at("/srv/survivor").write_text("still here")
    systemd_host.reboot()
    after = ssh(systemd_host, "cat /proc/1/comm /proc/1/stat; cat /srv/survivor").stdout.split()
    assert before[0] == after[0] == "systemd"
    assert before[22] != after[22]  # start time, field 22 of proc_pid_stat(5)
    assert after[-2:] == ["still", "here"]
    assert ssh(systemd_host, "systemctl is-active lab-test.service").stdout == "inactive\n"


def test_a_dead_line_says_nothing_and_a_mended_one_goes_on(plain_host: LabHost) -> None:
    with socket.create_connection((plain_host.address, plain_host.port), timeout=5) as stream:
        assert stream.recv(4) == b"SSH-"
        plain_host.blackhole()
        stream.settimeout(0.3)
        stream.recv(100)  # the rest of the greeting, which had come before
        stream.sendall(b"SSH-2.0-test\r\n")
        with pytest.raises(TimeoutError):
            stream.recv(100)
        plain_host.line()
        stream.settimeout(10)
        assert stream.recv(100)


def test_a_slow_line_is_slow(plain_host: LabHost) -> None:
    def greeted_after_s() -> float:
        begun = time.monotonic()
        with socket.create_connection((plain_host.address, plain_host.port), timeout=5):
            return time.monotonic() - begun

    plain_host.line(round_trip_s=0.3)
    try:
        assert greeted_after_s() >= 0.3
    finally:
        plain_host.line()


@pytest.mark.tool("ssh")
def test_a_small_disk_is_full_soon(plain_host: LabHost) -> None:
    plain_host.small_disk("/srv/small", "size=64k")
    try:
        done = ssh(plain_host, "head -c 100000 /dev/zero >/srv/small/f")
        assert "No space left on device" in done.stderr
    finally:
        plain_host.mount("umount", plain_host.inner("/srv/small"))


@pytest.mark.tool("ssh")
def test_connections_can_be_cut(plain_host: LabHost) -> None:
    with subprocess.Popen(
        [*plain_host.ssh(), "echo in; sleep 600"],
        stdout=subprocess.PIPE,
        stderr=subprocess.PIPE,
    ) as client:
        assert client.stdout is not None
        assert client.stdout.readline() == b"in\n"
        plain_host.cut()
        assert client.wait(20) == 255
    assert ssh(plain_host, "true").returncode == 0


@pytest.mark.parametrize("end", ["closed", "killed"])
def test_nothing_is_left_behind(tmp_path: Path, end: str) -> None:
    """Not even when the tests themselves are killed."""
    program = textwrap.dedent(f"""
        import sys
        from pathlib import Path
        from lab import Lab
        with Lab(Path({str(tmp_path / "lab")!r})) as lab:
            hosts = [lab.host("a"), lab.host("b", systemd=True)]
            print(*(host.init for host in hosts), *(host._keeper.pid for host in hosts), flush=True)
            sys.stdin.read()
    """)
    with subprocess.Popen(
        [sys.executable, "-c", program],
        env={**os.environ, "PYTHONPATH": str(_TESTS)},
        stdin=subprocess.PIPE,
        stdout=subprocess.PIPE,
        text=True,
    ) as process:
        assert process.stdout is not None
        pids = [int(pid) for pid in process.stdout.readline().split()]
        assert len(pids) == 4
        assert all(_lives(pid) for pid in pids)
        if end == "killed":
            process.send_signal(signal.SIGKILL)
        process.communicate("")
    deadline = time.monotonic() + 20
    while any(_lives(pid) for pid in pids) and time.monotonic() < deadline:
        time.sleep(0.02)
    assert not any(_lives(pid) for pid in pids)
    assert not (tmp_path / "lab").exists()
    assert str(tmp_path) not in Path("/proc/self/mountinfo").read_text()
    groups = {f"knoblab.{pid}" for pid in pids}
    assert not [path for path in Path("/sys/fs/cgroup").glob("**/knoblab.*") if path.name in groups]


def _lives(pid: int) -> bool:
    try:
        return Path(f"/proc/{pid}/stat").read_text().rpartition(")")[2].split()[0] != "Z"
    except OSError:
        return False


def test_a_lab_makes_a_workspace(lab: Lab, plain_host: LabHost, systemd_host: LabHost) -> None:
    from knobledger.hosts.config import Config

    text = lab.hosts_toml('timezone = "Europe/Berlin"', transport="openssh")
    config = Config.parse(text, lab.folder)
    assert {"gpu1", "gpu2"} <= set(config.hosts)
    assert config.hosts["gpu2"].address == systemd_host.address
