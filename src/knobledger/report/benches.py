"""What `bench show` says: both arms at each operating point, the call, and everything that did not count."""

from __future__ import annotations

from typing import Any

from msgspec import Struct

from knobledger.comparison import Aside, Cell, Comparison, Dip, Side
from knobledger.names import EventId


class BenchReport(Struct, frozen=True):
    """The comparison of one change."""

    change: EventId
    title: str
    """what was changed, in a line: `gpu1/decode  TARGET_CTAS 256 → 512`"""
    comparison: Comparison

    def to_json(self) -> dict[str, Any]:
        """The JSON of `bench show`; each cell has the keys of a gain of `clawback`, and more."""
        comparison = self.comparison
        return {
            "change": self.change,
            "metric": comparison.metric,
            "unit": comparison.unit,
            "better": comparison.better,
            "margin_pct": comparison.margin_pct,
            "cells": [cell_json(comparison, cell) for cell in comparison.cells],
            "dips": [_dip(dip) for dip in comparison.dips],
            "aside": [_aside(aside) for aside in comparison.aside],
            "warnings": list(comparison.warnings),
        }


def gain_json(comparison: Comparison, cell: Cell) -> dict[str, Any]:
    """One entry of `gains` in `clawback`. Percentages with two decimals."""
    return {
        "at": cell.name,
        "metric": comparison.metric,
        "baseline": cell.baseline.value,
        "variant": cell.variant.value,
        "change_pct": None if cell.change_pct is None else round(cell.change_pct, 2),
        "n_baseline": cell.baseline.n,
        "n_variant": cell.variant.n,
        "call": cell.call,
    }


def cell_json(comparison: Comparison, cell: Cell) -> dict[str, Any]:
    """One entry of `cells`."""
    return {
        **gain_json(comparison, cell),
        "interval_pct": None if cell.interval_pct is None else [round(one, 2) for one in cell.interval_pct],
        "reasons": list(cell.reasons),
        "confounds": list(cell.confounds),
        "starts_needed": cell.needed,
        "starts": {"baseline": _starts(cell.baseline), "variant": _starts(cell.variant)},
    }


def change_text(cell: Cell) -> str:
    """`+12.8 %`, or a dash where one arm was not measured."""
    return "–" if cell.change_pct is None else f"{cell.change_pct:+.1f} %"


def interval_text(cell: Cell) -> str:
    """`+8.1 … +17.7 %`, empty where there is none."""
    return "" if cell.interval_pct is None else "{:+.1f} … {:+.1f} %".format(*cell.interval_pct)


def value_text(value: float | None) -> str:
    """A measured value to one decimal, small ones to three digits."""
    if value is None:
        return "–"
    return f"{value:.1f}" if value >= 10 else f"{value:.3g}"


def _starts(side: Side) -> list[dict[str, Any]]:
    return [{"start": start, "value": value} for start, value in side.starts]


def _dip(dip: Dip) -> dict[str, Any]:
    return {
        "arm": dip.arm,
        "from": {"at": dip.start, "value": dip.start_value},
        "to": {"at": dip.end, "value": dip.end_value},
        "repaired": dip.repaired,
        "text": str(dip),
    }


def _aside(aside: Aside) -> dict[str, Any]:
    run = aside.run
    return {
        "kind": aside.kind,
        "why": aside.why,
        "at": run.label,
        "arm": run.arm,
        "start": run.start,
        "source": run.source,
        "line": run.line,
        "digest": run.digest,
    }
