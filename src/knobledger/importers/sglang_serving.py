"""SGLang's `bench_serving`: JSON lines, one run each, appended. Several configurations may share a file.

Keys as in `python/sglang/bench_serving.py` (2025, 2026): no time, no model, no count of failed requests.
"""

from __future__ import annotations

from knobledger.importers.document import Fields
from knobledger.importers.origin import Found, Origin, text_of
from knobledger.importers.point import faults_of, operating_point

THROUGHPUTS = ("request_throughput", "input_throughput", "output_throughput", "total_throughput")
LATENCIES = tuple(
    f"{part}_{name}_ms"
    for name in ("e2e_latency", "ttft", "tpot", "itl")
    for part in ("mean", "median", "std", "p90", "p95", "p99")
)
_CONDITIONS = {
    "backend": "backend",
    "dataset_name": "dataset",
    "request_rate": "request_rate",
    "max_concurrency": "max_concurrency",
    "random_input_len": "input_len",
    "random_output_len": "output_len",
    "sharegpt_output_len": "output_len",
}
_MEASURED = frozenset(
    (
        *THROUGHPUTS,
        *LATENCIES,
        *("duration", "completed", "concurrency", "accept_length", "server_info"),
        *("total_input_tokens", "total_output_tokens", "total_output_tokens_retokenized"),
        *("total_input_text_tokens", "total_input_vision_tokens"),
        *("max_output_tokens_per_s", "max_concurrent_requests"),
    )
)
_VOLATILE = frozenset(("internal_states", "last_gen_throughput", "memory_usage", "random_seed", "version"))
"""of `server_info`: differ from one start to the next, or within one"""


def fits(values: dict[str, object]) -> bool:
    """Whether an object has this shape."""
    return values.keys() >= {"backend", "request_throughput", "output_throughput"} and bool(
        values.keys() & {"dataset_name", "tag", "total_throughput"}
    )


def read(fields: list[Fields], origin: Origin) -> list[Found]:
    """One run per object; lines with the same arguments are one start of the server (answers, 15)."""
    del origin
    groups: dict[str, int] = {}
    return [_run(one, groups) for one in fields]


def _run(one: Fields, groups: dict[str, int]) -> Found:
    label, load = operating_point(one.number("max_concurrency"), one.number("request_rate"))
    conditions = {name: one.values[key] for key, name in _CONDITIONS.items() if key in one}
    completed = one.count("completed")
    if completed is not None:
        conditions["num_prompts"] = completed
    arguments = dict(one.scalars(_MEASURED | _CONDITIONS.keys()))
    group = repr(sorted((name, text_of(value)) for name, value in {**conditions, **arguments}.items()))
    server = one.inner("server_info")
    arguments |= {f"server.{key}": value for key, value in server.scalars(_VOLATILE)}
    return Found(
        format="sglang-serving",
        version=server.text("version"),
        line=one.line,
        measures={key: one.number(key) for key in (*THROUGHPUTS, *LATENCIES) if key in one},
        load=load,
        label=label,
        conditions=conditions,
        arguments=arguments,
        faults=faults_of(completed, None, None),
        duration_s=one.number("duration"),
        start=str(groups.setdefault(group, len(groups) + 1)),
    )
