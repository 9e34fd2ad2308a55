"""Hypotheses, evidence, verdicts, probes, clawback and documents for a person at a terminal."""

from __future__ import annotations

from knobledger.folds.asking import Hypothesis
from knobledger.names import short
from knobledger.report.asking import Hypotheses, HypothesisReport, ProbeReport, SweptLine
from knobledger.report.benches import change_text, value_text
from knobledger.report.clawback import Clawback, Owed
from knobledger.report.paper import Paper
from knobledger.report.terminal import edit_text, length, line, render

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


@render.register
def _(report: ProbeReport, page: Paper) -> None:
    event = report.event
    line(page, f"{short(report.id)}  {event.passes} of {len(event.runs)} rounds pass", "bold")
    line(page, f"  $ {event.command}")
    seconds = [run.seconds for run in event.runs]
    line(page, f"  {min(seconds):.1f} to {max(seconds):.1f} s a round", "dim")
    if len(event.runs) < event.asked:
        line(page, f"  interrupted: {event.asked} rounds were asked for; those done are kept", "yellow")
    failed = next((run for run in event.runs if run.exit != 0), None)
    if failed:
        how = "its time was up" if failed.exit is None else f"exit code {failed.exit}"
        line(page, f"  the first that failed: {how}", "yellow")
        for text in failed.output.splitlines()[-5:]:
            line(page, f"    {text}", "dim")
    if report.side:
        line(page, f"  {report.side} {event.hypothesis}: an experiment")
    else:
        line(page, f"  nobody said what {report.outcome!r} would mean for {event.hypothesis}: no evidence")


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


_RESTORABLE = {
    "clean": "comes back clean: the file is then byte for byte as it was before it was taken out",
    "later edits": "can come back; later edits in the same file are kept",
    "conflict": "can't come back by itself",
    "restored": "is back",
    "host unknown": "not known whether it can come back",
}


@render.register
def _(report: Clawback, page: Paper) -> None:
    if not report.items:
        line(page, "nothing was taken away under a hypothesis that fell")
    for number, item in enumerate(report.items, 1):
        _owed(number, item, page)
    if report.keep:
        line(page, "keep", "bold")
    for kept, change in report.keep:
        what = "; ".join(map(edit_text, change.edits)) or "lines that hold no knob"
        line(page, f"  {short(kept.change)}  {change.targets[0]}  {what}   {kept.why}")


def _owed(number: int, item: Owed, page: Paper) -> None:
    change = item.line
    what = "; ".join(map(edit_text, change.edits)) or "lines that hold no knob"
    line(page, f"{number}. {short(change.change)}  {', '.join(change.targets)}  {what}", "bold")
    for slug, because, cause in item.reasons:
        said = f"; the true cause: {cause}" if cause else ""
        line(page, f"   {change.finding}: {slug} is refuted: {because}{said}")
    if item.comparison:
        for cell in item.comparison.cells:
            sides = f"{value_text(cell.baseline.value)} → {value_text(cell.variant.value)}"
            counts = f"n={cell.baseline.n}/{cell.variant.n}"
            line(page, f"   {cell.name:6} {sides:18} {change_text(cell):>8}  {counts}  {cell.call}")
        line(page, f"   {item.comparison.metric}, {item.comparison.unit}, without and with it", "dim")
        for dip in item.comparison.dips:
            line(page, f"   dip: {dip}", "cyan")
    else:
        line(page, "   nobody measured what it was worth", "dim")
    for note in item.notes:
        line(page, f"   noted: {note}")
    if not item.notes:
        line(page, "   risk: none noted", "dim")
    gone = "was away" if item.restorable == "restored" else "away for"
    line(page, f"   {gone} {length(item.gone_s)}; {_RESTORABLE[item.restorable]}")
    if item.remark:
        line(page, f"   {item.remark}", "yellow")
    for edit in item.later:
        line(
            page, f"   keeps  {edit.sign}{edit.text}" + (f"   ({short(edit.change)})" if edit.change else "")
        )
    if item.command:
        line(page, f"   {item.command}", "green")
