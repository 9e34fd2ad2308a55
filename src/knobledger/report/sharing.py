"""What `sync` brought and took along."""

from __future__ import annotations

from collections import Counter
from collections.abc import Iterable
from typing import Any

from msgspec import Struct

from knobledger.events.entry import Event


class Synced(Struct, frozen=True):
    """One exchange with one remote."""

    remote: str
    branch: str
    received: tuple[tuple[str, str, int], ...]
    """(kind, actor, how many), the most frequent first"""
    sent: int
    heads: int
    """events that no other has as a parent; several: colleagues worked at the same time"""

    def to_json(self) -> dict[str, Any]:
        """The JSON of `sync`."""
        return {
            "remote": self.remote,
            "branch": self.branch,
            "received": [
                {"kind": kind, "actor": actor, "count": count} for kind, actor, count in self.received
            ],
            "sent": self.sent,
            "heads": self.heads,
        }


def counted(events: Iterable[Event]) -> tuple[tuple[str, str, int], ...]:
    """How many of each kind came from each actor."""
    counts = Counter((event.kind, event.actor) for event in events)
    ordered = sorted(counts.items(), key=lambda item: (-item[1], item[0]))
    return tuple((kind, actor, count) for (kind, actor), count in ordered)
