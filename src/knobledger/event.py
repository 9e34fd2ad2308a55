"""The event union, its canonical bytes and its ids. The on-disk format is docs/ledger-format.md.

An event's bytes are its canonical JSON (RFC 8785) and its id is their SHA-256. Events are written
once and never changed; reading never re-encodes them, so an id stays true for newer formats too.
"""

from __future__ import annotations

import json
from contextlib import suppress
from datetime import UTC, datetime
from typing import Any, Literal

import rfc8785
from pydantic import ValidationError

from knobledger.errors import LedgerBroken
from knobledger.names import Digest, EventId, HostPath, TargetName, digest_of
from knobledger.plan import Ask, Edit, PlannedFile, Policy, Purpose, RestartScope, Verb
from knobledger.receipt import Frozen, Manifest, Receipt


class Base(Frozen):
    """What every event says: when, by whom, and which heads the writer knew."""

    format: Literal[1] = 1
    at: str
    """UTC with microseconds, `2026-11-30T20:25:00.000000Z`"""
    zone: str = "UTC"
    """the operator's time zone, an IANA name"""
    actor: str
    on_behalf_of: str = ""
    parents: tuple[EventId, ...] = ()


class Observed(Base):
    """The bytes of a target as found: on first contact, or after somebody changed them by hand."""

    kind: Literal["observed"] = "observed"
    target: TargetName
    path: HostPath
    digest: Digest
    previous: Digest | None = None
    """the digest recorded before; None on first contact"""
    edits: tuple[Edit, ...] = ()
    """the knobs that differ from the previous bytes, where a snapshot of these was at hand"""
    diff: str = ""
    manifest: Manifest


class Planned(Base):
    """A plan. Its id is also the id of the change, once applied."""

    kind: Literal["planned"] = "planned"
    verb: Verb
    files: tuple[PlannedFile, ...]
    asks: tuple[Ask, ...] = ()
    why: str = ""
    hypotheses: tuple[str, ...] = ()
    """slugs of the hypotheses that it is made under"""
    purpose: Purpose = "other"
    label: str = ""
    """a word for the backup's name"""
    undoes: EventId | None = None
    """the change whose effect a revert or restore takes back"""
    exact: bool = False
    add: bool = False
    line: int | None = None
    force: bool = False
    in_place: bool = False
    despite: str = ""
    restart: RestartScope = "none"
    policy: Policy = "confirm"
    expires: str
    """UTC with microseconds"""
    warnings: tuple[str, ...] = ()


class Approved(Base):
    """A go-ahead for one plan, and what stood behind it."""

    kind: Literal["approved"] = "approved"
    plan: EventId
    source: str
    """`confirm at a terminal`, `flag`, `no terminal`, `signature of ...`"""


class Rejected(Base):
    """A plan that somebody turned down."""

    kind: Literal["rejected"] = "rejected"
    plan: EventId
    why: str = ""


class Started(Base):
    """An attempt on one target, written before the host is touched. Its id names the attempt."""

    kind: Literal["started"] = "started"
    plan: EventId
    target: TargetName
    base: Digest
    result: Digest


class Applied(Base):
    """The attempt succeeded, proven by fresh reads."""

    kind: Literal["applied"] = "applied"
    plan: EventId
    attempt: EventId
    target: TargetName
    receipt: Receipt


class RolledBack(Base):
    """The attempt failed after the swap; the backup is proven to be back."""

    kind: Literal["rolled_back"] = "rolled_back"
    plan: EventId
    attempt: EventId
    target: TargetName
    reason: str


class Failed(Base):
    """The attempt failed. `unchanged`: the file was never touched. `unknown`: `recover` has to look."""

    kind: Literal["failed"] = "failed"
    plan: EventId
    attempt: EventId
    target: TargetName
    outcome: Literal["unchanged", "unknown"]
    error: str
    """the error's kind, such as `drifted`"""
    reason: str


class Settled(Base):
    """What `recover` found out about an attempt in doubt, from the live file's digest."""

    kind: Literal["settled"] = "settled"
    plan: EventId
    attempt: EventId
    target: TargetName
    outcome: Literal["applied", "unchanged", "overwritten"]
    """`overwritten`: the file holds neither base nor result"""
    digest: Digest
    """of the live file, read afresh"""
    manifest: Manifest
    backup: HostPath | None = None
    """found beside the file, holding exactly the base"""


class Noted(Base):
    """Free text, where nothing else fits."""

    kind: Literal["noted"] = "noted"
    text: str
    about: EventId | None = None


class Foreign(Base):
    """An event of a kind that a newer version wrote: kept and shown, without effect here."""

    kind: str


Event = Observed | Planned | Approved | Rejected | Started | Applied | RolledBack | Failed | Settled | Noted
"""Everything that this version can write."""

_CLASSES: dict[str, type[Event]] = {
    cls.model_fields["kind"].default: cls
    for cls in (Observed, Planned, Approved, Rejected, Started, Applied, RolledBack, Failed, Settled, Noted)
}
# By kind, not by one adapter of the union: that would build the validators of kinds that a command never meets.
KINDS: frozenset[str] = frozenset(_CLASSES)


def encode(event: Event) -> bytes:
    """The canonical bytes. Text that is not Unicode (surrogate escapes) is shown as `\\xNN`.

    Numbers follow RFC 8785, so integers stay below 2**53.
    """
    return rfc8785.dumps(_printable(event.model_dump(mode="python")))


def id_of(content: bytes) -> EventId:
    """The id of the event whose bytes these are."""
    return EventId(digest_of(content))


def decode(content: bytes) -> Event | Foreign:
    """The event in these bytes. Raises `LedgerBroken` if they are not one.

    A known kind with values that only a newer version knows is `Foreign` too.
    """
    try:
        raw: dict[str, Any] = json.loads(content)
        if raw["kind"] in KINDS:
            with suppress(ValidationError):
                return _CLASSES[raw["kind"]].model_validate(raw)
        return Foreign.model_validate(raw)
    except (ValueError, KeyError, TypeError, ValidationError, RecursionError) as e:
        raise LedgerBroken(f"not an event: {str(e).splitlines()[0]}", hint="see `knob verify`") from e


def stamp(moment: datetime) -> str:
    """A moment as events write it: UTC with microseconds."""
    return moment.astimezone(UTC).strftime("%Y-%m-%dT%H:%M:%S.%fZ")


def moment_of(text: str) -> datetime:
    """The aware moment that `stamp` wrote. Raises `ValueError`."""
    return datetime.strptime(text, "%Y-%m-%dT%H:%M:%S.%fZ").replace(tzinfo=UTC)


def _printable(value: Any) -> Any:
    match value:
        case str():
            return value.encode("utf-8", "surrogateescape").decode("utf-8", "backslashreplace")
        case dict():
            return {key: _printable(item) for key, item in value.items()}
        case list() | tuple():
            return [_printable(item) for item in value]
        case _:
            return value
