"""Commented-out knobs: text behind a `#` that reads as an assignment, a flag, or a command with these."""

from __future__ import annotations

import re
from collections.abc import Set

from knobledger.knobs.occurrence import Scope
from knobledger.knobs.shell.flags import flags_of
from knobledger.knobs.shell.parse import parse
from knobledger.knobs.shell.simple import DECLARERS
from knobledger.knobs.shell.source import Source, decode
from knobledger.knobs.shell.state import Arg
from knobledger.knobs.shell.syntax import Assignment, Simple, Word
from knobledger.knobs.shell.values import Value, literal_text, slot_of, value_of
from knobledger.knobs.shell.wrappers import unwrap
from knobledger.knobs.site import Site
from knobledger.knobs.slot import Slot

_MAYBE = re.compile(r"[A-Za-z_][A-Za-z0-9_]*=|--[A-Za-z]")
_LEAD = re.compile(r"[# \t]*")
_COMMAND = re.compile(r"[\w@%+.,:/$\"'{}-]+")
_SETTING = re.compile(r"(?:export[ \t]+)?([A-Za-z_][A-Za-z0-9_]*)=([^ \t\r\n\\'\"`$;&|<>()~{*?]++)")
_LOST = Slot("bare", outer="lost")
_LONG = 2_000
"""A longer comment is prose or hostile; bytes."""


def commented(source: Source, start: int, end: int, programs: Set[str]) -> list[Site]:
    """The sites of the comment `source.text[start:end]`. `programs` are the names of the file's launches."""
    if end - start > _LONG or not _MAYBE.search(source.text, start, end):
        return []
    lead = _LEAD.match(source.text, start, end)
    begin = lead.end() if lead else start
    if source.starts is None and (setting := _SETTING.fullmatch(source.text, begin, end)):
        return [_setting(setting, source.file)]
    inner = source.part(begin, end)
    body = inner.text.rstrip("\\ \t\r")
    if not body:
        return []
    script = parse(Source(body, inner.starts, inner.ends, ((0, "lost"),), inner.file))
    sites: list[Site] = []
    for statement in script.body:
        for pipeline in statement.pipelines:
            for command in pipeline.commands:
                if isinstance(command, Simple):
                    sites.extend(_of(command, programs))
    return sites


def _setting(match: re.Match[str], file: str | None) -> Site:
    """The site of a comment that is one assignment of plain text: what the general way would make of it."""
    whole = match.start(1), match.end()
    return Site(
        match[1],
        "env",
        decode(match[2]),
        match.span(2),
        whole,
        _LOST,
        Scope.COMMENT,
        "comment",
        whole,
        active=False,
        file=file,
    )


def _of(command: Simple, programs: Set[str]) -> list[Site]:
    sites = [_assigned(assignment) for assignment in command.assignments if assignment.array is None]
    words = [word for word in command.words if isinstance(word, Word)]
    if not command.words:
        return sites
    first = literal_text(words[0]) if words else None
    if first in DECLARERS:
        for item in command.words[1:]:
            if isinstance(item, Assignment) and item.array is None:
                sites.append(_assigned(item))
        return sites
    args = [Arg(word) for word in words]
    unwrapped = unwrap(args)
    for setting in unwrapped.settings:
        word = setting.arg.word
        if word is not None and setting.stop is None:
            value = value_of(word, setting.skip, assignment=False, expands_braces=True)
            sites.append(_site(setting.name, word, value, word.start))
    if not first or not (
        first.startswith("--")
        or command.assignments
        or unwrapped.wrappers
        or first.rpartition("/")[2] in programs
        or ("/" in first and _COMMAND.fullmatch(first))
        or first in ("python", "python3", "vllm", "sglang")
    ):
        return sites
    for flag in flags_of(unwrapped.args):
        written = flag.value
        sites.append(
            Site(
                flag.name,
                "flag",
                None if written is None else written.text,
                flag.span,
                flag.whole,
                flag.slot,
                Scope.COMMENT,
                "comment",
                flag.whole,
                active=False,
                dynamic=written is not None and written.text is None,
                bare=written is None,
                file=flag.file,
            )
        )
    return sites


def _assigned(assignment: Assignment) -> Site:
    value = value_of(assignment.value, assignment=True, expands_braces=False)
    return _site(assignment.name, assignment.value, value, assignment.start)


def _site(name: str, word: Word, value: Value, start: int) -> Site:
    source = word.source
    whole = source.span(start, word.end)
    return Site(
        name,
        "env",
        value.text,
        source.span(value.start, value.end),
        whole,
        slot_of(source, value),
        Scope.COMMENT,
        "comment",
        whole,
        active=False,
        dynamic=value.text is None,
        overridable=value.overridable,
        file=source.file,
    )
