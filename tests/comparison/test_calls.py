"""Calls: from both arms' values to a word, and nothing is called that the starts do not carry."""

from __future__ import annotations

import math
from collections import Counter

import numpy as np
import pytest
from ab_runs import arms, one_cell, run
from hypothesis import given
from hypothesis import strategies as st
from scipy import stats

from knobledger.comparison import Cell, compare
from knobledger.comparison.welch import effect, holm, mean_interval, starts_needed
from knobledger.errors import Usage

INCIDENT = {
    "C48": (684.7, 680.6, "-0.6"),
    "C64": (719.5, 811.7, "+12.8"),
    "C80": (833.0, 842.7, "+1.2"),
    "C96": (799.3, 844.6, "+5.7"),
}
OPPOSITE = {
    "gain": "loss",
    "loss": "gain",
    "suggestive gain": "suggestive loss",
    "suggestive loss": "suggestive gain",
}
VALUES = st.lists(st.floats(50, 200), min_size=1, max_size=6)


def test_the_incident_is_not_enough_data_and_shows_its_numbers() -> None:
    runs = [
        made
        for label, (before, after, _) in INCIDENT.items()
        for made in arms([before], [after], label=label, load=float(label[1:]))
    ]
    comparison = compare(runs)
    assert [cell.label for cell in comparison.cells] == list(INCIDENT)
    for cell in comparison.cells:
        before, after, change = INCIDENT[cell.label]
        assert (cell.baseline.value, cell.variant.value) == (before, after)
        assert (cell.baseline.n, cell.variant.n) == (1, 1)
        assert f"{cell.change_pct:+.1f}" == change
        assert cell.call == "not enough data"
        assert cell.interval_pct is None
        assert cell.reasons == ("1 start of the baseline and 1 of the variant: a call takes 3 of each",)
    assert [str(dip) for dip in comparison.dips] == [
        "baseline falls from C80 833.0 to C96 799.3; the variant only rises"
    ]
    assert comparison.dips[0].repaired


SIMULATED = {
    # spread, starts, true change: the expected share of calls (20,000 trials, margin 2 %)
    "no effect": (0.01, 3, 0.0, {"flat": 0.30, "inconclusive": 0.70, "gain": 0.004}),
    "a small effect": (0.01, 5, 0.03, {"gain": 0.94}),
    "a noisy large effect": (0.03, 3, 0.128, {"gain": 0.89}),
}


@pytest.mark.parametrize("case", SIMULATED)
def test_simulated_calls_come_as_often_as_they_should(case: str) -> None:
    spread, starts, true, expected = SIMULATED[case]
    random = np.random.default_rng(20261130)
    trials = 2500
    calls: Counter[str] = Counter()
    for _ in range(trials):
        baseline = 700 * np.exp(random.normal(0, spread, starts))
        variant = 700 * (1 + true) * np.exp(random.normal(0, spread, starts))
        calls[one_cell(arms(baseline.tolist(), variant.tolist())).call] += 1
    for call, share in expected.items():
        rounding = 0.005 if share >= 0.01 else 0.0005
        error = 4 * math.sqrt(share * (1 - share) / trials) + rounding
        assert calls[call] / trials == pytest.approx(share, abs=error), (call, calls)


@pytest.mark.parametrize(("spread", "wrong"), [(0.01, 0.16), (0.03, 0.64)])
def test_one_run_an_arm_would_be_wrong_so_often_and_is_never_called(spread: float, wrong: float) -> None:
    random = np.random.default_rng(20261130)
    trials = 2000
    cells = [
        one_cell(arms([700 * math.exp(random.normal(0, spread))], [700 * math.exp(random.normal(0, spread))]))
        for _ in range(trials)
    ]
    over = sum(abs(cell.change_pct or 0) > 2 for cell in cells) / trials
    assert over == pytest.approx(wrong, abs=4 * math.sqrt(wrong * (1 - wrong) / trials) + 0.005)
    assert {cell.call for cell in cells} == {"not enough data"}


@given(
    st.lists(st.floats(-1, 1), min_size=2, max_size=8),
    st.lists(st.floats(-1, 1), min_size=2, max_size=8),
    st.floats(0.001, 1),
)
def test_numbers_are_those_of_scipy(baseline: list[float], variant: list[float], margin: float) -> None:
    if np.var(baseline) < 1e-9 or np.var(variant) < 1e-9:
        return
    found = effect(baseline, variant, margin)
    scipys = stats.ttest_ind(variant, baseline, equal_var=False)
    assert found.p_differ == pytest.approx(scipys.pvalue, rel=1e-6, abs=1e-12)
    assert found.freedom == pytest.approx(scipys.df, rel=1e-6)
    for level in (0.90, 0.95):
        theirs = scipys.confidence_interval(level)
        assert found.interval(level) == pytest.approx((theirs.low, theirs.high), rel=1e-6, abs=1e-9)
    shifted = np.asarray(variant)
    above = stats.ttest_ind(shifted + margin, baseline, equal_var=False, alternative="greater").pvalue
    below = stats.ttest_ind(shifted - margin, baseline, equal_var=False, alternative="less").pvalue
    assert found.p_flat == pytest.approx(max(above, below), rel=1e-6, abs=1e-12)


def test_the_interval_of_one_arm_is_students() -> None:
    values = [0.1, 0.4, 0.2, 0.7]
    theirs = stats.t.interval(0.95, 3, loc=np.mean(values), scale=stats.sem(values))
    assert mean_interval(values) == pytest.approx(theirs)


def test_holm_is_holms() -> None:
    assert holm([0.01, 0.04, 0.03, 0.005]) == pytest.approx([0.03, 0.06, 0.06, 0.02])
    assert holm([]) == ()
    assert holm([0.9, 0.8]) == (1.0, 1.0)


@given(VALUES, VALUES)
def test_swapped_arms_swap_the_call(baseline: list[float], variant: list[float]) -> None:
    one, other = one_cell(arms(baseline, variant)), one_cell(arms(variant, baseline))
    assert other.call == OPPOSITE.get(one.call, one.call)
    assert one.change_pct is not None
    assert other.change_pct is not None
    assert (1 + one.change_pct / 100) * (1 + other.change_pct / 100) == pytest.approx(1)
    assert one.needed == other.needed


@given(
    st.lists(st.floats(90, 110), min_size=3, max_size=4), st.lists(st.floats(90, 130), min_size=3, max_size=4)
)
def test_more_of_the_same_starts_never_unmake_a_call(baseline: list[float], variant: list[float]) -> None:
    calls: list[str] = []
    widths: list[float] = []
    for times in (1, 2, 3, 6):
        cell = one_cell(arms(baseline * times, variant * times))
        assert cell.interval_pct is not None
        calls.append(cell.call)
        widths.append(cell.interval_pct[1] - cell.interval_pct[0])
    assert widths == sorted(widths, reverse=True)
    settled = [call for call in calls if call != "inconclusive"]
    assert len(set(settled)) <= 1
    assert calls == ["inconclusive"] * (len(calls) - len(settled)) + settled


def test_latency_has_its_sign_turned() -> None:
    metric = ("median_ttft_ms", "ms")
    faster = one_cell(arms([300, 303, 297], [200, 202, 198], metric=metric), metric="median_ttft_ms")
    assert faster.call == "gain"
    assert faster.change_pct == pytest.approx(-33.3, abs=0.1)
    slower = one_cell(arms([200, 202, 198], [300, 303, 297], metric=metric), metric="median_ttft_ms")
    assert slower.call == "loss"


@pytest.mark.parametrize("metric", ["std_ttft_ms", "happiness"])
def test_a_metric_without_a_better_side_is_refused(metric: str) -> None:
    with pytest.raises(Usage, match=metric):
        compare([], metric=metric)


@pytest.mark.parametrize(
    ("baseline", "variant", "call"),
    [
        ([100, 101, 99], [110, 111, 109], "gain"),
        ([110, 111, 109], [100, 101, 99], "loss"),
        ([100, 100.1, 99.9], [100.2, 100.3, 100.1], "flat"),
        ([100, 110, 90], [104, 95, 113], "inconclusive"),
        ([100, 101], [110, 111, 109], "not enough data"),
        ([], [110, 111, 109], "not enough data"),
        ([100, 100, 100], [102, 102, 102], "gain"),  # no spread at all, and exactly the margin
        ([100, 100, 100], [101, 101, 101], "flat"),
    ],
)
def test_calls(baseline: list[float], variant: list[float], call: str) -> None:
    assert one_cell(arms(baseline, variant)).call == call


def test_a_surely_small_change_is_neither_gain_nor_flat_until_it_is_inside_the_margin() -> None:
    cell = one_cell(arms([100, 100.5, 99.5, 100], [101.7, 102.1, 101.3, 101.7]))
    assert cell.call == "inconclusive"
    assert "excludes 0, but the change is below the margin" in cell.reasons[0]


def test_inconclusive_says_how_many_starts_it_takes_and_keeps_its_word() -> None:
    cell = one_cell(arms([100, 104, 96], [104, 108, 100]))
    assert cell.call == "inconclusive"
    assert cell.needed is not None
    assert f"about {cell.needed} starts an arm" in cell.reasons[1]
    random = np.random.default_rng(6)
    found = 0
    for _ in range(300):
        baseline = 100 * np.exp(random.normal(0, 0.04, cell.needed))
        variant = 104 * np.exp(random.normal(0, 0.04, cell.needed))
        found += one_cell(arms(baseline.tolist(), variant.tolist())).call == "gain"
    assert found / 300 == pytest.approx(0.8, abs=0.1)
    hopeless = one_cell(arms([100, 120, 80], [101.9, 122, 81]))
    assert hopeless.needed is None
    assert "more than 1000 starts" in hopeless.reasons[1]
    assert starts_needed([0.0, 0.0, 0.0], [1.0, 1.0, 1.0], 0.02) == 3


def _at(loads: tuple[int, ...], baseline: list[float], variant: list[float]) -> list[Cell]:
    runs = [made for load in loads for made in arms(baseline, variant, label=f"C{load}", load=float(load))]
    return list(compare(runs).cells)


def test_several_points_are_held_to_holm() -> None:
    baseline, variant = [100.0, 101.5, 98.5], [103.5, 105.0, 102.0]
    alone, together = _at((64,), baseline, variant), _at((16, 32, 48, 64), baseline, variant)
    assert [cell.call for cell in alone] == ["gain"]
    assert {cell.call for cell in together} == {"inconclusive"}
    assert "not after Holm's correction for 4 operating points" in together[0].reasons[0]
    assert [cell.interval_pct for cell in together] == [alone[0].interval_pct] * 4


def test_the_spread_of_starts_alike_makes_it_suggestive_and_never_more() -> None:
    alike = [run("baseline", value) for value in (700, 705, 695, 702, 698)]

    def call(before: float, after: float, number: int = 5) -> str:
        return one_cell(arms([before], [after]), alike=alike[:number]).call

    assert call(719.5, 811.7) == "suggestive gain"
    assert call(811.7, 719.5) == "suggestive loss"
    assert call(719.5, 720.0) == "not enough data"
    assert call(719.5, 811.7, number=4) == "not enough data"
    own = one_cell(arms([700, 705, 695, 702, 698], [811.7]))
    assert own.call == "suggestive gain"
    assert own.interval_pct is not None
    assert "by the spread of 5 starts alike" in own.reasons[0]
    assert one_cell(arms([719.5], [811.7]), alike=[one.but(label="C8") for one in alike]).call == (
        "not enough data"
    )
