"""What every event says, and what an event of a newer version comes as."""

from __future__ import annotations

from typing import Literal

from knobledger.names import EventId
from knobledger.receipt import Frozen


class Event(Frozen):
    """What every event says: when, by whom, and which heads the writer knew."""

    kind: str
    format: Literal[1] = 1
    at: str
    """UTC with microseconds, `2026-11-30T20:25:00.000000Z`"""
    zone: str = "UTC"
    """the operator's time zone, an IANA name"""
    actor: str
    on_behalf_of: str = ""
    parents: tuple[EventId, ...] = ()


class Foreign(Event):
    """An event of a kind that a newer version wrote: kept and shown, without effect here."""
