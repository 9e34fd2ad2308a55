"""Events read and written: their canonical bytes and their ids. The on-disk format is docs/ledger-format.md.

An event's bytes are its canonical JSON (RFC 8785) and its id is their SHA-256. Events are written
once and never changed; reading never re-encodes them, so an id stays true for newer formats too.

Each topic's kinds live in a module of `events/`, which is imported when the first event of one of its kinds is
met: a command pays only for the kinds that its ledger holds.
"""

from __future__ import annotations

from datetime import UTC, datetime
from functools import cache
from importlib import import_module
from typing import Literal

import msgspec
import rfc8785

from knobledger.errors import LedgerBroken
from knobledger.events.entry import Event, Foreign
from knobledger.names import EventId, digest_of
from knobledger.receipt import plainly

Topic = Literal["approving", "arming", "asking", "changes", "notes", "serving", "watching"]
"""a module of `events/`"""

KINDS: dict[str, tuple[Topic, str]] = {
    "observed": ("changes", "Observed"),
    "planned": ("changes", "Planned"),
    "approved": ("changes", "Approved"),
    "rejected": ("changes", "Rejected"),
    "started": ("changes", "Started"),
    "applied": ("changes", "Applied"),
    "rolled_back": ("changes", "RolledBack"),
    "failed": ("changes", "Failed"),
    "settled": ("changes", "Settled"),
    "noted": ("notes", "Noted"),
    "pruned": ("notes", "Pruned"),
    "signers_trusted": ("approving", "SignersTrusted"),
    "arming": ("arming", "Arming"),
    "armed": ("arming", "Armed"),
    "confirmed": ("arming", "Confirmed"),
    "disarmed": ("arming", "Disarmed"),
    "expired": ("arming", "Expired"),
    "restart_started": ("serving", "RestartStarted"),
    "service_restarted": ("serving", "ServiceRestarted"),
    "restart_ended": ("serving", "RestartEnded"),
    "seen_live": ("watching", "SeenLive"),
    "observed_metric": ("watching", "ObservedMetric"),
    "hypothesis_opened": ("asking", "HypothesisOpened"),
    "evidence_given": ("asking", "EvidenceGiven"),
    "probed": ("asking", "Probed"),
    "measured": ("asking", "Measured"),
    "verdict_given": ("asking", "VerdictGiven"),
    "document_checked": ("asking", "DocumentChecked"),
    "document_corrected": ("asking", "DocumentCorrected"),
}
"""every kind that this version can write, with the topic and the name of its class"""


@cache
def class_of(kind: str) -> type[Event]:
    """The class of one of `KINDS`."""
    topic, name = KINDS[kind]
    found: type[Event] = getattr(import_module(f"knobledger.events.{topic}"), name)
    return found


def topic_of(kind: str) -> Topic | None:
    """The topic of a kind; None for one that only a newer version knows."""
    return KINDS[kind][0] if kind in KINDS else None


class _Kind(msgspec.Struct):
    kind: str


_KIND = msgspec.json.Decoder(_Kind)
_FOREIGN = msgspec.json.Decoder(Foreign)


@cache
def _decoder(kind: str) -> msgspec.json.Decoder[Event]:
    return msgspec.json.Decoder(class_of(kind))


def encode(event: Event) -> bytes:
    """The canonical bytes. Text that is not Unicode (surrogate escapes) is shown as `\\xNN`.

    Numbers follow RFC 8785, so integers stay below 2**53.
    """
    return rfc8785.dumps(plainly(event, _printable))


def id_of(content: bytes) -> EventId:
    """The id of the event whose bytes these are."""
    return EventId(digest_of(content))


def decode(content: bytes) -> Event:
    """The event in these bytes; `Foreign` if only a newer version knows its kind. Raises `LedgerBroken` if they are not one.

    A known kind with values that only a newer version knows is `Foreign` too.
    """
    try:
        kind = _KIND.decode(content).kind
        if kind in KINDS:
            try:
                return _decoder(kind).decode(content)
            except msgspec.ValidationError:
                pass
        return _FOREIGN.decode(content)
    except (ValueError, RecursionError) as e:
        raise LedgerBroken(f"not an event: {str(e).splitlines()[0]}", hint="see `knob verify`") from e


def stamp(moment: datetime) -> str:
    """A moment as events write it: UTC with microseconds."""
    return moment.astimezone(UTC).strftime("%Y-%m-%dT%H:%M:%S.%fZ")


def moment_of(text: str) -> datetime:
    """The aware moment that `stamp` wrote. Raises `ValueError`."""
    # strptime takes its own import of locales, and ten times as long; what it would refuse comes back different.
    moment = datetime.fromisoformat(text)
    if moment.tzinfo is None or stamp(moment) != text:
        raise ValueError(f"{text!r} is not as events write a moment")
    return moment


def _printable(text: str) -> str:
    return text.encode("utf-8", "surrogateescape").decode("utf-8", "backslashreplace")
