"""Commands that start another command: what they do to its environment, and where it begins."""

from __future__ import annotations

import re
from collections.abc import Sequence
from typing import Final

from msgspec import Struct, field

from knobledger.knobs.shell.source import decode
from knobledger.knobs.shell.state import Arg
from knobledger.knobs.shell.values import literal_text, prefix_text

_SETTING = re.compile(r"([A-Za-z_][A-Za-z0-9_]*)=")
_NAME = re.compile(r"[A-Za-z_][A-Za-z0-9_]*")

# Options that take the next word as their value; every other option stands alone.
_OPTIONS: Final[dict[str, frozenset[str]]] = {
    name: frozenset(options.split())
    for name, options in {
        "exec": "-a",
        "nohup": "",
        "setsid": "",
        "command": "",
        "builtin": "",
        "time": "-o -f --output --format",
        "nice": "-n --adjustment",
        "ionice": "-c -n -p --class --classdata",
        "chrt": "-T -P -D",
        "timeout": "-s -k --signal --kill-after",
        "numactl": "-C -N -m -i -p -w --cpunodebind --membind --physcpubind --interleave --preferred --localalloc",
        "taskset": "",
        "stdbuf": "-i -o -e --input --output --error",
        "sudo": "-u -g -C -h -p -U -r -t -T -D --user --group",
        "doas": "-u -C",
        "unbuffer": "",
        "tini": "-p -e",
        "dumb-init": "-r",
        "strace": "-e -o -p -s",
        "nsys": "-o -t -f -w -c --output --trace --force-overwrite --capture-range --sample",
        "xargs": "-n -I -P -L -d -a -s",
        "torchrun": "--nnodes --nproc_per_node --nproc-per-node --node_rank --node-rank --master_addr --master-addr "
        "--master_port --master-port --rdzv_backend --rdzv-backend --rdzv_endpoint --rdzv-endpoint --rdzv_id --rdzv-id "
        "--rdzv_conf --rdzv-conf --max_restarts --max-restarts --monitor_interval --start_method --role --log_dir "
        "--log-dir --redirects -r --tee -t --local_addr --local-addr --local-ranks-filter",
        "mpirun": "-np -n -c -N --n --np -H --host -host --hostfile -hostfile --machinefile -machinefile --bind-to "
        "-bind-to --map-by -map-by --rank-by -wdir --wdir -wd -npernode --npernode --output-filename --prefix --tune "
        "-x --rankfile -rf -ppn -f",
        "srun": "-N -n -c -p -w -x -J -t -A -q -G -C -D -e -i -o -m -r -s --nodes --ntasks --cpus-per-task "
        "--partition --nodelist --exclude --job-name --time --account --qos --gpus --gres --mem --mpi --chdir --output "
        "--error --input --ntasks-per-node --gpus-per-node --gpus-per-task --constraint --container-image "
        "--container-mounts --container-workdir --container-name --cpu-bind --export --jobid --distribution",
        "ssh": "-p -i -l -o -F -J -L -R -D -W -E -b -c -m -S -w -e -I -O -Q",
        "uv": "--python -p --with --directory --project --extra --env-file",
        "conda": "-n --name -p --prefix --cwd",
        "poetry": "-C --directory",
    }.items()
}
_OPTIONS_OF = {"mpiexec": "mpirun", "mpiexec.hydra": "mpirun", "orterun": "mpirun", "micromamba": "conda"}
_DOCKER_ALONE = re.compile(
    r"-[ditPq]+|--(?:rm|detach|tty|interactive|privileged|init|publish-all|read-only|no-healthcheck|quiet|"
    r"oom-kill-disable|sig-proxy|disable-content-trust|no-hosts|replace|tls-verify|http-proxy)"
)
CONTAINERS: Final = frozenset(["docker", "podman", "nerdctl"])
WRAPPERS: Final = frozenset([*_OPTIONS, *_OPTIONS_OF, *CONTAINERS, "env"])
"""The names of all commands that start another one."""


class Setting(Struct, frozen=True, gc=False):
    """`NAME=value` among a wrapper's words."""

    arg: Arg
    name: str
    skip: int
    """characters of the word's text before the value"""
    begins: Arg
    """the first word of it, such as `-e`"""
    form: str
    head: bool = False
    stop: int | None = None
    """where the value ends in the word's text, if a comma follows"""


class Unwrapped(Struct):
    """What remains when the wrappers are taken off."""

    args: list[Arg]
    """of the program itself, its name first"""
    wrappers: list[str] = field(default_factory=list)
    settings: list[Setting] = field(default_factory=list)
    removed: set[str] = field(default_factory=set)
    cleared: bool = False
    """nothing of the script's environment is handed on"""
    handed: set[str] = field(default_factory=set)
    """names that are handed on all the same"""
    env_files: list[str] = field(default_factory=list)
    image: Arg | None = None
    """the image of a container"""
    remote: list[Arg] | None = None
    """the words that a shell on another host is given"""
    execs: bool = False


def text_of(arg: Arg) -> str | None:
    """The argument's text, if it is known."""
    if arg.word is None:
        return None
    text = literal_text(arg.word)
    return None if text is None else decode(text)


def base_name(arg: Arg) -> str:
    """The last part of a command's path; what is known of it if it begins with an expansion."""
    text = text_of(arg)
    return "" if text is None else text.rpartition("/")[2]


def unwrap(args: Sequence[Arg]) -> Unwrapped:
    """Take off the wrappers of a command."""
    result = Unwrapped(list(args))
    for _ in range(12):
        if not result.args:
            break
        name = base_name(result.args[0])
        if name in CONTAINERS:
            if not _container(result, name):
                break
        elif name == "env":
            _env(result)
        elif name in ("uv", "poetry", "conda", "micromamba"):
            if len(result.args) < 3 or text_of(result.args[1]) != "run":
                break
            del result.args[0]
            _skip(result, name)
        elif _OPTIONS_OF.get(name, name) in _OPTIONS:
            result.execs = result.execs or name == "exec"
            _skip(result, name)
            if name == "ssh":
                if result.args:
                    result.remote = result.args[1:]
                    result.args = []
                break
            if name == "torchrun":
                break
        else:
            break
    return result


def _skip(result: Unwrapped, name: str) -> None:
    """Take off one wrapper's name, options and operands."""
    result.wrappers.append(name)
    key = _OPTIONS_OF.get(name, name)
    options = _OPTIONS[key]
    args = result.args
    at = 1
    while at < len(args):
        text = text_of(args[at])
        if text is None or not text.startswith("-") or text == "-":
            if text is not None and key == "sudo" and (match := _SETTING.match(text)):
                result.settings.append(Setting(args[at], match.group(1), match.end(), args[at], "env"))
                at += 1
                continue
            break
        if text == "--":
            at += 1
            break
        if key == "mpirun" and text in ("-x", "--x") and at + 1 < len(args):
            _hand_on(result, args[at + 1], 0, args[at], "-x")
        if key == "mpirun" and text in ("--mca", "-mca", "-genv", "-env"):
            at += 3
            continue
        if key == "srun" and text.startswith("--export"):
            at += _srun_export(result, args, at)
            continue
        if key == "nsys" and text == "-":
            break
        at += 2 if text in options else 1
    if key == "timeout":
        at += 1
    elif key == "nsys":
        # nsys profile [options] command
        if at == 1 and len(args) > 1:
            del args[1]
            result.args = args
            result.wrappers.pop()
            _skip(result, name)
            return
    elif key in ("chrt", "taskset"):
        at += 1
    result.args = args[at:]


def _hand_on(result: Unwrapped, arg: Arg, skip: int, begins: Arg, form: str) -> None:
    if arg.word is None:
        return
    text = prefix_text(arg.word)
    if match := _SETTING.match(text, skip):
        result.settings.append(Setting(arg, match.group(1), match.end(), begins, form))
    elif (match := _NAME.fullmatch(text, skip)) and literal_text(arg.word) == text:
        result.handed.add(match.group())


def _srun_export(result: Unwrapped, args: list[Arg], at: int) -> int:
    """`--export=ALL,A=1` or `--export A=1`; how many words it takes."""
    arg, skip, size = args[at], len("--export="), 1
    text = text_of(arg)
    if text == "--export":
        if at + 1 >= len(args):
            return 1
        arg, skip, size = args[at + 1], 0, 2
        text = text_of(arg)
    if text is None or (size == 1 and not text.startswith("--export=")):
        return size
    items = text[skip:].split(",")
    if "ALL" not in items:
        result.cleared = True
    for item in items:
        if match := _SETTING.match(item):
            result.settings.append(
                Setting(arg, match.group(1), skip + match.end(), args[at], "--export", stop=skip + len(item))
            )
        elif item not in ("ALL", "NONE", "NIL"):
            result.handed.add(item)
        skip += len(item) + 1
    return size


def _env(result: Unwrapped) -> None:
    """`env [-i] [-u NAME] [NAME=value...] command`."""
    result.wrappers.append("env")
    args = result.args
    at = 1
    while at < len(args):
        arg = args[at]
        text = text_of(arg)
        if text in ("-u", "--unset", "-C", "--chdir") and at + 1 < len(args):
            if text in ("-u", "--unset"):
                result.removed.add(text_of(args[at + 1]) or "")
            at += 2
        elif text is not None and text.startswith("--unset="):
            result.removed.add(text.partition("=")[2])
            at += 1
        elif text is not None and text.startswith("-u") and len(text) > 2:
            result.removed.add(text[2:])
            at += 1
        elif text in ("-i", "-", "--ignore-environment"):
            result.cleared = True
            at += 1
        elif text is not None and text.startswith("-"):
            at += 1
        elif arg.word is not None and (match := _SETTING.match(prefix_text(arg.word))):
            result.settings.append(Setting(arg, match.group(1), match.end(), arg, "env"))
            at += 1
        else:
            break
    result.args = args[at:]


def _container(result: Unwrapped, name: str) -> bool:
    """`docker run [options] image command`; False if it is another docker command."""
    args = result.args
    at = 1
    while at < len(args) and (text_of(args[at]) or "").startswith("-"):
        at += 1
    verb = text_of(args[at]) if at < len(args) else None
    if verb == "container":
        at += 1
        verb = text_of(args[at]) if at < len(args) else None
    if verb not in ("run", "exec", "create"):
        return False
    at += 1
    result.wrappers.append(name)
    result.cleared = True
    result.handed.clear()
    result.removed.clear()
    result.settings = []
    while at < len(args):
        arg = args[at]
        if arg.word is None:
            at += 1
            continue
        text = prefix_text(arg.word)
        if not text.startswith("-"):
            break
        if text in ("-e", "--env") and at + 1 < len(args):
            _hand_on(result, args[at + 1], 0, arg, "-e")
            at += 2
        elif text.startswith("--env="):
            _hand_on(result, arg, len("--env="), arg, "--env=")
            at += 1
        elif text.startswith("-e") and not text.startswith("--"):
            _hand_on(result, arg, 3 if text.startswith("-e=") else 2, arg, "-e")
            at += 1
        elif text == "--env-file" and at + 1 < len(args):
            result.env_files.append(text_of(args[at + 1]) or "")
            at += 2
        elif text.startswith("--env-file="):
            result.env_files.append((text_of(arg) or "").partition("=")[2])
            at += 1
        elif _DOCKER_ALONE.fullmatch(text) or "=" in text:
            at += 1
        elif not text.startswith("--") and len(text) > 2:
            # -p8000:80, or letters of which the last takes a value (-itv).
            at += 2 if re.fullmatch(r"-[ditPq]+[a-zA-Z]", text) else 1
        else:
            at += 2
    result.image = args[at] if at < len(args) else None
    result.args = args[at + 1 :]
    return True
