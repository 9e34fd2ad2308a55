"""What a command decides on is known to it as the whole ledger tells it, whatever lies in that."""

from __future__ import annotations

from collections.abc import Collection
from datetime import timedelta
from pathlib import Path
from typing import Any

import pytest
from hypothesis import Phase, given, settings
from hypothesis import strategies as st
from ledgers import DECODE, NOON, at, note, planned, scratch
from teller import LAST, TARGETS, drawn, whole
from test_excerpt import footing

from knobledger.events.changes import Started
from knobledger.events.serving import Before, RestartEnded, RestartStarted, ServiceRestarted
from knobledger.folds.plans import Plan
from knobledger.ledger.excerpt import NoExcerpt
from knobledger.ledger.store import Ledger
from knobledger.ledger.working import WorkingExcerpt
from knobledger.names import EventId, TargetName
from knobledger.report.plans import plan_report
from knobledger.state import State

SERVICES = sorted({target.partition(":")[0] for target in TARGETS})
NOW = NOON + timedelta(minutes=LAST)


def _of_target(state: State, target: TargetName) -> dict[str, Any]:
    service = target.partition(":")[0]
    return {
        "file": state.files.get(target),
        "edits": {key: edits for key, edits in state.edits.items() if key[0] == target},
        "attempts": [one for one in state.attempts.values() if one.started.target == target],
        "plans": [
            (id_, plan.approvals, plan.rejected)
            for id_, plan in state.plans.items()
            if plan.file_of(target) is not None
        ],
        "armed": [one for one in state.pending() if one.target == target],
        "owed": state.serving.owed.get(target),
        "current": target in state.serving.current,
        "unhealthy": state.serving.unhealthy.get(service),
        "starts": (state.serving.expected_start_s(service), state.serving.slowest_start_s(service)),
        "stop": state.serving.expected_stop_s(service),
        "newest": state.newest,
    }


def _of_plan(state: State, plan: Plan) -> dict[str, Any]:
    facts: dict[str, Any] = {
        "report": plan_report(state, plan, NOW).to_json(),
        "attempts": plan.attempts,
        "approvals": plan.approvals,
        "unreviewed": plan.unreviewed,
        "takes back": state.takes_back(plan.id),
        "turns": state.turns(plan.id),
    }
    return facts | ({"finding": state.finding(plan.id)} if plan.is_change else {})


def _waiting(state: State, among: Collection[str]) -> dict[str, Any]:
    plans = [plan for plan in state.plans.values() if plan.id in among]
    found = [plan for plan in plans if plan.status(NOW) in ("open", "approved", "in doubt")]
    return {
        "plans": [plan_report(state, plan, NOW).to_json() for plan in found],
        "in doubt": {one.id for one in state.in_doubt()},
        "unreviewed": {plan.id for plan in plans if plan.unreviewed},
    }


@settings(max_examples=80, phases=[Phase.generate])
@given(st.data())
def test_a_part_tells_of_its_own_what_the_whole_tells(data: st.DataObject) -> None:
    with scratch() as folder:
        ledger = Ledger(Path(folder))
        teller = drawn(ledger, data)
        everything = whole(ledger)
        index = ledger.index()

        target = data.draw(st.sampled_from(TARGETS))
        taken = WorkingExcerpt(index)
        taken.targets([target])
        state = State.of(taken.events().items())
        assert _of_target(state, target) == _of_target(everything, target)
        assert footing(state) == footing(everything)

        if teller.plans:
            id_ = data.draw(st.sampled_from(teller.plans))
            taken = WorkingExcerpt(index)
            where = taken.entry(id_)
            assert set(where) == {file.target for file in everything.plans[id_].planned.files}
            state = State.of(taken.events().items())
            assert _of_plan(state, state.plans[id_]) == _of_plan(everything, everything.plans[id_])
            taken.targets(where)
            state = State.of(taken.events().items())
            assert _of_plan(state, state.plans[id_]) == _of_plan(everything, everything.plans[id_])

        taken = WorkingExcerpt(index)
        taken.waiting(NOW)
        state = State.of(taken.events().items())
        assert _waiting(state, taken.in_full) == _waiting(everything, everything.plans)
        assert taken.plans() == len(everything.plans)

        taken = WorkingExcerpt(index)
        taken.armed()
        state = State.of(taken.events().items())
        assert state.pending() == everything.pending()

        back = data.draw(st.integers(0, 2))
        taken = WorkingExcerpt(index)
        try:
            taken.newest_changes(back + 1)
        except NoExcerpt:
            pass
        else:
            state = State.of(taken.events().items())
            assert state.changes[-1 - back :] == everything.changes[-1 - back :]
        index.close()


def test_an_attempt_in_doubt_is_found_when_its_plan_has_expired(tmp_path: Path) -> None:
    ledger = Ledger(tmp_path)
    plan = planned()
    id_ = ledger.append(plan)
    [file] = plan.files
    ledger.append(
        Started(at=at(1), actor="a", plan=id_, target=file.target, base=file.base, result=file.result)
    )
    taken = WorkingExcerpt(ledger.index())
    taken.waiting(NOON + timedelta(days=9))
    assert taken.in_full == {id_}


def test_of_many_restarts_those_come_that_tell_how_long_one_takes(tmp_path: Path) -> None:
    ledger = Ledger(tmp_path)
    chains = []
    for n, took in enumerate([3.0, 90.0, 4.0, None, 5.0, 6.0, 7.0, 8.0, 9.0]):
        facts = {"cause": "asked", "scope": "service", "services": (Before(service=DECODE),)}
        chain = ledger.append(RestartStarted.of({"at": at(10 * n), "actor": "a", **facts}))
        done = ServiceRestarted(at=at(10 * n + 1), actor="a", chain=chain, service=DECODE, outcome="healthy")
        ledger.append(done.but(healthy_after_s=took))
        ledger.append(RestartEnded(at=at(10 * n + 2), actor="a", chain=chain, outcome="done"))
        chains.append(chain)
    taken = WorkingExcerpt(ledger.index())
    taken.services([DECODE])
    state = State.of(taken.events().items())
    assert sorted(state.serving.chains) == sorted([chains[1], *chains[4:]])
    assert all(one.ended for one in state.serving.chains.values())
    assert (state.serving.expected_start_s(DECODE), state.serving.slowest_start_s(DECODE)) == (7.0, 90.0)


def test_a_row_that_is_not_what_its_id_says_is_not_believed(tmp_path: Path) -> None:
    ledger = Ledger(tmp_path)
    ledger.append(note("a", 1))
    id_: EventId = ledger.append(note("b", 2))
    index = ledger.index()
    with index.reader() as connection:
        connection.execute("UPDATE event SET body = replace(body, '\"b\"', '\"c\"') WHERE id = ?", (id_,))
    taken = WorkingExcerpt(index)
    taken.entry(id_)
    with pytest.raises(NoExcerpt):
        taken.events()
