"""vLLM's `vllm bench serve`: one JSON object, objects one after another when appended, and files of sweeps.

A sweep writes `run=N.json` per run, and `summary.json` (a list) or `summary.csv` of all of them. `date` is naive
local time, taken when the run had ended (`vllm/benchmarks/serve.py`); `endpoint_type` is the older `backend`.
"""

from __future__ import annotations

import re
from datetime import datetime

from knobledger.importers.document import Fields
from knobledger.importers.origin import Found, Origin, began, local_instant, text_of
from knobledger.importers.point import faults_of, operating_point
from knobledger.measured import Number

_STATISTICS = re.compile(r"(?:mean|median|std|p90|p95|p99)_(?:ttft|tpot|itl|e2el)_ms")
_THROUGHPUTS = {
    "request_throughput": "request_throughput",
    "output_throughput": "output_throughput",
    "total_token_throughput": "total_throughput",
}
_CONDITIONS = {
    "backend": "backend",
    "endpoint_type": "backend",
    "model_id": "model",
    "dataset_name": "dataset",
    "num_prompts": "num_prompts",
    "request_rate": "request_rate",
    "max_concurrency": "max_concurrency",
    "random_input_len": "input_len",
    "random_output_len": "output_len",
}
_MEASURED = frozenset(
    (
        *_THROUGHPUTS,
        *("date", "duration", "completed", "failed", "request_goodput", "run_number"),
        *("total_input_tokens", "total_output_tokens", "max_output_tokens_per_s", "max_concurrent_requests"),
    )
)


def fits(values: dict[str, object]) -> bool:
    """Whether an object, or the row of a summary, has this shape."""
    return values.keys() >= {"model_id", "request_throughput"} and bool(
        values.keys() & {"total_token_throughput", "num_prompts", "completed"}
    )


def read(fields: list[Fields], origin: Origin) -> list[Found]:
    """One run per object. The `run=N.json` of one folder are repeats on one start, and so are equal rows."""
    repeats = re.search(r"(?:^|[/\\])run=\d+\.json$", origin.name)
    place = (origin.name[: repeats.start()] or ".") if repeats else ""
    groups: dict[str, int] = {}
    return [_run(one, origin, place, groups) for one in fields]


def _run(one: Fields, origin: Origin, place: str, groups: dict[str, int]) -> Found:
    label, load = operating_point(one.number("max_concurrency"), one.number("request_rate"))
    conditions = {name: one.values[key] for key, name in _CONDITIONS.items() if key in one}
    statistics = [key for key in one.values if _STATISTICS.fullmatch(key)]
    percentiles = [key for key in one.values if re.fullmatch(r"p[\d.]+_\w+_ms", key)]
    arguments = dict(one.scalars(_MEASURED | _CONDITIONS.keys() | {*statistics, *percentiles}))
    group = repr(sorted((name, text_of(value)) for name, value in {**conditions, **arguments}.items()))
    duration_s = one.number("duration")
    measures = {name: one.number(key) for key, name in _THROUGHPUTS.items() if key in one}
    measures |= {key.replace("e2el", "e2e_latency"): one.number(key) for key in statistics if key in one}
    return Found(
        format="vllm-serve",
        line=one.line,
        measures=measures,
        load=load,
        label=label,
        conditions=conditions,
        arguments=arguments,
        faults=faults_of(one.count("completed"), one.count("num_prompts"), one.count("failed")),
        began=_began(one, duration_s, origin),
        duration_s=duration_s,
        start="" if place else str(groups.setdefault(group, len(groups) + 1)),
        place=place,
    )


def _began(one: Fields, duration_s: Number, origin: Origin) -> datetime | None:
    if "date" not in one:
        return None
    try:
        return began(local_instant(one.text("date"), "%Y%m%d-%H%M%S", origin), duration_s)
    except (ValueError, OverflowError) as error:
        raise one.wrong("date", "a time such as 20261130-141400") from error
