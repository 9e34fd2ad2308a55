"""AIPerf's and GenAI-Perf's `profile_export_*.json`, and AIPerf's aggregate of several profile runs.

A metric is `{"unit", "avg", "p50", "p99", "std", ...}`. In the aggregate, `metrics` holds the mean over the runs
of each statistic (`time_to_first_token_p99`); these runs are repeats on one start of the server.
"""

from __future__ import annotations

from collections.abc import Iterator
from datetime import datetime

from knobledger.importers.document import Fields, bad
from knobledger.importers.origin import Found, Origin, local_instant
from knobledger.importers.point import faults_of, operating_point
from knobledger.measured import Number

_THROUGHPUTS = {
    "request_throughput": "request_throughput",
    "output_token_throughput": "output_throughput",
    "total_token_throughput": "total_throughput",
}
_LATENCIES = {
    "time_to_first_token": "ttft",
    "inter_token_latency": "itl",
    "request_latency": "e2e_latency",
}
_STATISTICS = {"avg": "mean", "p50": "median", "p90": "p90", "p95": "p95", "p99": "p99", "std": "std"}
_TO_MS = {"ms": 1.0, "s": 1e3, "sec": 1e3, "seconds": 1e3, "us": 1e-3, "ns": 1e-6}
_NO_SETTINGS = frozenset(("cli_command", "artifact_directory", "random_seed", "verbose"))


def fits(values: dict[str, object]) -> bool:
    """Whether an object has this shape."""
    single = isinstance(values.get("output_token_throughput"), dict)
    single = single or ("input_config" in values and isinstance(values.get("request_throughput"), dict))
    return single or _aggregate(values)


def read(fields: list[Fields], origin: Origin) -> list[Found]:
    """One run per object."""
    return [_runs(one, origin) if _aggregate(one.values) else _single(one, origin) for one in fields]


def _aggregate(values: dict[str, object]) -> bool:
    metadata = values.get("metadata")
    return isinstance(metadata, dict) and "num_profile_runs" in metadata and "metrics" in values


def _single(one: Fields, origin: Origin) -> Found:
    config = one.inner("input_config")
    load_generator = config.inner("loadgen")
    label, load, conditions, arguments = _settings(config)
    total, failed = _average(one, "request_count"), _average(one, "error_request_count")
    faults = faults_of(
        _whole(total), load_generator.count("request_count"), _whole(failed) or _errors(one) or None
    )
    if one.values.get("was_cancelled") is True:
        faults = ("the run was cancelled", *faults)
    if total is not None:
        conditions.setdefault("num_prompts", total)
    measures = {
        name: one.inner(key).number("avg") for key, name in _THROUGHPUTS.items() if "avg" in one.inner(key)
    }
    for key, name in _LATENCIES.items():
        measures |= dict(_latency(one.inner(key), name))
    return Found(
        format="aiperf" if "schema_version" in one else "genai-perf",
        version=_version(one),
        line=one.line,
        measures=measures,
        load=load,
        label=label,
        conditions=conditions,
        arguments=arguments,
        faults=faults,
        began=_began(one, origin),
        duration_s=_average(one, "benchmark_duration"),
    )


def _runs(one: Fields, origin: Origin) -> Found:
    metadata, metrics = one.inner("metadata"), one.inner("metrics")
    label, load, conditions, arguments = _settings(one.inner("input_config"))
    if not label:
        label, load = operating_point(metadata.number("concurrency"))
    runs, good = metadata.count("num_profile_runs"), metadata.count("num_successful_runs")
    measures: dict[str, Number] = {}
    for key in metrics.values:
        base, _, statistic = key.rpartition("_")
        if base not in (*_THROUGHPUTS, *_LATENCIES) or statistic not in _STATISTICS:
            base, statistic = key, "avg"
        if base in _THROUGHPUTS and statistic == "avg":
            measures[_THROUGHPUTS[base]] = metrics.inner(key).number("mean")
        elif base in _LATENCIES:
            name = f"{_STATISTICS[statistic]}_{_LATENCIES[base]}_ms"
            measures[name] = _in_ms(metrics.inner(key), "mean")
    missing = runs is not None and good is not None and good < runs
    return Found(
        format="aiperf-runs",
        version=_version(one),
        line=one.line,
        measures=measures,
        load=load,
        label=label,
        conditions=conditions,
        arguments={**arguments, "profile_runs": runs},
        faults=(f"{runs - good} of {runs} profile runs failed",)
        if missing and runs and good is not None
        else (),
        began=_began(metadata, origin) or _began(one, origin),
    )


def _settings(config: Fields) -> tuple[str, Number, dict[str, object], dict[str, object]]:
    """Label, load, conditions and arguments; AIPerf nests them, GenAI-Perf keeps some at the top."""
    endpoint, generator = config.inner("endpoint"), config.inner("loadgen")
    if not generator.values:
        generator = config.inner("perf_analyzer").inner("stimulus")
    source = generator if "concurrency" in generator or "request_rate" in generator else config
    label, load = operating_point(source.number("concurrency"), source.number("request_rate"))
    models = (
        endpoint.values.get("model_names") or config.values.get("model_names") or config.values.get("model")
    )
    prompt = config.inner("input").inner("prompt")
    conditions = {
        "backend": endpoint.values.get("type") or config.values.get("service_kind"),
        "model": ", ".join(map(str, models)) if isinstance(models, list) else models,
        "max_concurrency": source.values.get("concurrency"),
        "request_rate": source.values.get("request_rate"),
        "num_prompts": generator.values.get("request_count"),
        "input_len": prompt.inner("input_tokens").values.get("mean"),
        "output_len": prompt.inner("output_tokens").values.get("mean"),
        "dataset": config.inner("input").values.get("public_dataset"),
    }
    used = {"concurrency", "request_rate", "request_count", "mean"}
    arguments = {key: value for key, value in _leaves(config, "") if not used & {key.rpartition(".")[2]}}
    return label, load, {key: value for key, value in conditions.items() if value is not None}, arguments


def _leaves(fields: Fields, path: str) -> Iterator[tuple[str, object]]:
    for key, value in fields.scalars(_NO_SETTINGS):
        yield path + key, value
    for key, value in fields.values.items():
        if isinstance(value, dict):
            yield from _leaves(fields.inner(key), f"{path}{key}.")


def _latency(metric: Fields, name: str) -> Iterator[tuple[str, Number]]:
    for key, part in _STATISTICS.items():
        if key in metric:
            yield f"{part}_{name}_ms", _in_ms(metric, key)


def _in_ms(metric: Fields, key: str) -> Number:
    unit = metric.text("unit")
    if unit not in _TO_MS:
        raise (
            metric.wrong("unit", "a unit of time")
            if unit
            else bad(metric.file, metric.line, f"{metric.path}unit is missing")
        )
    value = metric.number(key)
    return value * _TO_MS[unit] if isinstance(value, float) else value


def _average(one: Fields, key: str) -> Number:
    """A count or a time; a plain number in some versions, `{"avg"}` in others."""
    return one.inner(key).number("avg") if isinstance(one.values.get(key), dict) else one.number(key)


def _whole(value: Number) -> int | None:
    return round(value) if isinstance(value, float) else None


def _errors(one: Fields) -> int:
    summary = one.values.get("error_summary")
    counts = (
        [entry.get("count") for entry in summary if isinstance(entry, dict)]
        if isinstance(summary, list)
        else []
    )
    return sum(count for count in counts if isinstance(count, int))


def _version(one: Fields) -> str:
    version = one.values.get("aiperf_version") or one.values.get("schema_version")
    return str(version) if isinstance(version, str | int | float) else ""


def _began(one: Fields, origin: Origin) -> datetime | None:
    if "start_time" not in one:
        return None
    try:
        return local_instant(one.text("start_time"), "iso", origin)
    except ValueError as error:
        raise one.wrong("start_time", "an ISO time") from error
