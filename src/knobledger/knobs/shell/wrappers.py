"""Commands that start another command: what they do to its environment, and where it begins."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Final

from knobledger.knobs.shell.containers import ELSEWHERE, elsewhere
from knobledger.knobs.shell.sessions import SESSIONS, in_session
from knobledger.knobs.shell.state import Arg
from knobledger.knobs.shell.unwrapped import (
    SETTING,
    Setting,
    Unwrapped,
    base_name,
    hand_on,
    hand_on_list,
    text_of,
)
from knobledger.knobs.shell.values import prefix_text

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
        "systemd-run": "-u -p -t -E -H -M --unit --property --setenv --description --slice --uid --gid --nice "
        "--working-directory --host --machine --service-type --on-active --on-boot --on-calendar --timer-property",
        "ssh": "-p -i -l -o -F -J -L -R -D -W -E -b -c -m -S -w -e -I -O -Q",
        "uv": "--python -p --with --directory --project --extra --env-file",
        "conda": "-n --name -p --prefix --cwd",
        "poetry": "-C --directory",
    }.items()
}
_OPTIONS_OF = {"mpiexec": "mpirun", "mpiexec.hydra": "mpirun", "orterun": "mpirun", "micromamba": "conda"}
WRAPPERS: Final = frozenset([*_OPTIONS, *_OPTIONS_OF, *ELSEWHERE, *SESSIONS, "env"])
"""The names of all commands that start another one."""


def unwrap(args: Sequence[Arg]) -> Unwrapped:
    """Take off the wrappers of a command."""
    result = Unwrapped(list(args))
    for _ in range(12):
        if not result.args:
            break
        name = base_name(result.args[0])
        if name in ELSEWHERE:
            if not elsewhere(result, name):
                break
        elif name in SESSIONS:
            in_session(result, name)
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
                    result.forget()
                    result.told, result.args = [result.args[1:]], []
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
    if key in ("sudo", "doas"):
        # Only their configuration tells what they hand on.
        result.open = True
    elif key == "systemd-run" and not any(text_of(arg) == "--scope" for arg in args):
        result.forget()
    while at < len(args):
        text = text_of(args[at])
        if text is None or not text.startswith("-") or text == "-":
            if text is not None and key == "sudo" and (match := SETTING.match(text)):
                result.settings.append(Setting(args[at], match.group(1), match.end(), args[at], "env"))
                at += 1
                continue
            break
        if text == "--":
            at += 1
            break
        if key == "mpirun" and text in ("-x", "--x") and at + 1 < len(args):
            hand_on(result, args[at + 1], 0, args[at], "-x")
        if key == "mpirun" and text in ("--mca", "-mca", "-genv", "-env"):
            at += 3
            continue
        if key == "srun" and text.startswith("--export"):
            at += _srun_export(result, args, at)
            continue
        if key == "systemd-run":
            _set_for_unit(result, args, at, text)
        elif key == "sudo":
            _kept(result, args[at], text)
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


def _kept(result: Unwrapped, arg: Arg, text: str) -> None:
    """Note what `sudo -E` or `sudo --preserve-env=NAME,NAME` hands on."""
    if text.startswith("--preserve-env="):
        hand_on_list(result, arg, len("--preserve-env="), arg, "--preserve-env")
    elif text == "--preserve-env" or (not text.startswith("--") and "E" in text):
        result.open = False


def _set_for_unit(result: Unwrapped, args: list[Arg], at: int, text: str) -> None:
    """Note what `systemd-run -E NAME=VALUE` sets."""
    if text in ("-E", "--setenv") and at + 1 < len(args):
        hand_on(result, args[at + 1], 0, args[at], "-E")
    elif text.startswith("--setenv="):
        hand_on(result, args[at], len("--setenv="), args[at], "-E")


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
    if "ALL" not in text[skip:].split(","):
        result.cleared = True
    hand_on_list(result, arg, skip, args[at], "--export")
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
        elif arg.word is not None and (match := SETTING.match(prefix_text(arg.word))):
            result.settings.append(Setting(arg, match.group(1), match.end(), arg, "env"))
            at += 1
        else:
            break
    result.args = args[at:]
