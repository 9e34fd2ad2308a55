"""Runs with given values, as an importer would make them."""

from __future__ import annotations

import itertools
from collections.abc import Sequence
from typing import Any

from knobledger.comparison import Cell, compare
from knobledger.measured import Arm, Measure, Run
from knobledger.names import Digest

_serial = itertools.count()


def run(arm: Arm, value: float | None, start: str = "", **more: Any) -> Run:
    """One run of `output_throughput` at C64; each is a start of its own unless it names one."""
    number = next(_serial)
    metric, unit = more.pop("metric", ("output_throughput", "tok/s"))
    measured = float(value) if isinstance(value, int) else value
    values: dict[str, Any] = {
        "arm": arm,
        "format": "table",
        "source": f"{arm}.md",
        "line": number + 1,
        "digest": Digest(f"{number:064x}"),
        "start": start or f"{arm}-{number}",
        "start_from": "given",
        "at": None,
        "at_from": "none",
        "label": "C64",
        "load": 64.0,
        "measures": (Measure(name=metric, unit=unit, value=measured),),
    }
    return Run(**{**values, **more})


def arms(baseline: Sequence[float], variant: Sequence[float], **more: Any) -> list[Run]:
    """Both arms, each value from its own start."""
    return [
        *(run("baseline", value, **more) for value in baseline),
        *(run("variant", value, **more) for value in variant),
    ]


def one_cell(runs: Sequence[Run], **more: Any) -> Cell:
    """The only cell of a comparison."""
    [cell] = compare(runs, **more).cells
    return cell
