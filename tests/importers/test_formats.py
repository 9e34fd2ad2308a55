"""One invented file per format and version: everything that a comparison needs is read from it."""

from __future__ import annotations

import json
from datetime import UTC, datetime
from pathlib import Path
from zoneinfo import ZoneInfo

import pytest
from msgspec.structs import replace

from knobledger.comparison import compare
from knobledger.errors import BadBenchmark
from knobledger.importers import read
from knobledger.importers.origin import Origin
from knobledger.knobs.secrets import Masker
from knobledger.measured import Run, unit_of

DATA = Path(__file__).with_name("data")
BERLIN = ZoneInfo("Europe/Berlin")
ORIGIN = Origin("result.json", "variant", Masker(b"test key").value, zone=BERLIN)


def runs(name: str, **more: object) -> tuple[Run, ...]:
    return read((DATA / name).read_bytes(), replace(ORIGIN, name=name, **more))  # type: ignore[arg-type]


CASES = {
    # file: format, version, label, output throughput, a latency, when it began, faults
    "sglang-serving-0.5.jsonl": ("sglang-serving", "0.5.6", "C64", 811.25, "p99_ttft_ms", None, ()),
    "sglang-serving-0.4.jsonl": ("sglang-serving", "", "C48", 684.5, "median_ttft_ms", None, ()),
    "sglang-one-batch.jsonl": ("sglang-one-batch", "", "B64", 811.75, "last_ttft_s", None, ()),
    "sglang-one-batch-old.jsonl": ("sglang-one-batch", "", "B16", 205.5, "latency_s", None, ()),
    "vllm-serve.json": ("vllm-serve", "", "C64", 811.5, "p99_itl_ms", "2026-11-30T13:14:00Z", ()),
    "vllm-serve-old.json": ("vllm-serve", "", "C48", 680.5, "p99_itl_ms", "2025-03-01T07:58:00Z", ()),
    "sweep/run=0.json": ("vllm-serve", "", "C64", 811.5, "p99_itl_ms", "2026-11-30T13:14:00Z", ()),
    "sweep/summary.json": ("vllm-serve", "", "C64", 811.5, "p99_itl_ms", "2026-11-30T13:14:00Z", ()),
    "sweep/summary.csv": ("vllm-serve", "", "C64", 811.5, "p99_itl_ms", "2026-11-30T13:14:00Z", ()),
    "profile_export_aiperf.json": (
        *("aiperf", "1.0", "C64", 811.5, "p99_e2e_latency_ms", "2026-11-30T13:14:00.250000Z", ()),
    ),
    "profile_export_genai_perf.json": ("genai-perf", "", "C48", 680.5, "p99_ttft_ms", None, ()),
    "guidellm-benchmarks.json": (
        "guidellm",
        "0.5.0",
        "C64",
        811.5,
        "p99_tpot_ms",
        "2026-11-30T14:14:00Z",
        (),
    ),
    "guidellm-benchmarks-old.json": (
        *("guidellm", "", "C48", 680.5, "p99_tpot_ms", "2025-03-01T08:00:00Z", ("1 request failed",)),
    ),
}


@pytest.mark.parametrize("name", CASES)
def test_each_format_is_known_by_its_content(name: str) -> None:
    format_, version, label, throughput, latency, at, faults = CASES[name]
    first = runs(name)[0]
    assert (first.format, first.version, first.label) == (format_, version, label)
    assert first.load == float(label[1:])
    assert first.number("output_throughput") == throughput
    assert isinstance(first.number(latency), float)
    assert (first.at, first.at_from) == (at, "file" if at else "none")
    assert first.faults == faults
    assert (first.arm, first.source, first.start_from) == ("variant", name, "file")
    for measure in first.measures:
        assert measure.unit == unit_of(measure.name) != ""


def test_every_file_has_a_case() -> None:
    tested = {
        *CASES,
        "sglang-serving-mixed.jsonl",
        "vllm-serve-partial.json",
        "sweep/run=1.json",
        "tuning.md",
    }
    tested |= {"profile_export_aiperf-cancelled.json", "profile_export_aiperf_aggregate.json"}
    assert {str(path.relative_to(DATA)) for path in DATA.rglob("*") if path.is_file()} == tested


def test_nan_and_infinity_are_read_and_stored_as_what_json_can_hold() -> None:
    text = (DATA / "sglang-serving-0.4.jsonl").read_text(encoding="utf-8")
    assert "NaN" in text
    assert "Infinity" in text
    [run] = runs("sglang-serving-0.4.jsonl")
    assert "std_itl_ms" in {measure.name for measure in run.measures}
    assert run.number("std_itl_ms") is None
    assert dict(run.conditions)["request_rate"] == "unbounded"
    infinite = text.replace('"output_throughput": 684.5', '"output_throughput": Infinity')
    assert read(infinite.encode(), ORIGIN)[0].number("output_throughput") == "unbounded"


@pytest.mark.parametrize("name", [*CASES, "sglang-serving-mixed.jsonl"])
def test_runs_keep_their_bytes_through_canonical_json(name: str) -> None:
    import rfc8785

    for run in runs(name):
        stored = rfc8785.dumps(run.plain())
        again = Run.of(json.loads(stored))
        assert again == run
        assert rfc8785.dumps(again.plain()) == stored


def test_appended_lines_with_equal_arguments_are_one_start() -> None:
    found = runs("sglang-serving-0.5.jsonl")
    assert [(run.line, run.label, run.start.rpartition("#")[2]) for run in found] == [
        *((1, "C64", "1"), (2, "C80", "2"), (3, "C64", "3"), (4, "C64", "1")),
    ]
    c64 = next(cell for cell in compare(found).cells if cell.label == "C64")
    assert (c64.variant.n, c64.variant.runs) == (2, 3)


def test_appended_objects_without_a_line_break_between_them() -> None:
    found = runs("vllm-serve-partial.json")
    assert [run.faults for run in found] == [
        ("3 of 320 requests failed",),
        ("20 of 320 requests are missing",),
    ]
    assert {cell.call for cell in compare(found).cells} == {"invalid"}


def test_pretty_printed_objects_one_after_another_know_their_line() -> None:
    assert [run.line for run in runs("vllm-serve.json")] == [1, 43]


def test_mixed_configurations_are_kept_apart() -> None:
    cells = compare(runs("sglang-serving-mixed.jsonl")).cells
    assert [cell.name for cell in cells] == [
        "C64 (input_len 1024, request_rate unbounded)",
        "C64 (input_len 4096, request_rate 8)",
        "C64 (input_len 4096, request_rate unbounded)",
    ]


def test_a_sweeps_repeats_are_one_start_and_its_summaries_hold_the_same_runs() -> None:
    single = [*runs("sweep/run=0.json"), *runs("sweep/run=1.json")]
    assert {run.start for run in single} == {"sweep"}
    for summary in ("sweep/summary.json", "sweep/summary.csv"):
        assert [run.digest for run in runs(summary)] == [run.digest for run in single]
        assert len({run.start for run in runs(summary)}) == 1
    comparison = compare([*single, *runs("sweep/summary.csv")])
    assert (comparison.cells[0].variant.n, comparison.cells[0].variant.runs) == (1, 2)
    assert len(comparison.aside) == 2


def test_cancelled_and_failed() -> None:
    [run] = runs("profile_export_aiperf-cancelled.json")
    assert run.faults == ("the run was cancelled", "84 of 320 requests failed")
    assert runs("guidellm-benchmarks.json")[1].faults == (
        "2 requests failed",
        "5 requests not complete: cut off at the end of a timed run",
    )


def test_an_aggregate_is_one_start_and_needs_a_label() -> None:
    with pytest.raises(BadBenchmark, match="does not say at which concurrency") as refused:
        runs("profile_export_aiperf_aggregate.json")
    assert refused.value.hint == "say it: `--label C64`"
    [run] = runs("profile_export_aiperf_aggregate.json", label="C64")
    assert (run.format, run.label, run.load) == ("aiperf-runs", "C64", 64.0)
    assert run.number("output_throughput") == 811.5
    assert run.number("p99_ttft_ms") == 500.5
    assert run.number("mean_ttft_ms") == 250.5
    assert ("profile_runs", "5") in run.arguments


def test_units_are_converted() -> None:
    [run] = runs("profile_export_aiperf.json")
    assert run.number("mean_ttft_ms") == 250.0  # the file has seconds
    assert runs("guidellm-benchmarks.json")[0].number("mean_e2e_latency_ms") == 18000.0


@pytest.mark.parametrize("name", ["sglang-serving-0.5.jsonl", "profile_export_aiperf.json"])
def test_secrets_are_masked(name: str) -> None:
    for run in runs(name):
        assert "not-a-real-key-77" not in str(run.plain())
        assert any(value.startswith("<secret ") for _, value in run.arguments)


def test_what_the_operator_says_goes_before_what_is_derived() -> None:
    at, mtime = datetime(2026, 11, 30, 14, tzinfo=UTC), datetime(2026, 11, 30, 15, tzinfo=UTC)
    [run] = runs("sglang-serving-0.4.jsonl", start="A", label="C50", at=at, mtime=mtime, host="gpu1")
    assert (run.start, run.start_from, run.label, run.load) == ("A", "given", "C50", 50.0)
    assert (run.at, run.at_from) == ("2026-11-30T14:00:00Z", "given")
    assert ("host", "gpu1") in run.conditions
    [by_mtime] = runs("sglang-serving-0.4.jsonl", mtime=mtime)
    assert (by_mtime.at, by_mtime.at_from) == ("2026-11-30T15:00:00Z", "mtime")
    assert runs("vllm-serve-old.json", at=at)[0].at_from == "file"


def test_settings_of_the_server_are_arguments_and_volatile_ones_are_left_out() -> None:
    arguments = dict(runs("sglang-serving-0.5.jsonl")[0].arguments)
    assert arguments["server.chunked_prefill_size"] == "8192"
    assert not arguments.keys() & {"server.random_seed", "server.internal_states", "accept_length"}


def test_no_two_formats_fit_one_object() -> None:
    from knobledger.importers import FORMATS

    for path in DATA.rglob("*.json*"):
        text = path.read_text(encoding="utf-8")
        value = json.JSONDecoder().raw_decode(text)[0]
        first = value[0] if isinstance(value, list) else value
        assert len([module for module in FORMATS if module.fits(first)]) == 1, path
