"""One verified change of one knob as a cold command, against what people use instead.

Starts an OpenSSH server of its own on loopback, and lets the contenders take turns on it in one run: a raw
OpenSSH one-liner, Ansible, pyinfra (the peers get a venv of their own), and `knob set`. Each command begins
with nothing warm: no connection is left over from the one before. Each is checked by reading the file.
Also: the CPU time of `knob --help`, and what `knob set` imports.

`--write` puts the result into docs/performance.md.
"""

from __future__ import annotations

import argparse
import contextlib
import getpass
import os
import platform
import re
import resource
import shutil
import socket
import statistics
import subprocess
import sys
import tempfile
import time
import tomllib
from collections.abc import Callable, Iterator
from dataclasses import dataclass, field
from datetime import UTC, datetime
from pathlib import Path

ROOT = Path(__file__).resolve().parent.parent
PAGE = ROOT / "docs" / "performance.md"
BEGIN, END = "<!-- bench: begin -->", "<!-- bench: end -->"
PEERS = Path(sys.prefix) / "peers"
KNOB = Path(sys.executable).with_name("knob")
NAME = "SGLANG_SM120_MMA_TARGET_CTAS"
VALUES = ("512", "256")
SCRIPT = f"""\
#!/usr/bin/env bash
set -euo pipefail
cd "$(dirname "$0")"
export CUDA_VISIBLE_DEVICES=4,5,6,7
export {NAME}=256
export SGLANG_DISAGGREGATION_THREAD_POOL_SIZE=8
exec python3 -m sglang.launch_server --model-path /models/dsv4 --disaggregation-mode decode \\
    --port 30001 --mem-fraction-static 0.85
"""
HEAVY = (
    *("knobledger", "typer", "rich", "pydantic", "paramiko", "cryptography", "fabric", "invoke", "git"),
    *("sqlalchemy", "sqlmodel", "deepdiff", "jinja2", "tree_sitter", "merge3"),
)


@dataclass
class Server:
    """The loopback sshd, and the folder that holds everything of this run."""

    folder: Path
    port: int
    user: str = field(default_factory=getpass.getuser)

    @property
    def key(self) -> Path:
        return self.folder / "key"

    @property
    def known_hosts(self) -> Path:
        return self.folder / "known_hosts"


@dataclass
class Contender:
    """Something that can set the knob in its own copy of the script."""

    name: str
    command: Callable[[str], list[str]]
    """the argv that sets the knob to this value"""
    path: Path
    env: dict[str, str] = field(default_factory=dict)
    after: Callable[[], None] = lambda: None
    """tidies up outside of the time that is measured"""
    wall: list[float] = field(default_factory=list)
    """seconds"""
    cpu: list[float] = field(default_factory=list)
    """seconds of user and system time on this side, the remote side's not included"""


def environment() -> dict[str, str]:
    """This process's, as an operator has it: with byte code kept, and nothing of git or knob set."""
    return {
        name: value for name, value in os.environ.items() if not name.startswith(("PYTHON", "GIT_", "KNOB"))
    }


def run(argv: list[str], env: dict[str, str] | None = None) -> tuple[float, float, str, str]:
    """Wall and CPU seconds of a command, its stdout and stderr. Ends the bench if it fails."""
    before = resource.getrusage(resource.RUSAGE_CHILDREN)
    start = time.perf_counter()
    done = subprocess.run(
        argv, env=environment() | (env or {}), stdin=subprocess.DEVNULL, capture_output=True, text=True
    )
    wall = time.perf_counter() - start
    after = resource.getrusage(resource.RUSAGE_CHILDREN)
    if done.returncode:
        sys.exit(f"{' '.join(argv)}\nexit {done.returncode}\n{done.stdout}{done.stderr}")
    cpu = after.ru_utime - before.ru_utime + after.ru_stime - before.ru_stime
    return wall, cpu, done.stdout, done.stderr


@contextlib.contextmanager
def sshd(folder: Path) -> Iterator[Server]:
    program = shutil.which("sshd", path=f"{os.environ.get('PATH', '')}:/usr/sbin")
    if program is None or shutil.which("ssh") is None:
        sys.exit("needs sshd and ssh: apt-get install openssh-server openssh-client")
    if os.getuid() == 0:
        Path("/run/sshd").mkdir(exist_ok=True)  # sshd's privilege separation wants it
    (folder / "home").mkdir()  # the login shell finds no start-up files of whoever runs this
    for name in ("key", "host_key"):
        run(["ssh-keygen", "-q", "-t", "ed25519", "-N", "", "-f", str(folder / name)])
    with socket.socket() as probe:
        probe.bind(("127.0.0.1", 0))
        server = Server(folder, probe.getsockname()[1])
    host_key = (folder / "host_key.pub").read_text()
    server.known_hosts.write_text(f"[127.0.0.1]:{server.port} {host_key}")
    shutil.copy(folder / "key.pub", folder / "authorized_keys")
    (folder / "sshd_config").write_text(
        f"Port {server.port}\nListenAddress 127.0.0.1\nHostKey {folder}/host_key\nPidFile none\n"
        f"AuthorizedKeysFile {folder}/authorized_keys\nStrictModes no\nUsePAM no\nPrintMotd no\n"
        "PasswordAuthentication no\nPermitRootLogin prohibit-password\nUseDNS no\n"
        f"SetEnv HOME={folder}/home\nMaxStartups 100\nSubsystem sftp internal-sftp\n"
    )
    log = (folder / "sshd.log").open("wb")
    process = subprocess.Popen([program, "-D", "-e", "-f", str(folder / "sshd_config")], stderr=log)
    try:
        for _ in range(100):
            with contextlib.suppress(OSError), socket.create_connection(("127.0.0.1", server.port), 1):
                break
            time.sleep(0.05)
        else:
            sys.exit(f"sshd did not start:\n{(folder / 'sshd.log').read_text()}")
        yield server
    finally:
        process.terminate()
        process.wait()
        log.close()


def script_for(server: Server, name: str) -> Path:
    folder = server.folder / "host" / name
    folder.mkdir(parents=True)
    path = folder / "serve_dsv4_decode.sh"
    path.write_text(SCRIPT)
    path.chmod(0o755)
    return path


def raw(server: Server) -> Contender:
    path = script_for(server, "raw")

    def command(value: str) -> list[str]:
        chain = (
            f"cp -p {path} {path}.bak && sed -i 's/^export {NAME}=.*/export {NAME}={value}/' {path}"
            f" && grep -n '{NAME}={value}$' {path} && ! diff -q {path} {path}.bak"
        )
        return ["ssh", *ssh_options(server), "-p", str(server.port), f"{server.user}@127.0.0.1", chain]

    return Contender("raw OpenSSH: cp, sed, grep, diff", command, path)


def ssh_options(server: Server) -> list[str]:
    return [
        *("-F", "none", "-i", str(server.key), "-o", "IdentitiesOnly=yes", "-o", "BatchMode=yes"),
        *("-o", f"UserKnownHostsFile={server.known_hosts}", "-o", "StrictHostKeyChecking=yes"),
    ]


def ansible(server: Server) -> Contender:
    """At its best: pipelining, a given interpreter, one connection shared by the steps of one command."""
    path = script_for(server, "ansible")
    python = shutil.which("python3", path="/usr/bin:/bin") or sys.executable
    control = server.folder / "cp"
    (server.folder / "inventory.ini").write_text(
        f"gpu1 ansible_host=127.0.0.1 ansible_port={server.port} ansible_user={server.user}"
        f" ansible_ssh_private_key_file={server.key} ansible_python_interpreter={python}\n"
    )
    (server.folder / "ansible.cfg").write_text(
        f"[defaults]\ninventory = {server.folder}/inventory.ini\nlocal_tmp = {server.folder}/ansible\n"
        f"[ssh_connection]\npipelining = true\ncontrol_path_dir = {control}\n"
        f"ssh_args = -F none -o ControlMaster=auto -o ControlPersist=60s -o IdentitiesOnly=yes"
        f" -o UserKnownHostsFile={server.known_hosts} -o StrictHostKeyChecking=yes\n"
    )

    def command(value: str) -> list[str]:
        arguments = f"path={path} regexp='^export {NAME}=' line='export {NAME}={value}' backup=yes"
        return [str(PEERS / "bin/ansible"), "gpu1", "-m", "ansible.builtin.lineinfile", "-a", arguments]

    def hang_up() -> None:
        for path in control.glob("*"):
            subprocess.run(
                ["ssh", "-F", "none", "-S", str(path), "-O", "exit", "gpu1"], capture_output=True, check=False
            )

    env = {
        "ANSIBLE_CONFIG": str(server.folder / "ansible.cfg"),
        "ANSIBLE_HOME": str(server.folder / "ansible"),
    }
    return Contender("Ansible: lineinfile, backup", command, path, env, hang_up)


def pyinfra(server: Server) -> Contender:
    path = script_for(server, "pyinfra")
    (server.folder / "inventory.py").write_text(
        "hosts = [('127.0.0.1', {"
        f"'ssh_port': {server.port}, 'ssh_user': {server.user!r}, 'ssh_key': {str(server.key)!r}, "
        f"'ssh_known_hosts_file': {str(server.known_hosts)!r}, 'ssh_strict_host_key_checking': 'yes', "
        "'ssh_config_file': '/dev/null'})]\n"
    )
    (server.folder / "deploy.py").write_text(
        "import os\nfrom pyinfra.operations import files\n"
        f"files.line(path={str(path)!r}, line=r'^export {NAME}=.*$',\n"
        f"           replace='export {NAME}=' + os.environ['VALUE'], backup=True)\n"
    )

    def command(value: str) -> list[str]:
        files = [str(server.folder / "inventory.py"), str(server.folder / "deploy.py")]
        return ["env", f"VALUE={value}", str(PEERS / "bin/pyinfra"), "--yes", *files]

    return Contender("pyinfra: files.line, backup", command, path)


def knob(server: Server, transport: str = "fabric") -> Contender:
    path = script_for(server, f"knob-{transport}")
    workspace = server.folder / f"workspace-{transport}"
    run([str(KNOB), "init", str(workspace)])
    (workspace / "hosts.toml").write_text(
        f'[hosts.gpu1]\naddress = "127.0.0.1"\nport = {server.port}\nuser = "{server.user}"\n'
        f'identity_file = "{server.key}"\nknown_hosts = "{server.known_hosts}"\ntransport = "{transport}"\n'
        f'[hosts.gpu1.services.decode]\nscript = "{path}"\n'
    )

    def command(value: str) -> list[str]:
        return [str(KNOB), "-C", str(workspace), "set", "gpu1/decode", f"{NAME}={value}", "--go-ahead"]

    return Contender(f"knob set --go-ahead ({transport})", command, path)


def knob_openssh(server: Server) -> Contender:
    return knob(server, "openssh")


def turn(contender: Contender, value: str, *, counts: bool) -> None:
    wall, cpu, stdout, stderr = run(contender.command(value), contender.env)
    contender.after()
    if f"export {NAME}={value}\n" not in contender.path.read_text():
        sys.exit(f"{contender.name}: the knob is not {value}\n{stdout}{stderr}")
    if counts:
        contender.wall.append(wall)
        contender.cpu.append(cpu)


def install_peers() -> str:
    """Makes the peers' venv if need be; their versions."""
    python = PEERS / "bin/python"
    wanted = tomllib.loads((ROOT / "pyproject.toml").read_text())["project"]["optional-dependencies"]["bench"]
    if not (PEERS / "done").exists():
        print("installing the peers:", *wanted, file=sys.stderr)
        run([sys.executable, "-m", "venv", str(PEERS)])
        run([str(python), "-m", "pip", "install", "--quiet", "--disable-pip-version-check", *wanted])
        (PEERS / "done").touch()
    names = [re.split(r"[<>=~!]", requirement)[0] for requirement in wanted]
    code = f"import importlib.metadata as m; print(*(f'{{n}} {{m.version(n)}}' for n in {names}), sep=', ')"
    return run([str(python), "-c", code])[2].strip()


def table(contenders: list[Contender]) -> list[str]:
    base = statistics.median(contenders[0].wall)
    lines = [
        "| one verified change, cold | median | fastest | slowest | times raw | CPU on this side |",
        "|---|---|---|---|---|---|",
    ]
    for contender in contenders:
        median = statistics.median(contender.wall)
        lines.append(
            f"| {contender.name} | {median:.2f} s | {min(contender.wall):.2f} s | {max(contender.wall):.2f} s"
            f" | {median / base:.2f} | {statistics.median(contender.cpu):.2f} s |"
        )
    return lines


def help_time(runs: int) -> list[str]:
    taken = [run([str(KNOB), "--help"])[:2] for _ in range(runs + 1)][1:]
    wall, cpu = (statistics.median(column) * 1000 for column in zip(*taken, strict=True))
    return [f"`knob --help`: {cpu:.0f} ms of CPU (user and system), {wall:.0f} ms in all; median of {runs}."]


def imports(contender: Contender, value: str) -> list[str]:
    """What `knob set` loads, by package: milliseconds of the first import, what it pulls in included."""
    argv = [sys.executable, "-X", "importtime", *contender.command(value)]
    stderr = run(argv)[3]
    found: dict[str, int] = {}
    total = 0
    for own, cumulative, name in re.findall(r"import time: +(\d+) \| +(\d+) \| +(\S+)", stderr):
        total += int(own)
        package = name.split(".")[0]
        if package in HEAVY:
            found[package] = max(found.get(package, 0), int(cumulative))
    loaded = [f"{name} {us / 1000:.0f}" for name, us in sorted(found.items(), key=lambda item: -item[1])]
    absent = [name for name in HEAVY if name not in found]
    return [
        f"Imports of `knob set`, in ms under `-X importtime` (which slows them down), each package's largest"
        f" single import with what it pulls in: {', '.join(loaded)}; {total / 1000:.0f} in all."
        + (f" Not loaded: {', '.join(absent)}." if absent else "")
    ]


def machine(peers: str) -> list[str]:
    cpu = platform.processor()
    with contextlib.suppress(OSError):
        if found := re.search(r"model name\s*: (.+)", Path("/proc/cpuinfo").read_text()):
            cpu = found[1]
    ssh = subprocess.run(["ssh", "-V"], capture_output=True, text=True, check=False).stderr.split(",")[0]
    load = ", ".join(f"{value:.1f}" for value in os.getloadavg())
    parts = [
        f"{datetime.now(UTC):%Y-%m-%d %H:%M} UTC",
        f"{cpu}, {os.cpu_count()} cores, load {load}",
        f"{platform.platform(terse=True)} {platform.machine()}, Python {platform.python_version()}, {ssh}",
        peers or "no peers",
    ]
    return [f"{'; '.join(parts)}."]


def main() -> None:
    parser = argparse.ArgumentParser(prog="bench/run.py", description=(__doc__ or "").split("\n")[0])
    parser.add_argument("--runs", type=int, default=9, help="runs that count, of each (default 9)")
    parser.add_argument(
        "--only", default="raw,ansible,pyinfra,openssh,knob", help="contenders, separated by commas"
    )
    parser.add_argument("--write", action="store_true", help="put the result into docs/performance.md")
    arguments = parser.parse_args()
    makers = {"raw": raw, "ansible": ansible, "pyinfra": pyinfra, "openssh": knob_openssh, "knob": knob}
    only = arguments.only.split(",")
    if unknown := set(only) - set(makers):
        parser.error(f"no such contender: {', '.join(sorted(unknown))}; one of {', '.join(makers)}")
    peers = install_peers() if {"ansible", "pyinfra"} & set(only) else ""
    with tempfile.TemporaryDirectory(prefix="bench") as folder, sshd(Path(folder)) as server:
        contenders = [makers[name](server) for name in makers if name in only]
        for number in range(arguments.runs + 1):
            shift = number % len(contenders)
            for contender in contenders[shift:] + contenders[:shift]:
                turn(contender, VALUES[number % 2], counts=number > 0)
            print(f"round {number} of {arguments.runs}", file=sys.stderr)
        lines = [*machine(peers), "", *table(contenders)]
        if "knob" in only:
            lines += ["", *help_time(arguments.runs), ""]
            lines += imports(contenders[-1], VALUES[(arguments.runs + 1) % 2])
    print("\n".join(lines))
    if arguments.write:
        command = f'`make bench BENCH_ARGS="{" ".join(sys.argv[1:])}"`'
        head, rest = PAGE.read_text().split(BEGIN)
        tail = rest.split(END)[1]
        PAGE.write_text("\n".join([f"{head}{BEGIN}", command, "", *lines, f"{END}{tail}"]))


if __name__ == "__main__":
    main()
