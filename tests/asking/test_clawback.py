"""What can be clawed back, in which order, whether it is restorable, and what stays; on a host in memory."""

from __future__ import annotations

from pathlib import Path

import pytest

from knobledger.report.clawback import Clawback
from workspaces import KNOB, SCRIPT, SERVE, Bench

SLUG = "knob-hangs-harness"
TABLE = """\
| concurrency | 256 (baseline) | 512 (variant) | change |
|---|---|---|---|
| C48 | 684.7 | 680.6 | -0.6 % |
| C64 | 719.5 | 811.7 | +12.8 % |
| C80 | 833.0 | 842.7 | +1.2 % |
| C96 | 799.3 | 844.6 | +5.7 % |
"""


@pytest.fixture
def bench(tmp_path: Path) -> Bench:
    """Tuned, suspected, reverted, and refuted; a fix came in between."""
    bench = Bench(tmp_path / "ws")
    tuned = bench.set((KNOB, "512"), purpose="perf", why="A/B: C64 +12.8 %")
    table = tmp_path / "ab.md"
    table.write_text(TABLE)
    with bench.open() as workspace:
        workspace.bench_table(table, tuned.id)
        workspace.open_hypothesis(SLUG, "the knob hangs the harness", ["@"])
    bench.set((KNOB, None), hypotheses=(SLUG,), why="suspected")
    return bench


def refute(bench: Bench) -> None:
    with bench.open() as workspace:
        workspace.verdict(SLUG, "refuted", "24 of 24 pass past the proxy", "the proxy")


def claw(bench: Bench) -> Clawback:
    with bench.open() as workspace:
        return workspace.clawback()


def test_nothing_is_owed_before_the_verdict(bench: Bench) -> None:
    assert claw(bench).to_json() == {"items": [], "keep": []}


def test_the_incident_in_numbers(bench: Bench) -> None:
    refute(bench)
    bench.set(("WATCHDOG", "60"), add=True, purpose="fix", why="watchdog for pinned requests")
    found = claw(bench).to_json()
    [item] = found["items"]
    assert item["gains"] == [
        {
            "at": at,
            "metric": "output_throughput",
            "baseline": baseline,
            "variant": variant,
            "change_pct": change,
            "n_baseline": 1,
            "n_variant": 1,
            "call": "not enough data",
        }
        for at, baseline, variant, change in (
            ("C48", 684.7, 680.6, -0.6),
            ("C64", 719.5, 811.7, 12.81),
            ("C80", 833.0, 842.7, 1.16),
            ("C96", 799.3, 844.6, 5.67),
        )
    ]
    assert item["finding"] == "wrongful suspect"
    assert item["hypothesis"] == SLUG
    assert item["edits"] == [{"name": KNOB, "kind": "env", "before": "512", "after": None}]
    assert item["restorable"] == "later edits"
    assert [edit["text"] for edit in item["later_edits"]] == ["export WATCHDOG=60"]
    assert item["command"] == f"knob restore {item['change'][:8]}"
    assert "C80 833.0 to C96 799.3" in item["dips"][0]
    [keep] = found["keep"]
    assert keep["why"] == "a fix: watchdog for pinned requests"


def test_clean_restored_and_the_command_works(bench: Bench) -> None:
    refute(bench)
    [item] = claw(bench).items
    assert item.restorable == "clean"
    bench.undo(*item.command.split()[1:])  # type: ignore[arg-type]
    assert bench.live == SERVE.replace(b"CTAS=256", b"CTAS=512")
    [item] = claw(bench).items
    assert (item.restorable, item.command) == ("restored", "")


def test_a_conflict_says_why(bench: Bench) -> None:
    refute(bench)
    bench.set((KNOB, "1024"), add=True)
    [item] = claw(bench).items
    assert item.restorable == "conflict"
    assert KNOB in item.remark


def test_given_back_by_hand_it_is_restored(bench: Bench) -> None:
    refute(bench)
    bench.host.put(SCRIPT, SERVE.replace(b"CTAS=256", b"CTAS=512"), mode="0755")
    [item] = claw(bench).items
    assert item.restorable == "restored"


def test_a_host_that_is_down_hides_nothing(bench: Bench) -> None:
    from knobledger.errors import Unreachable
    from knobledger.workspace import Workspace

    refute(bench)

    def down(_config: object, _root: object) -> object:
        raise Unreachable("no route to 'gpu1'")

    with Workspace.open(bench.root, bench.env, connect=down) as workspace:  # type: ignore[arg-type]
        [item] = workspace.clawback().items
    assert item.restorable == "host unknown"
    assert item.comparison is not None


def test_the_most_valuable_comes_first(bench: Bench, tmp_path: Path) -> None:
    other = bench.set(("NCCL_DEBUG", "INFO"), purpose="perf", why="more")
    unmeasured = bench.set(("NCCL_ALGO", "tree"), add=True, hypotheses=(SLUG,), purpose="mitigation")
    better = tmp_path / "better.md"
    better.write_text(TABLE.replace("811.7", "911.7"))
    with bench.open() as workspace:
        workspace.bench_table(better, other.id)
    away = bench.set(("NCCL_DEBUG", "WARN"), hypotheses=(SLUG,))
    refute(bench)
    items = claw(bench).items
    assert items[0].line.change == away.id
    assert items[-1].line.change == unmeasured.id
    assert items[-1].command == f"knob revert {unmeasured.id[:8]}"
    assert len(items) == 3


def test_a_bench_of_the_revert_counts_the_other_way_round(bench: Bench, tmp_path: Path) -> None:
    refute(bench)
    table = tmp_path / "revert.md"
    table.write_text("| c | before | after |\n|---|---|---|\n| C32 | 500 | 400 |\n")
    with bench.open() as workspace:
        shown = workspace.bench_table(table, "@")
    cell = next(cell for cell in shown.comparison.cells if cell.label == "C32")
    assert (cell.baseline.value, cell.variant.value) == (400.0, 500.0)
    assert claw(bench).items[0].rank[2] == pytest.approx(25.0)


# -- on, off, on: what was done before must not hide what a refuted hypothesis took ------------------------------


def suspect(bench: Bench, **options: object) -> str:
    """Takes the knob out under the hypothesis, whatever it is about."""
    with bench.open() as workspace:
        workspace.open_hypothesis(SLUG, "the knob hangs the harness", ["@"])
    return bench.set((KNOB, None), hypotheses=(SLUG,), **options).id


@pytest.mark.parametrize("before", ["off and on", "on, off and on", "on, reverted and on"])
def test_a_knob_that_was_off_before_is_owed_all_the_same(tmp_path: Path, before: str) -> None:
    bench = Bench(tmp_path / "ws")
    value = "256" if before == "off and on" else "512"
    if before != "off and on":
        bench.set((KNOB, "512"))
    if before == "on, reverted and on":
        bench.undo("revert", "@")
        bench.set((KNOB, "512"))
    else:
        first = bench.set((KNOB, None))
        bench.set((KNOB, value), add=True)
    wrong = suspect(bench)
    refute(bench)
    [item] = claw(bench).items
    assert (item.line.change, item.line.status, item.restorable) == (wrong, "in effect", "clean")
    assert item.command == f"knob restore {wrong[:8]}"
    with bench.open() as workspace:
        state = workspace.state
        if before == "off and on":  # it was put back by the set, and nobody restored it
            assert state.fate(first.id) == ("reverted", state.changes[1])
        story = workspace.postmortem(None, None, None).text
    assert "Nothing was taken away wrongly" not in story
    bench.undo("restore", wrong)
    assert bench.live.count(f"CTAS={value}".encode()) == 1
    assert [item.restorable for item in claw(bench).items] == ["restored"]


def test_each_time_it_was_taken_counts_and_putting_it_back_does_not(tmp_path: Path) -> None:
    """An experiment under one hypothesis: off, on, off. Only what is still away can come back."""
    bench = Bench(tmp_path / "ws")
    bench.set((KNOB, "512"))
    first = suspect(bench)
    back = bench.set((KNOB, "512"), add=True, hypotheses=(SLUG,))
    again = bench.set((KNOB, None), hypotheses=(SLUG,))
    refute(bench)
    items = claw(bench).items
    assert back.id not in [item.line.change for item in items]
    assert {item.line.change: item.restorable for item in items} == {first: "restored", again.id: "clean"}


def test_restored_twice_under_one_hypothesis_it_is_away_again(tmp_path: Path) -> None:
    """Off by `unset`, back by `revert`, off again by `restore`: each names the one before it."""
    bench = Bench(tmp_path / "ws")
    bench.set((KNOB, "512"))
    wrong = suspect(bench)
    bench.undo("revert", wrong, hypotheses=(SLUG,))
    bench.undo("revert", "@", hypotheses=(SLUG,))
    assert KNOB.encode() not in bench.live
    refute(bench)
    with bench.open() as workspace:
        last = workspace.state.changes[-1]
    away = [item.line.change for item in claw(bench).items if item.restorable != "restored"]
    assert last in away


def test_an_edit_that_has_a_reason_of_its_own_is_told_among_what_stays(tmp_path: Path) -> None:
    bench = Bench(tmp_path / "ws")
    bench.set((KNOB, "512"))
    kept = suspect(bench, purpose="fix", why="it does not exist in 0.6")
    refute(bench)
    found = claw(bench)
    assert found.items == ()
    assert [item.change for item, _ in found.keep] == [kept]
