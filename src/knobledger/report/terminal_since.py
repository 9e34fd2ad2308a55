"""`since` for a tired person: one table where there is room, one block for each change where there is not."""

from __future__ import annotations

from datetime import datetime
from zoneinfo import ZoneInfo

from knobledger.event import moment_of
from knobledger.events.changes import Observed
from knobledger.names import TargetName, short
from knobledger.plan import Edit
from knobledger.report.changes import Between, ChangeLine, Since
from knobledger.report.paper import Paper
from knobledger.report.serving import RestartReport
from knobledger.report.table import TOGETHER, Cell, Row, table, wrapped
from knobledger.report.terminal import edit_text, line, render

_WIDE = ("WHEN", "ID", "WHO", "WHERE", "WHAT", "WHY", "NOW")
_WIDE_FROM = 150
"""characters: below this seven columns would have more breaks than words"""
_NARROW = ("WHEN", "WHERE", "WHAT", "NOW")
_NARROW_FROM = 90
"""the same for four, where who and why stand under where and what"""
_SHORT = 24
"""characters"""
_BY_HAND = ["by hand"]
_STYLES = {"in effect": "", "reverted": "dim", "restored": "", "overwritten": "dim"}


def local(at: str, zone: str) -> datetime:
    """A moment of an event on the clock of a zone."""
    return moment_of(at).astimezone(ZoneInfo(zone))


@render.register
def _(report: Since, page: Paper) -> None:
    wrapped(
        page,
        f"since {report.start.echo()}" + (f", until {report.until.echo()}" if report.until else ""),
        "",
        "bold",
    )
    restarts = map(_restart, report.restarts)
    items: list[ChangeLine | Between] = [*report.changes, *report.observed, *report.between, *restarts]
    items.sort(key=lambda item: item.at)
    rows = [_row(item, report.zone) for item in items]
    if not items:
        wrapped(page, "nothing changed, as far as the ledger knows", "")
    elif not _tabled(page, rows):
        for row in rows:
            _block(page, row)
    _now(report, page)


def _restart(item: RestartReport) -> Between:
    chain = item.chain
    text = item.outcome if item.done or chain.ended is None else f"{item.outcome}: {chain.ended.reason}"
    if chain.started.plan:
        what = "as planned by" if chain.started.cause == "asked" else "after change"
        text += f", {what} {short(chain.started.plan)}"
    services = TargetName(", ".join(chain.services))
    return Between(item.at, chain.id, "restart", services, text, chain.started.actor)


def _tabled(page: Paper, rows: list[Row]) -> bool:
    """As a table, if there is room for one."""
    if page.width >= _WIDE_FROM and table(page, _WIDE, rows):
        return True
    return page.width >= _NARROW_FROM and table(page, _NARROW, [_folded(row) for row in rows])


def _folded(row: Row) -> Row:
    when, id_, who, where, what, why, now = row.cells
    return Row(([*when, *id_], [*where, *_by(who)], [*what, *why], now), row.style)


def _by(who: Cell) -> list[str]:
    return [*who] if list(who) == _BY_HAND or not any(who) else [f"by {who[0]}", *who[1:]]


def _row(item: ChangeLine | Between, zone: str) -> Row:
    if isinstance(item, Between):
        text = ([item.kind.replace("_", " ")], [item.text], list[str]())
        return Row(
            ([_clock(item.at, zone)], [short(item.event)], [item.actor], [item.target or ""], *text), "cyan"
        )
    what = [_edit(edit) for edit in item.edits] or ["lines that hold no knob"]
    by = f" by {short(item.by)}" if item.by else ""
    now = [item.status + by + (f" ({item.by_actor})" if item.by_actor else "")]
    now += [f"but not {name}" for name in item.apart]
    seen = item.observed
    if seen is None:
        when = [_clock(item.at, zone)]
        who = [item.actor] + ([f"for {item.on_behalf_of}"] if item.on_behalf_of else [])
        why = [
            *([item.why] if item.why else []),
            *(f"hypothesis: {slug}" for slug in item.hypotheses),
            *([f"finding: {item.finding}"] if item.finding else []),
        ]
        what[0] = what[0] if item.verb == "set" else f"{item.verb}: {what[0]}"
    else:
        when, who, why = _by_hand(seen, zone)
    cells = (when, [short(item.change)], who, list(item.targets), what, why, now)
    return Row(cells, "yellow" if seen and item.status == "in effect" else _STYLES[item.status])


def _edit(edit: Edit) -> str:
    """The edit with its two values on one line, where they are short."""
    name, gap, values = edit_text(edit).partition("   ")
    return name + gap + (values.replace(" ", TOGETHER) if len(values) <= _SHORT else values)


def _by_hand(seen: Observed, zone: str) -> tuple[list[str], list[str], list[str]]:
    """When, who and why of an edit that nobody recorded when it was made."""
    end = local(seen.not_after or seen.at, zone)
    when = [f"by {end:%m-%d %H:%M:%S %Z}"]
    if seen.not_before:
        start = local(seen.not_before, zone)
        day = (
            ""
            if start.date() == end.date()
            else f"{start:%Y-%m-%d} "
            if start.year != end.year
            else f"{start:%m-%d} "
        )
        when.append(f"after {day}{start:%H:%M:%S}")
    why = [f"seen in {seen.source.rpartition('/')[2]}"] if seen.source else []
    why += [f"hint: {hint}" for hint in seen.hints[:3]]
    return when, _BY_HAND, why


def _clock(at: str, zone: str) -> str:
    return f"{local(at, zone):%m-%d %H:%M:%S %Z}"


def _block(page: Paper, row: Row) -> None:
    when, id_, who, where, what, why, now = row.cells
    line(page)
    wrapped(page, f"{', '.join(when)}  {id_[0]}", "", row.style or "bold")
    for text in (", ".join(where), *what):
        wrapped(page, text, "  ", row.style)
    wrapped(page, " ".join(_by(who)), "  ", "dim")
    for text in why:
        wrapped(page, text, "  ", "dim")
    for text in now:
        wrapped(page, f"now: {text}", "  ", row.style)


def _now(report: Since, page: Paper) -> None:
    """The hypotheses in question, then what the hosts say, or that nobody asked them."""
    line(page)
    for one in report.hypotheses:
        alone = ", on timing alone" if one.timing_alone and one.standing == "open" else ""
        wrapped(page, f"why    {one.slug} [{one.standing}{alone}]  {one.claim}".rstrip(), "", "")
    for drift in report.drift:
        wrapped(
            page,
            f"now    {drift.target}  {drift.message}",
            "",
            "red" if drift.state == "not known" else "yellow",
        )
        for edit in drift.edits:
            wrapped(page, edit_text(edit), "         ", "yellow")
        if drift.found and drift.state == "drifted":
            when, _, why = _by_hand(drift.found, report.zone)
            for text in (", ".join(when), *why):
                wrapped(page, text, "         ", "dim")
    if any(drift.state == "drifted" for drift in report.drift):
        wrapped(page, "`knob drift` shows the lines, `knob adopt TARGET` records them", "", "dim")
    if report.looked and not report.drift:
        wrapped(page, "now    every target holds its last recorded bytes", "", "green")
    if not report.looked:
        wrapped(
            page,
            "edits by hand that nobody has looked at yet are not here: `--live` asks the hosts",
            "",
            "dim",
        )
