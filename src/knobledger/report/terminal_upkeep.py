"""Smaller reports for a person: plans that wait, backups, differences, upkeep."""

from __future__ import annotations

from knobledger.names import short
from knobledger.report.paper import Paper
from knobledger.report.terminal import diff_text, edit_text, line, render
from knobledger.report.upkeep import (
    Backups,
    Difference,
    Founded,
    Indexed,
    Plans,
    Prunable,
    Recovered,
    Verified,
)


@render.register
def _(report: Plans, page: Paper) -> None:
    if not report.plans:
        line(page, "no plan waits")
    for plan in report.plans:
        planned = plan.planned
        what = "; ".join(edit_text(edit) for file in planned.files[:1] for edit in file.edits)
        more = f" and {len(planned.where) - 1} more" if len(planned.where) > 1 else ""
        line(
            page,
            f"{short(plan.id)}  {plan.word:9} {planned.verb} {planned.where[0]}{more}  {what}",
        )
        why = f"  {planned.why}" if planned.why else ""
        line(
            page,
            f"          by {planned.actor}, expires {planned.expires[:16].replace('T', ' ')}Z{why}",
            "dim",
        )
    if report.over:
        many = "1 plan is" if report.over == 1 else f"{report.over} plans are"
        line(page, f"{many} used, rejected, expired or overtaken: `knob plans --all`", "dim")


@render.register
def _(report: Backups, page: Paper) -> None:
    if not report.backups:
        line(page, f"no backups of {report.target}")
    for backup in report.backups:
        style = {"ok": "", "removed": "dim", "not recorded": "dim"}.get(backup.state, "red")
        change = short(backup.change) if backup.change else "-" * 8
        size = "?" if backup.size is None else str(backup.size)
        line(
            page,
            f"{change}  {backup.at[:19].replace('T', ' ')}Z  {size:>8} B  {backup.state:12} {backup.path}",
            style,
        )


@render.register
def _(report: Prunable, page: Paper) -> None:
    for path, why in report.stay:
        line(page, f"keeps    {path}   ({why})", "dim")
    for backup in report.go:
        word = "is STILL THERE" if backup.path in report.left else "removed" if report.done else "removes"
        change = short(backup.change) if backup.change else ""
        line(page, f"{word:8} {backup.path}   {backup.size} B, made by {change}", "yellow")
    if not report.go:
        line(page, f"no backup of {report.target} can go")


@render.register
def _(report: Difference, page: Paper) -> None:
    line(page, f"{report.a}  →  {report.b}", "bold")
    if not report.diff:
        line(page, "no difference")
    for edit in report.edits:
        line(page, f"  {edit_text(edit)}")
    diff_text(page, report.diff)


@render.register
def _(report: Recovered, page: Paper) -> None:
    if not (report.settled or report.unsettled or report.restarts or report.torn):
        line(page, "nothing is in doubt")
    words = {
        "applied": "the change is in the file",
        "unchanged": "the file is as it was before",
        "overwritten": "the file holds neither the bytes before nor those planned",
    }
    for change, target, outcome in report.settled:
        line(page, f"{short(change)}  {target}: settled, {outcome}: {words.get(outcome, '')}")
    for torn in report.torn:
        line(
            page,
            f"{short(torn.change)}  {torn.target}: holds neither the bytes before nor those planned",
            "red",
        )
        line(page, f"  {torn.command} puts back what was before, from {torn.backup or 'the snapshot'}", "red")
    for change, target, message, _ in report.unsettled:
        line(page, f"{short(change)}  {target}: still in doubt: {message}", "red")
    for one in report.restarts:
        about = f", of change {short(one.change)}" if one.change else ""
        name = f"restart {short(one.restart)}" if one.restart else "the restart"
        line(page, f"{name}{about}: {one.outcome}", "red" if one.exit else "green")
        for service, state in one.services:
            line(page, f"  {service}: {state}")
        if one.message:
            line(page, f"  {one.message}", "red" if one.exit else "")


@render.register
def _(report: Verified, page: Paper) -> None:
    for finding in report.findings:
        line(
            page,
            f"{finding.kind}: {finding.message}",
            "yellow" if finding.kind.startswith("warning") else "red",
        )
    line(page, "the ledger verifies" if report.ok else "the ledger does not verify", "bold")
    line(page, report.note, "dim")


@render.register
def _(report: Indexed, page: Paper) -> None:
    done = "is rebuilt from" if report.rebuilt else "is up to date; it lacked"
    line(page, f"the index {done} {report.events} event files")


@render.register
def _(report: Founded, page: Paper) -> None:
    line(page, f"workspace {report.directory}", "bold")
    for name in report.made:
        line(page, f"  made {name}")
    if not report.made:
        line(page, "  everything was there already")
    line(page, f"  {report.git}")
    line(page, "next: name your hosts in hosts.toml, then `knob status`")
