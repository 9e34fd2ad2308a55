"""Commands that give another one a terminal or another user: tmux, screen, script, su, runuser, flock."""

from __future__ import annotations

import re
from collections.abc import Callable
from itertools import pairwise
from typing import Final

from knobledger.knobs.shell.state import Arg
from knobledger.knobs.shell.unwrapped import Unwrapped, hand_on, past_options, text_of

_TMUX_OPTIONS: Final[dict[str, str]] = {
    **dict.fromkeys(("new-session", "new"), "-c -e -F -f -n -s -t -x -y"),
    **dict.fromkeys(("new-window", "neww"), "-c -e -F -n -t"),
    **dict.fromkeys(("split-window", "splitw"), "-c -e -F -l -p -t"),
    **dict.fromkeys(("respawn-pane", "respawnp", "respawn-window", "respawnw"), "-c -e -t"),
    **dict.fromkeys(("send-keys", "send"), "-c -N -t"),
}
"""The commands of tmux that start something, and which of their options take a value (tmux(1), 3.3)."""
_KEYS_THAT_END: Final = frozenset(["Enter", "C-m", "KPEnter"])
_COMMAND_OPTION = re.compile(r"-[a-z]*c|--command|--session-command")


def in_session(result: Unwrapped, name: str) -> None:
    """Take off one of these commands with its options."""
    result.wrappers.append(name)
    _OF[name](result)


def _tell(result: Unwrapped, words: list[Arg]) -> None:
    result.told, result.args = [words], []


def _tmux(result: Unwrapped) -> None:
    """`tmux [options] new-session [options] command`, and more commands of tmux behind `\\;`.

    One word is given to a shell, several are the command. tmux's server starts it, in the environment that the server was
    started in, which may or may not be this one.
    """
    args = result.args
    at = past_options(args, 1, "-c -f -L -S -T")
    result.args, result.open, result.detached = [], True, True
    while at < len(args):
        end = next((index for index in range(at, len(args)) if text_of(args[index]) == ";"), len(args))
        verb = text_of(args[at]) or ""
        if verb in _TMUX_OPTIONS:
            rest = past_options(args, at + 1, _TMUX_OPTIONS[verb])
            _handed_by_tmux(result, args[at + 1 : min(rest, end)])
            words = args[min(rest, end) : end]
            if verb in ("send-keys", "send"):
                ended = len(words) == 2 and text_of(words[1]) in _KEYS_THAT_END
                words = words[:1] if ended else []
            if len(words) == 1:
                result.told.append(words)
            elif words:
                result.args = words
        at = end + 1


def _handed_by_tmux(result: Unwrapped, options: list[Arg]) -> None:
    for option, value in pairwise(options):
        if text_of(option) == "-e":
            hand_on(result, value, 0, option, "-e")


def _screen(result: Unwrapped) -> None:
    """`screen [options] [command]`; `-X` sends a command to another screen, which is not followed."""
    at = past_options(result.args, 1, "-c -e -h -p -s -S -t -T -Logfile")
    sends = any(text_of(arg) == "-X" for arg in result.args[1:at])
    result.args = [] if sends else result.args[at:]
    result.detached = True


def _script(result: Unwrapped) -> None:
    """`script [options] [-c command] [file] [-- command]`."""
    texts = [text_of(arg) for arg in result.args]
    if command := _command_option(result.args):
        _tell(result, command)
    else:
        result.args = result.args[texts.index("--") + 1 :] if "--" in texts else []


def _flock(result: Unwrapped) -> None:
    """`flock [options] file command`, or with `-c` a line for a shell. A number is a file that is open: no command."""
    at = past_options(result.args, 1, "-w -E --wait --timeout --conflict-exit-code") + 1
    if at < len(result.args) and text_of(result.args[at]) in ("-c", "--command"):
        _tell(result, result.args[at + 1 : at + 2])
    else:
        result.args = result.args[at:]


def _su(result: Unwrapped) -> None:
    """`su [options] [-] [user]` with `-c`, and `runuser -u user command`. A login gets an environment of its own."""
    args = result.args
    texts = [text_of(arg) or "" for arg in args]
    if any(text in ("-", "--login") or re.fullmatch(r"-[a-z]*l[a-z]*", text) for text in texts[1:]):
        result.forget()
    if command := _command_option(args):
        _tell(result, command)
        return
    user = next((at for at, text in enumerate(texts) if text in ("-u", "--user")), None)
    result.args = args[past_options(args, 1, "-u --user -g -G -s -w --shell") :] if user else []


def _command_option(args: list[Arg]) -> list[Arg]:
    """The word behind `-c`, also behind letters with it (`-qc`)."""
    for option, word in pairwise(args[1:]):
        if _COMMAND_OPTION.fullmatch(text_of(option) or ""):
            return [word]
    return []


_OF: Final[dict[str, Callable[[Unwrapped], None]]] = {
    "tmux": _tmux,
    "screen": _screen,
    "script": _script,
    "flock": _flock,
    "su": _su,
    "runuser": _su,
}
SESSIONS: Final = frozenset(_OF)
