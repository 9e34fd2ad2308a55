"""Hypotheses, evidence and verdicts as verbs, and the gate before something is taken away."""

from __future__ import annotations

from pathlib import Path

import pytest

from knobledger.drafting import Options
from knobledger.errors import Contradicted, Refused, Unknown, Usage
from knobledger.knobs import Request
from workspaces import KNOB, Bench

SLUG = "knob-hangs-harness"


@pytest.fixture
def bench(tmp_path: Path) -> Bench:
    bench = Bench(tmp_path)
    bench.set((KNOB, "512"), purpose="perf", why="A/B")
    with bench.open() as workspace:
        workspace.open_hypothesis(SLUG, "the knob hangs the harness", ["@"])
        workspace.evidence(SLUG, "supports", "the only deploy since noon", weight="timing")
    return bench


def contradict(bench: Bench) -> None:
    with bench.open() as workspace:
        workspace.evidence(SLUG, "contradicts", "the engines are idle while it hangs")
        workspace.evidence(SLUG, "contradicts", "24 of 24 rounds pass past the proxy", weight="experiment")


def test_without_contradiction_nothing_is_asked(bench: Bench) -> None:
    plan = bench.plan((KNOB, None), hypotheses=(SLUG,))
    assert plan.planned.purpose == "mitigation"
    assert plan.planned.verb == "unset"


@pytest.mark.parametrize("wish", [None, "256"])
def test_what_takes_the_knob_away_is_refused_with_the_evidence(bench: Bench, wish: str | None) -> None:
    contradict(bench)
    before = bench.kinds()
    with pytest.raises(Contradicted) as caught:
        bench.plan((KNOB, wish), hypotheses=(SLUG,))
    assert caught.value.exit_code == 1
    assert "timing alone" in caught.value.message
    assert "--despite" in caught.value.hint
    assert [item["weight"] for item in caught.value.values["objections"]] == [  # type: ignore[attr-defined]
        "experiment",
        "observation",
    ]
    assert bench.kinds() == before
    plan = bench.plan((KNOB, wish), hypotheses=(SLUG,), despite="the customer wants it off tonight")
    assert plan.planned.despite == "the customer wants it off tonight"


def test_a_revert_is_refused_too_and_a_restore_never(bench: Bench) -> None:
    contradict(bench)
    with pytest.raises(Contradicted):
        bench.undo("revert", "@", hypotheses=(SLUG,))
    bench.undo("revert", "@", hypotheses=(SLUG,), despite="to be sure")
    bench.undo("restore", "@", hypotheses=(SLUG,))
    assert b"CTAS=512" in bench.live


def test_a_mitigation_that_adds_something_is_asked_too_and_a_fix_is_not(bench: Bench) -> None:
    contradict(bench)
    with pytest.raises(Contradicted):
        bench.plan(("NCCL_DEBUG", "INFO"), hypotheses=(SLUG,), purpose="mitigation")
    bench.plan(("NCCL_DEBUG", "INFO"), hypotheses=(SLUG,), purpose="fix")


def test_a_hypothesis_must_exist(bench: Bench) -> None:
    with pytest.raises(Unknown, match="did you mean 'knob-hangs-harness'"):
        bench.plan((KNOB, None), hypotheses=("knob-hangs-harnes",))
    with bench.open() as workspace:
        with pytest.raises(Unknown):
            workspace.evidence("nothing", "supports", "x")
        with pytest.raises(Unknown):
            workspace.verdict("nothing", "refuted", "x")
        with pytest.raises(Refused, match="is there already"):
            workspace.open_hypothesis(SLUG, "another claim", [])
        for bad in ("", "Knob", "two words", "-x", "a" * 81):
            with pytest.raises(Usage):
                workspace.open_hypothesis(bad, "claim", [])
        with pytest.raises(Usage, match="claim is empty"):
            workspace.open_hypothesis("fine", "  ", [])


def test_secrets_are_masked_before_they_are_stored(bench: Bench) -> None:
    with bench.open() as workspace:
        report = workspace.evidence(SLUG, "supports", "it hung with DB_PASSWORD=4f9a7c11d2e8")
        assert "4f9a7c11d2e8" not in str(report.to_json())
    assert not any(b"4f9a7c11d2e8" in path.read_bytes() for path in bench.root.rglob("ledger/**/*.json"))


def test_evidence_weighs_what_it_rests_on(bench: Bench) -> None:
    with bench.open() as workspace:
        report = workspace.evidence(SLUG, "supports", "deployed then", rests_on="@")
        [first, second] = report.hypothesis.on("supports")
        assert (second.event.weight, second.event.source) == ("timing", "planned")
        assert second.event.rests_on == workspace.find_change("@")
        report = workspace.evidence(SLUG, "contradicts", "not so", supersedes=first.id[:8])
        assert [item.id for item in report.hypothesis.on("supports")] == [second.id]
        with pytest.raises(Unknown, match="no evidence on"):
            workspace.evidence(SLUG, "contradicts", "not so", supersedes="@")


def test_a_verdict_lists_every_change_with_its_finding(bench: Bench) -> None:
    contradict(bench)
    bench.set((KNOB, None), hypotheses=(SLUG,), despite="a test")
    bench.set(("NCCL_DEBUG", "INFO"), hypotheses=(SLUG,), purpose="fix", why="to see more")
    with bench.open() as workspace:
        found = workspace.verdict(SLUG, "refuted", "hangs without it too", "the proxy").to_json()
        again = workspace.verdict(SLUG, "inconclusive", "who knows").to_json()
        refused = workspace.verdict(SLUG, "refuted", "now we do").to_json()
    assert [(c["verb"], c["finding"], c["stays_because"]) for c in found["changes"]] == [
        ("set", "wrongful suspect", None),
        ("unset", "wrongful suspect", None),
        ("set", "justified", "a fix: to see more"),
    ]
    assert found["hypothesis"]["verdict"]["cause"] == "the proxy"
    assert [c["finding"] for c in again["changes"]] == [None, "unproven", "unproven"]
    verdicts = refused["hypothesis"]["verdicts"]
    assert [v["superseded_by"] is None for v in verdicts] == [False, False, True]
    assert [v["supersedes"] for v in verdicts[1:]] == [v["id"] for v in verdicts[:2]]


def test_old_ledgers_with_any_text_stay_readable(bench: Bench) -> None:
    from knobledger.drafting import draft_edit
    from knobledger.observing import look

    with bench.open() as workspace:
        draft_edit(
            workspace.desk,
            "set",
            [look(workspace.desk, *workspace.only("gpu1/decode"))],
            [Request(KNOB, "1024")],
            Options(hypotheses=("any text: it hangs",)),
        )
    [plan] = bench.open().plans().plans
    bench.apply(plan.id)
    with bench.open() as workspace:
        told = workspace.since(workspace.moment("1h"), None).to_json()
        assert told["changes"][-1]["finding"] == "under test"
        assert told["hypotheses"][-1]["slug"] == "any text: it hangs"
