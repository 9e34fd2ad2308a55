"""What stands open in the index until its end has come, in whatever order and by however many updates; wrong clocks."""

from __future__ import annotations

from collections.abc import Callable, Iterator
from pathlib import Path

import pytest
from acts import Acts
from ledgers import DECODE, PREFILL, at, note

from knobledger.event import encode, id_of
from knobledger.events.arming import Armed, Confirmed, Disarmed, Expired
from knobledger.events.changes import Rejected
from knobledger.events.notes import Noted
from knobledger.ledger.index import Index
from knobledger.ledger.store import Ledger
from knobledger.names import EventId

Facet = tuple[str, str, str, EventId]


@pytest.fixture
def acts(tmp_path: Path) -> Acts:
    return Acts(Ledger(tmp_path))


def standing(acts: Acts, *names: str) -> list[Facet]:
    """The facets of these names: (name, value, moment, event)."""
    index = acts.ledger.index()
    found = index.reader().execute("SELECT facet, value, at, event FROM facet").fetchall()
    index.close()
    return sorted(one for one in found if one[0] in names)


def each_way(acts: Acts, name: str) -> Iterator[set[EventId]]:
    """The events that have this mark: in the index as it was brought up to date, and in one made anew."""
    for path in (None, acts.ledger.root / ".knobledger" / "index.sqlite"):
        if path:
            path.unlink()
        yield {event for *_, event in standing(acts, name)}


Open = Callable[[Acts], tuple[str, EventId]]
"""Begins something; the name of its mark, and the event that has it."""
End = Callable[[Acts, EventId], object]


def _chain(acts: Acts) -> tuple[str, EventId]:
    return "chain open", acts.chain(0, DECODE)


def _arming(acts: Acts) -> tuple[str, EventId]:
    return "armed", acts.arming(1, acts.change(0)[0])


def _waiting(acts: Acts) -> tuple[str, EventId]:
    return "waiting", acts.plan(0, DECODE)


def _doubt(acts: Acts) -> tuple[str, EventId]:
    return "doubt", acts.started(1, acts.plan(0, DECODE))


def _plan_of(acts: Acts, id_: EventId) -> EventId:
    plan: EventId = acts.ledger.get(id_).event.plan  # type: ignore[attr-defined]
    return plan


def _by_target(kind: type, minute: float, **facts: object) -> End:
    return lambda acts, id_: acts.write(kind, minute, plan=_plan_of(acts, id_), **{"target": DECODE, **facts})


ARMED = {"deadline": at(9), "scheduler": "process"}
EXPIRED = {"outcome": "reverted", "ended_at": at(9)}


@pytest.mark.parametrize(
    ("begin", "end", "over"),
    [
        (_chain, lambda acts, id_: acts.ended(2, id_), True),
        (_chain, lambda acts, id_: acts.restarted(2, id_), False),
        (_chain, lambda acts, _: acts.ended(2, acts.chain(1, PREFILL)), False),
        (_arming, _by_target(Armed, 2, **ARMED), False),
        (_arming, _by_target(Confirmed, 2), True),
        (_arming, _by_target(Confirmed, 2, target=PREFILL), False),
        (_arming, _by_target(Disarmed, 2, reason="not made"), True),
        (_arming, _by_target(Expired, 2, **EXPIRED), True),
        (_arming, lambda acts, _: acts.write(Confirmed, 2, plan=acts.plan(1, DECODE), target=DECODE), False),
        (_waiting, lambda acts, id_: acts.write(Rejected, 2, plan=id_, why="no"), True),
        (_waiting, lambda acts, _: acts.write(Rejected, 2, plan=acts.plan(1, DECODE), why="no"), False),
        (_waiting, lambda acts, id_: acts.approved(2, id_), False),
        (_waiting, lambda acts, id_: acts.applied(2, id_, acts.started(1, id_)), True),
        (_waiting, lambda acts, id_: acts.rolled_back(2, id_, acts.started(1, id_)), True),
        (_waiting, lambda acts, id_: acts.failed(2, id_, acts.started(1, id_), "unchanged"), False),
        (_waiting, lambda acts, id_: acts.settled(2, id_, acts.started(1, id_), "applied"), False),
        # its attempt has not come yet, so whether it was tried is not known
        (_waiting, lambda acts, id_: acts.applied(2, id_, EventId("7" * 64)), False),
        (_waiting, lambda acts, id_: acts.chain(2, DECODE, plan=id_), False),
        (lambda acts: ("waiting", acts.plan(0, verb="restart")), lambda acts, id_: acts.chain(2, DECODE, plan=id_), True),
        (_doubt, lambda acts, id_: acts.applied(2, _plan_of(acts, id_), id_), True),
        (_doubt, lambda acts, id_: acts.rolled_back(2, _plan_of(acts, id_), id_), True),
        (_doubt, lambda acts, id_: acts.settled(2, _plan_of(acts, id_), id_, "unchanged"), True),
        (_doubt, lambda acts, id_: acts.failed(2, _plan_of(acts, id_), id_, "unchanged"), True),
        (_doubt, lambda acts, id_: acts.failed(2, _plan_of(acts, id_), id_, "unknown"), False),
        (_doubt, lambda acts, id_: acts.applied(2, _plan_of(acts, id_), EventId("7" * 64)), False),
    ],
)  # fmt: skip
def test_a_mark_stands_until_the_end_has_come(acts: Acts, begin: Open, end: End, over: bool) -> None:
    name, id_ = begin(acts)
    assert all(id_ in marked for marked in each_way(acts, name))
    end(acts, id_)
    acts.ledger.add(encode(note("another", 3)))
    assert all((id_ not in marked) is over for marked in each_way(acts, name))


def test_a_chain_that_is_resumed_leaves_its_mark_to_the_new_one(acts: Acts) -> None:
    first = acts.chain(0, DECODE)
    assert list(each_way(acts, "chain open")) == [{first}, {first}]
    second = acts.chain(1, DECODE, resumes=first)
    assert list(each_way(acts, "chain open")) == [{second}, {second}]


def test_a_parent_that_is_later_than_its_child_is_marked(acts: Acts) -> None:
    """Whether it comes before the child, with it, or after."""

    def noted(minute: float, *parents: EventId) -> EventId:
        return acts.write(Noted, minute, *parents, text="said")

    late, same, early = noted(30), noted(20), noted(10)
    assert standing(acts, "later parent", "awaits") == []
    child = noted(20, late, same, early)
    expected: list[Facet] = [("later parent", at(30), at(20), child)]
    assert standing(acts, "later parent", "awaits") == expected
    together = noted(5, child, EventId("7" * 64))
    grandchild = noted(4, together)
    expected += [
        ("awaits", "7" * 64, at(5), together),
        ("later parent", at(20), at(5), together),
        ("later parent", at(5), at(4), grandchild),
    ]
    assert standing(acts, "later parent", "awaits") == sorted(expected)


@pytest.mark.parametrize(("minute", "marked"), [(9, False), (10, False), (11, True)])
def test_a_parent_that_comes_after_its_child(acts: Acts, minute: float, marked: bool) -> None:
    parent = encode(note("the parent", minute))
    id_ = id_of(parent)
    child = acts.write(Noted, 10, id_, text="the child")
    waits: list[Facet] = [("awaits", id_, at(10), child)]
    assert standing(acts, "later parent", "awaits") == waits
    acts.ledger.add(parent)
    turned: list[Facet] = [("later parent", at(minute), at(10), child)] if marked else []
    assert standing(acts, "later parent", "awaits") == waits + turned
    Index(acts.ledger).rebuild()
    assert standing(acts, "later parent") == turned
