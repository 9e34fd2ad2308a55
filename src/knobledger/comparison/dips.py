"""Falls of a curve that should only rise: throughput over the load."""

from __future__ import annotations

from collections.abc import Sequence
from itertools import pairwise

from knobledger.comparison.values import Cell, Dip
from knobledger.measured import Arm

_ARMS: tuple[tuple[Arm, Arm], ...] = (("baseline", "variant"), ("variant", "baseline"))


def dips(cells: Sequence[Cell], margin: float) -> tuple[Dip, ...]:
    """Every fall by at least the margin (0.02: 2 %) from one operating point to the next, with the other arm's course.

    Cells in the order of their load; those without a load, or of another configuration, are not connected.
    """
    found = []
    for settings in sorted({cell.settings for cell in cells}):
        curve = [cell for cell in cells if cell.settings == settings and isinstance(cell.load, float)]
        curve = [cell for cell in curve if cell.call != "invalid"]
        for arm, other in _ARMS:
            values = [(cell, value) for cell in curve if (value := _value(cell, arm)) is not None]
            for (start, before), (end, after) in pairwise(values):
                if after <= before * (1 - margin):
                    repaired = arm == "baseline" and not _falls(start, end, other)
                    words = _course(curve, start, end, other, margin)
                    found.append(Dip(arm, start.name, before, end.name, after, words, repaired))
    return tuple(found)


def _course(curve: Sequence[Cell], start: Cell, end: Cell, arm: Arm, margin: float) -> str:
    """What the other arm does over the same stretch."""
    before, after = _value(start, arm), _value(end, arm)
    if before is None or after is None:
        return f"the {arm} was not measured there"
    if after <= before * (1 - margin):
        return f"the {arm} falls there too, from {before:.1f} to {after:.1f}"
    values = [value for cell in curve if (value := _value(cell, arm)) is not None]
    if all(low < high for low, high in pairwise(values)):
        return f"the {arm} only rises"
    if after >= before:
        return f"the {arm} rises there, from {before:.1f} to {after:.1f}"
    return f"the {arm} falls there by less than the margin, from {before:.1f} to {after:.1f}"


def _falls(start: Cell, end: Cell, arm: Arm) -> bool:
    before, after = _value(start, arm), _value(end, arm)
    return before is None or after is None or after < before


def _value(cell: Cell, arm: Arm) -> float | None:
    return (cell.baseline if arm == "baseline" else cell.variant).value
