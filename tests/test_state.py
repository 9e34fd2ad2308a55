"""The fold: the fate of changes, attempts in doubt, and that the order of arrival does not matter."""

from __future__ import annotations

import itertools
from datetime import timedelta

import pytest
from hypothesis import given
from hypothesis import strategies as st

from knobledger.event import encode, id_of, stamp
from knobledger.events.changes import (
    Applied,
    Approved,
    Failed,
    Rejected,
    RolledBack,
    Settled,
)
from knobledger.events.entry import Event
from knobledger.names import HostPath
from knobledger.receipt import Receipt
from knobledger.state import State
from stories import BASE, MANIFEST, NOON, RESULT, TARGET, Story


def test_the_incident_tune_revert_restore() -> None:
    story = Story()
    tune = story.apply(("K", "256", "512"))
    revert = story.apply(("K", "512", None), verb="unset")
    fix = story.apply(("WATCHDOG", None, "60"))
    assert story.fates(tune, revert, fix) == ["reverted", "in effect", "in effect"]
    restore = story.apply(("K", None, "512"), verb="restore", undoes=revert)
    assert story.fates(tune, revert, fix, restore) == ["restored", "reverted", "in effect", "in effect"]
    assert story.state.fate(tune)[1] == restore
    assert story.state.fate(revert)[1] == restore


def test_taking_back_and_bringing_back_goes_all_the_way_down() -> None:
    story = Story()
    tune = story.apply(("K", "1", "2"))
    chain = [tune]
    for before, after in (("2", "1"), ("1", "2"), ("2", "1"), ("1", "2")):
        chain.append(story.apply(("K", before, after), verb="revert", undoes=chain[-1]))
    assert story.fates(*chain) == ["restored", "reverted", "restored", "reverted", "in effect"]


@pytest.mark.parametrize(
    ("second", "fate"),
    [
        (("K", "2", "1"), "reverted"),
        (("K", "2", None), "reverted"),
        (("K", "2", "3"), "overwritten"),
    ],
    ids=["set back", "unset", "set on"],
)
def test_the_edits_tell_what_a_later_change_means(second: tuple[str, str, str | None], fate: str) -> None:
    story = Story()
    tune = story.apply(("K", "1", "2"))
    story.apply(second)
    assert story.fates(tune) == [fate]


def test_a_value_that_comes_round_again_restores_nothing() -> None:
    story = Story()
    off = story.apply(("K", "2", None), verb="unset")
    on = story.apply(("K", None, "2"))
    again = story.apply(("K", "2", None), verb="unset")
    assert story.fates(off, on, again) == ["reverted", "reverted", "in effect"]
    assert [story.state.fate(one)[1] for one in (off, on)] == [on, again]
    assert [story.state.takes_back(one) for one in (off, on, again)] == [True, False, True]
    back = story.apply(("K", None, "2"), verb="restore", undoes=again)
    assert story.fates(off, on, again, back) == ["reverted", "restored", "reverted", "in effect"]
    assert story.state.fate(off)[1] == on
    assert not story.state.takes_back(back)


def test_an_edit_by_hand_overwrites_and_is_nobodys_revert() -> None:
    story = Story()
    tune = story.apply(("K", "1", "2"))
    hand = story.by_hand(("K", "2", "1"))
    assert story.state.fate(tune) == ("overwritten", hand)
    assert story.state.files[TARGET].digest == "c" * 64


def test_a_change_of_two_knobs_is_in_effect_while_one_is() -> None:
    story = Story()
    both = story.apply(("A", "1", "2"), ("B", "1", "2"))
    story.apply(("A", "2", "1"))
    assert story.fates(both) == ["in effect"]
    story.apply(("B", "2", "1"))
    assert story.fates(both) == ["reverted"]


@pytest.mark.parametrize(
    ("outcome", "status"),
    [
        (None, "in doubt"),
        ((Failed, {"outcome": "unknown", "error": "state_unknown", "reason": "lost"}), "in doubt"),
        ((Failed, {"outcome": "unchanged", "error": "busy", "reason": "held"}), "approved"),
        ((RolledBack, {"reason": "verify"}), "used"),
        ((Settled, {"outcome": "applied", "digest": RESULT, "manifest": MANIFEST}), "used"),
        ((Settled, {"outcome": "unchanged", "digest": BASE, "manifest": MANIFEST}), "approved"),
    ],
    ids=["crashed", "lost", "busy", "rolled back", "settled in", "settled out"],
)
def test_what_an_attempt_leaves_of_its_plan(
    outcome: tuple[type[Event], dict[str, object]] | None, status: str
) -> None:
    story = Story()
    plan = story.plan(("K", "1", "2"))
    story.tell(Approved, plan=plan, source="flag")
    attempt = story.start(plan)
    if outcome:
        kind, facts = outcome
        story.tell(kind, plan=plan, attempt=attempt, target=TARGET, **facts)
    state = story.state
    assert state.plans[plan].status(NOON + timedelta(minutes=1)) == status
    assert [doubt.id for doubt in state.in_doubt()] == ([attempt] if status == "in doubt" else [])


def test_plans_expire_and_can_be_rejected() -> None:
    story = Story()
    plan = story.plan(("K", "1", "2"))
    assert story.state.plans[plan].status(NOON) == "open"
    assert story.state.plans[plan].status(NOON + timedelta(hours=24)) == "expired"
    story.tell(Rejected, plan=plan, why="no")
    assert story.state.plans[plan].status(NOON) == "rejected"


def test_a_first_outcome_is_final() -> None:
    story = Story()
    plan = story.plan(("K", "1", "2"))
    attempt = story.start(plan)
    story.tell(RolledBack, plan=plan, attempt=attempt, target=TARGET, reason="verify")
    story.tell(
        Settled,
        plan=plan,
        attempt=attempt,
        target=TARGET,
        outcome="applied",
        digest=RESULT,
        manifest=MANIFEST,
    )
    assert not story.state.plans[plan].is_change


_values = st.sampled_from([None, "1", "2", "3"])
_steps = st.lists(
    st.tuples(st.sampled_from("AB"), _values, st.sampled_from(["apply", "by_hand", "plan"])), max_size=8
)


@given(steps=_steps, order=st.randoms(use_true_random=False))
def test_any_order_of_arrival_gives_the_same_state(
    steps: list[tuple[str, str | None, str]], order: object
) -> None:
    story = Story()
    now: dict[str, str | None] = {"A": "1", "B": "1"}
    for name, value, how in steps:
        if value != now[name]:
            getattr(story, how)((name, now[name], value))
            if how != "plan":
                now[name] = value
    shuffled = list(story.events) + list(story.events[:2])
    order.shuffle(shuffled)  # type: ignore[attr-defined]
    assert State.of(shuffled) == story.state
    incremental = State()
    for id_, event in story.events:
        incremental.add(id_, event)
    assert incremental == story.state


@given(steps=_steps)
def test_the_newest_edit_of_a_knob_owns_its_value(steps: list[tuple[str, str | None, str]]) -> None:
    story = Story()
    now: dict[str, str | None] = {"A": "1", "B": "1"}
    for name, value, how in steps:
        if how != "plan" and value != now[name]:
            getattr(story, how)((name, now[name], value))
            now[name] = value
    for name, edits in itertools.groupby(story.state.edits.items(), key=lambda item: item[0][1]):
        [(_, chain)] = list(edits)
        assert chain[-1].edit.after == now[name]
        assert sum(edit.fate == "in effect" for edit in chain) == 1


def test_a_clock_that_was_set_back_does_not_turn_causes_round() -> None:
    story = Story()
    plan = story.plan(("K", "1", "2"))
    attempt = story.start(plan)
    receipt = Receipt(backup=HostPath("/b"), backup_digest=BASE, digest=RESULT, manifest=MANIFEST)
    early = Applied(
        at=stamp(NOON - timedelta(hours=1)),
        actor="anna",
        parents=(attempt,),
        plan=plan,
        attempt=attempt,
        target=TARGET,
        receipt=receipt,
    )
    story.events.append((id_of(encode(early)), early))
    assert story.state.in_doubt() == []
    assert story.fates(plan) == ["in effect"]
