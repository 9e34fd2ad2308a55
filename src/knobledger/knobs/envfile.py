"""Environment files that no shell reads: docker's `--env-file`, and systemd's `EnvironmentFile=`.

What docker does is in its `opts/envfile` package, what systemd does in `src/basic/env-file.c`.
"""

from __future__ import annotations

import re

from msgspec import Struct

from knobledger.knobs.occurrence import Dialect, Note, Scope
from knobledger.knobs.shell.source import Source, decode
from knobledger.knobs.site import Site
from knobledger.knobs.slot import Slot, Style

_LINE = re.compile(r"[^\n]*\n?")
_DOCKER = re.compile(r"[ \t\r\f\v]*([^=\s#][^=\s]*)=")
_NAME = re.compile(r"[A-Za-z_][A-Za-z0-9_]*")
_COMMENTED = re.compile(r"[#; \t]*(?:export[ \t]+)?([A-Za-z_][A-Za-z0-9_]*)=")


class Found(Struct, frozen=True):
    """What a reader of whole files found: the sites in the order of the text, and who wins."""

    sites: tuple[Site, ...]
    winners: dict[str, Site]
    notes: tuple[Note, ...] = ()


def read_docker(text: str, file: str | None = None) -> Found:
    """A file for `docker run --env-file`, as Latin-1. Values are all that stands behind `=`."""
    sites: list[Site] = []
    for match in _LINE.finditer(text):
        line = match.group().removesuffix("\n").removesuffix("\r")
        start = match.start()
        if line.lstrip().startswith("#"):
            sites.extend(_commented(line, start, match.end(), file, Slot("literal")))
            continue
        found = _DOCKER.match(line)
        if found:
            span = (start + found.end(), start + len(line))
            slot = Slot("literal")
            sites.append(_site(found.group(1), line[found.end() :], span, (start, match.end()), slot, file))
    return Found(tuple(sites), {site.name: site for site in sites if site.active})


def read_systemd(text: str, file: str | None = None) -> Found:
    """A file for `EnvironmentFile=`, as Latin-1: a small state machine over its characters, as in systemd."""
    sites: list[Site] = []
    notes: list[Note] = []
    at, size = 0, len(text)
    while at < size:
        begin = at
        at = _skip_blank(text, at)
        if at >= size:
            break
        if text[at] in "#;":
            end = _comment_end(text, at)
            line_end = text.find("\n", at)
            line_end = size if line_end < 0 else line_end
            sites.extend(_commented(text[begin:line_end], begin, end, file, Slot("none")))
            if end - 1 > line_end:
                line = text.count("\n", 0, begin) + 1
                notes.append(
                    Note(
                        line, "this comment ends in a backslash: systemd takes the next line for a part of it"
                    )
                )
            at = end
            continue
        equals = _key_end(text, at)
        if equals < 0:
            following = text.find("\n", at)
            at = size if following < 0 else following + 1
            continue
        key = text[at:equals].strip(" \t\r\n")
        value, span, style, at = _systemd_value(text, equals + 1)
        if _NAME.fullmatch(key):
            sites.append(_site(key, value, span, (begin, at), Slot(style), file))
        elif key.startswith("export"):
            line = text.count("\n", 0, begin) + 1
            notes.append(Note(line, "systemd does not read a line with export"))
    return Found(tuple(sites), {site.name: site for site in sites if site.active}, tuple(notes))


def _skip_blank(text: str, at: int) -> int:
    while at < len(text) and text[at] in " \t\r\n":
        at += 1
    return at


def _comment_end(text: str, at: int) -> int:
    while True:
        end = text.find("\n", at)
        if end < 0:
            return len(text)
        if not text[at:end].removesuffix("\r").endswith("\\"):
            return end + 1
        at = end + 1


def _key_end(text: str, at: int) -> int:
    """Where the `=` of this line is, or -1."""
    end = text.find("\n", at)
    return text.find("=", at, len(text) if end < 0 else end)


def _systemd_value(text: str, at: int) -> tuple[str, tuple[int, int], Style, int]:
    """The value behind `=`, its span, its style, and where the next line begins."""
    size = len(text)
    while at < size and text[at] in " \t":
        at += 1
    start = end = at
    out: list[str] = []
    kept = 0
    """how much of `out` is there for certain: blanks at the end are dropped"""
    quotes = 0
    style: Style = "systemd"
    while at < size:
        char = text[at]
        if char in "\n\r" and (char == "\n" or text[at : at + 2] == "\r\n" or at + 1 == size):
            break
        if char in "'\"" and (not out or quotes):
            close = _quote_end(text, at, out)
            quotes += 1
            style = "systemd-single" if char == "'" else "systemd-double"
            if quotes > 1:
                style = "systemd"
            at = end = close
            kept = len(out)
            continue
        if char == "\\":
            following = text[at + 1 : at + 2]
            if following and following != "\n":
                out.append(following)
            at += 2
            end, kept = min(at, size), len(out)
            continue
        out.append(char)
        at += 1
        if char not in " \t":
            end, kept = at, len(out)
            if quotes:
                style = "systemd"
    newline = text.find("\n", at)
    return "".join(out[:kept]), (start, end), style, size if newline < 0 else newline + 1


def _quote_end(text: str, at: int, out: list[str]) -> int:
    """Read a quoted stretch into `out`; behind its closing quote."""
    quote, at = text[at], at + 1
    while at < len(text) and text[at] != quote:
        if text[at] == "\\" and quote == '"' and at + 1 < len(text):
            following = text[at + 1]
            if following in '"\\`$':
                out.append(following)
            elif following != "\n":
                out.append("\\" + following)
            at += 2
            continue
        out.append(text[at])
        at += 1
    return min(at + 1, len(text))


def _commented(line: str, start: int, end: int, file: str | None, slot: Slot) -> list[Site]:
    match = _COMMENTED.match(line)
    if not match:
        return []
    text = line[match.end() :].rstrip(" \t\r")
    span = (start + match.end(), start + match.end() + len(text))
    site = _site(match.group(1), text, span, (start, end), slot, file)
    site.active, site.scope, site.form = False, Scope.COMMENT, "comment"
    return [site]


def _site(
    name: str, value: str, span: tuple[int, int], line: tuple[int, int], slot: Slot, file: str | None
) -> Site:
    return Site(
        decode(name), "env", decode(value), span, line, slot, Scope.EXPORT, "assignment", line, file=file
    )


def read_env(content: bytes, dialect: Dialect, file: str | None = None) -> Found:
    """A file of one of the two dialects."""
    text = content.decode("latin-1")
    return read_systemd(text, file) if dialect is Dialect.ENV_SYSTEMD else read_docker(text, file)


__all__ = ["Found", "Source", "read_docker", "read_env", "read_systemd"]
