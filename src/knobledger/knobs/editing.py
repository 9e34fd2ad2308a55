"""Editing: one knob's value exchanged, taken out or added, and not one byte more."""

from __future__ import annotations

from collections.abc import Callable, Sequence

from knobledger.errors import KnobRefused
from knobledger.knobs.adding import addition
from knobledger.knobs.changed import edits_of
from knobledger.knobs.jsonkey import as_whole_value
from knobledger.knobs.occurrence import Dialect, Edited, Request
from knobledger.knobs.reading import Reading
from knobledger.knobs.removing import without
from knobledger.knobs.selecting import refusal, select
from knobledger.knobs.site import Site
from knobledger.knobs.slot import Unsayable, write
from knobledger.knobs.witness import objection

_BY_HAND = "write it by hand with knob edit"

SyntaxCheck = Callable[[bytes, Dialect], str]
"""Asks the shell itself (`bash -n`, `sh -n`) about a file's bytes; the complaint, or "" if it is content."""


def edit(
    reading: Reading,
    requests: Sequence[Request],
    *,
    add: bool = False,
    line: int | None = None,
    force: bool = False,
    check: SyntaxCheck | None = None,
) -> Edited:
    """Carry out `requests` one after the other, each on what the one before it left.

    `add` lets an absent knob be added, `line` points at one occurrence (by the line it has in `reading`), `force`
    takes a dynamic or conditional one. Nothing but the value's span changes, or the words of what is taken out or
    added. Asking for what is there already changes nothing. Raises KnobRefused; its `occurrences` list
    `{line, text, reason}` for each place where the knob is written.
    """
    current = reading
    warnings: list[str] = []
    for request in requests:
        current = _one(current, request, add, line, force, warnings)
    if check is not None and current.content != reading.content:
        _ask(check, reading, current, requests)
    if current.content == reading.content:
        return Edited(reading.content, (), tuple(warnings))
    names = (as_whole_value(reading, request).name for request in requests)
    return Edited(current.content, edits_of(reading, current, names), tuple(warnings))


def _one(
    reading: Reading, request: Request, add: bool, line: int | None, force: bool, warnings: list[str]
) -> Reading:
    request = as_whole_value(reading, request)
    if add and request.value is not None and not _active(reading, request.name):
        return _added(reading, request)
    site = select(reading, request, line=line, force=force)
    if site.overridable:
        warnings.append(f"{request.name!r} is a default here: the environment or an argument may replace it")
    if site.active and site.depends:
        warnings.append(f"{request.name!r} hangs on a condition, a call or another program")
    if request.value is None:
        after = _removed(reading, request, site, pointed=line is not None or force)
    else:
        after = _replaced(reading, request, site, request.value)
    if reading.dialect in (Dialect.BASH, Dialect.SH, Dialect.ENV) and after is not reading and not force:
        complaint = objection(reading.content, after.content, site)
        if complaint:
            raise refusal(reading, request, complaint, "type --force if the lines are as they should be")
    return after


def _active(reading: Reading, name: str) -> bool:
    return any(site.active and site.name == name for site in reading.sites)


def _again(reading: Reading, content: bytes) -> Reading:
    launch = reading.launches[reading.picked].line if reading.launches and reading.picked else None
    return Reading.of(content, reading.dialect, sources=reading.sources, launch=launch)


def _replaced(reading: Reading, request: Request, site: Site, value: str) -> Reading:
    content = reading.content
    start, end = site.span
    wanted = value
    if content[end : end + 2] in (b"\r\n", b"\r") and site.slot.style != "literal":
        # The line's own CR is part of what the shell passes on, and stays.
        value, wanted = value.removesuffix("\r"), value.removesuffix("\r") + "\r"
    if not site.dynamic and not site.bare and site.value in (value, wanted):
        return reading
    try:
        text = write(site.slot, value)
    except Unsayable as why:
        raise refusal(
            reading,
            request,
            f"this value of {request.name!r} can't be written there: {why}",
            _BY_HAND if site.slot.outer == "lost" else "",
        ) from None
    edited = content[:start] + text.encode("utf-8", "surrogateescape") + content[end:]
    after = _again(reading, edited)
    _hold(reading, after, request, site)
    found = _twin(after, site)
    if found is None or found.value not in (value, wanted):
        raise refusal(reading, request, f"this value of {request.name!r} can't be said there")
    return after


def _twin(after: Reading, site: Site) -> Site | None:
    """The site in the new reading that stands where `site` stood."""
    for found in after.sites:
        if found.name == site.name and found.file == site.file and found.whole[0] == site.whole[0]:
            return found
    return None


def _told(site: Site, inside: tuple[int, int]) -> tuple[object, ...] | None:
    """What must stay the same of a site; None for one that holds the edited span, or lies in it."""
    start, end = site.span
    if site.file is None and (
        (site.span[0] <= inside[0] and inside[1] <= site.span[1]) or (inside[0] <= start and end <= inside[1])
    ):
        return None
    return (site.name, site.value, site.active, site.scope, site.form, site.dynamic, site.bare, site.file)


def _hold(reading: Reading, after: Reading, request: Request, site: Site) -> None:
    """The gate: all other occurrences, and the launches, are as before. Raises KnobRefused."""
    growth = len(after.content) - len(reading.content)
    old_span = site.span
    new_span = (site.span[0], site.span[1] + growth)
    before = [told for found in reading.sites if (told := _told(found, old_span)) is not None]
    now = [told for found in after.sites if (told := _told(found, new_span)) is not None]
    if before != now or len(after.faults) > len(reading.faults):
        raise refusal(
            reading, request, f"writing {request.name!r} there would change how the rest of the file is read"
        )
    if [launch.command for launch in reading.launches] != [launch.command for launch in after.launches]:
        raise refusal(reading, request, f"writing {request.name!r} there would change what is launched")


def _removed(reading: Reading, request: Request, site: Site, *, pointed: bool) -> Reading:
    content = without(reading.content, site, reading.dialect)
    if content is None:
        raise refusal(reading, request, f"{request.name!r} can't be taken out of the text around it")
    after = _again(reading, content)
    if len(after.faults) > len(reading.faults) and site.alone and site.path:
        # The only command of an arm or a function: one that does nothing takes its place.
        first, last = site.statement
        after = _again(reading, reading.content[:first] + b":" + reading.content[last:])
    inside = site.whole
    gone = [
        told for found in reading.sites if found is not site and (told := _told(found, inside)) is not None
    ]
    holds = [found for found in reading.sites if found is not site and _told(found, inside) is None]
    names = {found.name for found in holds}
    gone = [told for told in gone if told[0] not in names]
    now = [
        told
        for found in after.sites
        if (told := _told(found, (-1, -1))) is not None and found.name not in names
    ]
    if gone != now or len(after.faults) > len(reading.faults):
        raise refusal(
            reading, request, f"taking out {request.name!r} would change how the rest of the file is read"
        )
    if not pointed:
        for names_seen in after.seen:
            choices = names_seen.get(request.name, ())
            left = [choice for choice in choices if choice is not None]
            if choices and not left:
                giver = after.hidden.get(request.name) or "something gives it another value"
                raise refusal(reading, request, f"{request.name!r} would not be gone: {giver}")
            if left:
                where = after.line_of(left[0].span[0]) if left[0].file is None else left[0].file
                raise refusal(
                    reading,
                    request,
                    f"{request.name!r} is written more than once: line {where} would then decide",
                )
    return after


def _added(reading: Reading, request: Request) -> Reading:
    assert request.value is not None
    content = addition(reading, request.name, request.value)
    if content is None:
        raise refusal(reading, request, f"there is no place where {request.name!r} could be added", _BY_HAND)
    after = _again(reading, content)
    nowhere = (-1, -1)
    known = [told for site in reading.sites if (told := _told(site, nowhere)) is not None]
    now = [
        told
        for site in after.sites
        if (site.name != request.name or not site.active) and (told := _told(site, nowhere)) is not None
    ]
    decided = after.decided().get(request.name)
    wanted = (
        (request.value, request.value + "\r")
        if request.value or not request.name.startswith("--")
        else (None, "")
    )
    holders = {told[0] for told in known if told not in now}
    if (
        [told for told in known if told[0] not in holders] != [told for told in now if told[0] not in holders]
        or len(after.faults) > len(reading.faults)
        or decided is None
        or decided.value not in wanted
    ):
        raise refusal(
            reading, request, f"{request.name!r} can't be added where the launch would see it", _BY_HAND
        )
    return after


def _ask(check: SyntaxCheck, before: Reading, after: Reading, requests: Sequence[Request]) -> None:
    complaint = check(after.content, after.dialect)
    if complaint and complaint != check(before.content, before.dialect):
        names = ", ".join(repr(request.name) for request in requests)
        raise KnobRefused(
            f"the shell would complain after the edit of {names}: {complaint.strip()}",
            hint="nothing was written; look at the lines it names",
            occurrences=[],
        )
