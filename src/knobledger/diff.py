"""Unified differences that can be applied again, byte for byte. Pure."""

from __future__ import annotations

from difflib import unified_diff

NO_NEWLINE = "\\ No newline at end of file"


def unified(before: bytes, after: bytes, path: str) -> str:
    """The unified difference (three lines of context), empty if there is none.

    Lines end at LF only, so a CR stays visible at the end of its line; a missing last newline is marked as
    `diff -u` marks it. Bytes that are not UTF-8 become surrogate escapes.
    """
    name = path.lstrip("/")
    lines = unified_diff(_lines(before), _lines(after), f"a/{name}", f"b/{name}")
    out: list[str] = []
    for line in lines:
        out.append(line if line.endswith("\n") else f"{line}\n{NO_NEWLINE}\n")
    return "".join(out)


def changed_lines(diff: str) -> list[tuple[str, str]]:
    """The `+` and `-` lines of a unified difference, as (sign, text without line ending)."""
    body = diff.split("\n")[2:]
    return [(line[0], line[1:].removesuffix("\r")) for line in body if line[:1] in ("+", "-")]


def _lines(content: bytes) -> list[str]:
    text = content.decode("utf-8", "surrogateescape")
    parts = text.split("\n")
    return [part + "\n" for part in parts[:-1]] + ([parts[-1]] if parts[-1] else [])
