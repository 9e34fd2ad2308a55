"""An excerpt answers a question as the whole ledger does, whatever lies in that."""

from __future__ import annotations

from datetime import timedelta
from pathlib import Path
from typing import Any

import pytest
from hypothesis import Phase, given, settings
from hypothesis import strategies as st
from ledgers import NOON, SCRIPT, at, manifest, note, scratch

from knobledger.event import encode, stamp
from knobledger.events.arming import Armed, Arming, Confirmed, Expired
from knobledger.events.asking import HypothesisOpened, VerdictGiven
from knobledger.events.changes import Applied, Approved, Failed, Observed, Planned, Settled, Started
from knobledger.events.notes import Noted
from knobledger.events.serving import Before, RestartEnded, RestartStarted, SeenRunning, ServiceRestarted
from knobledger.events.watching import SeenKnob, SeenLive, SeenProcess, SeenValue
from knobledger.folds.serving import NAMED
from knobledger.ledger import excerpt as excerpts
from knobledger.ledger.excerpt import Excerpt
from knobledger.ledger.store import Ledger
from knobledger.names import EventId, HostPath, TargetName, digest_of
from knobledger.plan import Edit, PlannedFile
from knobledger.receipt import Receipt
from knobledger.report.changes import between, change_lines, entries, observed_lines
from knobledger.report.serving import restarts_between
from knobledger.report.standing import hypothesis_lines
from knobledger.state import State

TARGETS = [TargetName(f"gpu{n}/decode") for n in range(1, 6)] + [TargetName("gpu1/decode:env")]
LAST = 600
"""minutes after noon in which everything happens"""


class Teller:
    """Writes events into a ledger at moments that are drawn, so a later one may name an earlier moment."""

    def __init__(self, ledger: Ledger, data: st.DataObject) -> None:
        self.ledger, self.data = ledger, data
        self.minute = 0.0
        self.last: EventId | None = None
        self.values: dict[tuple[TargetName, str], str | None] = {}
        self.changes: list[EventId] = []
        self.chains: list[EventId] = []
        self.armed: list[tuple[EventId, TargetName]] = []

    def tell(self, kind: type[Any], **facts: Any) -> EventId:
        self.minute += self.data.draw(st.sampled_from([0.5, 1, 2, -3, -40, 90]))
        self.minute = min(max(self.minute, 0), LAST)
        parents = (self.last,) if self.last else ()
        event = kind.of({"at": at(self.minute), "actor": "anna@example.org", "parents": parents, **facts})
        self.last = self.ledger.add(encode(event))
        return self.last

    def target(self) -> TargetName:
        return self.data.draw(st.sampled_from(TARGETS))

    def edits(self, target: TargetName) -> tuple[Edit, ...]:
        found = []
        for name in self.data.draw(st.lists(st.sampled_from("AB"), max_size=2, unique=True)):
            after = self.data.draw(st.sampled_from([None, "1", "2"]))
            found.append(Edit(name=name, kind="env", before=self.values.get((target, name)), after=after))
            self.values[target, name] = after
        return tuple(found)

    def change(self) -> None:
        where = self.data.draw(st.lists(st.sampled_from(TARGETS), min_size=1, max_size=2, unique=True))
        undoes = self.data.draw(st.sampled_from([None, *self.changes[-3:]]))
        files = tuple(
            PlannedFile(
                target=target,
                path=SCRIPT,
                dialect="bash",
                edits=self.edits(target),
                base=digest_of(b"%f" % self.minute),
                result=digest_of(b"%f+" % self.minute),
                diff="",
            )
            for target in where
        )
        plan = self.tell(
            Planned,
            verb="revert" if undoes else "set",
            undoes=undoes,
            files=files,
            expires=at(3000),
            why=self.data.draw(st.sampled_from(["", "because"])),
            hypotheses=self.data.draw(st.sampled_from([(), ("leak",)])),
            restart=self.data.draw(st.sampled_from(["none", "service"])),
        )
        self.tell(Approved, plan=plan, source="flag")
        for file in files:
            self.attempt(plan, file)
        self.changes.append(plan)
        if self.data.draw(st.booleans()):
            self.tell(Arming, plan=plan, target=where[0], window_s=60, token="t")
            self.tell(Armed, plan=plan, target=where[0], scheduler="timer persistent", deadline=at(LAST))
            self.armed.append((plan, where[0]))

    def attempt(self, plan: EventId, file: PlannedFile) -> None:
        attempt = self.tell(Started, plan=plan, target=file.target, base=file.base, result=file.result)
        about = {"plan": plan, "attempt": attempt, "target": file.target}
        match self.data.draw(st.sampled_from(["applied", "settled", "failed", "in doubt"])):
            case "applied":
                receipt = Receipt(
                    backup=HostPath("/b"), backup_digest=file.base, digest=file.result, manifest=manifest()
                )
                self.tell(Applied, **about, receipt=receipt)
            case "settled":
                outcome = self.data.draw(st.sampled_from(["applied", "unchanged"]))
                self.tell(Settled, **about, outcome=outcome, digest=file.result, manifest=manifest())
            case "failed":
                self.tell(Failed, **about, outcome="unchanged", error="drifted", reason="bytes")
            case _:
                pass

    def put_back(self) -> None:
        if self.armed:
            plan, target = self.armed.pop()
            if self.data.draw(st.booleans()):
                self.tell(Confirmed, plan=plan, target=target)
            else:
                planned = self.ledger.get(plan).event
                assert isinstance(planned, Planned)
                base = next(file.base for file in planned.files if file.target == target)
                self.tell(
                    Expired,
                    plan=plan,
                    target=target,
                    outcome="reverted",
                    digest=base,
                    ended_at=at(self.minute),
                )

    def by_hand(self) -> None:
        target = self.target()
        source = self.data.draw(st.sampled_from(["", "/root/serve.sh.bak"]))
        earlier = self.data.draw(st.integers(0, 200))
        self.tell(
            Observed,
            target=target,
            path=SCRIPT,
            digest=digest_of(b"%d" % self.data.draw(st.integers(0, 2))),
            previous=digest_of(b"before") if self.data.draw(st.booleans()) else None,
            edits=self.edits(target),
            manifest=manifest(),
            source=source,
            not_after=at(max(self.minute - earlier, 0)) if source or self.data.draw(st.booleans()) else "",
        )

    def restart(self) -> None:
        resumes = self.data.draw(st.sampled_from([None, *self.chains[-1:]]))
        service = self.data.draw(st.sampled_from(TARGETS[:5]))
        chain = self.tell(
            RestartStarted,
            cause="asked",
            scope="service",
            services=(Before(service=service),),
            plan=self.data.draw(st.sampled_from([None, *self.changes[-1:]])),
            resumes=resumes,
        )
        self.chains.append(chain)
        if self.data.draw(st.booleans()):
            after = (
                (SeenRunning(pid=7, parent=1, started=1.0, command="x"),)
                if self.data.draw(st.booleans())
                else ()
            )
            outcome = self.data.draw(st.sampled_from(["healthy", "unhealthy"]))
            self.tell(ServiceRestarted, chain=chain, service=service, outcome=outcome, after=after)
            if self.data.draw(st.booleans()):
                self.tell(RestartEnded, chain=chain, outcome="done")

    def look(self) -> None:
        target = self.target()
        value = self.data.draw(st.sampled_from(["1", "2"]))
        process = SeenProcess(
            pid=7, parent=1, started=at(0), command="x", after_write=self.data.draw(st.booleans())
        )
        knob = SeenKnob(
            name="A",
            kind="env",
            written="1",
            state="present",
            value=value,
            values=(SeenValue(state="present", value=value, pids=(7,)),),
        )
        service = target.partition(":")[0]
        self.tell(SeenLive, target=target, service=service, path=SCRIPT, processes=(process,), knobs=(knob,))

    def say(self) -> None:
        match self.data.draw(st.sampled_from(["note", "hypothesis", "verdict"])):
            case "note":
                self.tell(Noted, text="said")
            case "hypothesis":
                about = tuple(self.changes[-1:])
                self.tell(HypothesisOpened, slug="leak", claim="it leaks", about=about)
            case _:
                self.tell(VerdictGiven, hypothesis="leak", ruling="refuted", because="measured")


def _footing(state: State) -> dict[str, object]:
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


def _whole(ledger: Ledger) -> State:
    return State.of((stored.id, stored.event) for stored in ledger.events())


@settings(max_examples=60, phases=[Phase.generate])
@given(st.data())
def test_it_answers_as_the_whole_ledger(data: st.DataObject) -> None:
    """With clocks that are set back, restarts without an end, armed changes, edits by hand and copies of the past."""
    with scratch() as folder:
        ledger = Ledger(Path(folder))
        teller = Teller(ledger, data)
        acts = [teller.change] * 3 + [
            teller.by_hand,
            teller.restart,
            teller.look,
            teller.put_back,
            teller.say,
        ]
        for n in data.draw(st.lists(st.integers(0, len(acts) - 1), max_size=14)):
            acts[n]()
            if data.draw(st.integers(0, 4)) == 0:
                index = ledger.index()
                index.update()
                index.close()
        whole = _whole(ledger)
        begin = NOON + timedelta(minutes=data.draw(st.integers(0, LAST)))
        end = begin + timedelta(minutes=data.draw(st.integers(0, LAST)))
        only = data.draw(st.sampled_from([None, *TARGETS]))

        index = ledger.index()
        taken = Excerpt(index)
        taken.since(begin, end)
        state = State.of(taken.events().items())
        assert _told(state, stamp(begin), stamp(end), only) == _told(whole, stamp(begin), stamp(end), only)

        taken = Excerpt(index)
        taken.footing()
        assert _footing(State.of(taken.events().items())) == _footing(whole)

        target = data.draw(st.sampled_from(TARGETS))
        taken = Excerpt(index)
        taken.target(target)
        state = State.of(taken.events().items())
        assert state.files.get(target) == whole.files.get(target)
        for name in "AB":
            assert state.edits.get((target, name)) == whole.edits.get((target, name))

        found = index.find(knob="A")
        taken = Excerpt(index)
        taken.plans_of(stored.event for stored in found)
        state = State.of(taken.events().items())
        listed = [(stored.id, stored.event) for stored in found]
        assert entries(state, listed) == entries(whole, listed)
        index.close()


def test_clocks_that_went_wrong_for_long_are_not_excerpted(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    ledger = Ledger(tmp_path)
    for minute in (50, 40, 30, 20, 10):
        ledger.append(note("x", minute))
    monkeypatch.setattr(excerpts, "_PLENTY", 3)
    taken = Excerpt(ledger.index())
    taken.since(NOON, NOON + timedelta(hours=1))
    with pytest.raises(excerpts.TooMuch):
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
