"""Changes, entries, lines and knobs for a person: `since`, `log`, `blame`, `status`, `scan`.

Each entry is one line that stays readable when it wraps, and one dimmer line with its reason.
"""

from __future__ import annotations

from datetime import datetime
from typing import Any
from zoneinfo import ZoneInfo

from knobledger.event import moment_of
from knobledger.names import short
from knobledger.report.changes import Blame, ChangeLine, Log, Since
from knobledger.report.paper import Paper
from knobledger.report.scanned import Scan, ScannedEdit, ScannedFile
from knobledger.report.status import Status, TargetStatus
from knobledger.report.terminal import diff_text, edit_text, line, render


def local(at: str, zone: str) -> datetime:
    """A moment of an event on the clock of a zone."""
    return moment_of(at).astimezone(ZoneInfo(zone))


@render.register
def _(report: Since, page: Paper) -> None:
    items = sorted((*report.changes, *report.observed), key=lambda item: (item.at, item.change))
    line(page, f"since {report.start.echo()}", "bold")
    for item in items:
        _change(item, report.zone, page)
    if not items:
        line(page, "nothing changed, as far as the ledger knows")
    for drift in report.drift:
        line(page, f"now    {drift.target}  {drift.message}", "yellow")
    if report.looked and not report.drift:
        line(page, "now    every target holds its last recorded bytes", "green")
    if not report.looked:
        line(
            page,
            "edits by hand that nobody has looked at yet are not here: `--live` asks the hosts",
            "dim",
        )


def _change(item: ChangeLine, zone: str, page: Paper) -> None:
    when = local(item.at, zone)
    what = "; ".join(edit_text(edit) for edit in item.edits) or "lines that hold no knob"
    where = ", ".join(item.targets)
    state = item.status + (f" by {short(item.by)}" if item.by else "")
    line(page, f"{when:%m-%d %H:%M:%S %Z}  {short(item.change)}  {where}  {what}   [{state}]")
    by = f"{item.actor} for {item.on_behalf_of}" if item.on_behalf_of else item.actor
    who = f"by hand, seen by {by}" if item.verb == "observed" else f"{item.verb} by {by}"
    parts = [
        who,
        f"because: {item.why}" if item.why else "",
        f"hypothesis: {', '.join(item.hypotheses)}" if item.hypotheses else "",
        item.finding or "",
    ]
    line(page, "    " + "; ".join(part for part in parts if part), "dim")


@render.register
def _(report: Log, page: Paper) -> None:
    if not report.entries:
        line(page, "no entry matches")
    for entry in report.entries:
        event = entry.event
        when = local(event.at, getattr(event, "zone", "UTC"))
        about = getattr(event, "plan", None)
        name = f"{event.kind} {short(about)}" if about else event.kind
        what = "; ".join(edit_text(edit) for edit in entry.edits)
        line(
            page,
            f"{short(entry.id)}  {when:%Y-%m-%d %H:%M:%S %Z}  {name:20}  {entry.target or ''}  {what}".rstrip(),
        )
        by = f"{event.actor} for {event.on_behalf_of}" if event.on_behalf_of else event.actor
        line(page, f"          by {by}" + (f": {entry.text}" if entry.text else ""), "dim")


@render.register
def _(report: Blame, page: Paper) -> None:
    width = max((len(item.actor) for item in report.lines), default=0)
    for item in report.lines:
        if item.change is None:
            origin = f"{'not recorded':8}  {'':16}"
        else:
            origin = f"{short(item.change)}  {item.at[:16].replace('T', ' '):16}"
        who = "(first seen)" if item.first_contact else item.actor
        line(page, f"{origin}  {who:{max(width, 12)}}  {item.line:4}  {item.text}")
    for text in report.remarks:
        line(page, f"note: {text}", "dim")


@render.register
def _(report: Status, page: Paper) -> None:
    if not report.targets:
        line(page, "hosts.toml names no service yet")
    for target in report.targets:
        _target(target, report.live, page)
    for text in report.in_doubt:
        line(page, f"in doubt: {text}; `knob recover` settles it", "red")
    if report.open_plans:
        line(page, f"plans that wait: {', '.join(report.open_plans)}; see `knob plans`", "yellow")


def _target(target: TargetStatus, live: bool, page: Paper) -> None:
    if target.error:
        state, style = f"not known: {target.error}", "red"
    elif target.drift:
        state, style = "changed by hand since the last entry", "yellow"
    elif not target.recorded:
        state, style = "never recorded", "dim"
    else:
        state, style = ("as recorded" if live else "recorded, not looked at"), "dim"
    line(page, f"{target.target}   {target.path}", "bold")
    line(page, f"  {state}", style)
    for knob in target.knobs:
        if not knob.occurrence["active"]:
            continue
        who = f"{short(knob.change)} {knob.actor} {knob.at[:16].replace('T', ' ')}Z" if knob.change else ""
        why = f": {knob.why}" if knob.why else ""
        line(page, f"  {knob.occurrence['line']:4}  {_written(knob.occurrence)}   {who}{why}".rstrip())


@render.register
def _(report: Scan, page: Paper) -> None:
    for file in report.files:
        _scanned(file, page)


def _scanned(file: ScannedFile, page: Paper) -> None:
    """The knobs in the order of the file, each warning below the line that it is about."""
    line(page, f"{file.file}   ({file.dialect.value})", "bold")
    texts = [_written(knob) for knob in file.knobs]
    width = min(60, max((len(text) for text in texts), default=0))
    rows = []
    for knob, text in zip(file.knobs, texts, strict=True):
        where = f"{knob['file']}:" if knob["file"] else ""
        shown = f"{where}{knob['line']:4}  {text:{width}}   {_marks(knob)}"
        rows.append((bool(where), knob["line"], shown, "" if knob["active"] else "dim"))
    rows += [
        (False, number, f"{number:4}  warning: {message}", "yellow") for number, message in file.warnings
    ]
    # Sorting keeps the order of what stands on one line, and warnings come behind it.
    for _, _, shown, style in sorted(rows, key=lambda row: row[:2]):
        line(page, shown, style)


def _marks(knob: dict[str, Any]) -> str:
    marks = [knob["scope"]]
    marks += [word for word in ("dynamic", "overridable", "depends") if knob[word]]
    marks += [] if knob["active"] else ["commented out"]
    marks += ["loses"] if knob["active"] and not knob["wins"] and not knob["depends"] else []
    return ", ".join(dict.fromkeys(marks))


@render.register
def _(report: ScannedEdit, page: Paper) -> None:
    diff_text(page, report.diff)
    if not report.diff:
        line(page, "nothing would change")
    for text in report.warnings:
        line(page, f"warning: {text}", "yellow")


def _written(knob: dict[str, Any]) -> str:
    name = str(knob["name"])
    if knob["bare"]:
        return name
    value = knob["raw"] if knob["value"] is None else knob["value"]
    return f"{name}={value}" if knob["kind"] == "env" else f"{name} {value}"
