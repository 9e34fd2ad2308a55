"""The heads: events that no other event names as a parent, without reading the whole ledger.

Each day folder is summed up by two small sets: its tips (events that no event of the same day has
as a parent) and its roots (parents that lie in other days). The heads are all tips less all roots,
so days can arrive, grow and vanish in any order and only a folder that changed is read again.
The sums are cached in `.knobledger/heads.json`; a folder's sum counts only while its stamp matches.
"""

from __future__ import annotations

import json
from collections.abc import Callable
from contextlib import suppress
from pathlib import Path
from typing import Any

from msgspec import Struct

from knobledger.errors import KnobError
from knobledger.ledger.days import Day, Stamp, ids_in, stamps
from knobledger.ledger.writing import private_folder, write_over
from knobledger.names import EventId

_FORMAT = 1
_NAMED_DAYS = 2
"""So many of the newest days always keep their list of names in the cache; only these usually grow."""
_WORTH_SAVING = 32
"""A cache that lags by fewer events and folders is not written again: reading these is cheaper."""

ParentsOf = Callable[[Day, EventId], tuple[EventId, ...] | None]
"""The parents that an event names; None if its file is damaged or gone."""


class _Sum(Struct):
    stamp: Stamp | None
    tips: set[EventId]
    roots: set[EventId]
    ids: set[EventId] | None
    """the events summed up; None: not remembered, so a change means reading the day again"""


class Heads(Struct):
    """The heads of one ledger. `now` looks at the folders each time, so other writers are seen."""

    root: Path
    """the workspace"""
    events: Path
    parents_of: ParentsOf
    _sums: dict[Day, _Sum] | None = None
    _unsaved: int = 0

    def now(self) -> tuple[EventId, ...]:
        """The heads, sorted. A damaged event file counts for nothing here; `verify` names it."""
        sums = self._sums if self._sums is not None else self._load()
        before = set(sums)
        fresh = {day: self._sum(day, stamp, sums.get(day)) for day, stamp in stamps(self.events).items()}
        self._sums = fresh
        if self._unsaved >= _WORTH_SAVING or before - set(fresh):
            self._save(fresh)
        tips = {tip for one in fresh.values() for tip in one.tips}
        return tuple(sorted(tips - {root for one in fresh.values() for root in one.roots}))

    def _sum(self, day: Day, stamp: Stamp | None, known: _Sum | None) -> _Sum:
        if known is not None and stamp is not None and known.stamp == stamp:
            return known
        present = ids_in(self.events, day)
        if known is None or known.ids is None or not known.ids <= present:
            known = _Sum(None, set(), set(), set())
        assert known.ids is not None
        fresh = {
            id_: parents for id_ in present - known.ids if (parents := self.parents_of(day, id_)) is not None
        }
        self._unsaved += 1 + len(fresh)
        known.ids.update(fresh)
        named = {parent for parents in fresh.values() for parent in parents}
        roots = known.roots | named
        return _Sum(stamp, (known.tips | fresh.keys()) - roots, roots - known.ids, known.ids)

    def _load(self) -> dict[Day, _Sum]:
        try:
            raw = json.loads((self.root / ".knobledger" / "heads.json").read_bytes())
            if raw["format"] != _FORMAT:
                return {}
            return {Day(day): _sum_of(one) for day, one in raw["days"].items()}
        except (OSError, ValueError, KeyError, TypeError, AttributeError):
            return {}

    def _save(self, sums: dict[Day, _Sum]) -> None:
        # without its names, a folder that is too fresh for a stamp would be read again
        named = {*sorted(sums)[-_NAMED_DAYS:], *(day for day, one in sums.items() if one.stamp is None)}
        body = {
            day: {
                "stamp": one.stamp,
                "tips": sorted(one.tips),
                "roots": sorted(one.roots),
                "ids": " ".join(one.ids) if one.ids is not None and day in named else None,
            }
            for day, one in sums.items()
        }
        # the cache is a convenience: a workspace that can't hold it still works
        with suppress(KnobError):
            private_folder(self.root)
            content = json.dumps({"format": _FORMAT, "days": body}).encode()
            write_over(self.root / ".knobledger" / "heads.json", content, durable=False)
            self._unsaved = 0


def _sum_of(raw: dict[str, Any]) -> _Sum:
    ids = raw["ids"]
    return _Sum(
        stamp=raw["stamp"],
        tips=set(raw["tips"]),
        roots=set(raw["roots"]),
        ids=None if ids is None else set(ids.split()),
    )
