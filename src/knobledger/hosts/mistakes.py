"""Mistakes in `hosts.toml`, worded so that they can be mended: the place, the value, the nearest known name."""

from __future__ import annotations

import difflib
import re
import tomllib
from collections.abc import Iterable

from knobledger.errors import BadConfig

FILE_NAME = "hosts.toml"


def nearest(name: str, known: Iterable[str]) -> str:
    """The nearest known name as a question, or nothing."""
    near = difflib.get_close_matches(name, list(known), n=1, cutoff=0.5)
    return f"; did you mean {near[0]!r}?" if near else ""


def bad(problems: list[str]) -> BadConfig:
    """One error for all that is wrong with the file."""
    problems = [f"{FILE_NAME}: {one}" for one in problems]
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
