"""`drift` and `adopt` for a person."""

from __future__ import annotations

from knobledger.events.changes import Observed
from knobledger.names import short
from knobledger.report.drift import Adopted, Adoption, Drift, TargetDrift
from knobledger.report.paper import Paper
from knobledger.report.table import wrapped
from knobledger.report.terminal import diff_text, edit_text, line, render
from knobledger.report.terminal_since import local

_STYLES = {"as recorded": "green", "drifted": "yellow", "never recorded": "dim", "not known": "red"}


@render.register
def _(report: Drift, page: Paper) -> None:
    if not report.targets:
        line(page, "hosts.toml names no service yet")
        return
    for item in report.targets:
        _target(item, report.zone, page)
        if item.state == "drifted" and item.found:
            diff_text(page, item.found.diff)
    count = {state: sum(item.state == state for item in report.targets) for state in _STYLES}
    said = [f"{number} {state}" for state, number in count.items() if number]
    line(page, f"{len(report.targets)} targets: {', '.join(said)}", "bold")
    if count["drifted"] or count["never recorded"]:
        line(page, "next: `knob adopt TARGET` records what is there; nothing on a host is changed by it")


def _target(item: TargetDrift, zone: str, page: Paper, *, recorded_now: bool = False) -> None:
    wrapped(page, f"{item.target}   {item.path}", "", "bold")
    by = f", last recorded {_moment(item.recorded_at, zone)}" if item.recorded_at else ""
    if recorded_now:
        wrapped(page, "recorded now", "  ", _STYLES["as recorded"])
    else:
        wrapped(page, f"{item.message}{by}", "  ", _STYLES[item.state])
    if item.hint:
        wrapped(page, f"hint: {item.hint}", "  ")
    if item.found is None or item.state != "drifted":
        return
    _bounds(item.found, item.mtime, zone, page)
    if item.found.hints:
        line(page, "  who it may have been (hints, no proof):", "dim")
    for hint in item.found.hints:
        wrapped(page, hint, "    ", "dim")
    for edit in item.edits:
        wrapped(page, edit_text(edit), "    ", "yellow")
    if not item.found.diff:
        wrapped(
            page,
            "the recorded bytes are not among the snapshots, so there is nothing to compare with",
            "    ",
            "dim",
        )


def _bounds(found: Observed, mtime: str, zone: str, page: Paper) -> None:
    start, end = _moment(found.not_before, zone), _moment(found.not_after, zone)
    trusted = mtime and mtime[:19] >= found.not_before[:19] and mtime <= found.at
    wrapped(page, f"changed after {start}, by {end}" + (" (the file's mtime)" if trusted else ""), "  ")
    if not trusted:
        wrapped(
            page,
            f"the file's mtime, {_moment(mtime, zone)}, says nothing: it is not from that time",
            "  ",
            "dim",
        )


def _moment(at: str, zone: str) -> str:
    return f"{local(at, zone):%Y-%m-%d %H:%M:%S %Z}" if at else "?"


@render.register
def _(report: Adoption, page: Paper) -> None:
    for item in report.targets:
        _adopted(item, report, page)
    if report.unread:
        line(page, f"{report.unread} of {len(report.targets)} targets could not be read", "red")
    if not report.new and report.unread:
        line(page, "nothing was recorded")
    elif not report.new:
        line(page, "there is nothing to adopt")
    elif report.done:
        line(page, f"{report.new} entries were recorded as observed; no host was changed", "bold")
        line(
            page,
            "next: `knob since WHEN`, `knob blame TARGET`; `knob restore ID` undoes what was taken out by hand",
        )
    else:
        line(page, f"{report.new} entries would be recorded as observed; no host is changed", "bold")


def _adopted(item: Adopted, report: Adoption, page: Paper) -> None:
    ids = list(item.ids)
    first = ids.pop(0) if ids and item.drift.found else None
    _target(item.drift, report.zone, page, recorded_now=first is not None)
    for i, event in enumerate(item.past):
        _past(event, short(ids[i]) if ids else "", report.zone, page)
    if item.drift.found:
        words = "the bytes that are there now" if item.drift.found.previous is None else "the edit by hand"
        wrapped(page, f"{short(first) + '  ' if first else ''}{words}, as observed", "  ")
    for text in item.remarks:
        wrapped(page, f"note: {text}", "  ", "dim")


def _past(event: Observed, id_: str, zone: str, page: Paper) -> None:
    start = f"after {_moment(event.not_before, zone)}, " if event.not_before else ""
    what = "; ".join(edit_text(edit) for edit in event.edits) if event.previous else "the oldest that is left"
    wrapped(
        page,
        f"{id_ + '  ' if id_ else ''}{start}by {_moment(event.not_after, zone)}  {what or 'lines that hold no knob'}",
        "  ",
    )
    wrapped(page, f"from {event.source}" + "".join(f"; hint: {hint}" for hint in event.hints), "    ", "dim")
