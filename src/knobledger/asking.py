"""What a caller may ask for, by a person's command line or an agent's call: names, requests, labels, windows."""

from __future__ import annotations

import re
from collections.abc import Sequence

from knobledger.errors import Usage
from knobledger.knobs import Masker, Request

SHORTEST_WINDOW_S = 10
_ENV_NAME = re.compile(r"[A-Za-z_][A-Za-z0-9_]*", re.ASCII)
_FLAG_NAME = re.compile(r"--?[A-Za-z0-9][^\s=]*")
_LABEL = re.compile(r"[A-Za-z0-9][A-Za-z0-9_.+-]*", re.ASCII)


def knob_name(name: str) -> str:
    """The name of a variable or a flag. Raises `Usage`."""
    if not (_FLAG_NAME if name.startswith("-") else _ENV_NAME).fullmatch(name):
        raise Usage(
            f"{name!r} is no name of a knob",
            hint="a variable such as `NCCL_DEBUG`, or a flag such as `--port`",
        )
    return name


def each_once(requests: Sequence[Request], masker: Masker) -> None:
    """One wish for each knob: of two, the first would be lost without a word. Raises `Usage`, naming both."""
    first: dict[str, Request] = {}
    for request in requests:
        if (other := first.setdefault(request.name, request)) is not request:
            both = " and ".join(_worded(one, masker) for one in (other, request))
            raise Usage(f"{request.name!r} is asked for twice: {both}", hint="name each knob once")


def _worded(request: Request, masker: Masker) -> str:
    if request.value is None:
        return repr(f"--unset {request.name}")
    return repr(f"{request.name}={masker.value(request.name, request.value)}")


def label(text: str) -> str:
    """A word for a backup's name, or nothing. Raises `Usage`."""
    if text and not _LABEL.fullmatch(text):
        raise Usage(
            f"label {text!r} can't be part of a file's name",
            hint="letters, digits, `_`, `.`, `+`, `-`",
        )
    return text


def window(text: str) -> int:
    """Whole seconds. Raises `Usage` for no duration, and for one in which nobody could confirm."""
    if not text:
        return 0
    from knobledger.moment import duration

    seconds = int(duration(text))
    if seconds < SHORTEST_WINDOW_S:
        raise Usage(
            f"--confirm-within {text!r} is shorter than {SHORTEST_WINDOW_S} s: nobody could look and confirm in it",
            hint="`--confirm-within 10m`",
        )
    return seconds
