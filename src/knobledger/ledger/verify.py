"""What can be proved about a ledger from its own bytes, its git history and its snapshots.

Every event file is read and hashed; every reference is followed. What can't be seen from here is
said by `TAIL_NOTE`.
"""

from __future__ import annotations

import json
import re
from collections.abc import Iterator
from pathlib import Path
from typing import Any, get_args

import rfc8785
from msgspec import Struct, field

from knobledger.errors import LedgerBroken
from knobledger.event import decode, id_of, moment_of
from knobledger.ledger.days import Day, day_of, event_id
from knobledger.ledger.finding import Finding, FindingKind
from knobledger.ledger.snapshots import Snapshots
from knobledger.ledger.store import Ledger
from knobledger.ledger.verify_git import git_findings
from knobledger.names import EventId, short

TAIL_NOTE = (
    "not visible from here: the newest events, if they were removed together with their git commits; "
    "only a second copy (another clone, a remote, a replica) shows a cut-off tail"
)

CLOCK_SLACK_S = 60.0
"""An event says when it was made, which is before it is written, so two commands at once may cross
by a few seconds; more than this is worth a look."""

_REFERENCES: dict[str, tuple[str, ...]] = {
    "plan": ("planned",),
    "attempt": ("started",),
    "undoes": ("planned", "observed"),
    "about": (),
    "chain": ("restart_started",),
    "resumes": ("restart_started",),
    "change": ("planned",),
    "rests_on": (),
    "supersedes": (),
    "verdict": ("verdict_given",),
}
"""The fields that hold an event's id or a list of them, and the kinds of event that it may be (empty: any)."""


_ODD_NUMBER = re.compile(rb'(?:":|[,\[])-?(?:\d{16}|\d+[.eE]|NaN|Inf)')
"""What may be a number that RFC 8785 writes in its own way, or refuses."""


class _Seen(Struct):
    """What one pass over the files leaves for the questions between events."""

    findings: list[Finding] = field(default_factory=list)
    at: dict[EventId, str] = field(default_factory=dict)
    """the moment of each intact event"""
    kind: dict[EventId, str] = field(default_factory=dict)
    odd: dict[EventId, EventId] = field(default_factory=dict)
    """files whose bytes have another digest: the id in the name to the id of the bytes"""
    spoilt: set[EventId] = field(default_factory=set)
    """the names of files that are there, and no events any more"""
    references: list[tuple[EventId, str, EventId]] = field(default_factory=list)
    """(event, field, the id in it); parents too"""
    places: set[str] = field(default_factory=set)
    """the paths below `ledger/events/` where there is a file"""

    def note(self, kind: FindingKind, event: str, message: str) -> None:
        self.findings.append(Finding(kind, event, message))


def verify(ledger: Ledger) -> tuple[Finding, ...]:
    """Everything that is wrong or odd, damage first; empty if all is well. Writes nothing."""
    seen = _Seen()
    for path in sorted(_files(ledger.folder)):
        _look(seen, ledger.folder, path)
    _follow(seen)
    _name_odd(seen)
    _find_inserted(seen)
    for digest in Snapshots(ledger.root).damaged():
        seen.note("snapshot", digest, f"the snapshot {short(digest)} does not hold the bytes of its name")
    seen.findings.extend(git_findings(ledger.root, seen.places))
    order = {kind: n for n, kind in enumerate(get_args(FindingKind))}
    return tuple(sorted(set(seen.findings), key=lambda one: (order[one.kind], one.event, one.message)))


def _files(folder: Path) -> Iterator[Path]:
    """Everything below the folder but folders and unfinished files, which `tidy` takes care of."""
    for path in folder.rglob("*"):
        unfinished = path.name.startswith(".") and path.name.endswith(".tmp")
        if not unfinished and (path.is_symlink() or not path.is_dir()):
            yield path


def _look(seen: _Seen, folder: Path, path: Path) -> None:
    """One file on its own."""
    place = path.relative_to(folder).as_posix()
    named = event_id(path.name)
    try:
        content = path.read_bytes() if path.is_file() and not path.is_symlink() else None
    except OSError as e:
        seen.note("unreadable", named or place, f"{place} can't be read: {(e.strerror or str(e)).lower()}")
        return
    if content is None:
        seen.note("stray", place, f"{place} is not a regular file")
        return
    id_ = id_of(content)
    seen.places.add(place)
    try:
        raw, event = _parsed(content)
    except LedgerBroken as e:
        if named is None:
            seen.note("stray", place, f"{place} is not an event")
            return
        seen.spoilt.add(named)
        if named == id_:
            seen.note("unreadable", id_, f"{place} has the right bytes, but is {e.message}")
        else:
            seen.note("edited", named, f"{place} was edited or cut short: its bytes hash to {short(id_)}")
        return
    if named is None:
        seen.note("misnamed", id_, f"{place} holds the event {short(id_)} under another name")
        return
    if named != id_:
        seen.odd[named] = id_
        return
    if not canonical(raw, content):
        seen.note("not_canonical", id_, f"{place} is not written as canonical JSON (RFC 8785)")
    if place != f"{event}/{path.name}":
        seen.note("misplaced", id_, f"{place} belongs to the folder {event}")
    seen.at[id_], seen.kind[id_] = raw["at"], raw["kind"]
    for parent in raw["parents"]:
        seen.references.append((id_, "parents", parent))
    for name in _REFERENCES:
        found = raw.get(name)
        for other in found if isinstance(found, list) else [found]:
            if isinstance(other, str):
                seen.references.append((id_, name, EventId(other)))


def _parsed(content: bytes) -> tuple[dict[str, Any], Day]:
    """The event's JSON and its day. Raises `LedgerBroken` if it is not an event."""
    try:
        event = decode(content)
        return json.loads(content), day_of(event.at)
    except (ValueError, RecursionError) as e:
        raise LedgerBroken(f"not an event: {e}") from e


def canonical(raw: dict[str, Any], content: bytes) -> bool:
    """Whether the bytes are the RFC 8785 form of the JSON in them."""
    if content.isascii() and not _ODD_NUMBER.search(content):
        # for such text the standard library writes the same form, at a sixth of the time
        return json.dumps(raw, sort_keys=True, separators=(",", ":"), ensure_ascii=False).encode() == content
    try:
        return rfc8785.dumps(raw) == content
    except rfc8785.CanonicalizationError:
        return False


def _follow(seen: _Seen) -> None:
    """What events say about each other."""
    missing: dict[EventId, list[str]] = {}
    for id_, name, other in seen.references:
        if other not in seen.at:
            missing.setdefault(other, []).append(f"{short(id_)} ({name})")
            continue
        wanted = _REFERENCES.get(name)
        if wanted and seen.kind[other] not in wanted:
            seen.note(
                "wrong_reference",
                id_,
                f"{short(id_)} names {short(other)} as its {name}, but that is {seen.kind[other]!r}",
            )
        if name == "parents" and seen.at[other] > seen.at[id_] and _apart_s(seen, id_, other) > CLOCK_SLACK_S:
            seen.note(
                "warning_clock",
                id_,
                f"{short(id_)} ({seen.at[id_]}) is older than its parent {short(other)} ({seen.at[other]}): "
                "a clock was wrong, or the order was tampered with",
            )
    for other, by in missing.items():
        if other not in seen.odd and other not in seen.spoilt:
            more = f" and {len(by) - 3} more" if len(by) > 3 else ""
            seen.note(
                "missing", other, f"the event {short(other)} is gone: named by {', '.join(by[:3])}{more}"
            )


def _find_inserted(seen: _Seen) -> None:
    """Events that nobody who wrote later knew of: of another clone, or put in afterwards under an old date.

    Each event names all heads that its writer knew. Where events are damaged or gone, that says nothing.
    """
    if seen.findings or seen.odd:
        return
    parents = {other for _, name, other in seen.references if name == "parents"}
    heads = sorted((seen.at[id_], id_) for id_ in seen.at if id_ not in parents)
    for at, id_ in heads[:-1]:
        later = sum(1 for other in seen.at.values() if other > at)
        if _apart_s(seen, id_, heads[-1][1]) > CLOCK_SLACK_S:
            seen.note(
                "warning_inserted",
                id_,
                f"{short(id_)} is dated {at}, and none of the {later} later events knows of it: it came from another "
                "clone, or was put in afterwards",
            )


def _apart_s(seen: _Seen, earlier: EventId, later: EventId) -> float:
    return (moment_of(seen.at[later]) - moment_of(seen.at[earlier])).total_seconds()


def _name_odd(seen: _Seen) -> None:
    """Files that hold some other event: renamed if anything knows that one, else edited."""
    known = {other for _, _, other in seen.references} | seen.at.keys()
    for named, id_ in seen.odd.items():
        if id_ in known and named not in known:
            seen.note("misnamed", id_, f"{short(named)} holds the event {short(id_)}: the file was renamed")
        else:
            seen.note("edited", named, f"{short(named)} was edited: its bytes hash to {short(id_)}")
