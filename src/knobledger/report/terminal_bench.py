"""A/B results for a person: a table with bars, then what must be known to read it."""

from __future__ import annotations

from collections.abc import Iterator

from knobledger.comparison import Call, Cell, Comparison, Side
from knobledger.names import short
from knobledger.report.benches import BenchReport, change_text, interval_text, value_text
from knobledger.report.paper import Paper
from knobledger.report.terminal import line, render

BAR_WIDTH = 24
"""characters of the longest bar"""
_EIGHTHS = " ▏▎▍▌▋▊▉█"
_STYLES: dict[Call, str] = {
    "gain": "green",
    "suggestive gain": "green",
    "loss": "red",
    "suggestive loss": "red",
    "invalid": "red",
    "flat": "",
    "inconclusive": "yellow",
    "not enough data": "yellow",
}


@render.register
def _(report: BenchReport, page: Paper) -> None:
    comparison = report.comparison
    line(page, f"{short(report.change)}  {report.title}", "bold")
    way = "higher is better" if comparison.better == "higher" else "lower is better"
    line(page, f"{comparison.metric}, {comparison.unit}, {way}; margin {comparison.margin_pct:g} %", "dim")
    if not comparison.cells:
        line(
            page, "no run counts yet; import one with `knob bench import FILE --change CHANGE --arm baseline`"
        )
    _table(comparison, page)
    for dip in comparison.dips:
        line(page, f"dip: {dip}", "cyan")
    _notes(comparison, page)


def bar(value: float | None, most: float, width: int = BAR_WIDTH) -> str:
    """A bar from zero, to an eighth of a character; empty for no value."""
    if value is None or most <= 0:
        return ""
    eighths = max(1, round(value / most * width * 8))
    return _EIGHTHS[8] * (eighths // 8) + _EIGHTHS[eighths % 8].strip()


def _table(comparison: Comparison, page: Paper) -> None:
    cells = comparison.cells
    most = max((side.value or 0 for cell in cells for side in (cell.baseline, cell.variant)), default=0)
    width = max((len(cell.name) for cell in cells), default=0)
    size = max(
        (len(value_text(side.value)) for cell in cells for side in (cell.baseline, cell.variant)), default=0
    )
    for cell in cells:
        change = f"{change_text(cell):>8}  {cell.call}"
        interval = interval_text(cell)
        line(page, _row(cell.name.ljust(width), "baseline", cell.baseline, size, most))
        line(
            page,
            _row(" " * width, "variant ", cell.variant, size, most).ljust(width + size + BAR_WIDTH + 22)
            + change
            + (f", 95 % {interval}" if interval else ""),
            _STYLES[cell.call],
        )


def _row(name: str, arm: str, side: Side, size: int, most: float) -> str:
    return f"{name}  {arm}  {value_text(side.value):>{size}}  n={side.n:<3} {bar(side.value, most)}"


def _notes(comparison: Comparison, page: Paper) -> None:
    """Reasons, each once with the operating points it holds for; then confounds and runs set aside."""
    for text, names in _shared((cell, reason) for cell in comparison.cells for reason in cell.reasons):
        line(page, f"{names}: {text}")
    for text, names in _shared((cell, one) for cell in comparison.cells for one in cell.confounds):
        line(page, f"{names}: also differs: {text}", "yellow")
    for warning in comparison.warnings:
        line(page, f"warning: {warning}", "yellow")
    for aside in comparison.aside:
        run = aside.run
        line(page, f"{aside.kind}: {run.label} {run.arm}, {run.source}:{run.line}: {aside.why}", "dim")


def _shared(pairs: Iterator[tuple[Cell, str]]) -> list[tuple[str, str]]:
    found: dict[str, list[str]] = {}
    for cell, text in pairs:
        found.setdefault(text, []).append(cell.name)
    return [(text, ", ".join(names)) for text, names in found.items()]
