"""What a command decides on, found by the index: of the targets, plans and services at hand everything, of others nothing.

Beside these always comes what holds for all: who may sign, what was asked and found out, the newest moment.
"""

from __future__ import annotations

from collections.abc import Iterable
from datetime import datetime

from knobledger.errors import Unknown
from knobledger.event import stamp
from knobledger.events.entry import Event
from knobledger.folds.serving import REMEMBERED
from knobledger.ledger.days import day_of
from knobledger.ledger.excerpt import ASKING, Excerpt, NoExcerpt
from knobledger.ledger.index import Index
from knobledger.names import EventId, TargetName

_FOR_ALL = (*ASKING, "signers_trusted")
_SUCCESS = ("applied", "settled")
_MARGIN = 20
"""successes that are looked at beyond those asked for, since one change may have several"""


class WorkingExcerpt(Excerpt):
    """An excerpt to act on: the index finds its events, and each one's own file is read as well.

    What its methods have gathered already costs little to gather again.
    """

    LEFT_OUT = ()

    def __init__(self, index: Index) -> None:
        """Brings the index up to date. Raises as `Index.update`."""
        super().__init__(index)
        self._ledger = index.ledger
        self.in_full: set[str] = set()
        """plans of which everything was gathered, and not only what was done on some targets"""
        self._take(self._of_kinds("e.id, e.body", _FOR_ALL))
        self._take(self._ask("SELECT id, body FROM event ORDER BY at DESC LIMIT 1"))
        self.footing()

    def targets(self, names: Iterable[str]) -> None:
        """All that was done on targets and seen there, and the restarts of their services."""
        for name in names:
            self.target(name)
            self.services([name.partition(":")[0]])

    def services(self, names: Iterable[str]) -> None:
        """Restarts of services: how they ended, and those that tell how long the next one may take.

        With what else was restarted by them. Where time does not tell which are the newest, all.
        """
        chains: list[tuple[str]] = []
        for (name,) in self._new("service", ((name,) for name in names)):
            timed = list(self._ask(_TIMED, name))
            if len(timed) > REMEMBERED:
                begin = timed[REMEMBERED - 1][0]
                if not self._tangled(begin, begin):
                    timed = [*timed[:REMEMBERED], max(timed, key=lambda one: one[2])]
            chains += [(chain,) for _, chain, _ in timed]
            self._take_health([(name,)])
        self._take_chains(self._new("chain", chains))

    def entry(self, id_: EventId) -> tuple[TargetName, ...]:
        """An entry, the plan that it is about with all that was done by it, and what became of that; its targets."""
        self._take(self._ask("SELECT id, body FROM event WHERE id = ?", id_))
        found: list[TargetName] = []
        for about, where in list(self._ask("SELECT coalesce(plan, id), target FROM event WHERE id = ?", id_)):
            found += [where] if where else []
            found += self._plan(about)
        return tuple(dict.fromkeys(found))

    def _plan(self, id_: str) -> list[TargetName]:
        if id_ not in self.in_full:
            self.in_full.add(id_)
            self._take_whole([id_])
        targets = [TargetName(name) for (name,) in self._ask(_PARTS.format("files", "target"), id_)]
        services = [name for (name,) in self._ask(_PARTS.format("services", "service"), id_)]
        self.services([*services, *(name.partition(":")[0] for name in targets)])
        return targets

    def newest_changes(self, number: int) -> None:
        """So many changes, the newest, with all that was done by them. Raises `NoExcerpt` where time does not tell which."""
        found = sorted(
            row
            for kind in _SUCCESS
            for row in self._ask(
                "SELECT f.at, e.plan FROM facet f CROSS JOIN event e ON e.id = f.event WHERE f.facet = 'kind' "
                "AND f.value = ? AND json_extract(e.body, '$.outcome') IS NOT 'unchanged' "
                "AND json_extract(e.body, '$.outcome') IS NOT 'overwritten' ORDER BY f.at DESC "
                f"LIMIT {number + _MARGIN}",
                kind,
            )
        )[-number - _MARGIN :]
        if not found:
            raise NoExcerpt
        begin = found[0][0]
        first: dict[str, str] = {}
        for _, plan in found:
            [(first[plan],)] = self._ask(_FIRST_SUCCESS, plan)
        if sum(at >= begin for at in first.values()) < number or any(
            late >= begin for _, late in self._clocks
        ):
            raise NoExcerpt
        for plan in first:
            self._plan(plan)

    def armed(self) -> None:
        """Changes that put themselves back unless they are confirmed, and their targets."""
        for (plan,) in list(self._ask("SELECT value FROM facet WHERE facet = 'armed'")):
            self.targets(self.entry(plan))

    def waiting(self, now: datetime) -> None:
        """Plans that may be waiting for somebody, attempts in doubt, and what was done by breaking the glass."""
        for plan, *_ in [
            *self._ask("SELECT event FROM facet WHERE facet = 'waiting' AND value > ?", stamp(now)),
            *self._ask(
                "SELECT e.plan FROM facet f CROSS JOIN event e ON e.id = f.event WHERE f.facet = 'doubt'"
            ),
            *self._ask("SELECT value FROM facet WHERE facet = 'glass'"),
        ]:
            self._plan(plan)

    def plans(self) -> int:
        """How many plans the ledger has."""
        [(number,)] = self._ask("SELECT events FROM tally WHERE kind = 'planned'")
        return int(number)

    def _decode(self, id_: EventId, body: str) -> Event:
        """What is acted on must still be so in the event's own file."""
        event = super()._decode(id_, body)
        try:
            self._ledger.read(day_of(event.at), id_, proven=body.encode())
        except Unknown:
            raise NoExcerpt from None
        return event


_TIMED = (
    "SELECT e.at, json_extract(e.body, '$.chain'), json_extract(e.body, '$.healthy_after_s') AS took FROM facet f "
    "CROSS JOIN event e ON e.id = f.event WHERE f.facet = 'healthy' AND f.value = ? AND took IS NOT NULL "
    "ORDER BY f.at DESC, f.event DESC"
)
_PARTS = (
    "SELECT json_extract(part.value, '$.{1}') FROM event e, json_each(e.body, '$.{0}') part "
    "WHERE e.id = ? AND e.kind = 'planned'"
)
_FIRST_SUCCESS = (
    "SELECT MIN(at) FROM event WHERE plan = ? AND (kind = 'applied' OR "
    "(kind = 'settled' AND json_extract(body, '$.outcome') = 'applied'))"
)
