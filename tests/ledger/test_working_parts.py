"""Which events a command that acts takes in, one by one; told as in `test_excerpt_parts.py`."""

from __future__ import annotations

from collections.abc import Callable
from datetime import timedelta
from pathlib import Path

import pytest
from acts import BASE, Acts, taken_in, told
from ledgers import DECODE, NOON, PREFILL, path_of

from knobledger.events.approving import SignersTrusted
from knobledger.events.asking import VerdictGiven
from knobledger.events.changes import Rejected
from knobledger.events.notes import Noted
from knobledger.ledger import working
from knobledger.ledger.excerpt import NoExcerpt
from knobledger.ledger.store import Ledger
from knobledger.ledger.working import WorkingExcerpt
from knobledger.names import EventId, TargetName

ENV = TargetName("gpu1/decode:env")
UNKNOWN = EventId("7" * 64)
LAST = "noted 999"
"""the newest event, which always comes"""


@pytest.fixture
def acts(tmp_path: Path) -> Acts:
    made = Acts(Ledger(tmp_path))
    made.write(Noted, 999, text="the last")
    # nobody owes a restart, so that the footer has nothing to tell
    for service in ("gpu1/decode", "gpu1/prefill"):
        made.restarted(998, UNKNOWN, service)
    return made


def asked(acts: Acts, ask: Callable[[WorkingExcerpt], object]) -> set[str]:
    """What was taken in beside the last event."""
    found = taken_in(acts, WorkingExcerpt, ask)
    assert LAST in found
    return found - {LAST}


def nothing(taken: WorkingExcerpt) -> None:
    pass


WRITTEN = {"service_restarted 998"}
"""comes along with what a target was given: its service has new processes since"""


def test_what_holds_for_all_comes_always(acts: Acts) -> None:
    acts.write(VerdictGiven, 1, hypothesis="leak", ruling="refuted", because="measured")
    acts.write(SignersTrusted, 2, digest=BASE, content="", policies="{}")
    acts.write(Noted, 3, text="said")
    acts.change(4)
    acts.chain(10, PREFILL)
    found = {"verdict_given 1", "signers_trusted 2", "restart_started 10"}
    assert asked(acts, nothing) == found


def test_a_target_comes_with_who_allowed_it_and_the_restarts_of_its_service(acts: Acts) -> None:
    acts.change(0, ENV)
    acts.change(10)
    plan = acts.plan(20, ENV, PREFILL)
    acts.write(Rejected, 21, plan=plan, why="no")
    for minute, service in ((30, "gpu1/decode"), (40, "gpu1/prefill")):
        chain = acts.chain(minute, service)
        acts.restarted(minute + 1, chain, service, fresh=False, took=2.5)
        acts.ended(minute + 2, chain)
    assert asked(acts, lambda taken: taken.targets([ENV])) == {
        *("planned 0", "approved 0.5", "started 1", "applied 1.5", "planned 20", "rejected 21"),
        *("restart_started 30", "service_restarted 31", "restart_ended 32"),
        *WRITTEN,
    }


@pytest.mark.parametrize(
    ("took", "come"),
    [
        ([1, 1, 1, 1, 1], [0, 1, 2, 3, 4]),
        ([9, 1, 1, 1, 1, 1], [0, 1, 2, 3, 4, 5]),  # the slowest beside the newest five
        ([9, 8, 1, 1, 1, 1, 1], [0, 2, 3, 4, 5, 6]),
        ([1, 8, 9, 1, 1, 1, 1], [2, 3, 4, 5, 6]),
    ],
)
def test_restarts_that_tell_how_long_the_next_one_takes(acts: Acts, took: list[int], come: list[int]) -> None:
    for n, seconds in enumerate(took):
        chain = acts.chain(10 * n, DECODE)
        acts.restarted(10 * n + 1, chain, fresh=False, took=seconds)
        acts.ended(10 * n + 2, chain)
    found = asked(acts, lambda taken: taken.services([DECODE]))
    assert found - WRITTEN == {
        name
        for n in come
        for name in (
            f"restart_started {10 * n}",
            f"service_restarted {10 * n + 1}",
            f"restart_ended {10 * n + 2}",
        )
    }


def test_where_time_does_not_tell_which_are_the_newest_all_come(acts: Acts) -> None:
    for n in range(7):
        chain = acts.chain(10 * n, DECODE)
        acts.restarted(10 * n + 1, chain, fresh=False, took=1)
        acts.ended(10 * n + 2, chain)
    late = acts.write(Noted, 21.5, text="by a clock that was ahead")
    acts.write(Noted, 20.5, late, text="after it")
    found = asked(acts, lambda taken: taken.services([DECODE]))
    assert {f"service_restarted {10 * n + 1}" for n in range(7)} <= found


def test_several_targets_and_services(acts: Acts) -> None:
    for minute, service in ((30, "gpu1/decode"), (40, "gpu1/prefill")):
        chain = acts.chain(minute, service)
        acts.restarted(minute + 1, chain, service, fresh=False, took=2.5)
        acts.ended(minute + 2, chain)
    acts.observed(1, knob="")
    acts.observed(2, PREFILL, knob="")
    restarts = {
        *("restart_started 30", "service_restarted 31", "restart_ended 32"),
        *("restart_started 40", "service_restarted 41", "restart_ended 42"),
        *("service_restarted 998", "service_restarted 998 #2"),
    }
    names = ["gpu1/decode", "gpu1/decode", "gpu1/prefill"]
    assert asked(acts, lambda taken: taken.services(names)) == restarts
    targets = [DECODE, DECODE, PREFILL]
    assert asked(acts, lambda taken: taken.targets(targets)) == {*restarts, "observed 1", "observed 2"}


# -- an entry ------------------------------------------------------------------


def test_a_plan_comes_whole_with_its_targets_and_services(acts: Acts) -> None:
    plan = acts.plan(0, DECODE, ENV, services=("gpu1/prefill",))
    acts.approved(1, plan)
    acts.applied(3, plan, acts.started(2, plan))
    acts.change(10, PREFILL)
    acts.observed(11, PREFILL)
    for minute, service in ((30, "gpu1/decode"), (40, "gpu1/prefill"), (50, "gpu9/decode")):
        chain = acts.chain(minute, service)
        acts.restarted(minute + 1, chain, service, fresh=False, took=2.5)
        acts.ended(minute + 2, chain)
    where: list[TargetName] = []
    full: set[str] = set()

    def ask(taken: WorkingExcerpt) -> None:
        where.extend(taken.entry(plan))
        full.update(taken.in_full)

    assert asked(acts, ask) == {
        *("planned 0", "approved 1", "started 2", "applied 3"),
        *("restart_started 30", "service_restarted 31", "restart_ended 32"),
        *("restart_started 40", "service_restarted 41", "restart_ended 42"),
        *("service_restarted 998", "service_restarted 998 #2"),
    }
    assert where == [DECODE, ENV]
    assert full == {plan}


@pytest.mark.parametrize("target", [DECODE, ENV])
def test_a_plan_comes_with_the_restarts_of_its_files_services(acts: Acts, target: TargetName) -> None:
    plan = acts.plan(0, target)
    for minute, service in ((30, "gpu1/decode"), (40, "gpu1/prefill")):
        chain = acts.chain(minute, service)
        acts.restarted(minute + 1, chain, service, fresh=False, took=2.5)
        acts.ended(minute + 2, chain)
    assert asked(acts, lambda taken: taken.entry(plan)) == {
        *("planned 0", "restart_started 30", "service_restarted 31", "restart_ended 32"),
        *WRITTEN,
    }


def test_an_event_of_a_plan_comes_with_that(acts: Acts) -> None:
    plan, approved, started, _ = acts.change(0)
    acts.change(10)  # the same knob
    acts.change(20, knob="B")
    found = {
        *("planned 0", "approved 0.5", "started 1", "applied 1.5"),
        *("planned 10", "approved 10.5", "started 11", "applied 11.5"),
        "applied 21.5",  # what the target holds by now
        *WRITTEN,
    }
    for one, where in ((approved, (DECODE,)), (started, (DECODE,))):

        def ask(taken: WorkingExcerpt, one: EventId = one, where: tuple[TargetName, ...] = where) -> None:
            assert taken.entry(one) == where
            assert taken.in_full == {plan}

        assert asked(acts, ask) == found


def test_an_event_of_no_plan(acts: Acts) -> None:
    seen, said = acts.observed(1, knob=""), acts.write(Noted, 2, text="said")
    acts.observed(3, knob="")

    def ask(taken: WorkingExcerpt) -> None:
        assert taken.entry(seen) == (DECODE,)
        assert taken.entry(said) == ()
        assert taken.entry(UNKNOWN) == ()
        assert taken.in_full == {seen, said}

    assert asked(acts, ask) == {"observed 1", "noted 2"}


# -- the newest changes ----------------------------------------------------------


def newest(acts: Acts, number: int) -> set[str]:
    """Those of which everything came."""
    found: set[str] = set()

    def ask(taken: WorkingExcerpt) -> None:
        taken.newest_changes(number)
        found.update(taken.in_full)

    asked(acts, ask)
    return {f"{event.at[14:16]}" for event in (acts.ledger.get(EventId(id_)).event for id_ in found)}


def test_the_newest_changes_and_as_many_as_may_hide_one(acts: Acts, monkeypatch: pytest.MonkeyPatch) -> None:
    with pytest.raises(NoExcerpt):
        newest(acts, 1)
    for n in range(5):
        acts.change(10 * n, knob="ABCDE"[n])
    monkeypatch.setattr(working, "_MARGIN", 0)
    assert newest(acts, 1) == {"40"}
    assert newest(acts, 2) == {"30", "40"}
    assert newest(acts, 5) == {"00", "10", "20", "30", "40"}
    with pytest.raises(NoExcerpt):
        newest(acts, 6)
    monkeypatch.setattr(working, "_MARGIN", 1)
    assert newest(acts, 1) == {"30", "40"}
    assert newest(acts, 2) == {"20", "30", "40"}
    monkeypatch.undo()
    assert newest(acts, 1) == {"00", "10", "20", "30", "40"}


def test_attempts_that_were_settled_count_if_they_wrote(acts: Acts, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(working, "_MARGIN", 0)
    acts.change(10)
    for minute, outcome in ((20, "applied"), (30, "unchanged"), (40, "overwritten")):
        plan = acts.plan(minute, DECODE, knob="B")
        acts.settled(minute + 2, plan, acts.started(minute + 1, plan), outcome)
    acts.change(50, knob="C")
    assert newest(acts, 1) == {"50"}
    assert newest(acts, 2) >= {"20", "50"}
    assert newest(acts, 3) >= {"10", "20", "50"}
    with pytest.raises(NoExcerpt):
        newest(acts, 4)


def test_a_change_is_as_old_as_its_first_success(acts: Acts, monkeypatch: pytest.MonkeyPatch) -> None:
    acts.change(0, knob="B")
    both = acts.plan(10, DECODE, PREFILL)
    attempt = acts.started(11, both)
    acts.settled(11.5, both, attempt, "unchanged")
    acts.applied(12, both, acts.started(11.8, both))
    acts.applied(13, both, acts.started(12.5, both, PREFILL), PREFILL)
    acts.change(20, knob="C")
    monkeypatch.setattr(working, "_MARGIN", 0)
    # of the two successes that are looked at, the earlier one is not the first of its change
    with pytest.raises(NoExcerpt):
        newest(acts, 2)
    monkeypatch.setattr(working, "_MARGIN", 1)
    assert newest(acts, 2) == {"10", "20"}


def test_a_change_is_as_old_as_its_first_success_whatever_recorded_it(
    acts: Acts, monkeypatch: pytest.MonkeyPatch
) -> None:
    both = acts.plan(10, DECODE, PREFILL)
    acts.settled(12, both, acts.started(11, both), "applied")
    acts.applied(13, both, acts.started(12.5, both, PREFILL), PREFILL)
    monkeypatch.setattr(working, "_MARGIN", 0)
    with pytest.raises(NoExcerpt):
        newest(acts, 1)
    monkeypatch.setattr(working, "_MARGIN", 1)
    assert newest(acts, 1) == {"10"}


@pytest.mark.parametrize(("late", "certain"), [(11.4, True), (11.5, False), (15, False)])
def test_where_clocks_were_wrong_time_does_not_tell_which_are_the_newest(
    acts: Acts, monkeypatch: pytest.MonkeyPatch, late: float, certain: bool
) -> None:
    monkeypatch.setattr(working, "_MARGIN", 0)
    acts.change(10)
    acts.write(Noted, 5, acts.write(Noted, late, text="later"), text="earlier")
    if certain:
        assert newest(acts, 1) == {"10"}
    else:
        with pytest.raises(NoExcerpt):
            newest(acts, 1)


# -- what is open ----------------------------------------------------------------


def test_what_is_armed_comes_with_its_targets(acts: Acts) -> None:
    plan, *_ = acts.change(0)
    acts.arming(5, plan)
    acts.observed(6, knob="")
    acts.observed(7, PREFILL, knob="")
    acts.live(8)
    assert asked(acts, WorkingExcerpt.armed) == {
        *("planned 0", "approved 0.5", "started 1", "applied 1.5", "arming 5"),
        *("observed 6", "seen_live 8"),
        *WRITTEN,
    }


def test_what_may_be_waiting_for_somebody(acts: Acts) -> None:
    acts.plan(0, DECODE, expires=100)
    acts.plan(1, PREFILL, knob="P", expires=100.5)
    acts.started(3, acts.plan(2, ENV, knob="E", expires=50), ENV)
    glass = acts.plan(4, TargetName("gpu9/decode"), knob="G", expires=50)
    acts.approved(5, glass, source="glass", principal="anna", break_glass="down")
    usual = acts.plan(6, TargetName("gpu8/decode"), knob="U", expires=50)
    acts.approved(7, usual)
    full: set[EventId] = set()

    def ask(taken: WorkingExcerpt) -> None:
        taken.waiting(NOON + timedelta(minutes=100))
        full.update(EventId(id_) for id_ in taken.in_full)
        assert taken.plans() == 5

    asked(acts, ask)
    assert told({id_: acts.ledger.get(id_).event for id_ in full}) == {"planned 1", "planned 2", "planned 4"}


def test_an_event_whose_file_is_gone_is_not_acted_on(acts: Acts) -> None:
    *_, applied = acts.change(0)
    taken = WorkingExcerpt(acts.ledger.index())
    taken.targets([DECODE])
    path_of(acts.ledger, applied).unlink()
    with pytest.raises(NoExcerpt):
        taken.events()
