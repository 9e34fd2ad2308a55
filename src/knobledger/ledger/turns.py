"""Threads that append at the same time take turns, and the disk is waited for once for all that have come meanwhile."""

from __future__ import annotations

import threading
from collections import deque
from collections.abc import Callable, Sequence

from msgspec import Struct, field

from knobledger.errors import LedgerUnwritable
from knobledger.events.entry import Event
from knobledger.ledger.store import Ledger
from knobledger.names import EventId


class _Entry(Struct):
    event: Event
    outcome: EventId | BaseException | None = None


class Turns(Struct):
    """One ledger's line of writers."""

    _mine: threading.Lock = field(default_factory=threading.Lock)
    _waiting: deque[_Entry] = field(default_factory=deque)

    def append_each(
        self, ledger: Ledger, events: Sequence[Event], then: Callable[[EventId, Event], None]
    ) -> list[EventId]:
        """`Ledger.append` for several; `then` hears of all threads' events, one after the other, in the ledger's order.

        Raises what is wrong with the first that can't be written.
        """
        entries = [_Entry(event) for event in events]
        self._waiting.extend(entries)
        with self._mine:
            if any(entry.outcome is None for entry in entries):
                self._append_all(ledger, then)
        ids: list[EventId] = []
        for entry in entries:
            if isinstance(entry.outcome, BaseException):
                raise entry.outcome
            assert entry.outcome is not None
            ids.append(entry.outcome)
        return ids

    def _append_all(self, ledger: Ledger, then: Callable[[EventId, Event], None]) -> None:
        entries = [self._waiting.popleft() for _ in range(len(self._waiting))]
        try:
            ids, failure = ledger.append_each([entry.event for entry in entries])
            for entry, id_ in zip(entries, ids, strict=False):
                then(id_, entry.event)
                entry.outcome = id_
            for entry in entries[len(ids) :]:
                entry.outcome = _again(failure)
        except BaseException as error:
            for entry in entries:
                entry.outcome = entry.outcome or error


def _again(failure: LedgerUnwritable | None) -> LedgerUnwritable:
    """One for each thread: what raises it adds facts of its own."""
    assert failure is not None
    return LedgerUnwritable(failure.message, hint=failure.hint, **failure.values)
