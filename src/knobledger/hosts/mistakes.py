"""Mistakes in `hosts.toml`, worded so that they can be mended: the place, the value, the nearest known name."""

from __future__ import annotations

import ast
import difflib
import re
import tomllib
from collections.abc import Iterable

from knobledger.errors import BadConfig

FILE_NAME = "hosts.toml"
_NAMES = re.compile(r"""\(['"][^()]*['"],?\)""")
"""how the parser writes the name of a table: as a tuple of Python"""


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
    line = int(found[1]) if found else max(1, text.rstrip("\n").count("\n") + 1)
    reason = (message[: found.start()] if found else message).rstrip()
    reason = reason[:1].lower() + reason[1:]
    # The parser looks whether the name is taken before it looks for the bracket behind it.
    header = re.fullmatch(r"\s*\[[^\]#]*(#.*)?", text.split("\n")[line - 1].rstrip())
    reason = "']' is missing at the end of the table's name" if header else _NAMES.sub(_dotted, reason)
    return _at(line, reason)


def no_text(error: UnicodeDecodeError) -> BadConfig:
    """Bytes that are no UTF-8, with their line."""
    before = error.object[: error.start]
    found = error.object[error.start : error.end]
    return _at(
        before.count(b"\n") + 1, f"byte {found[:1].hex()} is no UTF-8: {error.reason}", "; save it as UTF-8"
    )


def _at(line: int, reason: str, more: str = "") -> BadConfig:
    return BadConfig(
        f"{FILE_NAME}, line {line}: {reason}", hint=f"edit {FILE_NAME} at line {line}{more}", line=line
    )


def _dotted(found: re.Match[str]) -> str:
    return f"[{'.'.join(ast.literal_eval(found[0]))}]"
