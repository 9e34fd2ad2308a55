"""Markdown tables as people write them."""

from __future__ import annotations

import pytest
from msgspec.structs import replace
from test_formats import DATA, ORIGIN

from knobledger.comparison import compare
from knobledger.errors import BadBenchmark
from knobledger.importers import table

HEAD = "| concurrency | 256 (baseline) | 512 (variant) | change |\n|---|---:|:---:|---|\n"


def read(text: str, start: str = "", **more: object) -> table.Table:
    return table.read(text.encode(), replace(ORIGIN, name="t.md", start=start), **more)  # type: ignore[arg-type]


def test_the_table_of_the_incident() -> None:
    found = table.read((DATA / "tuning.md").read_bytes(), replace(ORIGIN, name="tuning.md"))
    assert found.headings == ("256 (baseline)", "512 (variant)")
    assert found.remarks == ()
    assert [(run.label, run.arm, run.number("output_throughput"), run.line) for run in found.runs] == [
        ("C48", "baseline", 684.7, 9),
        ("C48", "variant", 680.6, 9),
        ("C64", "baseline", 719.5, 10),
        ("C64", "variant", 811.7, 10),
        ("C80", "baseline", 833.0, 11),
        ("C80", "variant", 842.7, 11),
        ("C96", "baseline", 799.3, 12),
        ("C96", "variant", 844.6, 12),
    ]
    assert {run.start for run in found.runs} == {"tuning.md#column 2", "tuning.md#column 3"}
    comparison = compare(found.runs)
    assert [cell.call for cell in comparison.cells] == ["not enough data"] * 4
    assert len(comparison.dips) == 1


def test_imported_twice_a_table_counts_once() -> None:
    runs = read(HEAD + "| C64 | 719.5 | 811.7 | |\n").runs
    assert [(cell.baseline.n, cell.variant.n) for cell in compare([*runs, *runs]).cells] == [(1, 1)]


def test_equal_numbers_of_named_starts_are_different_runs_and_each_arm_has_its_own_start() -> None:
    text = HEAD + "| C64 | 719.5 | 811.7 | |\n"
    cell = compare([run for start in "ABC" for run in read(text, start=start).runs]).cells[0]
    assert (cell.baseline.n, cell.variant.n, cell.call) == (3, 3, "gain")
    assert [start for start, _ in cell.baseline.starts] == ["A baseline", "B baseline", "C baseline"]


@pytest.mark.parametrize(
    ("label", "read_as"),
    [
        ("C48", "C48"),
        ("48", "C48"),
        ("conc=48", "C48"),
        ("concurrency 48", "C48"),
        ("c=48", "C48"),
        ("B16", "B16"),
        ("rate=8", "R8"),
    ],
)
def test_labels(label: str, read_as: str) -> None:
    assert read(HEAD + f"| {label} | 1 | 2 | |\n").runs[0].label == read_as


@pytest.mark.parametrize(
    ("cell", "value"),
    [
        ("719.5", 719.5),
        ("1,719.5", 1719.5),
        ("719.5 tok/s", 719.5),
        ("719.5 tokens/s", 719.5),
        ("`719.5`", 719.5),
    ],
)
def test_numbers(cell: str, value: float) -> None:
    assert read(HEAD + f"| C64 | {cell} | 811.7 | |\n").runs[0].number("output_throughput") == value


def test_latencies_by_their_name() -> None:
    text = HEAD + "| C64 | 251.5 ms | 249 ms | |\n"
    assert read(text, metric="median_ttft_ms").runs[0].measures[0].unit == "ms"
    with pytest.raises(BadBenchmark, match=r"'251\.5 ms' is not in tok/s, the unit of output_throughput"):
        read(text)


def test_an_empty_cell_is_a_run_that_was_not_made() -> None:
    found = read(HEAD + "| C48 | 684.7 | – | |\n| C64 | 719.5 | 811.7 |\n")
    assert len(found.runs) == 3
    assert found.remarks == ("line 3: C48 has no variant",)
    assert [cell.variant.n for cell in compare(found.runs).cells] == [0, 1]


def test_columns_by_their_headings_and_else_by_their_order() -> None:
    swapped = "| c | after | before |\n|--|--|--|\n| 64 | 811.7 | 719.5 |\n"
    assert [run.number("output_throughput") for run in read(swapped).runs] == [719.5, 811.7]
    plain = read("c | 256 | 512\n--|--|--\n64 | 719.5 | 811.7\n")
    assert [run.arm for run in plain.runs] == ["baseline", "variant"]
    assert plain.remarks == ("taken by order: '256' is the baseline, '512' the variant",)


def test_a_wrong_percentage_is_said() -> None:
    found = read(HEAD + "| C64 | 719.5 | 811.7 | +12.8 % |\n| C80 | 833.0 | 842.7 | −1.2 % |\n")
    assert found.remarks == ("line 4: the table says −1.2 % at C80, its numbers give +1.2 %",)


@pytest.mark.parametrize(
    ("text", "line", "what"),
    [
        ("no table\n", 1, "no table with a column of labels"),
        ("| a | b |\n|---|---|\n| x | y |\n", 1, "no table with a column of labels"),
        ("```\n" + HEAD + "| C64 | 1 | 2 | |\n```\n", 1, "no table with a column of labels"),
        (HEAD + "| C64 | 719,5 | 811.7 | |\n| C80 | 1 | 2 | |\n", 3, "'719,5' is no number"),
        (HEAD + "| C64 | fast | 811.7 | |\n| C80 | 1 | 2 | |\n", 3, "'fast' is no number"),
        (HEAD + "| C64 | 1 | 2 | |\n| total | 1 | 2 | |\n", 4, "'total' is no operating point"),
        (
            HEAD + "| C64 | 1 | 2 | |\n\n" + HEAD + "| C64 | 1 | 2 | |\n",
            5,
            "several tables fit, on lines 1, 5",
        ),
        (
            "| c | a | b | d |\n|--|--|--|--|\n| 64 | 1 | 2 | 3 |\n",
            1,
            "3 columns hold numbers: 'a', 'b', 'd'",
        ),
    ],
)
def test_what_can_not_be_read(text: str, line: int, what: str) -> None:
    with pytest.raises(BadBenchmark) as refused:
        read(text)
    assert refused.value.message.startswith(f"t.md:{line}: ")
    assert what in refused.value.message


def test_one_of_several_tables_by_its_line() -> None:
    text = HEAD + "| C64 | 1 | 2 | |\n\n" + HEAD + "| C64 | 3 | 4 | |\n"
    assert read(text, line=6).runs[0].number("output_throughput") == 3
    with pytest.raises(BadBenchmark, match="'happiness' is no metric"):
        read(text, line=6, metric="happiness")
