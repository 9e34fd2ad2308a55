"""Taking a knob's words out of a file."""

from __future__ import annotations

import re

from knobledger.knobs.occurrence import Dialect
from knobledger.knobs.site import Site

_LEFT_OVER = re.compile(
    rb"[ \t\r]*(?:(?:export|declare|typeset|readonly|local)(?:[ \t]+-[A-Za-z]+)*[ \t\r]*)?\\?\r?\n?"
)
_UNIT_LEFT_OVER = re.compile(rb"[ \t\r]*(?:Environment[ \t]*=)?[ \t\r]*\\?\r?\n?")
_CONTINUED = re.compile(rb"[ \t]*\\\r?\n\Z")
_BLANK = b" \t"


def without(content: bytes, site: Site, dialect: Dialect) -> bytes | None:
    """`content` without the knob; None if its words can't be parted from their surroundings.

    The blanks before the words go too (those behind, for the first word of a command). A line left with nothing but
    blanks, `export` or a backslash goes whole, and if it ended a continued command, so does the backslash before it.
    """
    if dialect in (Dialect.ENV_DOCKER, Dialect.ENV_SYSTEMD):
        return content[: site.whole[0]] + content[site.whole[1] :]
    if site.slot.comma:
        return _listed(content, site)
    start, end = site.whole
    before = content[start - 1 : start]
    if site.head or before not in (b" ", b"\t"):
        if site.head or content[end : end + 1] in (b" ", b"\t"):
            while content[end : end + 1] and content[end : end + 1] in _BLANK:
                end += 1
    else:
        while start and content[start - 1 : start] in (b" ", b"\t"):
            start -= 1
    if site.alone and dialect is not Dialect.UNIT:
        whole = _statement(content, site)
        if whole is not None:
            start, end = whole
            if start == end:
                # Something must stand there: a name less `export` would list the whole environment.
                first, last = site.statement
                return content[:first] + b":" + content[last:]
    return _close_up(content, start, end, dialect)


def _listed(content: bytes, site: Site) -> bytes | None:
    """One `,NAME=value` of an `--export=` list."""
    name = site.name.encode("utf-8", "surrogateescape") + b"="
    start = site.span[0] - len(name)
    if content[start : site.span[0]] != name:
        return None
    if content[start - 1 : start] == b",":
        return content[: start - 1] + content[site.span[1] :]
    if content[site.span[1] : site.span[1] + 1] == b",":
        return content[:start] + content[site.span[1] + 1 :]
    return None


def _statement(content: bytes, site: Site) -> tuple[int, int] | None:
    """The whole statement with its separator, if it would be left empty beside other text on its line."""
    first, last = site.statement
    line = content.rfind(b"\n", 0, first) + 1
    stop = content.find(b"\n", last)
    stop = len(content) if stop < 0 else stop
    beside = content[line:first].strip(_BLANK), content[last:stop].strip(b" \t\r")
    if beside == (b"", b""):
        return None
    tail = re.compile(rb"[ \t]*;(?![;&])[ \t]*").match(content, last)
    if tail:
        return first, tail.end()
    if beside[1].startswith(b"#") and not beside[0]:
        blanks = re.compile(rb"[ \t]*").match(content, last)
        return first, blanks.end() if blanks else last
    lead = re.compile(rb"[ \t]*;[ \t]*\Z").search(content, line, first)
    if lead and (not beside[1] or beside[1].startswith(b"#")):
        return lead.start(), last
    return first, first


def _close_up(content: bytes, start: int, end: int, dialect: Dialect) -> bytes:
    """Cut `start` to `end`; if nothing is left on the lines, cut them whole."""
    first = content.rfind(b"\n", 0, start) + 1
    stop = content.find(b"\n", end)
    stop = len(content) if stop < 0 else stop + 1
    left = content[first:start] + content[end:stop]
    pattern = _UNIT_LEFT_OVER if dialect is Dialect.UNIT else _LEFT_OVER
    if not pattern.fullmatch(left):
        return content[:start] + content[end:]
    head, tail = content[:first], content[stop:]
    continued = content[:first].endswith((b"\\\n", b"\\\r\n"))
    if continued and not left.rstrip(b"\r\n").endswith(b"\\"):
        # The last line of a continued command: the line before it must not continue any more.
        newline = b"\r\n" if head.endswith(b"\r\n") else b"\n"
        head = _CONTINUED.sub(lambda _: newline if left.endswith(b"\n") or not tail else b"", head)
        if not left.endswith(b"\n"):
            head = head.removesuffix(newline)
    return head + tail
