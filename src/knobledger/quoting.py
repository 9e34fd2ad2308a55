"""The one function that quotes for a POSIX shell, for commands on hosts and for values in scripts."""

from __future__ import annotations

import re

_BARE = re.compile(r"[A-Za-z0-9_@%+=:,./-]+", re.ASCII)


def quote(text: str) -> str:
    """`text` as one word of a POSIX shell: bare where that is safe, else in single quotes.

    A single quote inside becomes `'\\''`; the empty string becomes `''`. Every byte but NUL survives.
    """
    if _BARE.fullmatch(text):
        return text
    return "'" + text.replace("'", "'\\''") + "'"


def command_line(argv: list[str] | tuple[str, ...]) -> str:
    """`argv` as a line that a person could type."""
    return " ".join(quote(word) for word in argv)
