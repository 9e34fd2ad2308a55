"""One knob on many hosts: `knob set` against raw ssh by `xargs -P25`, taking turns in one run; time and CPU of both sides.

One sshd on loopback stands for all hosts: each has an address 127.0.0.x, a file and an entry in hosts.toml of its
own. So all logins are computed on this machine, for both contenders alike.
"""

from __future__ import annotations

import argparse
import getpass
import os
import platform
import resource
import shlex
import shutil
import socket
import statistics
import subprocess
import sys
import tempfile
import time
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from datetime import UTC, datetime
from pathlib import Path

KNOB = Path(sys.executable).with_name("knob")
NAME = "SGLANG_SM120_MMA_TARGET_CTAS"
SCRIPT = f"#!/usr/bin/env bash\nset -euo pipefail\nexport {NAME}=256\nexec python3 -m sglang.launch_server\n"
SSHD = "/usr/sbin/sshd"


def main() -> None:
    """Measures, and prints one table."""
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--hosts", type=int, default=50)
    parser.add_argument("--runs", type=int, default=3)
    parser.add_argument(
        "--peers", action="store_true", help="pyinfra and Ansible -f25 too; `make bench` installs them"
    )
    wanted = parser.parse_args()
    with tempfile.TemporaryDirectory() as name, _server(Path(name)) as (port, server):
        folder = Path(name)
        files = [folder / f"host{n}" / "serve.sh" for n in range(wanted.hosts)]
        for file in files:
            file.parent.mkdir()
            file.write_text(SCRIPT)
        _workspaces(folder, files, port)
        took: dict[str, list[tuple[float, float, float]]] = {}
        for run in range(wanted.runs):
            contenders = _contenders(folder, files, port)
            if wanted.peers:
                contenders |= _peers(folder, files, port)
            for number, (who, act) in enumerate(contenders.items()):
                value = f"{1000 + run}{number}"
                here, there, begun = _ours(), _theirs(server), time.perf_counter()
                act(value)
                elapsed = time.perf_counter() - begun
                took.setdefault(who, []).append((elapsed, _ours() - here, _theirs(server) - there))
                assert all(f"export {NAME}={value}\n" in file.read_text() for file in files), who
    _say(took, wanted.hosts)


def _ours() -> float:
    """CPU of the commands that have ended, in seconds."""
    used = resource.getrusage(resource.RUSAGE_CHILDREN)
    return used.ru_utime + used.ru_stime


def _theirs(server: int) -> float:
    """CPU of the server and of its sessions that have ended, in seconds; a little later all have."""
    time.sleep(1)
    fields = Path(f"/proc/{server}/stat").read_text().rpartition(")")[2].split()
    return sum(map(int, fields[11:15])) / os.sysconf("SC_CLK_TCK")


def _contenders(folder: Path, files: list[Path], port: int) -> dict[str, Callable[[str], None]]:
    def raw(*more: str) -> Callable[[str], None]:
        def act(value: str) -> None:
            ssh = shlex.join(["ssh", *_options(folder), *more, "-p", str(port)])
            line = (
                f"{ssh} 127.0.0.$1 'cp -p '$2' '$2'.bak && sed -i s/{NAME}=.*/{NAME}={value}/ '$2' && "
                f"grep -n {NAME} '$2' && ! diff -q '$2'.bak '$2"
            )
            words = "\n".join(f"{n + 1} {file}" for n, file in enumerate(files))
            argv = ["xargs", "-P25", "-L1", "sh", "-c", line, "sh"]
            subprocess.run(argv, input=words, text=True, check=True, stdout=subprocess.DEVNULL)

        return act

    def knob(transport: str) -> Callable[[str], None]:
        def act(value: str) -> None:
            argv = [str(KNOB), "-C", str(folder / transport), "set", "all", f"{NAME}={value}", "--go-ahead"]
            subprocess.run(argv, check=True, capture_output=True)

        return act

    return {
        "raw ssh, xargs -P25": raw(),
        # What fabric agrees on with this server: most of what ssh computes for a login is the key exchange.
        "the same, with curve25519-sha256": raw("-o", "KexAlgorithms=curve25519-sha256"),
        "knob set (openssh)": knob("openssh"),
        "knob set (fabric)": knob("fabric"),
    }


def _peers(folder: Path, files: list[Path], port: int) -> dict[str, Callable[[str], None]]:
    """At their best: pipelining and a given interpreter for Ansible, no ssh_config for pyinfra."""
    found = Path(sys.prefix) / "peers" / "bin"
    user, key, known = getpass.getuser(), folder / "key", folder / "known_hosts"
    (folder / "inventory.ini").write_text(
        "".join(f"h{n} ansible_host=127.0.0.{n + 1} file={file}\n" for n, file in enumerate(files))
        + f"[all:vars]\nansible_port={port}\nansible_user={user}\nansible_ssh_private_key_file={key}\n"
        + f"ansible_python_interpreter={shutil.which('python3', path='/usr/bin:/bin') or sys.executable}\n"
    )
    (folder / "ansible.cfg").write_text(
        f"[defaults]\ninventory = {folder}/inventory.ini\nlocal_tmp = {folder}/ansible\n[ssh_connection]\n"
        "pipelining = true\nssh_args = -F none -o ControlMaster=no -o IdentitiesOnly=yes "
        f"-o UserKnownHostsFile={known}\n"
    )
    common = {
        "ssh_port": port,
        "ssh_user": user,
        "ssh_key": str(key),
        "ssh_known_hosts_file": str(known),
        "ssh_strict_host_key_checking": "yes",
        "ssh_config_file": "/dev/null",
    }
    hosts = [(f"127.0.0.{n + 1}", common | {"file": str(file)}) for n, file in enumerate(files)]
    (folder / "inventory.py").write_text(f"hosts = {hosts!r}\n")
    (folder / "deploy.py").write_text(
        "import os\nfrom pyinfra import host\nfrom pyinfra.operations import files\n"
        f"files.line(path=host.data.file, line=r'^export {NAME}=.*$',\n"
        f"           replace='export {NAME}=' + os.environ['VALUE'], backup=True)\n"
    )

    def pyinfra(value: str) -> None:
        argv = [str(found / "pyinfra"), "--yes", str(folder / "inventory.py"), str(folder / "deploy.py")]
        subprocess.run(argv, check=True, capture_output=True, env=os.environ | {"VALUE": value})

    def ansible(value: str) -> None:
        wish = f"path={{{{ file }}}} regexp='^export {NAME}=' line='export {NAME}={value}' backup=yes"
        argv = [str(found / "ansible"), "all", "-f25", "-m", "ansible.builtin.lineinfile", "-a", wish]
        env = {"ANSIBLE_CONFIG": f"{folder}/ansible.cfg", "ANSIBLE_HOME": f"{folder}/ansible"}
        subprocess.run(argv, check=True, capture_output=True, env=os.environ | env)

    return {"pyinfra: files.line, backup": pyinfra, "Ansible -f25: lineinfile, backup": ansible}


def _workspaces(folder: Path, files: list[Path], port: int) -> None:
    for transport in ("openssh", "fabric"):
        root = folder / transport
        subprocess.run([str(KNOB), "init", str(root)], check=True, capture_output=True)
        hosts = "".join(
            f'[hosts.h{n}]\naddress = "127.0.0.{n + 1}"\nport = {port}\nuser = "{getpass.getuser()}"\n'
            f'identity_file = "{folder}/key"\nknown_hosts = "{folder}/known_hosts"\ntransport = "{transport}"\n'
            f'[hosts.h{n}.services.decode]\nscript = "{file}"\n'
            for n, file in enumerate(files)
        )
        (root / "hosts.toml").write_text(hosts + '[groups.all]\nservices = ["h*/decode"]\n')


def _options(folder: Path) -> list[str]:
    plain = ("BatchMode=yes", f"UserKnownHostsFile={folder}/known_hosts", "IdentitiesOnly=yes")
    return ["-F", "none", "-i", f"{folder}/key", *(word for text in plain for word in ("-o", text))]


@contextmanager
def _server(folder: Path) -> Iterator[tuple[int, int]]:
    """Its port and its process."""
    for name in ("host_key", "key"):
        subprocess.run(["ssh-keygen", "-q", "-t", "ed25519", "-N", "", "-f", str(folder / name)], check=True)
    (folder / "authorized_keys").write_bytes((folder / "key.pub").read_bytes())
    (folder / "home").mkdir()
    if os.geteuid() == 0:
        Path("/run/sshd").mkdir(exist_ok=True)
    with socket.create_server(("127.0.0.1", 0)) as free:
        port = int(free.getsockname()[1])
    key = " ".join((folder / "host_key.pub").read_text().split()[:2])
    (folder / "known_hosts").write_text("".join(f"[127.0.0.{n}]:{port} {key}\n" for n in range(1, 255)))
    (folder / "sshd_config").write_text(
        f"Port {port}\nListenAddress 0.0.0.0\nHostKey {folder}/host_key\nPidFile {folder}/pid\n"
        f"AuthorizedKeysFile {folder}/authorized_keys\nStrictModes no\nUsePAM no\nPasswordAuthentication no\n"
        f"PermitRootLogin yes\nUseDNS no\nMaxStartups 500\nLogLevel ERROR\nSetEnv HOME={folder}/home\n"
        "Subsystem sftp internal-sftp\n"
    )
    process = subprocess.Popen(
        [SSHD, "-D", "-f", str(folder / "sshd_config")], stdout=subprocess.DEVNULL, stderr=subprocess.DEVNULL
    )
    try:
        for _ in range(200):
            try:
                socket.create_connection(("127.0.0.1", port), timeout=1).close()
                break
            except OSError:
                time.sleep(0.05)
        yield port, process.pid
    finally:
        process.terminate()
        process.wait()


def _say(took: dict[str, list[tuple[float, float, float]]], hosts: int) -> None:
    load = ", ".join(f"{value:.1f}" for value in os.getloadavg())
    print(
        f"{datetime.now(UTC):%Y-%m-%d %H:%M} UTC, {os.cpu_count()} cores, load {load}; {platform.platform()}"
    )
    print(
        f"\n| one knob on {hosts} hosts | median | fastest | slowest | times raw "
        "| CPU here | CPU of the hosts | CPU times raw |"
    )
    print("|---|---|---|---|---|---|---|---|")
    middles = {
        who: [statistics.median(each) for each in zip(*runs, strict=True)] for who, runs in took.items()
    }
    raw, *raw_cpu = next(iter(middles.values()))
    for who, (middle, here, there) in middles.items():
        times = [elapsed for elapsed, _, _ in took[who]]
        print(
            f"| {who} | {middle:.2f} s | {min(times):.2f} s | {max(times):.2f} s | {middle / raw:.2f} "
            f"| {here:.2f} s | {there:.2f} s | {(here + there) / sum(raw_cpu):.2f} |"
        )


if __name__ == "__main__":
    main()
