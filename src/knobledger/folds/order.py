"""The order in which events are folded. Pure."""

from __future__ import annotations

from collections.abc import Collection, Iterable, Mapping

from knobledger.events.changes import Observed
from knobledger.events.entry import Event
from knobledger.names import EventId


def happened(event: Event) -> str:
    """When it was so: of what was observed in copies, the time of these; of all others, when it was written."""
    return event.happened if isinstance(event, Observed) else event.at


def in_order(events: dict[EventId, Event]) -> dict[EventId, Event]:
    """By (time, id), but never before an event's own parents: a clock that was set back must not turn causes round.

    What was reconstructed stands where it happened, before most of what its writer knew; for one target the order
    of writing holds. What was written after it comes after all that its writer knew, all the same.
    """
    past = {
        id_: event.target
        for id_, event in events.items()
        if isinstance(event, Observed) and event.reconstructed
    }
    behind = _behind(events, past)
    done: dict[EventId, Event] = {}
    for id_ in sorted(events, key=lambda id_: (happened(events[id_]), id_)):
        if not past and all(p in done or p not in events for p in events[id_].parents):
            done.setdefault(id_, events[id_])
            continue
        todo = [id_]
        while todo:
            parents: Iterable[EventId] = events[todo[-1]].parents
            if todo[-1] in past:
                parents = [p for p in parents if past.get(p) == past[todo[-1]]]
            else:
                parents = [*parents, *(one for p in parents for one in behind.get(p, ()))]
            first = [p for p in parents if p in events and p not in done and p not in todo]
            if first:
                todo += sorted(first, reverse=True)
            else:
                last = todo.pop()
                done.setdefault(last, events[last])
    return done


def _behind(events: Mapping[EventId, Event], past: Collection[EventId]) -> dict[EventId, frozenset[EventId]]:
    """For each reconstructed event the nearest that are not, among all that its writer knew."""
    found: dict[EventId, frozenset[EventId]] = {}
    for id_ in past:
        todo = [id_]
        while todo:
            parents = events[todo[-1]].parents
            missing = [p for p in parents if p in past and p not in found]
            if missing:
                todo += missing
                continue
            last = todo.pop()
            found[last] = frozenset(
                one for p in parents for one in (found[p] if p in past else (p,) if p in events else ())
            )
    return found
