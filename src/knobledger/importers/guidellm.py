"""GuideLLM's `benchmarks.json`: several benchmarks in one file, each at its own operating point.

Metrics are split by `successful`, `errored` and `incomplete` requests; times are epoch seconds. Older files keep
the strategy under `args` instead of `config`.
"""

from __future__ import annotations

from datetime import UTC, datetime

from knobledger.importers.document import Fields, bad
from knobledger.importers.origin import Found, Origin
from knobledger.importers.point import operating_point
from knobledger.measured import Number

_THROUGHPUTS = {
    "requests_per_second": "request_throughput",
    "output_tokens_per_second": "output_throughput",
    "tokens_per_second": "total_throughput",
}
_LATENCIES = {
    "time_to_first_token_ms": ("ttft", 1.0),
    "time_per_output_token_ms": ("tpot", 1.0),
    "inter_token_latency_ms": ("itl", 1.0),
    "request_latency": ("e2e_latency", 1000.0),
}
_STATISTICS = {"mean": "mean", "median": "median", "std_dev": "std"}


def fits(values: dict[str, object]) -> bool:
    """Whether an object has this shape."""
    return isinstance(values.get("benchmarks"), list)


def read(fields: list[Fields], origin: Origin) -> list[Found]:
    """One run per entry of `benchmarks`. Raises `BadBenchmark` if there is none."""
    del origin
    return [run for one in fields for run in _file(one)]


def _file(one: Fields) -> list[Found]:
    entries = one.values["benchmarks"]
    if not isinstance(entries, list) or not entries:
        raise bad(one.file, one.line, "benchmarks is empty")
    metadata = one.inner("metadata")
    version = metadata.text("guidellm_version") or str(metadata.values.get("version") or "")
    found = []
    for index, entry in enumerate(entries):
        if not isinstance(entry, dict):
            raise bad(one.file, one.line, f"benchmarks[{index}] is no object")
        found.append(_run(Fields(one.file, one.line, entry, f"benchmarks[{index}]."), one, version))
    return found


def _run(entry: Fields, whole: Fields, version: str) -> Found:
    config = entry.inner("config") if "config" in entry else entry.inner("args")
    strategy = config.inner("strategy")
    metrics = entry.inner("metrics")
    label, load = _point(strategy)
    measures: dict[str, Number] = {}
    for key, name in _THROUGHPUTS.items():
        if key in metrics:
            measures[name] = metrics.inner(key).inner("successful").number("mean")
    for key, (name, factor) in _LATENCIES.items():
        measures |= _latency(metrics.inner(key).inner("successful"), name, factor)
    begun, ended = entry.number("start_time"), entry.number("end_time")
    settings = whole.inner("config") if "config" in whole else whole.inner("args")
    return Found(
        format="guidellm",
        version=version,
        line=entry.line,
        measures={name: value for name, value in measures.items() if value is not None},
        load=load,
        label=label,
        conditions={
            "backend": _first(config, settings, "backend", "type_"),
            "model": _first(config, settings, "backend", "model") or settings.values.get("model"),
            "dataset": settings.values.get("data"),
            "max_concurrency": strategy.values.get("streams") or strategy.values.get("max_concurrency"),
            "request_rate": strategy.values.get("rate"),
            "num_prompts": settings.values.get("max_requests"),
        },
        arguments=dict(
            settings.scalars(frozenset(("model", "data", "max_requests", "random_seed", "backend")))
        )
        | {f"strategy.{key}": value for key, value in strategy.scalars(frozenset(("streams", "rate")))},
        faults=_faults(metrics),
        began=_instant(entry, begun),
        duration_s=ended - begun if isinstance(begun, float) and isinstance(ended, float) else None,
    )


def _instant(entry: Fields, seconds: Number) -> datetime | None:
    try:
        return datetime.fromtimestamp(seconds, UTC) if isinstance(seconds, float) else None
    except (OverflowError, ValueError, OSError) as error:
        raise entry.wrong("start_time", "a time in seconds since 1970") from error


def _point(strategy: Fields) -> tuple[str, Number]:
    kind = strategy.text("type_") or strategy.text("type")
    if kind == "synchronous":
        return "C1", 1.0
    streams = strategy.number("streams") or strategy.number("max_concurrency")
    rate = strategy.number("rate")
    return operating_point(streams, "unbounded" if kind == "throughput" and rate is None else rate)


def _latency(metric: Fields, name: str, factor: float) -> dict[str, Number]:
    values = {part: metric.number(key) for key, part in _STATISTICS.items()}
    percentiles = metric.inner("percentiles")
    values |= {part: percentiles.number(part) for part in ("p90", "p95", "p99")}
    return {
        f"{part}_{name}_ms": value * factor if isinstance(value, float) else value
        for part, value in values.items()
        if value is not None
    }


def _faults(metrics: Fields) -> tuple[str, ...]:
    """Requests that failed, or that the end of a timed run cut off."""
    said = {"errored": "failed", "incomplete": "not complete: cut off at the end of a timed run"}
    totals = metrics.inner("request_totals")
    counted = metrics.inner("requests_per_second") if "requests_per_second" in metrics else None
    faults = []
    for part, words in said.items():
        count = totals.count(part)
        if count is None and counted is not None:
            count = counted.inner(part).count("count")
        if count is None:
            count = metrics.inner("output_tokens_per_second").inner(part).count("count")
        if count:
            faults.append(f"{count} request{'s' if count > 1 else ''} {words}")
    return tuple(faults)


def _first(config: Fields, settings: Fields, key: str, inner: str) -> object:
    for place in (config, settings):
        value = place.values.get(key)
        if isinstance(value, dict):
            return value.get(inner)
        if value is not None and inner == "type_":
            return value
    return None
