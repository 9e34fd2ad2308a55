"""SGLang's `bench_one_batch_server`: `result.jsonl`, one batch each, appended; older versions have fewer keys.

Throughputs are tokens per second, `latency` and `last_ttft` are seconds.
"""

from __future__ import annotations

from knobledger.importers.document import Fields, bad
from knobledger.importers.origin import Found, Origin

_MEASURES = {
    "latency": "latency_s",
    "last_ttft": "last_ttft_s",
    "input_throughput": "input_throughput",
    "output_throughput": "output_throughput",
    "overall_throughput": "total_throughput",
}
_CONDITIONS = {"batch_size": "batch_size", "input_len": "input_len", "output_len": "output_len"}
_MEASURED = frozenset((*_MEASURES, *_CONDITIONS, "acc_length", "last_gen_throughput", "cache_hit_rate"))


def fits(values: dict[str, object]) -> bool:
    """Whether an object has this shape."""
    return values.keys() >= {"run_name", "batch_size", "latency"}


def read(fields: list[Fields], origin: Origin) -> list[Found]:
    """One run per object. Raises `BadBenchmark` without a batch size."""
    del origin
    return [_run(one) for one in fields]


def _run(one: Fields) -> Found:
    batch = one.count("batch_size")
    if batch is None:
        raise bad(one.file, one.line, "batch_size is missing")
    return Found(
        format="sglang-one-batch",
        line=one.line,
        measures={name: one.number(key) for key, name in _MEASURES.items() if key in one},
        load=float(batch),
        label=f"B{batch}",
        conditions={name: one.values[key] for key, name in _CONDITIONS.items() if key in one},
        arguments=dict(one.scalars(_MEASURED)),
        duration_s=one.number("latency"),
    )
