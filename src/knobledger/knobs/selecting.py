"""Which occurrence an edit is about: exactly one that decides for certain, or the one pointed at."""

from __future__ import annotations

import re

from knobledger.errors import KnobRefused
from knobledger.knobs.occurrence import Request, Scope
from knobledger.knobs.reading import Reading
from knobledger.knobs.site import Site

LISTED = 50
"""How many places a refusal names at most."""


def select(reading: Reading, request: Request, *, line: int | None, force: bool) -> Site:
    """The site to edit. Raises KnobRefused."""
    site = _pointed(reading, request, line) if line is not None else _decider(reading, request, force)
    for start, _, message in reading.faults:
        if start < site.statement[1] or site.file is not None or not reading.launches:
            raise refusal(
                reading,
                request,
                f"{request.name!r} stands where the file can't be read for certain: {message}",
            )
    pattern = re.compile(rb"(?:^|[\s;])" + re.escape(request.name.encode("utf-8", "surrogateescape")) + rb"=")
    for start, end, message in reading.faults:
        if not request.name.startswith("--") and pattern.search(reading.content, start, end):
            raise refusal(
                reading,
                request,
                f"{request.name!r} may be assigned again in text that can't be read: {message}",
            )
    return site


def _here(reading: Reading, name: str) -> list[Site]:
    return [site for site in reading.sites if site.name == name]


def _pointed(reading: Reading, request: Request, line: int) -> Site:
    found = [
        site
        for site in _here(reading, request.name)
        if site.file is None and line in (reading.line_of(site.span[0]), reading.line_of(site.whole[0]))
    ]
    active = [site for site in found if site.active]
    if not found:
        raise refusal(reading, request, f"{request.name!r} is not written on line {line}")
    if not active:
        raise refusal(reading, request, f"{request.name!r} is commented out on line {line}")
    if len(active) > 1:
        deciding = [site for site in active if site.wins_for]
        if len(deciding) != 1:
            raise refusal(reading, request, f"{request.name!r} is written {len(active)} times on line {line}")
        return deciding[0]
    return active[0]


def _decider(reading: Reading, request: Request, force: bool) -> Site:
    name = request.name
    written = _here(reading, name)
    active = [site for site in written if site.active]
    if not active:
        raise refusal(reading, request, f"there is no active knob {name!r} in this file")
    choices = [choice for names in reading.seen for choice in names.get(name, ())]
    deciders = list(dict.fromkeys(choice for choice in choices if choice is not None))
    if not deciders:
        raise refusal(reading, request, _unseen(reading, name, active))
    if len(deciders) > 1:
        raise refusal(reading, request, f"{name!r} is ambiguous: more than one place decides it")
    site = deciders[0]
    if site.file is not None:
        raise refusal(reading, request, f"{name!r} is decided in {site.file!r}")
    if force:
        return site
    if site.scope is Scope.HEREDOC:
        raise refusal(reading, request, f"{name!r} stands in a heredoc that another program reads")
    if None in choices or not _sure(reading, name, site):
        what = "in a function" if site.scope is Scope.FUNCTION else "under a condition"
        setter = reading.hidden.get(name, "")
        if None in choices and not site.path:
            what = f"elsewhere too: {setter}" if setter else "only on some ways to the launch"
        raise refusal(reading, request, f"{name!r} is decided {what}")
    if site.dynamic:
        raise refusal(reading, request, f"{name!r} is dynamic: {site.why_dynamic}")
    return site


def _sure(reading: Reading, name: str, site: Site) -> bool:
    """Whether every launch that sees the knob stands in the same arms and functions as the site."""
    paths = [insertion.path for insertion in reading.insertions] or [()]
    for index, names in enumerate(reading.seen):
        if name in names and index < len(paths) and not set(site.path) <= set(paths[index]):
            return False
    return True


def _unseen(reading: Reading, name: str, active: list[Site]) -> str:
    if all(site.file is not None for site in active):
        return f"there is no active knob {name!r} in this file, only in {active[0].file!r}"
    reasons = [site.lost for site in active if site.lost]
    scopes = {site.scope for site in active}
    if reasons:
        why = reasons[-1]
    elif scopes == {Scope.HEREDOC}:
        why = "it stands in a heredoc that belongs to another file"
    elif scopes == {Scope.FUNCTION}:
        why = "it stands in a function"
    elif scopes == {Scope.SUBSHELL}:
        why = "it is set in a subshell"
    else:
        why = reading.hidden.get(name, "") or "it is set after the launch, or not for it"
    return f"no launch sees {name!r}: {why}"


def refusal(reading: Reading, request: Request, message: str, hint: str = "") -> KnobRefused:
    """The error, with a line for each place where the knob is written and a hint of what to type."""
    written = _here(reading, request.name)
    lines = reading.content.split(b"\n")
    occurrences = []
    for site in written[:LISTED]:
        if site.file is None:
            number = reading.line_of(site.whole[0] if site.bare else site.span[0])
            text = lines[number - 1].decode("utf-8", "surrogateescape").strip()
        else:
            side = reading.sources[site.file]
            number = side.count(b"\n", 0, site.span[0]) + 1
            text = side.split(b"\n")[number - 1].decode("utf-8", "surrogateescape").strip()
        occurrences.append({"line": number, "text": text, "reason": _reason(reading, site)})
    active = [site for site in written if site.active and site.file is None]
    if active:
        line = reading.line_of(active[0].span[0])
        point = f"point at one place with --line N (such as --line {line})"
        return KnobRefused(message, hint=hint or point, occurrences=occurrences)
    error = KnobRefused(message, hint=hint or _absent(reading, request), occurrences=occurrences)
    error.absent = True
    return error


def _reason(reading: Reading, site: Site) -> str:
    if site.file is not None:
        return f"in {site.file}"
    if not site.active:
        return "commented out"
    if site.scope is Scope.HEREDOC:
        return "in a heredoc, for another program"
    reasons = []
    if site.scope is Scope.CONDITIONAL:
        reasons.append("under a condition")
    elif site.scope is Scope.FUNCTION:
        reasons.append("in a function")
    if site.dynamic:
        reasons.append(f"dynamic: {site.why_dynamic}")
    if site.lost:
        reasons.append(site.lost)
    elif any(site in names.get(site.name, ()) for names in reading.seen):
        reasons.append("may decide" if site.depends else "decides")
    elif not reasons:
        reasons.append(reading.hidden.get(site.name) or "overridden, or not seen by the launch")
    return "; ".join(reasons)


def _absent(reading: Reading, request: Request) -> str:
    near = _nearest(reading, request.name)
    if near:
        return f"did you mean {near}?"
    return "" if request.value is None else "type --add to add it before the launch"


def _nearest(reading: Reading, name: str) -> str:
    """The names of active knobs that are nearly `name`, at most three, the nearest first."""
    from difflib import get_close_matches

    names = {site.name for site in reading.sites if site.active} - {name}
    near = get_close_matches(name, sorted(names), cutoff=0.8)
    return " or ".join(repr(found) for found in near)
