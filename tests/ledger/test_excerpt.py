"""An excerpt answers a question as the whole ledger does, whatever lies in that."""

from __future__ import annotations

from datetime import timedelta
from pathlib import Path

import pytest
from hypothesis import Phase, given, settings
from hypothesis import strategies as st
from ledgers import DECODE, NOON, at, note, observed, scratch
from teller import LAST, TARGETS, drawn, whole

from knobledger.event import encode, stamp
from knobledger.events.serving import Before, RestartEnded, RestartStarted, ServiceRestarted
from knobledger.folds.serving import NAMED
from knobledger.ledger import excerpt as excerpts
from knobledger.ledger.excerpt import Excerpt
from knobledger.ledger.store import Ledger
from knobledger.names import TargetName, digest_of
from knobledger.report.changes import between, change_lines, entries, observed_lines
from knobledger.report.serving import restarts_between
from knobledger.report.standing import hypothesis_lines
from knobledger.state import State


def footing(state: State) -> dict[str, object]:
    return {
        "pending": [(one.plan, one.target, one.deadline) for one in state.pending()],
        "owed": sorted({one.service for one in state.serving.owed.values()})[: NAMED + 1],
        "unhealthy": sorted((name, one.outcome) for name, one in state.serving.unhealthy.items()),
        "in the middle": [one.id for one in state.serving.in_the_middle()],
    }


def _told(state: State, start: str, end: str, only: TargetName | None) -> dict[str, object]:
    changes = change_lines(state, start, end, only)
    named = [slug for line in changes for slug in line.hypotheses]
    return {
        "changes": changes,
        "observed": observed_lines(state, start, end, only),
        "restarts": [one.to_json() for one in restarts_between(state.serving, start, end, None)],
        "between": between(state, start, end, only),
        "hypotheses": hypothesis_lines(state, start, end, named),
    }


@settings(max_examples=60, phases=[Phase.generate])
@given(st.data())
def test_it_answers_as_the_whole_ledger(data: st.DataObject) -> None:
    """With clocks that are set back, restarts without an end, armed changes, edits by hand and copies of the past."""
    with scratch() as folder:
        ledger = Ledger(Path(folder))
        drawn(ledger, data)
        everything = whole(ledger)
        begin = NOON + timedelta(minutes=data.draw(st.integers(0, LAST)))
        end = begin + timedelta(minutes=data.draw(st.integers(0, LAST)))
        only = data.draw(st.sampled_from([None, *TARGETS]))

        index = ledger.index()
        taken = Excerpt(index)
        taken.since(begin, end)
        state = State.of(taken.events().items())
        assert _told(state, stamp(begin), stamp(end), only) == _told(
            everything, stamp(begin), stamp(end), only
        )
        taken.footing()
        assert footing(State.of(taken.events().items())) == footing(everything)

        taken = Excerpt(index)
        taken.footing()
        assert footing(State.of(taken.events().items())) == footing(everything)

        target = data.draw(st.sampled_from(TARGETS))
        taken = Excerpt(index)
        taken.target(target)
        state = State.of(taken.events().items())
        assert state.files.get(target) == everything.files.get(target)
        for name in "AB":
            assert state.edits.get((target, name)) == everything.edits.get((target, name))
        taken.footing()
        assert footing(State.of(taken.events().items())) == footing(everything)

        found = index.find(knob="A")
        taken = Excerpt(index)
        taken.plans_of(stored.event for stored in found)
        state = State.of(taken.events().items())
        listed = [(stored.id, stored.event) for stored in found]
        assert entries(state, listed) == entries(everything, listed)
        index.close()


def test_a_restart_that_stopped_nothing_leaves_its_service_as_it_was(tmp_path: Path) -> None:
    ledger = Ledger(tmp_path)
    facts = {"cause": "asked", "scope": "service", "services": (Before(service=DECODE),)}
    chain = ledger.append(RestartStarted.of({"at": at(1), "actor": "a", **facts}))
    failed = ServiceRestarted(at=at(2), actor="a", chain=chain, service=DECODE, outcome="not stopped")
    ledger.append(failed)
    taken = Excerpt(ledger.index())
    taken.footing()
    assert footing(State.of(taken.events().items()))["unhealthy"] == [(DECODE, "not stopped")]

    ledger.append(RestartEnded(at=at(3), actor="a", chain=chain, outcome="failed", touched=False))
    taken = Excerpt(ledger.index())
    taken.footing()
    assert footing(State.of(taken.events().items())) == footing(whole(ledger))
    assert footing(whole(ledger))["unhealthy"] == []


def test_what_was_reconstructed_lies_where_it_happened_between_clocks_that_went_wrong(tmp_path: Path) -> None:
    """Something else, by a clock set back, came in the order of all entries before the copy of that moment, or after it."""
    ledger = Ledger(tmp_path)
    seen = observed(0.5)
    ledger.append(seen)
    ledger.append(note("ahead", 3))
    for n in range(8):
        ledger.append(note(str(n), 0))
    ledger.append(note("later", 90))
    ledger.append(observed(80).but(source="/root/serve.sh.bak", not_after=at(0), digest=digest_of(b"past")))
    everything = whole(ledger)
    taken = Excerpt(ledger.index())
    taken.target(DECODE)
    assert State.of(taken.events().items()).files[DECODE] == everything.files[DECODE]
    assert everything.files[DECODE].digest == digest_of(b"past")


def test_clocks_that_went_wrong_for_long_are_not_excerpted(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    ledger = Ledger(tmp_path)
    for minute in (50, 40, 30, 20, 10):
        ledger.append(note("x", minute))
    monkeypatch.setattr(excerpts, "_PLENTY", 3)
    taken = Excerpt(ledger.index())
    taken.since(NOON, NOON + timedelta(hours=1))
    with pytest.raises(excerpts.NoExcerpt):
        taken.events()


def test_it_is_worthwhile_where_an_index_is_or_much_to_index(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    ledger = Ledger(tmp_path)
    for n in range(4):
        ledger.add(encode(note(str(n), n)))
    assert not excerpts.worthwhile(ledger)
    monkeypatch.setattr(excerpts, "WORTHWHILE", 3)
    assert excerpts.worthwhile(ledger)
    monkeypatch.undo()
    ledger.index().update()
    assert excerpts.worthwhile(ledger)
