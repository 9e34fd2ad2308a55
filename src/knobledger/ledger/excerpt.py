"""The events that one question hangs on, found by the index: folded, they answer it as all events would.

What became of a knob's edit hangs on the edits of the same knob on the same target, so these come whole, with all that
was done by their plans. Order hangs on causes as well as on time (`folds/order.py`): where an edge leads to a later
moment (a clock was set back, or two machines' clocks differ), all events between these two moments come too.
"""

from __future__ import annotations

from bisect import bisect_left, bisect_right
from collections.abc import Iterable, Iterator
from datetime import datetime
from functools import cached_property
from typing import Any

from knobledger.errors import LedgerBroken
from knobledger.event import KINDS, decode, id_of, stamp
from knobledger.events.entry import Event
from knobledger.folds.serving import NAMED
from knobledger.ledger.days import days, ids_in
from knobledger.ledger.index import Index
from knobledger.ledger.store import Ledger
from knobledger.names import EventId, TargetName

WORTHWHILE = 2_000
"""in a ledger of more events an excerpt is quicker than all of them, though the index may have to be made first"""
_PLENTY = 20_000
"""where clocks went wrong for as long as it takes to write so many events, no excerpt is made"""

_WRITTEN = ("applied", "settled")
_OUTCOMES = (*_WRITTEN, "rolled_back", "failed")
_ARMING = ("arming", "armed", "confirmed", "disarmed", "expired")
ASKING = tuple(kind for kind, (topic, _) in KINDS.items() if topic == "asking")

_Found = Iterable[tuple[str, str]]
"""(id, body)"""


class NoExcerpt(Exception):
    """The whole ledger has to be read: an excerpt would be about as much, or the index can't be trusted."""


def worthwhile(ledger: Ledger) -> bool:
    """Whether the ledger has an index, or is so large that one is worth making."""
    if (ledger.root / ".knobledger" / "index.sqlite").exists():
        return True
    found = 0
    for day in days(ledger.folder):
        found += len(ids_in(ledger.folder, day))
        if found > WORTHWHILE:
            return True
    return False


class Excerpt:
    """Events of one ledger, gathered for one question: its methods add to them, `events` decodes them."""

    LEFT_OUT: tuple[str, ...] = ("approved", "rejected")
    """kinds that say nothing of what became of a plan once it was applied"""

    def __init__(self, index: Index) -> None:
        """Brings the index up to date. Raises as `Index.update`."""
        self._index = index.reader()
        self._bodies: dict[str, str] = {}
        self._decoded: dict[EventId, Event] = {}
        self._known: set[str] = set()
        """changes and observations that came with all that hangs on them"""
        self._complete: set[tuple[str, ...]] = set()
        """what came with all that it must not stand without"""

    def events(self) -> dict[EventId, Event]:
        """What was gathered, in no order, proven to have its ids.

        Raises `NoExcerpt`, and `LedgerBroken` at an event that can't be read.
        """
        found = self._decoded
        while fresh := [(id_, body) for id_, body in self._bodies.items() if id_ not in found]:
            for id_, body in fresh:
                event = found[EventId(id_)] = self._decode(EventId(id_), body)
                self._take_rest(event, id_)
            self._take(self._between_clocks(sorted(event.at for event in found.values())))
        return dict(found)

    @property
    def size(self) -> int:
        """How many events were gathered so far."""
        return len(self._bodies)

    def _decode(self, id_: EventId, body: str) -> Event:
        content = body.encode()
        if id_of(content) != id_:
            raise NoExcerpt
        try:
            return decode(content)
        except LedgerBroken as e:
            raise LedgerBroken(f"the event {id_} can't be read: {e.message}", hint="`knob verify`") from e

    def _take_rest(self, event: Event, id_: str) -> None:
        """What an event must not stand without: its end, or what has replaced it since."""
        plan, target = getattr(event, "plan", ""), getattr(event, "target", "")
        match event.kind:
            case "arming" | "armed" if self._is_new("arming", plan, target):
                self._take(self._done(plan, target, _ARMING))
            case "started" if ("plan", plan) not in self._complete and self._is_new("started", plan, target):
                self._take(self._done(plan, target, _OUTCOMES))
            case "restart_started" if self._is_new("chain", id_):
                self._take(
                    self._ask(f"{BY_FACET} WHERE f.facet IN ('chain', 'resumed') AND f.value = ?", id_)
                )
            case "service_restarted":
                self._take_health(getattr(event, "service", ""))
            case "applied" | "settled" if self._is_new("written", target):
                [(written, renewed, _)] = self._ask(_WHEN, target, _service(target))
                if written != event.at:
                    self._take_newest("written", target)
                if renewed and renewed >= event.at:
                    self._take_newest("renewed", _service(target))

    def _is_new(self, *what: str) -> bool:
        """Whether that is asked for the first time."""
        known = what in self._complete
        self._complete.add(what)
        return not known

    def _done(self, plan: str, target: str, kinds: tuple[str, ...]) -> _Found:
        """What was done by a plan on one target."""
        return self._ask(
            f"SELECT id, body FROM event WHERE plan = ? AND target = ? AND kind IN {_marks(kinds)}",
            *(plan, target, *kinds),
        )

    def _take_health(self, service: str) -> None:
        """How a service is by now, and when it last had new processes."""
        if self._is_new("health", service):
            for facet in ("unhealthy", "healthy", "renewed"):
                self._take_newest(facet, service)

    def since(self, start: datetime, until: datetime) -> None:
        """What changed, was seen, restarted or said in `start <= at < until`, and what became of it."""
        begin, end = stamp(start), stamp(until)
        done = [plan for plan, _ in self._of_kinds("e.plan, e.id", _WRITTEN, begin, end)]
        # an edit by hand was there before somebody saw it, so one that was seen later may belong here as well
        seen = list(self._of_kinds("e.id, e.target", ("observed",), begin))
        self._take_whole([*done, *(id_ for id_, _ in seen)])
        for _, target in seen:
            self._take_past(target)
        self._take(self._of_kinds("e.id, e.body", ("noted",), begin, end))
        # a deadline was before somebody saw what it did
        self._take(self._of_kinds("e.id, e.body", ("expired",), begin))
        self._take(self._of_kinds("e.id, e.body", ("restart_started",), begin))
        self._take(self._of_kinds("e.id, e.body", ASKING))

    def plans_of(self, events: Iterable[Event]) -> None:
        """The plans that events are about, each without what was done by it."""
        for plan in {plan for event in events if (plan := getattr(event, "plan", None))}:
            self._take(self._ask("SELECT id, body FROM event WHERE id = ?", plan))

    def target(self, name: TargetName) -> None:
        """All that was done on a target, and seen there, but for who allowed it."""
        self._take(
            self._ask(
                f"{BY_FACET} WHERE f.facet = 'target' AND f.value = ? AND e.kind NOT IN {_marks(self.LEFT_OUT)}",
                *(name, *self.LEFT_OUT),
            )
        )

    def footing(self) -> None:
        """What the footer of every command tells: what is armed; restarts owed or in the middle; what is not healthy.

        Of services that owe a restart, the first `NAMED` and one more, by name.
        """
        for plan, target in self._ask(
            "SELECT e.plan, e.target FROM facet f CROSS JOIN event e ON e.id = f.event WHERE f.facet = 'armed'"
        ):
            self._take(
                self._ask(
                    "SELECT id, body FROM event WHERE plan = ? "
                    "AND (kind = 'planned' OR (target = ? AND kind IN ('arming', 'armed')))",
                    *(plan, target),
                )
            )
            if next(self._ask("SELECT 1 FROM event WHERE plan = ? AND kind = 'expired'", plan), None):
                self.target(
                    target
                )  # not put back: whether it is still in effect hangs on all that came later
        self._take(self._ask(f"{BY_FACET} WHERE f.facet = 'chain open'"))
        for service in [name for (name,) in self._ask(_VALUES, "unhealthy") if name]:
            [(bad, good)] = self._ask(_HEALTH, service)
            if good is None or bad >= good or self._tangled(bad, good):
                self._take_health(service)
        self._take_owed()

    def _take_owed(self) -> None:
        certain: set[str] = set()
        standing = {name for facet in ("written", "live") for (name,) in self._ask(_VALUES, facet) if name}
        for target in sorted(standing, key=_service):
            [(written, renewed, live)] = self._ask(_WHEN, target, _service(target))
            others = max(renewed or "", live or "")
            if written and renewed and renewed > max(written, live or ""):
                if not self._tangled(max(written, live or ""), renewed):
                    continue
            elif written and written > others and not self._tangled(others, written):
                certain.add(_service(target))
            self._take_newest("written", target)
            self._take_newest("renewed", _service(target))
            self._take(
                self._ask(
                    f"{BY_FACET} WHERE f.facet = 'live' AND f.value = ? AND f.at >= ?", target, written or ""
                )
            )
            if len(certain) > NAMED:
                return

    def _take_newest(self, facet: str, value: str) -> None:
        self._take(
            self._ask(
                f"{BY_FACET} WHERE f.facet = ? AND f.value = ? ORDER BY f.at DESC, f.event DESC LIMIT 1",
                *(facet, value),
            )
        )

    # -- what hangs together -----------------------------------------------

    def _take(self, found: _Found) -> None:
        self._bodies.update(found)

    def _take_whole(self, ids: Iterable[str]) -> None:
        """Changes and observations with all that was done by them, and all edits of the knobs that they touch.

        So do those that they undo; of the others that touch these knobs comes what they did on that target.
        """
        waiting = list(ids)
        while waiting:
            id_ = waiting.pop()
            if id_ in self._known:
                continue
            self._known.add(id_)
            self._take_one(id_)
            for target, knob in self._ask("SELECT DISTINCT target, knob FROM edit WHERE change = ?", id_):
                self._take_knob(target, knob)
            waiting += [
                undone
                for (undone,) in self._ask(
                    "SELECT json_extract(body, '$.undoes') FROM event WHERE id = ?", id_
                )
                if undone
            ]

    def _take_one(self, id_: str) -> None:
        """A change with all that was done by it, or an observation."""
        self._complete.add(("plan", id_))
        self._take(
            self._ask(
                f"SELECT id, body FROM event WHERE (plan = ? AND kind NOT IN {_marks(self.LEFT_OUT)}) OR id = ?",
                *(id_, *self.LEFT_OUT, id_),
            )
        )

    def _take_knob(self, target: str, knob: str) -> None:
        """Every edit of a knob."""
        if self._is_new("knob", target, knob):
            self._take_past(target)
            self._take(self._ask(_SEEN_EDITS, target, knob))
            self._take(
                self._ask(
                    f"{_MADE_EDITS} AND e.kind NOT IN {_marks(self.LEFT_OUT)}",
                    *(target, knob, target, *self.LEFT_OUT),
                )
            )

    def _take_past(self, target: str) -> None:
        """All that was reconstructed of a target: what is told twice counts once, and it has an order of its own."""
        if self._is_new("past", target):
            self._take(self._ask(f"{BY_FACET} WHERE f.facet = 'past' AND f.value = ?", target))

    def _tangled(self, early: str, late: str) -> bool:
        """Whether time alone does not tell which of two moments' events came first."""
        return any(begin <= early and late <= end for begin, end in self._clocks)

    @cached_property
    def _clocks(self) -> list[tuple[str, str]]:
        """The intervals in which an edge leads back in time, joined where they overlap."""
        joined: list[tuple[str, str]] = []
        for early, late in sorted(self._ask("SELECT at, value FROM facet WHERE facet = 'later parent'")):
            if joined and early <= joined[-1][1]:
                joined[-1] = joined[-1][0], max(late, joined[-1][1])
            else:
                joined.append((early, late))
        return joined

    def _between_clocks(self, moments: list[str]) -> Iterator[tuple[str, str]]:
        """All events of such an interval, once, if at least two of these moments lie in it."""
        for early, late in self._clocks:
            if bisect_right(moments, late) - bisect_left(moments, early) < 2:
                continue
            if not self._is_new("between clocks", early):
                continue
            found = self._ask("SELECT id, body FROM event WHERE at >= ? AND at <= ?", early, late)
            for n, one in enumerate(found):
                if n == _PLENTY:
                    raise NoExcerpt
                yield one

    # -- the index ---------------------------------------------------------

    def _ask(self, said: str, *values: str) -> Iterator[Any]:
        yield from self._index.execute(said, values)

    def _of_kinds(self, columns: str, kinds: Iterable[str], begin: str = "", end: str = "~") -> _Found:
        for kind in kinds:
            yield from self._index.execute(
                f"SELECT {columns} FROM facet f CROSS JOIN event e ON e.id = f.event "
                "WHERE f.facet = 'kind' AND f.value = ? AND f.at >= ? AND f.at < ?",
                (kind, begin, end),
            )


_EDITS = "SELECT e.id, e.body FROM edit x CROSS JOIN event e ON {} WHERE x.target = ? AND x.knob = ?"
_SEEN_EDITS = _EDITS.format("e.id = x.change AND e.plan IS NULL")
_MADE_EDITS = _EDITS.format("e.plan = x.change") + " AND (e.target = ? OR e.target IS NULL)"
BY_FACET = "SELECT e.id, e.body FROM facet f CROSS JOIN event e ON e.id = f.event"


def _marks(values: tuple[str, ...]) -> str:
    return f"({', '.join('?' * len(values))})"


def _service(target: str) -> str:
    return target.partition(":")[0]


_VALUES = (
    "WITH RECURSIVE v(value) AS (SELECT MIN(value) FROM facet WHERE facet = ?1 UNION ALL "
    "SELECT (SELECT MIN(value) FROM facet WHERE facet = ?1 AND facet.value > v.value) FROM v "
    "WHERE v.value IS NOT NULL) SELECT value FROM v"
)
"""the different values of a facet, then None: one step in the index for each, however many events have it"""


def _newest(facet: str, value: str) -> str:
    return f"(SELECT MAX(at) FROM facet WHERE facet = '{facet}' AND value = {value})"


_WHEN = f"SELECT {_newest('written', '?1')}, {_newest('renewed', '?2')}, {_newest('live', '?1')}"
"""when a target was written last, its service last brought up new processes, and it was last seen live"""
_HEALTH = f"SELECT {_newest('unhealthy', '?1')}, {_newest('healthy', '?1')}"
