"""What is kept of a benchmark run, and what its metrics mean. Stored in events, so fields only ever grow."""

from __future__ import annotations

import math
import re
from typing import Literal

from knobledger.names import Digest
from knobledger.receipt import Frozen

Arm = Literal["baseline", "variant"]
Better = Literal["higher", "lower"]
TimeFrom = Literal["file", "mtime", "given", "none"]
Number = float | Literal["unbounded"] | None
"""What canonical JSON can hold: None stands for NaN, "unbounded" for Infinity."""
Pairs = tuple[tuple[str, str], ...]
"""Names and values, sorted by name; values as text, secrets masked."""

_THROUGHPUT = {
    "output_throughput": "tok/s",
    "input_throughput": "tok/s",
    "total_throughput": "tok/s",
    "request_throughput": "req/s",
}
_LATENCY = r"(?:mean|median|std|p90|p95|p99)_(?:e2e_latency|ttft|tpot|itl)_ms"
_OTHER = {"latency_s": "s", "last_ttft_s": "s"}


def unit_of(metric: str) -> str | None:
    """The unit of a metric; None for a name that is no metric."""
    if re.fullmatch(_LATENCY, metric):
        return "ms"
    return _THROUGHPUT.get(metric) or _OTHER.get(metric)


def better(metric: str) -> Better | None:
    """Which way a metric improves; None for a spread, which improves neither way, and for no metric."""
    if metric in _THROUGHPUT:
        return "higher"
    return None if unit_of(metric) is None or metric.startswith("std_") else "lower"


class Measure(Frozen):
    """One metric of one run."""

    name: str
    """as `unit_of` knows it: `output_throughput`, `median_ttft_ms`, ..."""
    unit: str
    value: Number


class Run(Frozen):
    """One benchmark run: one operating point, on one start of the server."""

    arm: Arm
    """baseline: without the change; variant: with it"""
    format: str
    """`sglang-serving sglang-one-batch vllm-serve aiperf genai-perf aiperf-runs guidellm table`"""
    version: str = ""
    """of the tool or of its file format, where the file says so"""
    source: str
    """the file, as it was named"""
    line: int
    """where the run begins in it; from 1"""
    digest: Digest
    """of what was measured: the same run has the same one, from whichever file and however often it came"""
    start: str
    """names the start of the server; runs of one start are pseudo-replicates and count once"""
    start_from: Literal["given", "file"]
    """file: nobody named the start, so runs of one file count as one"""
    at: str | None
    """when the run began, or by an mtime when it ended; UTC, `2026-11-30T13:14:00Z`"""
    at_from: TimeFrom
    duration_s: Number = None
    label: str
    """the operating point: `C64` concurrency, `B64` batch size, `R8` requests per second, `unbounded`"""
    load: Number = None
    """the number in the label, for order and plots"""
    measures: tuple[Measure, ...]
    conditions: Pairs = ()
    """what must be equal in both arms: backend, model, dataset, lengths, number of prompts, rate, host"""
    arguments: Pairs = ()
    """everything else that the file says about how it was run; differences are confounds"""
    faults: tuple[str, ...] = ()
    """why the run may not be compared: failed or missing requests, cancelled"""

    def number(self, metric: str) -> Number:
        """A metric's value; None if the run does not have it or it was NaN."""
        return next((measure.value for measure in self.measures if measure.name == metric), None)


def stored(value: float) -> Number:
    """A measured number as it can be stored."""
    if math.isnan(value):
        return None
    if math.isinf(value):
        return "unbounded" if value > 0 else None
    return float(value)
