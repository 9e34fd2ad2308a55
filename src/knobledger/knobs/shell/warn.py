"""What a reader of a script should know: text that does not do what it seems to."""

from __future__ import annotations

import re
from collections.abc import Iterator, Sequence

from knobledger.knobs.occurrence import Launch, Note, Scope
from knobledger.knobs.shell.registry import Registry
from knobledger.knobs.site import Choice, Site

_SPACE_AFTER_BACKSLASH = re.compile(r"(?<!\\)\\[ \t]+\r?$", re.MULTILINE)
_READ = re.compile(r"\$\{?[#!]?([A-Za-z_][A-Za-z0-9_]*)")
_WRITER = re.compile(r">>?[ \t]*(/etc/environment|/etc/profile[^\s;]*|~?/?\.(?:bashrc|profile|bash_profile))")


def warnings(
    text: str,
    registry: Registry,
    sites: Sequence[Site],
    seen: Sequence[dict[str, list[Choice]]],
    launches: Sequence[Launch],
) -> Iterator[Note]:
    """The notes of a shell file."""
    if text.startswith("\xef\xbb\xbf"):
        yield Note(1, "a byte order mark stands before line 1: bash takes that line for a command")
    for _, comment in registry.comments:
        if comment.cuts:
            line = registry.line_of(comment.start)
            yield Note(
                line,
                "this comment stands inside a continued command and ends it: what follows is another command",
            )
    for start in sorted({site.statement[0] for site in sites if _stands_alone(site)}):
        yield Note(
            registry.line_of(start),
            "a flag where a command should begin: the command above has ended before this line",
        )
    if "\\ " in text or "\\\t" in text:
        for match in _SPACE_AFTER_BACKSLASH.finditer(text):
            line = registry.line_of(match.start())
            yield Note(line, "a blank after the backslash: the next line is not part of the command")
    if "\r\n" in text:
        yield _carriage_returns(text, registry, sites)
    for match in _WRITER.finditer(text):
        yield Note(
            registry.line_of(match.start()), f"this writes {match.group(1)}, which other programs read"
        )
    for fault in registry.faults:
        yield Note(registry.line_of(fault.start), f"can't be read from here on: {fault.message}")
    yield from _losing(registry, sites, seen, launches)


def _stands_alone(site: Site) -> bool:
    """The flag is the first word of its command: the backslash of the line above is missing, or a blank line follows it."""
    return (
        site.name.startswith("-") and site.active and site.file is None and site.statement[0] == site.whole[0]
    )


def _carriage_returns(text: str, registry: Registry, sites: Sequence[Site]) -> Note:
    for site in sites:
        if site.active and site.value is not None and site.value.endswith("\r"):
            line = registry.line_of(site.span[0])
            return Note(line, "lines end in CR LF: the CR becomes part of the value here")
    return Note(
        registry.line_of(text.index("\r\n")),
        "lines end in CR LF: bash takes a CR for a character of its line",
    )


def _losing(
    registry: Registry,
    sites: Sequence[Site],
    seen: Sequence[dict[str, list[Choice]]],
    launches: Sequence[Launch],
) -> Iterator[Note]:
    deciders = {id(choice) for names in seen for choices in names.values() for choice in choices if choice}
    used = {*_READ.findall(registry.source.text), *registry.references}
    last: dict[str, int] = {}
    losers = []
    for site in sites:
        if site.file is not None:
            continue
        if id(site) in deciders:
            last[site.name] = max(site.span[0], last.get(site.name, 0))
        elif site.active and site.scope is not Scope.HEREDOC:
            losers.append(site)
    for site in losers:
        if site.name in last and site.scope in (Scope.EXPORT, Scope.SHELL, Scope.COMMAND):
            line = registry.line_of(site.span[0])
            yield Note(line, f"{site.name!r} is overridden on line {registry.line_of(last[site.name])}")
        elif launches and site.scope is Scope.SHELL and site.form == "assignment" and site.name not in used:
            line = registry.line_of(site.span[0])
            yield Note(line, f"{site.name!r} is set and never read: it is not exported")
