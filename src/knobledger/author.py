"""Who writes an event, and when: strings fixed at the time of writing."""

from __future__ import annotations

from collections.abc import Callable
from datetime import UTC, datetime
from typing import Any

from msgspec import Struct

from knobledger.event import stamp


def _now() -> datetime:
    return datetime.now(UTC)


class Author(Struct, frozen=True):
    """The name on the events of one command."""

    actor: str
    """a person, script or agent: who or what typed it"""
    on_behalf_of: str = ""
    zone: str = "UTC"
    """IANA name of the operator's time zone"""
    now: Callable[[], datetime] = _now

    def signs(self) -> dict[str, Any]:
        """The fields that every event begins with, at this moment."""
        return {
            "at": stamp(self.now()),
            "zone": self.zone,
            "actor": self.actor,
            "on_behalf_of": self.on_behalf_of,
        }
