"""Hypotheses, evidence, verdicts, probes, clawback and documents for a person at a terminal."""

from __future__ import annotations

from knobledger.folds.asking import Hypothesis
from knobledger.names import short
from knobledger.report.asking import Hypotheses, HypothesisReport, SweptLine
from knobledger.report.paper import Paper
from knobledger.report.terminal import edit_text, line, render

_STYLES = {"open": "yellow", "confirmed": "bold", "refuted": "bold", "inconclusive": "yellow"}


@render.register
def _(report: Hypotheses, page: Paper) -> None:
    if not report.hypotheses:
        line(page, "no hypothesis yet: `knob hypothesis open SLUG CLAIM`")
    for one in report.hypotheses:
        line(page, f"{one.slug}   {_standing(one)}", _STYLES[one.standing])
        line(page, f"    {one.claim or 'named by a change, never opened'}")
        line(page, f"    {_sides(one)}", "dim")


@render.register
def _(report: HypothesisReport, page: Paper) -> None:
    one = report.hypothesis
    line(page, f"{one.slug}   {_standing(one)}", _STYLES[one.standing])
    line(page, f"  {one.claim}")
    for other in one.openings[1:]:
        line(page, f"  also claimed, in another clone: {other.event.claim}", "yellow")
    if one.timing_alone:
        line(
            page, "  rests on timing alone: one thing came after another, and nothing more is known", "yellow"
        )
    for side in ("supports", "contradicts"):
        for item in one.on(side):
            event = item.event
            line(page, f"  {side:11}  {event.weight:11}  {event.text}   ({short(item.id)} by {event.actor})")
    for item in one.evidence:
        if item.superseded_by:
            line(
                page,
                f"  superseded by {short(item.superseded_by)}: {item.event.text}   ({short(item.id)})",
                "dim",
            )
    for verdict in one.verdicts:
        given = verdict.event
        old = f", superseded by {short(verdict.superseded_by)}" if verdict.superseded_by else ""
        line(page, f"  {given.ruling}{old}: {given.because}   ({short(verdict.id)} by {given.actor})")
        if given.cause:
            line(page, f"    the true cause: {given.cause}")
    for swept in report.changes:
        _swept(swept, page)
    for document, number, why in report.documents:
        line(page, f"  {document}:{number}  {why}", "yellow")
    if any(swept.swept.finding == "wrongful suspect" for swept in report.changes):
        line(page, "next: `knob clawback`", "dim")
    if report.documents:
        line(page, f"next: `knob docs correct FILE --hypothesis {one.slug}`", "dim")


def _standing(one: Hypothesis) -> str:
    return one.standing + (", on timing alone" if one.timing_alone and one.standing == "open" else "")


def _sides(one: Hypothesis) -> str:
    supports, contradicts = len(one.on("supports")), len(one.on("contradicts"))
    return f"{supports} for, {contradicts} against"


def _swept(swept: SweptLine, page: Paper) -> None:
    change, finding = swept.change, swept.swept.finding
    what = "; ".join(map(edit_text, change.edits)) or "lines that hold no knob"
    role = "made under it" if swept.swept.made_under else "suspected"
    role += f": {finding}" if finding else ""
    line(
        page,
        f"  {short(change.change)}  {change.verb} {', '.join(change.targets)}  {what}   "
        f"[{role}; {change.status}]",
        "bold" if finding == "wrongful suspect" else "",
    )
    if swept.swept.stays_because:
        line(page, f"      stays: {swept.swept.stays_because}", "dim")
