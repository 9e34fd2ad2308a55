"""Which events an excerpt takes in, one by one, where the property in `test_excerpt.py` sees only that they are enough.

An event is told by its kind and its minute after noon: `applied 1.5`. What comes about by itself is written with its
moment, so that the same minute is not used twice.
"""

from __future__ import annotations

import json
from collections.abc import Callable
from datetime import timedelta
from pathlib import Path

import pytest
from acts import Acts, taken_in
from ledgers import DECODE, NOON, PREFILL, at, note

from knobledger.errors import LedgerBroken
from knobledger.event import encode, id_of
from knobledger.events.arming import Armed, Confirmed, Expired
from knobledger.events.asking import HypothesisOpened
from knobledger.events.changes import Rejected
from knobledger.events.notes import Noted
from knobledger.ledger import excerpt as excerpts
from knobledger.ledger.excerpt import Excerpt, NoExcerpt
from knobledger.ledger.store import Ledger
from knobledger.names import EventId, TargetName

ENV = TargetName("gpu1/decode:env")
UNKNOWN = EventId("7" * 64)
ARMED = {"deadline": at(99), "scheduler": "process"}
EXPIRED = {"outcome": "reverted", "ended_at": at(9)}


@pytest.fixture
def acts(tmp_path: Path) -> Acts:
    return Acts(Ledger(tmp_path))


def asked(acts: Acts, ask: Callable[[Excerpt], object]) -> set[str]:
    return taken_in(acts, Excerpt, ask)


def since(acts: Acts, begin: float, end: float) -> set[str]:
    minute = timedelta(minutes=1)
    return asked(acts, lambda taken: taken.since(NOON + begin * minute, NOON + end * minute))


def wrong_clock(acts: Acts, early: float, late: float) -> None:
    """A note that knows of a later one: in between, time tells no order."""
    parent = acts.write(Noted, late, text="by a clock that is ahead")
    acts.write(Noted, early, parent, text="by one that is right")


def around(acts: Acts, minute: float) -> set[str]:
    """What comes along with whatever was written in that minute, as a clock was wrong then."""
    wrong_clock(acts, minute - 0.25, minute + 0.25)
    found = since(acts, minute - 0.3, minute + 0.3)
    notes = {f"noted {minute - 0.25:g}", f"noted {minute + 0.25:g}"}
    assert notes <= found
    return found - notes


# -- a time ------------------------------------------------------------------


def test_a_time_begins_with_its_first_moment_and_ends_before_its_last(acts: Acts) -> None:
    for minute in (9, 10, 19, 20):
        acts.write(Noted, minute, text="said")
        acts.write(Expired, minute, plan=UNKNOWN, target=DECODE, **EXPIRED)
    # what a deadline did may have been seen later
    assert since(acts, 10, 20) == {"noted 10", "noted 19", "expired 10", "expired 19", "expired 20"}


def test_restarts_and_edits_by_hand_may_show_later_and_questions_hold_for_ever(acts: Acts) -> None:
    for minute in (5, 10, 25):
        acts.chain(minute, DECODE)
        acts.observed(minute, knob="")
        acts.write(HypothesisOpened, minute, slug="leak", claim="it leaks")
    assert since(acts, 10, 20) == {
        *("restart_started 10", "restart_started 25", "observed 10", "observed 25"),
        *("hypothesis_opened 5", "hypothesis_opened 10", "hypothesis_opened 25"),
    }


def test_a_change_comes_with_all_but_its_approval(acts: Acts) -> None:
    acts.change(0, knob="B")
    plan, *_ = acts.change(10)
    acts.write(Confirmed, 90, plan=plan, target=DECODE)
    acts.change(20, knob="C")
    # the last is what the target holds by now
    whole = {"planned 10", "started 11", "applied 11.5", "confirmed 90", "applied 21.5"}
    assert since(acts, 11, 12) == whole
    assert since(acts, 11.5, 11.6) == whole
    assert since(acts, 11, 11.5) == set()


def test_an_attempt_that_was_settled_is_a_change_as_well(acts: Acts) -> None:
    plan = acts.plan(0, DECODE)
    acts.settled(11, plan, acts.started(1, plan), "unchanged")
    assert since(acts, 10, 20) == {"planned 0", "started 1", "settled 11"}


def test_all_edits_of_its_knobs_on_its_targets_come_along(acts: Acts) -> None:
    acts.change(0)
    acts.change(10)
    acts.change(20, PREFILL)
    acts.change(30, knob="B")
    acts.observed(-10)
    acts.observed(-11, PREFILL)
    acts.observed(-12, knob="B")
    both = acts.plan(40, DECODE, PREFILL)
    acts.started(41, both)
    acts.started(42, both, PREFILL)
    acts.approved(43, both)
    acts.write(Rejected, 44, plan=both, why="no")
    assert since(acts, 11, 12) == {
        *("planned 0", "started 1", "applied 1.5"),
        *("planned 10", "started 11", "applied 11.5"),
        *("observed -10", "planned 40", "started 41"),
        "applied 31.5",  # what the target holds by now
    }


def test_all_that_was_reconstructed_of_its_targets_comes_along(acts: Acts) -> None:
    acts.observed(-10, knob="", source="/root/serve.sh.bak")
    acts.observed(-11, PREFILL, knob="", source="/root/serve.sh.bak")
    acts.observed(-12, knob="")
    acts.change(10)
    assert since(acts, 11, 12) == {"planned 10", "started 11", "applied 11.5", "observed -10"}
    acts.observed(50, PREFILL, knob="")
    assert since(acts, 49, 51) == {"observed 50", "observed -11"}


def test_several_targets_with_the_same_knob(acts: Acts) -> None:
    for minute, target in ((0, DECODE), (10, PREFILL)):
        acts.observed(minute - 20, target, knob="", source="/root/serve.sh.bak")
        acts.change(minute, target)
    both = acts.plan(20, DECODE, PREFILL)
    acts.applied(22, both, acts.started(21, both))
    assert since(acts, 20, 23) == {
        *("observed -20", "planned 0", "started 1", "applied 1.5"),
        *("observed -10", "planned 10", "started 11", "applied 11.5"),
        *("planned 20", "started 21", "applied 22"),
    }


def test_what_was_undone_comes_along_with_its_knobs(acts: Acts) -> None:
    first, *_ = acts.change(0)
    acts.change(5)
    second, *_ = acts.change(10, knob="B", undoes=first)
    acts.change(20, knob="", undoes=second)
    acts.change(30, knob="C")
    assert since(acts, 21, 22) == {
        f"{kind} {minute + after:g}"
        for minute in (0, 5, 10, 20)
        for kind, after in (("planned", 0), ("started", 1), ("applied", 1.5))
    } | {"applied 31.5"}


def test_a_change_of_two_files_does_not_hide_another_one(acts: Acts) -> None:
    acts.change(0, knob="B")
    both = acts.plan(10, DECODE, PREFILL)
    for minute, target in ((11, DECODE), (12, PREFILL)):
        acts.applied(minute + 0.5, both, acts.started(minute, both, target), target)
    assert since(acts, 1, 20) == {
        *("planned 0", "started 1", "applied 1.5"),
        *("planned 10", "started 11", "applied 11.5", "started 12", "applied 12.5"),
    }


# -- other questions ---------------------------------------------------------


def test_plans_come_without_what_was_done_by_them(acts: Acts) -> None:
    events = [acts.ledger.get(id_).event for id_ in (*acts.change(0), acts.write(Noted, 5, text="said"))]
    acts.plan(10, DECODE)
    assert asked(acts, lambda taken: taken.plans_of(events)) == {"planned 0"}


def test_all_of_a_target_but_for_who_allowed_it(acts: Acts) -> None:
    acts.change(0)
    acts.change(10, PREFILL)
    acts.write(Rejected, 21, plan=acts.plan(20, DECODE, PREFILL), why="no")
    acts.observed(30)
    acts.live(31)
    acts.live(32, PREFILL)
    assert asked(acts, lambda taken: taken.target(DECODE)) == {
        *("planned 0", "started 1", "applied 1.5", "planned 20", "observed 30", "seen_live 31"),
    }


# -- what an event must not stand without --------------------------------------


@pytest.mark.parametrize("kind", ["arming", "armed"])
def test_an_arming_comes_with_its_end(acts: Acts, kind: str) -> None:
    plan, other = acts.plan(0, DECODE, PREFILL), acts.plan(1, DECODE)
    if kind == "arming":
        acts.arming(25, plan)
        acts.write(Armed, 40, plan=plan, target=DECODE, **ARMED)
    else:
        acts.write(Armed, 25, plan=plan, target=DECODE, **ARMED)
        acts.arming(40, plan)
    acts.write(Confirmed, 50, plan=plan, target=DECODE)
    acts.write(Confirmed, 51, plan=plan, target=PREFILL)
    acts.write(Confirmed, 52, plan=other, target=DECODE)
    acts.started(53, plan)
    rest = "armed 40" if kind == "arming" else "arming 40"
    assert around(acts, 25) == {f"{kind} 25", rest, "confirmed 50"}


@pytest.mark.parametrize("outcome", ["unchanged", "unknown"])
def test_an_attempt_comes_with_its_outcome(acts: Acts, outcome: str) -> None:
    plan, other = acts.plan(0, DECODE, PREFILL), acts.plan(1, DECODE)
    attempt = acts.started(25, plan)
    acts.failed(40, plan, attempt, outcome)
    acts.started(41, plan)
    acts.rolled_back(42, plan, attempt)
    acts.failed(43, other, acts.started(44, other), "unknown")
    acts.settled(45, plan, acts.started(46, plan, PREFILL), "applied", PREFILL)
    assert around(acts, 25) == {"started 25", "failed 40", "rolled_back 42"}


def test_a_chain_comes_with_what_came_of_it(acts: Acts) -> None:
    chain, other = acts.chain(25, DECODE), acts.chain(26, PREFILL)
    acts.restarted(40, chain, fresh=False)
    acts.ended(41, chain)
    acts.restarted(42, other, PREFILL)
    acts.ended(43, other)
    acts.chain(44, DECODE, resumes=chain)
    found = {"restart_started 25", "service_restarted 40", "restart_ended 41", "restart_started 44"}
    wrong_clock(acts, 24.75, 25.25)
    # a time would take every later chain; a target takes these two moments only
    acts.live(24.8)
    acts.live(25.1)
    taken = asked(acts, lambda excerpt: excerpt.target(DECODE))
    assert taken == found | {"noted 24.75", "noted 25.25", "seen_live 24.8", "seen_live 25.1"}


def test_a_restart_comes_with_how_the_service_is_by_now(acts: Acts) -> None:
    # each of a chain of its own, since a chain comes whole
    acts.restarted(2, EventId("1" * 64), outcome="unhealthy")
    acts.restarted(5, EventId("2" * 64))
    acts.restarted(25, UNKNOWN, fresh=False)
    acts.restarted(40, EventId("3" * 64), outcome="unhealthy", fresh=False)
    acts.restarted(50, EventId("4" * 64), fresh=False)
    acts.restarted(60, EventId("5" * 64), PREFILL)
    found = {f"service_restarted {minute}" for minute in (5, 25, 40, 50)}
    assert around(acts, 25) == found


def test_each_of_several_comes_with_its_own_end(acts: Acts) -> None:
    """Two plans on two targets, two chains, two services, all in one minute by a wrong clock."""
    plans = [acts.plan(n, DECODE, PREFILL) for n in (0, 1)]
    expected = set()
    for n, (plan, target) in enumerate((plan, target) for plan in plans for target in (DECODE, PREFILL)):
        acts.arming(25 + n / 100, plan, target)
        acts.write(Confirmed, 40 + n, plan=plan, target=target)
        acts.settled(50 + n, plan, acts.started(25 + n / 100, plan, target), "unchanged", target)
        expected |= {f"arming {25 + n / 100:g}", f"confirmed {40 + n}"}
        expected |= {f"started {25 + n / 100:g}", f"settled {50 + n}"}
    for n, service in enumerate(("gpu1/decode", "gpu1/prefill")):
        chain = acts.chain(25 + n / 100, service)
        acts.ended(60 + n, chain)
        acts.restarted(70 + n, UNKNOWN, service)
        acts.restarted(25 + n / 100, UNKNOWN, service, "unhealthy", fresh=False)
        expected |= {f"restart_started {25 + n / 100:g}", f"restart_ended {60 + n}"}
        expected |= {f"service_restarted {25 + n / 100:g}", f"service_restarted {70 + n}"}
    assert around(acts, 25) == expected


def test_several_targets_come_with_what_they_hold_by_now(acts: Acts) -> None:
    for minute, target in ((10, DECODE), (12, PREFILL)):
        acts.change(minute, target)
        acts.change(minute + 20, target, knob="B")
    assert since(acts, 10, 14) == {
        *("planned 10", "started 11", "applied 11.5", "applied 31.5"),
        *("planned 12", "started 13", "applied 13.5", "applied 33.5"),
    }


def test_an_event_of_a_later_version_has_nothing_else_that_is_known(acts: Acts) -> None:
    for kind in ("arming", "started", "service_restarted", "applied"):
        raw = {
            "actor": "a",
            "at": at(25),
            "chain": UNKNOWN,
            "format": 1,
            "kind": kind,
            "outcome": "another word",
        }
        more = {"parents": [], "plan": UNKNOWN, "service": "gpu1/decode", "target": DECODE}
        acts.ledger.add(json.dumps(raw | more, sort_keys=True, separators=(",", ":")).encode())
    found = {"arming 25", "started 25", "service_restarted 25", "applied 25"}
    assert around(acts, 25) == found


@pytest.mark.parametrize("renewed", [20, 25, 30])
@pytest.mark.parametrize("how", ["applied", "settled"])
def test_a_change_comes_with_what_was_written_and_started_since(acts: Acts, renewed: float, how: str) -> None:
    plan = acts.plan(0, ENV)
    attempt = acts.started(1, plan, ENV)
    if how == "applied":
        acts.applied(25, plan, attempt, ENV)
    else:
        acts.settled(25, plan, attempt, "applied", ENV)
    acts.change(35, ENV, knob="B")
    acts.change(40, ENV, knob="C")
    acts.change(45, PREFILL)
    acts.restarted(10, UNKNOWN, "gpu1/decode", fresh=False)
    acts.restarted(renewed, UNKNOWN, "gpu1/decode")
    fresh = {f"service_restarted {renewed:g}"} if renewed >= 25 else set()
    assert since(acts, 25, 26) == {"planned 0", "started 1", f"{how} 25", "applied 41.5"} | fresh


# -- the footer ----------------------------------------------------------------


def footing(acts: Acts) -> set[str]:
    return asked(acts, lambda taken: taken.footing())


def test_what_is_armed(acts: Acts) -> None:
    plan, *_ = acts.change(0)
    acts.arming(5, plan)
    acts.write(Armed, 6, plan=plan, target=DECODE, **ARMED)
    acts.arming(7, plan, PREFILL)
    acts.write(Armed, 8, plan=plan, target=PREFILL, **ARMED)
    acts.write(Confirmed, 9, plan=plan, target=PREFILL)
    acts.arming(10, acts.plan(9.5, PREFILL), DECODE)
    acts.restarted(11, UNKNOWN)  # nothing is owed
    assert footing(acts) == {"planned 0", "arming 5", "armed 6", "planned 9.5", "arming 10"}


def test_chains_in_the_middle(acts: Acts) -> None:
    chain = acts.chain(5, DECODE)
    acts.restarted(6, chain)
    acts.ended(8, acts.chain(7, DECODE))
    assert footing(acts) == {"restart_started 5", "service_restarted 6"}


@pytest.mark.parametrize(
    ("good", "clock", "bad"),
    [
        (None, (), True),
        (3, (), True),
        (5, (), True),
        (6, (), False),
        (6, (4, 7), True),
        (6, (5, 6), True),
        (6, (5.5, 7), False),
        (6, (4, 5.5), False),
    ],
)
def test_what_is_not_healthy(acts: Acts, good: float | None, clock: tuple[float, ...], bad: bool) -> None:
    acts.restarted(2, UNKNOWN, outcome="unhealthy")
    acts.restarted(5, UNKNOWN, outcome="not stopped", fresh=False)
    found = {"service_restarted 2", "service_restarted 5"}
    if good:
        acts.restarted(good, UNKNOWN, fresh=False)
        found |= {"service_restarted 5 #2" if good == 5 else f"service_restarted {good:g}"}
    if clock:
        wrong_clock(acts, *clock)
    taken = {one for one in footing(acts) if not one.startswith("noted")}
    assert taken == (found if bad else set())


@pytest.mark.parametrize(
    ("renewed", "live", "clock", "taken"),
    [
        (None, None, (), "W"),
        (10, None, (), ""),
        (10, 7, (), ""),
        (10, 15, (), "WRL"),
        (10, 10, (), "WRL"),
        (10, 5, (), ""),
        (10, 3, (), ""),
        (3, None, (), "WR"),
        (3, 2, (), "WR"),
        (3, 5, (), "WRL"),
        (5, None, (), "WR"),
        (None, 3, (), "W"),
        (None, 5, (), "WL"),
        (None, 7, (), "WL"),
        (10, None, (4, 11), "WR"),
        (10, None, (5, 10), "WR"),
        (10, None, (4, 9), ""),
        (10, None, (6, 11), ""),
        (10, 7, (6, 11), "WRL"),
    ],
)
def test_what_is_owed(
    acts: Acts, renewed: float | None, live: float | None, clock: tuple[float, ...], taken: str
) -> None:
    """Written at 5: it is owed unless a process came up later, and is in doubt where something was seen since."""
    acts.change(3.5, ENV)
    acts.change(1, ENV, knob="B")
    found = {"W": "applied 5"}
    if renewed:
        acts.restarted(1, UNKNOWN, "gpu1/decode")
        acts.restarted(renewed, UNKNOWN, "gpu1/decode")
        found["R"] = f"service_restarted {renewed:g}"
    if live:
        acts.live(live, ENV)
        found["L"] = f"seen_live {live:g}"
    if clock:
        wrong_clock(acts, *clock)
    clocks = {"noted 4", "noted 5", "noted 6", "noted 9", "noted 10", "noted 11"}
    told_of = {one for one in footing(acts) if not clock or one in found.values()} - clocks
    assert told_of == {found[letter] for letter in taken}


def test_what_was_only_seen_live(acts: Acts) -> None:
    acts.live(5, ENV)
    acts.live(7, ENV)
    acts.restarted(6, UNKNOWN, "gpu1/decode")
    assert footing(acts) == {"seen_live 5", "seen_live 7", "service_restarted 6"}


def test_of_many_services_that_owe_a_restart_one_more_than_are_named(acts: Acts) -> None:
    assert excerpts.NAMED == 3
    for n in (6, 5, 4, 3, 2, 1):
        acts.change(n, TargetName(f"gpu{n}/decode"))
    acts.change(10, ENV)
    assert footing(acts) == {"applied 2.5", "applied 11.5", "applied 3.5", "applied 4.5", "applied 5.5"}


def test_a_service_of_which_it_is_not_sure_is_one_more(acts: Acts) -> None:
    for n in range(1, 8):
        acts.change(n, TargetName(f"gpu{n}/decode"))
    acts.live(3.5, TargetName("gpu2/decode"))  # in the same moment
    taken = {f"applied {n + 1.5:g}" for n in range(1, 6)}
    assert footing(acts) == {*taken, "seen_live 3.5"}
    # of this one time does not tell either
    acts.restarted(4, UNKNOWN, "gpu3/decode", fresh=True)
    wrong_clock(acts, 3.9, 4.6)
    assert footing(acts) >= {*taken, "seen_live 3.5", "service_restarted 4", "applied 7.5"}


def test_a_service_that_owes_nothing_hides_no_other(acts: Acts) -> None:
    for n in (1, 2, 3):
        acts.change(n, TargetName(f"gpu{n}/decode"))
        if n != 2:
            acts.restarted(10 + n, UNKNOWN, f"gpu{n}/decode")
    assert footing(acts) == {"applied 3.5"}


def test_services_are_named_in_their_own_order_not_in_that_of_their_files(acts: Acts) -> None:
    acts.change(0, ENV)
    for n in range(1, 5):
        acts.change(n, TargetName(f"gpu1/decode-{n}"))
    assert footing(acts) == {"applied 1.5", "applied 2.5", "applied 3.5", "applied 4.5"}


# -- wrong clocks ----------------------------------------------------------------


@pytest.mark.parametrize(
    ("clocks", "moments", "whole"),
    [
        ([(10, 20)], (12, 18), True),
        ([(10, 20)], (10, 20), True),
        ([(10, 20)], (9, 15), False),
        ([(10, 20)], (15, 21), False),
        ([(10, 20)], (9, 21), False),
        ([(10, 20), (15, 30)], (12, 28), True),
        ([(10, 20), (20, 30)], (12, 28), True),
        ([(10, 30), (15, 20)], (22, 28), True),
        ([(10, 18), (19, 30)], (12, 28), False),
    ],
)
def test_all_of_a_time_in_which_clocks_were_wrong(
    acts: Acts, clocks: list[tuple[float, float]], moments: tuple[float, float], whole: bool
) -> None:
    for early, late in clocks:
        wrong_clock(acts, early, late)
    lives = {f"seen_live {acts.live(minute) and minute}" for minute in moments}
    acts.plan(16, PREFILL)
    acts.plan(31, PREFILL)
    ends = [minute for clock in clocks for minute in clock]
    notes = {f"noted {minute}" for minute in ends} | ({"noted 20 #2"} if ends.count(20) == 2 else set())
    found = asked(acts, lambda taken: taken.target(DECODE))
    assert found == (lives | notes | {"planned 16"} if whole else lives)


def test_each_such_time_is_taken_once_and_may_lead_to_another(acts: Acts) -> None:
    wrong_clock(acts, 1, 2)
    wrong_clock(acts, 10, 20)
    wrong_clock(acts, 40, 50)
    wrong_clock(acts, 60, 70)
    acts.live(12)
    acts.live(14)
    acts.live(42)
    plan = acts.plan(0, PREFILL)
    acts.arming(15, plan, PREFILL)
    acts.write(Armed, 45, plan=plan, target=PREFILL, **ARMED)
    assert asked(acts, lambda taken: taken.target(DECODE)) == {
        *("noted 10", "noted 20", "seen_live 12", "seen_live 14", "arming 15"),
        *("noted 40", "noted 50", "seen_live 42", "armed 45"),
    }


@pytest.mark.parametrize(("plenty", "enough"), [(4, True), (5, False)])
def test_how_many_events_are_too_many(
    acts: Acts, monkeypatch: pytest.MonkeyPatch, plenty: int, enough: bool
) -> None:
    monkeypatch.setattr(excerpts, "_PLENTY", plenty)
    wrong_clock(acts, 10, 20)
    for minute in (12, 14, 16):
        acts.live(minute)
    if enough:
        with pytest.raises(NoExcerpt):
            asked(acts, lambda taken: taken.target(DECODE))
    else:
        assert len(asked(acts, lambda taken: taken.target(DECODE))) == 5


# -- the index ---------------------------------------------------------------------


def test_a_row_that_is_no_event_is_named(acts: Acts) -> None:
    index = acts.ledger.index()
    id_ = id_of(b"{}")
    event = acts.ledger.get(acts.started(0, id_)).event
    taken = Excerpt(index)
    with index.reader() as connection:
        connection.execute("UPDATE event SET id = ?, body = '{}'", (id_,))
    taken.plans_of([event])
    with pytest.raises(LedgerBroken, match=f"the event {id_} can't be read: ") as error:
        taken.events()
    assert error.value.hint == "`knob verify`"


def test_a_row_that_is_not_what_its_id_says(acts: Acts) -> None:
    index = acts.ledger.index()
    plan = acts.plan(0, DECODE)
    event = acts.ledger.get(acts.started(1, plan)).event
    with index.reader() as connection:
        connection.execute("UPDATE event SET body = replace(body, 'anna', 'bert')")
    taken = Excerpt(index)
    taken.plans_of([event])
    with pytest.raises(NoExcerpt):
        taken.events()


def test_how_many_events_make_it_worthwhile(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    ledger = Ledger(tmp_path)
    for n in range(4):
        ledger.add(encode(note(str(n), n * 1440)))
    monkeypatch.setattr(excerpts, "WORTHWHILE", 4)
    assert excerpts.worthwhile(ledger) is False
    monkeypatch.setattr(excerpts, "WORTHWHILE", 3)
    assert excerpts.worthwhile(ledger) is True
