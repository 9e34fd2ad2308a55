"""Which of a script's commands is the launch."""

from __future__ import annotations

import re
from collections.abc import Container
from typing import Final

from msgspec import Struct, field

from knobledger.knobs.shell.state import Arg
from knobledger.knobs.shell.syntax import Simple
from knobledger.knobs.shell.unwrapped import Unwrapped, base_name, text_of
from knobledger.knobs.site import Choice, Site


def _names(text: str) -> frozenset[str]:
    return frozenset(text.split())


# Commands that start no server: the shell's own, and what serve scripts use to prepare and to wait.
OTHERS: Final = _names("""
    : . [ [[ alias apt apt-get aptitude awk base64 basename bc bg break bzip2 cat cd chgrp chmod chown clear
    cmp comm command_not_found continue cp crontab curl cut date dd declare df diff dig dirname dirs disown
    dmesg dnf du echo egrep enable env envsubst eval exit export false fgrep fg file find flock free fuser
    gawk getconf getent getopt getopts git grep groups gunzip gzip hash head help hexdump history hostname
    hostnamectl huggingface-cli hf ibstat ibv_devinfo id ifconfig info install ip ipcs ipcrm iptables jobs
    journalctl jq kill killall killpg ldconfig ldd less let ln local locale logger logout ls lsblk lscpu
    lsmod lsof lspci make mapfile md5sum mkdir mkfifo mknod mktemp modprobe module more mount mv nc ncat
    netstat nproc nslookup nvcc nvidia-smi od openssl passwd paste patch perl pgrep ping pip pip3 pipx pkill
    popd printenv printf ps pushd pwd read readarray readlink readonly realpath renice reset return rm rmdir
    rmmod rocm-smi rsync scancel scp scontrol screen sed select seq set sha256sum shift shopt shuf sinfo
    sleep sort source split squeue ss stat strings stty su sum sync sysctl systemctl tail tar tee telnet
    test times touch tput tr trap tree true truncate type typeset tty udevadm ulimit umask umount unalias
    uname uniq unlink unset unxz unzip uptime useradd usermod users wait watch wc wget whereis which who
    whoami xargs xxd xz yes yq yum zcat zip nvidia-cuda-mps-control until while for if then else fi do done
""")
_SERVERS = re.compile(
    r"sglang|vllm|trtllm|lmdeploy|text-generation-launcher|tritonserver|llama[-_.]?(?:server|cpp)|mooncake|dynamo|"
    r"ollama|uvicorn|gunicorn|hypercorn|launch_server|launch_router|api_server|router|serve\b|server\b",
)
_CLIENTS = re.compile(
    r"bench|client|warm_?up|probe|check|eval\b|download|convert|install|--help|--version", re.IGNORECASE
)
_BLOCKING = _names("""
    torchrun mpirun mpiexec srun numactl taskset nohup setsid docker podman nerdctl ssh stdbuf chrt
    deepspeed accelerate
""")


class Candidate(Struct, eq=False):
    """A command that may be the launch, and what decides what it sees."""

    position: int
    """of its first word, byte offset in the file"""
    command: str
    rank: int
    """3: a server by its name; 2: behind exec, nohup, & or the like; 1: any other program"""
    called: bool
    """False in a function that nothing calls, or in another program's file"""
    path: tuple[int, ...]
    scope: str
    node: Simple
    seen: dict[str, list[Choice]] = field(default_factory=dict)
    flags: list[Site] = field(default_factory=list)
    hidden: dict[str, str] = field(default_factory=dict)
    """names that the launch does not see, and why"""
    words: list[Arg] = field(default_factory=list)
    """the program's own words, as written in the command"""
    image: int | None = None
    """byte offset of a container's image"""
    cleared: bool = False
    file: str | None = None
    nested: bool = False
    """it stands in a string or another text that a second shell reads"""


def rank_of(unwrapped: Unwrapped, *, background: bool, functions: Container[str]) -> int:
    """How much a command looks like a launch; 0: not at all."""
    if unwrapped.image is not None:
        texts = [text_of(arg) or "" for arg in unwrapped.args]
        return 2 if not _CLIENTS.search(" ".join(texts)) else 1
    if not unwrapped.args:
        return 0
    first = unwrapped.args[0]
    name = base_name(first)
    if first.word is None or name in OTHERS or name in functions:
        return 0
    text = text_of(first)
    if text is not None and (not text.strip() or text.startswith(("-", "\ufeff")) or not text.isprintable()):
        return 0
    texts = [text_of(arg) or "" for arg in unwrapped.args]
    if name.startswith("python") and _runs_no_server(texts):
        return 0
    line = " ".join(texts[:4])
    if _CLIENTS.search(line):
        return 1
    if _SERVERS.search(line):
        return 3
    if background or unwrapped.execs or _BLOCKING.intersection(unwrapped.wrappers):
        return 2
    return 1


def _runs_no_server(texts: list[str]) -> bool:
    """Whether python, called so, only evaluates something."""
    return (
        len(texts) == 1 or texts[1] in ("-V", "-", "--version") or "-c" in texts[1:3] or "pip" in texts[1:4]
    )


def choose(candidates: list[Candidate]) -> list[Candidate]:
    """The launches among the candidates, in the order of the text.

    Those that are servers by their name, else those that are left to run (exec, `&`, nohup, a container) and the last
    command of all, and every other command of the same program.
    """
    running = [candidate for candidate in candidates if candidate.called and candidate.rank]
    if not running:
        return []
    best = [candidate for candidate in running if candidate.rank == 3]
    if not best:
        last = running[-1]
        best = [candidate for candidate in running if candidate.rank == 2 or candidate is last]
        names = {candidate.command for candidate in best}
        best = [candidate for candidate in running if candidate in best or candidate.command in names]
    return sorted(best, key=lambda candidate: candidate.position)
