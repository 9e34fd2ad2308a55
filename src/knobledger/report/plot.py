"""A series of values as lines of braille, for any width. Pure."""

from __future__ import annotations

from collections.abc import Sequence
from itertools import pairwise

_DOTS = ((0x40, 0x04, 0x02, 0x01), (0x80, 0x20, 0x10, 0x08))
"""the bits of a braille cell, from its lowest dot up, left and right column"""
HEIGHT = 5
"""lines"""


def plot(values: Sequence[float | None], width: int, *, height: int = HEIGHT) -> tuple[str, ...]:
    """Lines no wider than `width`, the scale on their left; one column of dots per value, or the highest of several.

    A missing value leaves its column empty; 0 is the lowest dot. Nothing where no value is known.
    """
    known = [value for value in values if value is not None]
    if not known:
        return ()
    top, low = max(*known, 0.0), min(*known, 0.0)
    labels = [number(top), number(low)]
    margin = max(map(len, labels)) + 1
    columns = max(4, 2 * (width - margin - 1))
    heights = [_height(value, low, top, 4 * height) for value in _squeezed(values, columns)]
    lines = []
    for row in reversed(range(height)):
        label = labels[0] if row == height - 1 else labels[1] if row == 0 else ""
        cells = "".join(_cell(heights[i : i + 2], row) for i in range(0, len(heights), 2))
        lines.append(f"{label:>{margin - 1}} ┤{cells.rstrip(chr(0x2800))}")
    return tuple(lines)


def _squeezed(values: Sequence[float | None], columns: int) -> list[float | None]:
    """At most so many values: the highest of each stretch, so that no peak is lost."""
    if len(values) <= columns:
        return list(values)
    cuts = [len(values) * i // columns for i in range(columns + 1)]
    stretches = ([v for v in values[a:b] if v is not None] for a, b in pairwise(cuts))
    return [max(stretch, default=None) for stretch in stretches]


def _height(value: float | None, low: float, top: float, dots: int) -> int:
    """How many dots high a column is; 0: empty."""
    if value is None:
        return 0
    return 1 + round((dots - 1) * (value - low) / (top - low)) if top > low else 1


def _cell(pair: Sequence[int], row: int) -> str:
    bits = 0
    for side, height in zip(_DOTS, pair, strict=False):
        for dot in side[: max(0, min(4, height - 4 * row))]:
            bits |= dot
    return chr(0x2800 + bits)


def number(value: float | None) -> str:
    """A value for a person: whole numbers whole, others to four digits."""
    if value is None:
        return "?"
    if value == int(value) and abs(value) < 1e15:
        return str(int(value))
    return f"{value:.4g}"
