"""Who did what an event tells of, and when: not always the one who wrote it down, nor then."""

from __future__ import annotations

from knobledger.events.changes import Observed
from knobledger.events.entry import Event


def doer(event: Event) -> str:
    """The one who did it; empty for an edit by hand. What a deadline did, the host did."""
    if isinstance(event, Observed):
        return ""
    if event.kind == "expired":
        return f"the host {event.target.partition('/')[0]}"  # type: ignore[attr-defined]
    return event.actor


def done_at(event: Event) -> str:
    """When it was done, UTC; of a deadline, by the host's clock."""
    if isinstance(event, Observed):
        return event.happened
    return event.ended_at if event.kind == "expired" else event.at  # type: ignore[attr-defined]
