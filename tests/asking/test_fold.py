"""Hypotheses, evidence, verdicts and findings as they follow from events, whatever the order of arrival."""

from __future__ import annotations

from datetime import datetime, timedelta

import pytest
from hypothesis import given
from hypothesis import strategies as st

from knobledger.comparison import Live
from knobledger.events.asking import EvidenceGiven, HypothesisOpened, VerdictGiven
from knobledger.events.serving import SeenRunning, ServiceRestarted
from knobledger.inquiry import kept, live_spans, objections, original, sweep, wrongful
from knobledger.names import EventId
from knobledger.state import State
from stories import Story

KNOB = "CTAS"


class Asking(Story):
    def suppose(self, slug: str = "hang", about: tuple[EventId, ...] = ()) -> EventId:
        return self.tell(HypothesisOpened, slug=slug, claim=f"{slug} it is", about=about)

    def say(self, side: str, weight: str = "observation", slug: str = "hang", **facts: object) -> EventId:
        text = facts.pop("text", f"{side} by {weight}")
        return self.tell(EvidenceGiven, hypothesis=slug, side=side, weight=weight, text=text, **facts)

    def judge(self, ruling: str, slug: str = "hang", supersedes: EventId | None = None) -> EventId:
        return self.tell(VerdictGiven, hypothesis=slug, ruling=ruling, because="seen", supersedes=supersedes)

    def incident(self) -> tuple[EventId, EventId, EventId, EventId]:
        tune = self.apply((KNOB, "256", "512"), purpose="perf", why="A/B")
        self.suppose()
        fix = self.apply(("QUEUE", None, "4"), purpose="fix", why="pinned requests", hypotheses=("hang",))
        revert = self.apply(
            (KNOB, "512", None), verb="unset", purpose="mitigation", hypotheses=("hang",), why="suspected"
        )
        watchdog = self.apply(("WATCHDOG", None, "60"), purpose="fix", why="watchdog")
        return tune, fix, revert, watchdog


@pytest.mark.parametrize(
    ("ruling", "revert", "tune"),
    [
        (None, "under test", None),
        ("confirmed", "justified", None),
        ("inconclusive", "unproven", None),
        ("refuted", "wrongful suspect", "wrongful suspect"),
    ],
)
def test_findings_follow_the_verdict(ruling: str | None, revert: str, tune: str | None) -> None:
    story = Asking()
    ids = story.incident()
    if ruling:
        story.judge(ruling)
    assert story.state.finding(ids[2]) == revert
    assert story.state.finding(ids[0]) == tune


def test_a_fix_is_kept_and_says_why() -> None:
    story = Asking()
    tune, fix, revert, watchdog = story.incident()
    story.judge("refuted")
    state = story.state
    assert state.finding(fix) == "justified"
    assert state.finding(watchdog) is None
    assert wrongful(state) == [revert]
    assert original(state, revert) == tune
    assert {item.change: item.why for item in kept(state)} == {
        fix: "a fix: pinned requests",
        watchdog: "a fix: watchdog",
    }
    assert [(item.change, item.made_under) for item in sweep(state, "hang")] == [
        (tune, False),
        (fix, True),
        (revert, True),
    ]


def test_what_stands_on_another_hypothesis_too_is_kept() -> None:
    story = Asking()
    story.suppose("hang")
    story.suppose("leak")
    change = story.apply(("CHUNK", "8", "4"), purpose="mitigation", hypotheses=("hang", "leak"))
    story.judge("refuted")
    assert story.state.finding(change) == "under test"
    assert [(item.change, item.why) for item in kept(story.state)] == [
        (change, "made under leak as well, which is open")
    ]
    story.judge("refuted", "leak")
    assert story.state.finding(change) == "wrongful suspect"
    assert not kept(story.state)


def test_a_mitigation_that_added_something_can_be_clawed_back_too() -> None:
    story = Asking()
    story.suppose()
    change = story.apply(
        ("MAX_RUNNING", "64", "8"), purpose="mitigation", hypotheses=("hang",), why="less load"
    )
    story.judge("refuted")
    assert wrongful(story.state) == [change]


def test_a_later_verdict_supersedes_and_findings_follow() -> None:
    story = Asking()
    *_, revert, _ = story.incident()
    first = story.judge("refuted")
    second = story.judge("confirmed", supersedes=first)
    state = story.state
    assert state.finding(revert) == "justified"
    one = state.asked.hypotheses["hang"]
    assert one.standing == "confirmed"
    assert [(v.id, v.superseded_by) for v in one.verdicts] == [(first, second), (second, None)]


def test_two_clones_gave_a_verdict_each_and_the_later_one_counts() -> None:
    story = Asking()
    story.suppose()
    story.judge("refuted")
    later = story.judge("inconclusive")
    verdict = story.state.asked.hypotheses["hang"].verdict
    assert verdict
    assert verdict.id == later


def test_corrected_evidence_stays_visible_and_counts_no_more() -> None:
    story = Asking()
    story.suppose()
    first = story.say("supports", "experiment")
    second = story.say("contradicts", "experiment", supersedes=first)
    one = story.state.asked.hypotheses["hang"]
    assert one.on("supports") == []
    assert [item.id for item in one.on("contradicts")] == [second]
    assert [(item.id, item.superseded_by) for item in one.evidence] == [(first, second), (second, None)]


def test_timing_alone() -> None:
    story = Asking()
    story.suppose()
    assert not story.state.asked.hypotheses["hang"].timing_alone
    story.say("supports", "timing")
    assert story.state.asked.hypotheses["hang"].timing_alone
    story.say("contradicts", "experiment")
    assert story.state.asked.hypotheses["hang"].timing_alone
    story.say("supports", "observation")
    assert not story.state.asked.hypotheses["hang"].timing_alone


def test_objections_come_strongest_first() -> None:
    story = Asking()
    story.suppose()
    for weight in ("timing", "observation", "experiment", "observation"):
        story.say("contradicts", weight)
    story.say("supports", "experiment")
    assert [item.weight for item in objections(story.state, ["hang", "hang", "unheard-of"])] == [
        "experiment",
        "observation",
        "observation",
        "timing",
    ]
    story.judge("refuted")
    assert objections(story.state, ["hang"])[0].weight == "verdict"
    story.judge("confirmed")
    assert objections(story.state, ["hang"])[0].weight == "experiment"


def test_a_slug_of_an_old_ledger_that_nobody_opened_is_open() -> None:
    story = Asking()
    change = story.apply((KNOB, "256", "512"), hypotheses=("any text",))
    assert story.state.finding(change) == "under test"
    story.suppose("other")
    assert story.state.finding(change) == "under test"


def test_a_ledger_without_such_events_does_not_import_the_fold() -> None:
    import subprocess
    import sys

    code = (
        "import sys; from knobledger.state import State; from knobledger.event import decode;"
        "State.of([]); import knobledger.workspace; assert 'knobledger.folds.asking' not in sys.modules"
    )
    subprocess.run([sys.executable, "-c", code], check=True)


def test_a_value_is_live_from_the_restart_that_read_it_to_the_one_that_did_not() -> None:
    story = Asking()

    def restart(service: str = "gpu1/decode") -> datetime:
        process = SeenRunning(pid=7, parent=1, started=story.clock.timestamp(), command="server")
        story.tell(ServiceRestarted, chain="c" * 64, service=service, outcome="healthy", after=(process,))
        return story.clock - timedelta(seconds=1)

    tune = story.apply((KNOB, "256", "512"))
    assert live_spans(story.state, tune) is None
    restart("gpu1/prefill")
    assert live_spans(story.state, tune) is None
    on = restart()
    story.apply((KNOB, "512", None), verb="unset")
    off = restart()
    restart()
    assert live_spans(story.state, tune) == [Live(on, off)]
    story.apply((KNOB, None, "512"), verb="restore")
    assert live_spans(story.state, tune) == [Live(on, off)]
    again = restart()
    restart()
    assert live_spans(story.state, tune) == [Live(on, off), Live(again)]


STEPS = st.lists(
    st.sampled_from(
        ["incident", "refuted", "confirmed", "inconclusive", "supports", "contradicts", "correct", "overturn"]
    ),
    max_size=9,
)


@given(steps=STEPS, data=st.data())
def test_the_order_of_arrival_does_not_matter(steps: list[str], data: st.DataObject) -> None:
    story = Asking()
    story.suppose()
    evidence: list[EventId] = []
    verdicts: list[EventId] = []
    for step in steps:
        match step:
            case "incident":
                story.incident()
            case "supports" | "contradicts":
                evidence.append(story.say(step))
            case "correct" if evidence:
                evidence.append(story.say("supports", supersedes=evidence[-1]))
            case "overturn" if verdicts:
                verdicts.append(story.judge("inconclusive", supersedes=verdicts[-1]))
            case "refuted" | "confirmed" | "inconclusive":
                verdicts.append(story.judge(step))
            case _:
                pass
    wanted = story.state
    shuffled = data.draw(st.permutations(story.events + story.events[:3]))
    seen = State.of(shuffled)
    assert seen.asked == wanted.asked
    assert [seen.finding(c) for c in seen.changes] == [wanted.finding(c) for c in wanted.changes]
    assert (wrongful(seen), kept(seen)) == (wrongful(wanted), kept(wanted))
    stepwise = State()
    for id_, event in wanted.events.items():
        stepwise.add(id_, event)
    assert stepwise.asked == wanted.asked
