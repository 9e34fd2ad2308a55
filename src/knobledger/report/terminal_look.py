"""Entries, lines and knobs for a person: `log`, `blame`, `status`, `scan`; `since` is in `terminal_since`.

Each entry is one line that stays readable when it wraps, and one dimmer line with its reason.
"""

from __future__ import annotations

from typing import Any

from knobledger.events.changes import Observed
from knobledger.names import EventId, short
from knobledger.report.blame import Blame, BlameLine
from knobledger.report.changes import Log
from knobledger.report.credit import doer, done_at
from knobledger.report.paper import Paper
from knobledger.report.scanned import Scan, ScannedEdit, ScannedFile
from knobledger.report.status import Status, TargetStatus
from knobledger.report.terminal import diff_text, edit_text, line, render
from knobledger.report.terminal_since import local


@render.register
def _(report: Log, page: Paper) -> None:
    if not report.entries:
        line(page, "no entry matches")
    for entry in report.entries:
        event = entry.event
        by_host = event.kind == "expired"
        when = local(done_at(event) if by_host else event.at, getattr(event, "zone", "UTC"))
        about = getattr(event, "plan", None)
        name = f"{event.kind} {short(about)}" if about else event.kind
        what = "; ".join(edit_text(edit) for edit in entry.edits)
        line(
            page,
            f"{short(entry.id)}  {when:%Y-%m-%d %H:%M:%S %Z}  {name:20}  {entry.target or ''}  {what}".rstrip(),
        )
        by = f"{event.actor} for {event.on_behalf_of}" if event.on_behalf_of else event.actor
        by_hand = isinstance(event, Observed)
        by = f"{doer(event)}, recorded by {by}" if by_host else by
        line(
            page,
            f"          {'seen ' if by_hand else ''}by {by}" + (f": {entry.text}" if entry.text else ""),
            "dim",
        )
        if isinstance(event, Observed) and event.not_after:
            start, end = (local(at, event.zone) if at else None for at in (event.not_before, event.not_after))
            after = f"after {start:%Y-%m-%d %H:%M:%S %Z}, " if start else ""
            line(page, f"          it happened {after}by {end:%Y-%m-%d %H:%M:%S %Z}", "dim")
        if report.full and isinstance(event, Observed):
            for hint in event.hints:
                line(page, f"          hint: {hint}", "dim")
            diff_text(page, event.diff)


@render.register
def _(report: Blame, page: Paper) -> None:
    width = max((len(_who(item)) for item in report.lines), default=0)
    for item in report.lines:
        if item.change is None:
            origin = f"{'-' * 8}  {'':16}"
        else:
            origin = f"{short(item.change)}  {item.at[:16].replace('T', ' '):16}"
        line(page, f"{origin}  {_who(item):{max(width, 12)}}  {item.line:4}  {item.text}")
    for knob in report.knobs if report.by_knob else ():
        value = "absent" if knob.value is None else repr(knob.value)
        now = f"now {value}" if knob.live else f"recorded {value}, not looked at"
        line(page, f"{knob.name}   {now}" + (f", line {knob.line}" if knob.line else ""), "bold")
        for turn in knob.turns:
            by = f" by {short(turn.by)}" if turn.by else ""
            why = f": {turn.why}" if turn.why else ""
            line(
                page,
                f"  {short(turn.event)}  {turn.at[:19].replace('T', ' ')}Z  {turn.actor or 'by hand'}  "
                f"{edit_text(turn.edit)}   [{turn.status}{by}]{why}",
            )
        if not knob.turns:
            line(page, "  no edit of it is recorded: it was there when the file was first seen", "dim")
    for text in report.remarks:
        line(page, f"note: {text}", "dim")


def _who(item: BlameLine) -> str:
    if item.change is None:
        return "(not recorded)"
    return "(first seen)" if item.first_contact else "(by hand)" if item.by_hand else item.actor


@render.register
def _(report: Status, page: Paper) -> None:
    if not report.targets:
        line(page, "hosts.toml names no service yet")
    for target in report.targets:
        _target(target, report.live, page)
    for differs in report.differs:
        values = ", ".join(f"{target} {value!r}" for target, value in differs.values)
        line(page, f"differs in group {differs.group}: {differs.name}: {values}", "yellow")
    for text in report.in_doubt:
        line(page, f"in doubt: {text}; `knob recover` settles it", "red")
    for change in report.unreviewed:
        name = short(EventId(change))
        line(
            page,
            f"the glass was broken for {name}: somebody else has to sign for it, `knob approve {name}`",
            "red",
        )
    for name, count in report.documents:
        lines = "1 line" if count == 1 else f"{count} lines"
        line(page, f"open: {name} contradicts the record in {lines}; see `knob docs stale {name}`", "yellow")
    if report.open_plans:
        line(page, f"plans that wait: {', '.join(report.open_plans)}; see `knob plans`", "yellow")


def _target(target: TargetStatus, live: bool, page: Paper) -> None:
    if target.error:
        state, style = f"not known: {target.error}", "red"
    elif target.in_doubt:
        state, style = f"not as recorded, which may be the work of {short(target.in_doubt)}", "yellow"
    elif target.drift:
        state, style = "changed by hand since the last entry", "yellow"
    elif not target.recorded:
        state, style = "never recorded", "dim"
    else:
        state, style = ("as recorded" if live else "recorded, not looked at"), "dim"
    line(page, f"{target.target}   {target.path}", "bold")
    line(page, f"  {state}", style)
    if target.hint:
        line(page, f"  hint: {target.hint}")
    if target.restart_owed:
        by = f" by {', '.join(map(short, target.owed_by))}" if target.owed_by else ""
        line(page, f"  restart owed{by}, since {target.owed_since[:19].replace('T', ' ')}Z", "yellow")
    if target.seen:
        line(page, f"  seen in a process that is new: {target.seen}", "yellow")
    if target.unhealthy:
        line(page, f"  unhealthy after its last restart: {target.unhealthy}", "red")
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
