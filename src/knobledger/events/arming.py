"""Events of changes that put themselves back unless they are confirmed."""

from __future__ import annotations

from typing import Literal

from knobledger.events.entry import Event
from knobledger.names import Digest, EventId, TargetName
from knobledger.receipt import Manifest


class Arming(Event):
    """An arming is tried, written before the host is touched."""

    kind: Literal["arming"] = "arming"
    plan: EventId
    target: TargetName
    window_s: int
    """seconds from the moment of arming to the deadline"""
    token: str
    """SHA-256 of the secret that a confirmation must know; the secret stays in the workspace"""
    services: tuple[str, ...] = ()
    """those that are restarted when the old content is put back, in this order"""


class Armed(Event):
    """The way back was rehearsed on the host, and what would take it runs."""

    kind: Literal["armed"] = "armed"
    plan: EventId
    target: TargetName
    deadline: str
    """UTC, by the host's clock"""
    scheduler: str
    """`timer persistent` (outlives a reboot of the host), `timer transient`, `process`"""


class Confirmed(Event):
    """The change stays."""

    kind: Literal["confirmed"] = "confirmed"
    plan: EventId
    target: TargetName


class Disarmed(Event):
    """The arming ended without a deadline: the change was not made, or was taken back by hand."""

    kind: Literal["disarmed"] = "disarmed"
    plan: EventId
    target: TargetName
    reason: str


class Expired(Event):
    """Nobody confirmed in time; what the host then did, as a fresh look found it."""

    kind: Literal["expired"] = "expired"
    plan: EventId
    target: TargetName
    outcome: Literal["reverted", "unchanged", "failed"]
    """`unchanged`: the change had never reached the file"""
    ended_at: str
    """UTC, by the host's clock"""
    restarted: bool | None = None
    """None: there was nothing to restart"""
    reason: str = ""
    """why it failed"""
    digest: Digest | None = None
    """of the live file, read afresh"""
    manifest: Manifest | None = None


ArmingEvent = Arming | Armed | Confirmed | Disarmed | Expired
