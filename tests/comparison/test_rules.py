"""What counts: starts and not runs, comparable runs only, the restart rule, dips; nothing is hidden."""

from __future__ import annotations

from datetime import UTC, datetime, timedelta

import pytest
from ab_runs import arms, one_cell, run

from knobledger.comparison import Live, compare, misplaced
from knobledger.measured import Run

STEADY = ([100.0, 101.0, 99.0], [110.0, 111.0, 109.0])


def test_runs_of_one_start_count_once() -> None:
    runs = [
        run(arm, value, start=f"{arm} A")
        for arm, values in zip(("baseline", "variant"), STEADY, strict=True)
        for value in values
    ]  # type: ignore[arg-type]
    cell = one_cell(runs)
    assert (cell.baseline.n, cell.baseline.runs) == (1, 3)
    assert cell.call == "not enough data"
    assert "3 runs of the baseline on 1 start count as 1" in cell.reasons
    assert cell.baseline.value == pytest.approx((100 * 101 * 99) ** (1 / 3))


def test_unnamed_starts_come_with_the_hint_to_name_them() -> None:
    runs = [run("baseline", value, start="a.json", start_from="file") for value in (100, 101)]
    assert "name distinct starts with `--start`" in one_cell(runs).reasons[1]


def test_repeats_do_not_narrow_the_interval() -> None:
    once = one_cell(arms(*STEADY))
    runs = arms(*STEADY)
    again = [one.but(digest=f"{index:064d}") for index, one in enumerate(runs)]
    twice = one_cell([*runs, *again])
    assert twice.interval_pct == once.interval_pct
    assert (twice.baseline.n, twice.baseline.runs) == (3, 6)


def test_a_file_imported_twice_counts_once_and_says_so() -> None:
    runs = arms(*STEADY)
    copies = [one.but(start=f"{one.start} again", source="copy.md") for one in runs]
    comparison = compare([*runs, *copies])
    assert [cell.baseline.n for cell in comparison.cells] == [3]
    assert {(aside.kind, aside.run.source) for aside in comparison.aside} == {("repeated", "copy.md")}


def test_one_run_or_one_named_start_in_both_arms_is_invalid() -> None:
    runs = arms(*STEADY)
    both = one_cell([*runs, runs[0].but(arm="variant")])
    assert both.call == "invalid"
    assert both.reasons[0] == f"baseline.md:{runs[0].line} is in both arms"
    shared = one_cell([*runs, run("baseline", 100, start="A"), run("variant", 110, start="A")])
    assert shared.reasons[0] == "start 'A' is in both arms"
    overwritten = [
        *runs,
        run("baseline", 100, start="r.json", start_from="file"),
        run("variant", 110, start="r.json", start_from="file"),
    ]
    assert one_cell(overwritten).call == "gain"


def test_failed_requests_make_it_invalid_with_its_numbers() -> None:
    runs = arms(*STEADY)
    runs[0] = runs[0].but(faults=("3 of 320 requests failed",))
    cell = one_cell(runs)
    assert cell.call == "invalid"
    assert cell.reasons == (f"baseline.md:{runs[0].line}: 3 of 320 requests failed",)
    assert cell.change_pct == pytest.approx(10, abs=0.1)
    assert cell.interval_pct is None


def test_discarded_runs_stay_visible() -> None:
    runs = arms([*STEADY[0], 12.0], STEADY[1])
    comparison = compare(runs, discarded={runs[3].digest: "another job ran beside it"})
    assert [cell.call for cell in comparison.cells] == ["gain"]
    [aside] = comparison.aside
    assert (aside.run, aside.why, aside.kind) == (runs[3], "another job ran beside it", "discarded")


@pytest.mark.parametrize("value", ["unbounded", 0.0, -1.0])
def test_a_value_without_a_logarithm_is_invalid(value: object) -> None:
    runs = [*arms(*STEADY), run("variant", value)]  # type: ignore[arg-type]
    cell = one_cell(runs)
    assert cell.call == "invalid"
    assert f"output_throughput is {value}" in cell.reasons[0]


def test_a_missing_metric_is_said() -> None:
    cell = one_cell([*arms(*STEADY), run("variant", None)])
    assert cell.call == "gain"
    assert "1 of 4 runs of the variant have no output_throughput" in cell.reasons


def _with(runs: list[Run], **conditions: str) -> list[Run]:
    return [one.but(conditions=tuple(sorted(conditions.items()))) for one in runs]


def test_unequal_conditions_are_invalid_and_named() -> None:
    before, after = arms(STEADY[0], []), arms([], STEADY[1])
    cell = one_cell([*_with(before, model="m", input_len="1024"), *_with(after, model="m", input_len="2048")])
    assert cell.call == "invalid"
    assert cell.reasons == ("input_len: 1024 against 2048",)
    other_tool = [one.but(format="guidellm") for one in after]
    assert one_cell([*before, *other_tool]).reasons == ("format: table against guidellm",)


def test_mixed_configurations_are_compared_each_with_its_own() -> None:
    runs = [
        *_with(arms(*STEADY), input_len="1024"),
        *_with(arms([50, 51, 49], [50, 51, 49]), input_len="4096"),
    ]
    comparison = compare(runs)
    assert [cell.name for cell in comparison.cells] == ["C64 (input_len 1024)", "C64 (input_len 4096)"]
    assert [cell.baseline.n for cell in comparison.cells] == [3, 3]
    assert comparison.cells[0].call == "gain"


def test_a_configuration_that_one_arm_lacks_stands_alone() -> None:
    runs = [*_with(arms(*STEADY), input_len="1024"), *_with(arms([50], []), input_len="4096")]
    cells = compare(runs).cells
    assert [(cell.name, cell.call) for cell in cells] == [
        ("C64 (input_len 1024)", "gain"),
        ("C64 (input_len 4096)", "not enough data"),
    ]


def test_a_lost_request_is_no_configuration_of_its_own() -> None:
    runs = _with(arms(*STEADY), num_prompts="320")
    runs[0] = _with(runs[:1], num_prompts="319")[0]
    cell = one_cell(runs)
    assert cell.call == "invalid"
    assert cell.reasons == ("num_prompts: 319, 320 against 320",)
    assert (cell.baseline.n, cell.variant.n) == (3, 3)


def test_other_differences_are_confounds_but_the_knob_is_none() -> None:
    runs = [
        one.but(
            arguments=(
                ("server.chunked_prefill_size", "4096" if one.arm == "baseline" else "8192"),
                ("server.mem_fraction_static", "0.85" if one.arm == "baseline" else "0.9"),
                *((("burst", "1"),) if one.arm == "variant" else ()),
            )
        )
        for one in arms(*STEADY)
    ]
    cell = one_cell(runs, knobs=["--mem-fraction-static"])
    assert cell.call == "gain"
    assert cell.confounds == (
        "server.chunked_prefill_size: 4096 against 8192",
        "only the variant records: burst",
    )


def _curve(baseline: list[float], variant: list[float]) -> list[str]:
    points = zip((48, 64, 80, 96), baseline, variant, strict=True)
    runs = [
        made
        for load, before, after in points
        for made in arms([before], [after], label=f"C{load}", load=float(load))
    ]
    return [str(dip) for dip in compare(runs).dips]


def test_dips() -> None:
    rising, falling = [680.0, 810.0, 842.0, 850.0], [680.0, 720.0, 833.0, 799.0]
    assert _curve(rising, rising) == []
    assert _curve(rising, falling) == ["variant falls from C80 833.0 to C96 799.0; the baseline only rises"]
    assert _curve(falling, falling) == [
        "baseline falls from C80 833.0 to C96 799.0; the variant falls there too, from 833.0 to 799.0",
        "variant falls from C80 833.0 to C96 799.0; the baseline falls there too, from 833.0 to 799.0",
    ]
    noise = [680.0, 810.0, 842.0, 841.0]
    assert _curve(noise, rising) == []
    assert _curve(falling, noise) == [
        "baseline falls from C80 833.0 to C96 799.0; the variant falls there by less than the margin, from 842.0 to 841.0"
    ]


NOON = datetime(2026, 11, 30, 12, tzinfo=UTC)
LIVE = [Live(NOON, NOON + timedelta(hours=6)), Live(NOON + timedelta(hours=9))]


@pytest.mark.parametrize(
    ("arm", "hours", "why"),
    [
        ("variant", -1, "before the restart at 2026-11-30 12:00:00Z that activated it"),
        ("variant", 0, None),
        ("variant", 5.9, "before the restart at 2026-11-30 21:00:00Z"),  # it ends after the live time
        ("variant", 7, "before the restart at 2026-11-30 21:00:00Z"),
        ("variant", 10, None),
        ("baseline", -1, None),
        ("baseline", -0.1, "while the new value was running"),
        ("baseline", 1, "while the new value was running"),
        ("baseline", 7, None),
    ],
)
def test_the_restart_rule(arm: str, hours: float, why: str | None) -> None:
    at = (NOON + timedelta(hours=hours)).isoformat().replace("+00:00", "Z")
    timed = run(arm, 100, at=at, at_from="file", duration_s=900.0)  # type: ignore[arg-type]
    found = misplaced(timed, LIVE)
    if why is None:
        assert found is None
        return
    assert found is not None
    assert why in found.why
    assert found.certain
    comparison = compare([*arms([100.0], [110.0]), timed], live=LIVE)
    assert [aside.kind for aside in comparison.aside] == ["rejected"]
    doubted = misplaced(timed.but(at_from="given"), LIVE)
    assert doubted is not None
    assert not doubted.certain


def test_a_run_after_the_last_live_time() -> None:
    found = misplaced(run("variant", 100, at="2026-11-30T19:00:00Z", at_from="file"), LIVE[:1])
    assert found is not None
    assert "when the new value was no longer running" in found.why


def test_without_a_time_the_rule_is_a_warning() -> None:
    comparison = compare(arms([100.0], [110.0]), live=LIVE)
    assert comparison.aside == ()
    assert len(comparison.warnings) == 2
    assert "nothing says when it was taken" in comparison.warnings[0]


def test_what_was_never_restarted_was_never_measured() -> None:
    timed = run("variant", 110, at="2026-11-30T13:00:00Z", at_from="file")
    found = misplaced(timed, [])
    assert found is not None
    assert "never restarted" in found.why


def test_an_mtime_is_the_end_of_a_run() -> None:
    at = "2026-11-30T12:10:00Z"
    timed = run("variant", 110, at=at, at_from="mtime", duration_s=900.0)
    assert misplaced(timed, LIVE) is not None
    assert misplaced(timed.but(duration_s=300.0), LIVE) is None
