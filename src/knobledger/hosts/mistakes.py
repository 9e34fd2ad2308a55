"""Mistakes in `hosts.toml`, worded so that they can be mended: the place, the value, the nearest known name."""

from __future__ import annotations

import difflib
import re
import tomllib
from collections.abc import Iterable, Sequence

from knobledger.errors import BadConfig
from knobledger.hosts.sections import HEALTH_KINDS, model_at

FILE_NAME = "hosts.toml"


def nearest(name: str, known: Iterable[str]) -> str:
    """The nearest known name as a question, or nothing."""
    near = difflib.get_close_matches(name, list(known), n=1, cutoff=0.5)
    return f"; did you mean {near[0]!r}?" if near else ""


def bad(problems: list[str]) -> BadConfig:
    """One error for all that is wrong with the file."""
    return BadConfig("; ".join(dict.fromkeys(problems)), hint=f"edit {FILE_NAME}", problems=problems)


def syntax_error(text: str, error: tomllib.TOMLDecodeError) -> BadConfig:
    """TOML that can't be read, with its line."""
    message = str(error)
    found = re.search(r"\s*\(at line (\d+), column (\d+)\)", message)
    # "at end of document" carries no line: it is the last one.
    line = int(found[1]) if found else max(1, len(text.splitlines()))
    reason = (message[: found.start()] if found else message).rstrip()
    reason = reason[:1].lower() + reason[1:]
    return BadConfig(
        f"{FILE_NAME}, line {line}: {reason}", hint=f"edit {FILE_NAME} at line {line}", line=line
    )


def problem(place: tuple[str | int, ...], kind: str, message: str, data: object) -> str:
    """What pydantic found, in the words of the file: the place, the value, the nearest known key."""
    # The tag that pydantic puts after a health entry's number stands nowhere in the file.
    parts = [
        part
        for index, part in enumerate(place)
        if not (part in HEALTH_KINDS and index > 0 and isinstance(place[index - 1], int))
    ]
    shown = ".".join(str(part) for part in parts)
    if kind == "extra_forbidden":
        model = model_at(place[:-1])
        known = list(model.model_fields) if model is not None else []
        return f"{FILE_NAME}: unknown key {shown!r}{nearest(str(place[-1]), known)}"
    message = message.removeprefix("Value error, ")
    value = _at(parts, data)
    if not isinstance(value, (dict, list)) and value is not None and repr(value) not in message:
        message = f"{message}, not {value!r}"
    return f"{FILE_NAME}: {shown or 'the file'}: {message[:1].lower()}{message[1:]}"


def _at(place: Sequence[str | int], data: object) -> object:
    for part in place:
        match data, part:
            case dict(), _ if part in data:
                data = data[part]
            case list(), int():
                data = data[part] if part < len(data) else None
            case _:
                return None
    return data
