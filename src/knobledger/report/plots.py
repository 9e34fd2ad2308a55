"""The A/B plot: both arms over the load, with intervals. Geometry here, looks in `templates/bench.svg.j2`."""

from __future__ import annotations

from collections.abc import Sequence
from math import ceil, floor, log10
from pathlib import Path

from msgspec import Struct

from knobledger.comparison import Cell, Comparison, Side
from knobledger.measured import Arm
from knobledger.report.benches import change_text, interval_text, value_text
from knobledger.report.vector import drawn, number, plain, wrapped

LEFT, RIGHT, TOP, BOTTOM = 64.0, 24.0, 84.0, 356.0
"""of the plot area: the width beside it, and y of its edges"""
LINE = 16.0
COLUMN = 104.0
"""the least width of one operating point"""
SHIFT = 5.0
"""how far an arm stands from the middle of its operating point, so that the whiskers do not hide each other"""
_ARMS: tuple[tuple[Arm, float], ...] = (("baseline", -SHIFT), ("variant", SHIFT))


class Point(Struct, frozen=True):
    """One arm at one operating point, in pixels."""

    arm: Arm
    x: str
    y: str
    starts: tuple[str, ...]
    """y of each start, where there are several"""
    low: str
    high: str
    """y of the 95 % interval's ends; empty where there is none"""
    text: str
    text_y: str


class Column(Struct, frozen=True):
    """What stands below one operating point."""

    x: str
    label: str
    settings: tuple[str, ...]
    change: str
    call: str
    kind: str
    """`gain loss open`, for its colour"""
    counts: str


def bench_svg(
    comparison: Comparison, title: str, *, ident: str = "bench", workspace: Path | None = None
) -> str:
    """The plot as SVG, the same bytes for the same comparison. `ident` makes ids unique within one page."""
    cells = comparison.cells
    width = max(760.0, LEFT + RIGHT + COLUMN * len(cells))
    scale = _Scale.of(cells)
    step = (width - LEFT - RIGHT) / max(len(cells), 1)
    dips = [text for dip in comparison.dips for text in wrapped(f"dip: {dip}", int(width / 7))]
    notes_y = BOTTOM + 96 + (2 * LINE if any(cell.settings for cell in cells) else 0)
    middles = [LEFT + step * (index + 0.5) for index in range(len(cells))]
    return drawn(
        "bench.svg.j2",
        {
            "ident": ident,
            "title": plain(title),
            "subtitle": _subtitle(comparison, scale.ticks[0]),
            "description": _described(comparison),
            "width": number(width),
            "height": number(notes_y + LINE * len(dips) - 4),
            "left": number(LEFT),
            "right": number(width - RIGHT),
            "top": number(TOP),
            "bottom": number(BOTTOM),
            "ticks": [(number(scale.y(value)), f"{value:g}") for value in scale.ticks],
            "curves": [(arm, path) for arm, _ in _ARMS for path in _curves(cells, middles, scale, arm)],
            "points": [
                point for cell, x in zip(cells, middles, strict=True) for point in _points(cell, x, scale)
            ],
            "columns": [_column(cell, x) for cell, x in zip(cells, middles, strict=True)],
            "dips": [(number(notes_y + LINE * index), text) for index, text in enumerate(dips)],
            "intervals": any(
                side.low is not None for cell in cells for side in (cell.baseline, cell.variant)
            ),
        },
        workspace,
    )


class _Scale(Struct, frozen=True):
    """Values to pixels, with round ticks."""

    ticks: tuple[float, ...]

    @classmethod
    def of(cls, cells: Sequence[Cell]) -> _Scale:
        values = [
            value
            for cell in cells
            for side in (cell.baseline, cell.variant)
            for value in (side.value, side.low, side.high, *(value for _, value in side.starts))
            if value is not None
        ]
        low, high = (min(values), max(values)) if values else (0.0, 1.0)
        spread = (high - low) or abs(high) or 1.0
        low, high = max(0.0, low - spread * 0.08), high + spread * 0.12
        rough = (high - low) / 5
        unit = 10 ** floor(log10(rough))
        step = next(unit * factor for factor in (1, 2, 2.5, 5, 10) if unit * factor >= rough)
        return cls(
            tuple(round(index * step, 10) for index in range(floor(low / step), ceil(high / step) + 1))
        )

    def y(self, value: float) -> float:
        share = (value - self.ticks[0]) / (self.ticks[-1] - self.ticks[0])
        return BOTTOM - share * (BOTTOM - TOP)


def _points(cell: Cell, middle: float, scale: _Scale) -> list[Point]:
    found = []
    for arm, shift in _ARMS:
        side, other = _side(cell, arm), _side(cell, "variant" if arm == "baseline" else "baseline")
        if side.value is None:
            continue
        below = other.value is not None and (side.value, arm) < (
            other.value,
            "variant" if arm == "baseline" else "",
        )
        edge = (side.low if below else side.high) or side.value
        found.append(
            Point(
                arm,
                number(middle + shift),
                number(scale.y(side.value)),
                tuple(number(scale.y(value)) for _, value in side.starts) if side.n > 1 else (),
                "" if side.low is None else number(scale.y(side.low)),
                "" if side.high is None else number(scale.y(side.high)),
                value_text(side.value),
                number(scale.y(edge) + (19 if below else -11)),
            )
        )
    return found


def _curves(cells: Sequence[Cell], middles: Sequence[float], scale: _Scale, arm: Arm) -> list[str]:
    """One path per configuration; an invalid cell is shown and not connected."""
    shift = dict(_ARMS)[arm]
    paths = []
    for settings in sorted({cell.settings for cell in cells}):
        places = [
            f"{number(x + shift)} {number(scale.y(value))}"
            for cell, x in zip(cells, middles, strict=True)
            if cell.settings == settings
            and cell.call != "invalid"
            and (value := _side(cell, arm).value) is not None
        ]
        if len(places) > 1:
            paths.append("M" + " L".join(places))
    return paths


def _column(cell: Cell, middle: float) -> Column:
    kind = (
        "gain" if "gain" in cell.call else "loss" if "loss" in cell.call or cell.call == "invalid" else "open"
    )
    return Column(
        number(middle),
        plain(cell.label),
        wrapped(cell.settings, 17, most=2),
        change_text(cell),
        cell.call,
        kind,
        f"n = {cell.baseline.n} / {cell.variant.n}",
    )


def _subtitle(comparison: Comparison, floor_: float) -> str:
    """What is measured; an axis that does not begin at 0 says so."""
    begins = f"; the axis begins at {floor_:g}" if floor_ else ""
    way = f"{comparison.better} is better"
    return f"{comparison.metric}, {comparison.unit}, {way}; margin {comparison.margin_pct:g} %{begins}"


def _described(comparison: Comparison) -> str:
    """The plot in words, for those who hear it."""
    parts = [
        f"{cell.name}: baseline {value_text(cell.baseline.value)} (n={cell.baseline.n}), "
        f"variant {value_text(cell.variant.value)} (n={cell.variant.n}), {change_text(cell)}, {cell.call}"
        + (f", 95 % interval {interval_text(cell)}" if cell.interval_pct else "")
        for cell in comparison.cells
    ]
    return plain(". ".join([*parts, *map(str, comparison.dips)]) + "." if parts else "No run counts yet.")


def _side(cell: Cell, arm: Arm) -> Side:
    return cell.baseline if arm == "baseline" else cell.variant
