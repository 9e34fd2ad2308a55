"""The events that one question hangs on, found by the index: folded, they answer it as all events would.

What became of a knob's edit hangs on the edits of the same knob on the same target, so these come whole, with all that
was done by their plans. Order hangs on causes as well as on time (`folds/order.py`): where an edge leads to a later
moment (a clock was set back, or two machines' clocks differ), all events between these two moments come too.
"""

from __future__ import annotations

import json
from bisect import bisect_left, bisect_right
from collections.abc import Iterable, Iterator, Sequence
from datetime import datetime
from functools import cached_property
from typing import Any

from knobledger.errors import LedgerBroken
from knobledger.event import KINDS, decode, id_of, stamp
from knobledger.events.entry import Event
from knobledger.folds.order import happened
from knobledger.folds.serving import NAMED
from knobledger.ledger.days import days, ids_in
from knobledger.ledger.index import Index
from knobledger.ledger.store import Ledger
from knobledger.names import EventId

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
_Key = tuple[str, ...]


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
                found[EventId(id_)] = self._decode(EventId(id_), body)
            self._take_rest([(id_, found[EventId(id_)]) for id_, _ in fresh])
            moments = [at for event in found.values() for at in {event.at, happened(event)}]
            self._take(self._between_clocks(sorted(moments)))
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

    def _take_rest(self, fresh: Iterable[tuple[str, Event]]) -> None:
        """What events must not stand without: their end, or what has replaced them since."""
        armed, begun, chains, services = set[_Key](), set[_Key](), set[_Key](), set[_Key]()
        written: dict[str, list[tuple[str, str]]] = {}
        for id_, event in fresh:
            plan, target = getattr(event, "plan", None) or "", getattr(event, "target", None) or ""
            match event.kind:
                case "arming" | "armed":
                    armed.add((plan, target))
                case "started" if not {("plan", plan), ("target", target)} & self._complete:
                    begun.add((plan, target))
                case "applied" | "settled":
                    written.setdefault(target, []).append((event.at, id_))
                case "restart_started":
                    chains.add((id_,))
                case "service_restarted":
                    services.add((getattr(event, "service", ""),))
                    if getattr(event, "outcome", "") != "healthy":
                        chains.add((getattr(event, "chain", ""),))
        self._take_done(self._new("arming", armed), _ARMING)
        self._take_done(self._new("started", begun), _OUTCOMES)
        self._take_chains(self._new("chain", chains))
        self._take_health(services)
        targets = [target for (target,) in self._new("written", ((target,) for target in written))]
        self._take_newest(
            "written", [(_service(target), target, *max(written[target])) for target in targets]
        )
        self._take_newest(
            "renewed", [(_service(target), "", min(written[target])[0], "") for target in targets]
        )

    def _new(self, what: str, keys: Iterable[_Key]) -> list[_Key]:
        """Those that are asked for the first time."""
        found = [key for key in keys if (what, *key) not in self._complete]
        self._complete.update((what, *key) for key in found)
        return found

    def _is_new(self, *what: str) -> bool:
        return bool(self._new(what[0], [what[1:]]))

    def _take_done(self, attempts: Sequence[_Key], kinds: tuple[str, ...]) -> None:
        """What was done by plans, each on one target."""
        if attempts:
            self._take(self._ask(f"{_DONE_ON} AND e.kind IN {_marks(kinds)}", json.dumps(attempts), *kinds))

    def _take_chains(self, ids: Sequence[_Key]) -> None:
        """Chains of restarts, with what took them over."""
        if ids:
            whole = json.dumps([id_ for (id_,) in ids])
            self._take(self._ask(_SELVES, whole))
            self._take(self._ask(_CHAINED, whole))

    def _take_health(self, services: Iterable[_Key]) -> None:
        """How services are by now, and when they last had new processes."""
        fresh = [(service, "", "", "") for (service,) in self._new("health", services)]
        for facet in ("unhealthy", "healthy", "renewed"):
            self._take_newest(facet, fresh)

    def since(self, start: datetime, until: datetime) -> None:
        """What changed, was seen, restarted or said in `start <= at < until`, and what became of it."""
        begin, end = stamp(start), stamp(until)
        done = [plan for plan, _ in self._of_kinds("e.plan, e.id", _WRITTEN, begin, end)]
        # an edit by hand was there before somebody saw it, so one that was seen later may belong here as well
        seen = list(self._of_kinds("e.id, e.target", ("observed",), begin))
        self._take_whole([*done, *(id_ for id_, _ in seen)])
        self._take_past(target for _, target in seen)
        self._take(self._of_kinds("e.id, e.body", ("noted",), begin, end))
        # a deadline was before somebody saw what it did
        self._take(self._of_kinds("e.id, e.body", ("expired",), begin))
        self._take(self._of_kinds("e.id, e.body", ("restart_started",), begin))
        self._take(self._of_kinds("e.id, e.body", ASKING))

    def plans_of(self, events: Iterable[Event]) -> None:
        """The plans that events are about, each without what was done by it."""
        plans = {plan for event in events if (plan := getattr(event, "plan", None))}
        self._take(self._ask(_SELVES, json.dumps(sorted(plans))))

    def target(self, name: str) -> None:
        """All that was done on a target, and seen there, but for who allowed it."""
        if self._is_new("target", name):
            left_out = f"kind NOT IN {_marks(self.LEFT_OUT)}"
            self._take(
                self._ask(f"SELECT id, body FROM event WHERE target = ? AND {left_out}", name, *self.LEFT_OUT)
            )
            self._take(
                self._ask(
                    f"{_BY_FACET} WHERE f.facet = 'shared' AND f.value = ? AND e.{left_out}",
                    name,
                    *self.LEFT_OUT,
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
                    "AND (kind = 'planned' OR (+target = ? AND kind IN ('arming', 'armed')))",
                    *(plan, target),
                )
            )
            if next(self._ask("SELECT 1 FROM event WHERE plan = ? AND kind = 'expired'", plan), None):
                # not put back: whether it is still in effect hangs on all that came later
                self.target(target)
        self._take(self._ask(f"{_BY_FACET} WHERE f.facet = 'chain open'"))
        self._take_health(
            (service,)
            for service, bad, good in self._ask(_HEALTH)
            if good is None or bad >= good or self._tangled(bad, good)
        )
        self._take_owed()

    def _take_owed(self) -> None:
        certain, doubtful = set[str](), list[_Key]()
        for target, service, written, renewed, live in self._ask(_WHEN_EACH):
            others = max(renewed or "", live or "")
            if written and renewed and renewed > max(written, live or ""):
                if not self._tangled(max(written, live or ""), renewed):
                    continue
            elif written and written > others and not self._tangled(others, written):
                certain.add(service)
            doubtful.append((service, target, written or ""))
            if len(certain) > NAMED:
                break
        self._take_newest("written", [(service, target, "", "") for service, target, _ in doubtful])
        self._take_newest("renewed", [(service, "", "", "") for service, _, _ in doubtful])
        if doubtful:
            self._take(self._ask(_SEEN_LIVE, json.dumps(doubtful)))

    def _take_newest(self, facet: str, among: Sequence[_Key]) -> None:
        """The newest event of a facet for each (service, target or nothing, moment, id), if it is after these two."""
        if among:
            self._take(self._ask(_NEWEST, json.dumps(among), facet))

    # -- what hangs together -----------------------------------------------

    def _take(self, found: _Found) -> None:
        self._bodies.update(found)

    def _take_whole(self, ids: Iterable[str]) -> None:
        """Changes and observations with all that was done by them, and all edits of the knobs that they touch.

        So do those that they undo; of the others that touch these knobs comes what they did on that target.
        """
        todo = set(ids) - self._known
        while todo:
            self._known |= todo
            self._complete.update(("plan", id_) for id_ in todo)
            whole = json.dumps(sorted(todo))
            self._take(self._ask(f"{_DONE} AND e.kind NOT IN {_marks(self.LEFT_OUT)}", whole, *self.LEFT_OUT))
            self._take(self._ask(_ALONE, whole))
            self._take_knobs(self._ask(_TOUCHED, whole))
            todo = {undone for (undone,) in self._ask(_UNDONE, whole) if undone} - self._known

    def _take_knobs(self, named: Iterable[tuple[str, str]]) -> None:
        """Every edit of knobs, each with its target."""
        fresh = self._new("knob", named)
        if not fresh:
            return
        self._take_past(target for target, _ in fresh)
        found = [one for one in self._ask(_TOUCHING, json.dumps(fresh)) if one[0] not in self._known]
        made = f"{_MADE} AND e.kind NOT IN {_marks(self.LEFT_OUT)}"
        self._take(self._ask(made, json.dumps(found), *self.LEFT_OUT))
        self._complete.update(("started", change, target) for change, target in found)
        seen = {change for change, _ in found} - self._bodies.keys()
        self._take(self._ask(_ALONE, json.dumps(sorted(seen))))

    def _take_past(self, targets: Iterable[str]) -> None:
        """All that was reconstructed of targets: what is told twice counts once, and it has an order of its own."""
        fresh = self._new("past", {(target,) for target in targets})
        self._take(self._ask(_RECONSTRUCTED, json.dumps([target for (target,) in fresh])))

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


_IDS = "SELECT {} FROM json_each(?) j CROSS JOIN {}"
"""of what is listed in JSON: one statement for all, since each costs as much as several rows"""
_DONE = _IDS.format("e.id, e.body", "event e ON e.plan = j.value")
_SELVES = _IDS.format("e.id, e.body", "event e ON e.id = j.value")
_ALONE = f"{_SELVES} AND e.plan IS NULL"
_TOUCHED = _IDS.format("DISTINCT x.target, x.knob", "edit x ON x.change = j.value")
_UNDONE = (
    _IDS.format("json_extract(e.body, '$.undoes')", "event e ON e.id = j.value")
    + " WHERE instr(e.body, '\"undoes\":null') = 0"  # a tenth of the time, and most undo nothing
)
_FIRST, _SECOND, _THIRD, _FOURTH = (f"json_extract(j.value, '$[{n}]')" for n in range(4))
_TOUCHING = _IDS.format(
    "DISTINCT x.change, x.target", f"edit x ON x.target = {_FIRST} AND x.knob = {_SECOND}"
)
_MADE = _IDS.format(
    "e.id, e.body", f"event e ON e.plan = {_FIRST} AND (+e.target = {_SECOND} OR +e.target IS NULL)"
)
_DONE_ON = _IDS.format("e.id, e.body", f"event e ON e.plan = {_FIRST} AND +e.target = {_SECOND}")
"""the + keeps SQLite from all that was ever done on the target, of which a plan is a small part"""
_OF_FACET = _IDS.format(
    "e.id, e.body", "facet f ON f.facet {} AND f.value = {} CROSS JOIN event e ON e.id = f.event"
)
_CHAINED = _OF_FACET.format("IN ('chain', 'resumed')", "j.value")
_RECONSTRUCTED = _OF_FACET.format("= 'past'", "j.value")
_SEEN_LIVE = _OF_FACET.format("= 'live'", f"{_SECOND} AND f.at >= {_THIRD}")
_NEWEST = _IDS.format(
    "e.id, e.body",
    f"newest n ON n.facet = ? AND n.service = {_FIRST} AND n.target = {_SECOND} "
    f"AND (n.at, n.event) > ({_THIRD}, {_FOURTH}) "
    "CROSS JOIN event e ON e.id = n.event",
)
_BY_FACET = "SELECT e.id, e.body FROM facet f CROSS JOIN event e ON e.id = f.event"


def _marks(values: tuple[str, ...]) -> str:
    return f"({', '.join('?' * len(values))})"


def _service(target: str) -> str:
    return target.partition(":")[0]


def _last(facet: str, service: str, target: str = "''") -> str:
    return f"(SELECT at FROM newest WHERE facet = '{facet}' AND service = {service} AND target = {target})"


_WHEN = f"{_last('written', 's', 't')}, {_last('renewed', 's')}, {_last('live', 's', 't')}"
"""when a target was written last, its service last brought up new processes, and it was last seen live"""
_WHEN_ONE = f"SELECT {_WHEN} FROM (SELECT ? AS s, ? AS t)"
_WHEN_EACH = (
    f"SELECT t, s, {_WHEN} FROM (SELECT service AS s, target AS t FROM newest WHERE facet = 'written' "
    "UNION SELECT service, target FROM newest WHERE facet = 'live' ORDER BY 1, 2)"
)
_HEALTH = f"SELECT service, at, {_last('healthy', 'bad.service')} FROM newest bad WHERE facet = 'unhealthy'"
"""services that were not healthy once: when that was so last, and when they were"""
