"""What speaks for and against a plan, for a person who is to approve it."""

from __future__ import annotations

from knobledger.folds.asking import Hypothesis
from knobledger.names import short
from knobledger.report.benches import change_text, value_text
from knobledger.report.grounds import Grounds
from knobledger.report.paper import Paper
from knobledger.report.terminal import line


def write(found: Grounds, page: Paper) -> None:
    """Evidence on both sides, verdicts, and what was measured."""
    for one in found.hypotheses:
        _hypothesis(one, page)
    if found.comparison and found.measured:
        _worth(found, page)


def _hypothesis(one: Hypothesis, page: Paper) -> None:
    alone = ", on timing alone" if one.timing_alone else ""
    line(page, f"hypothesis {one.slug} ({one.standing}{alone}): {one.claim or 'named, never opened'}")
    for side in ("supports", "contradicts"):
        for item in one.on(side):
            event = item.event
            line(page, f"  {side:11}  {event.weight:11}  {event.text}   ({short(item.id)} by {event.actor})")
    if one.verdict:
        given = one.verdict.event
        cause = f"; the true cause: {given.cause}" if given.cause else ""
        line(page, f"  {given.ruling}: {given.because}{cause}   ({short(one.verdict.id)} by {given.actor})")


def _worth(found: Grounds, page: Paper) -> None:
    comparison = found.comparison
    assert comparison
    line(
        page,
        f"measured of {short(found.measured or '')}: {comparison.metric}, {comparison.unit}, without and with it",
    )
    for cell in comparison.cells:
        sides = f"{value_text(cell.baseline.value)} → {value_text(cell.variant.value)}"
        counts = f"n={cell.baseline.n}/{cell.variant.n}"
        line(page, f"  {cell.name:6} {sides:18} {change_text(cell):>8}  {counts}  {cell.call}")
    for dip in comparison.dips:
        line(page, f"  dip: {dip}", "cyan")
