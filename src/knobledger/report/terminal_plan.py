"""Plans and changes for a person: what would change, then the proof that it did, as commands one could type."""

from __future__ import annotations

from knobledger.names import short
from knobledger.plan import PlannedFile
from knobledger.quoting import command_line
from knobledger.report.paper import Paper
from knobledger.report.plans import Decided, NothingToDo, PlanReport, TargetOutcome
from knobledger.report.terminal import diff_text, edit_text, line, render

_OTHER_BYTES = "the live bytes are no longer the ones that it was made for"


@render.register
def _(report: PlanReport, page: Paper) -> None:
    if report.planned.only_restarts:
        _restart(report, page)
    elif len(report.targets) > 1:
        from knobledger.report.terminal_fleet import fleet

        fleet(report, page)
    else:
        _only(report, report.targets[0], page)
    _processes(report, page)
    _reasons(report, page)


def _processes(report: PlanReport, page: Paper) -> None:
    """What is restarted, or was, and what the new processes have. Renderings of other kinds are imported where used."""
    from knobledger.report import renderings

    if report.restart_preview and not report.is_change:
        renderings.render(report.restart_preview, page)
    elif report.restarted:
        renderings.render(report.restarted, page)
    if report.live is not None:
        renderings.render(report.live, page)
    for event in report.observed:
        line(page, f"after the restart, {event.at[:16].replace('T', ' ')}Z: {event.target}   {event.summary}")


def _only(report: PlanReport, target: TargetOutcome, page: Paper) -> None:
    head = "applied" if report.is_change else f"plan ({report.status})"
    file = target.file
    line(page, f"{head} {short(report.id)}   {report.planned.verb} {file.target}   {file.path}", "bold")
    for edit in file.edits:
        line(page, f"  {edit_text(edit)}")
    _later(file, page)
    if target.outcome == "applied":
        _proof(report, target, page)
    else:
        diff_text(page, file.diff)
        if target.message:
            line(page, f"  {target.outcome}: {target.message}", "red")


def _restart(report: PlanReport, page: Paper) -> None:
    """A plan that only restarts."""
    services = ", ".join(report.planned.where)
    line(page, f"plan ({report.word}) {short(report.id)}   restart {services}", "bold")


def _later(file: PlannedFile, page: Paper) -> None:
    for item in file.later_edits:
        word = "keeps" if item.kept else "DROPS"
        by = f"{short(item.change)} by {item.actor}" if item.change and item.actor else "an edit by hand"
        line(page, f"  {word} the later edit  {item.sign}{item.text}   ({by})", "" if item.kept else "red")


def _proof(report: PlanReport, target: TargetOutcome, page: Paper) -> None:
    file = target.file
    if target.receipt is None:
        line(page, f"  {target.message}")
        return
    receipt = target.receipt
    live = receipt.manifest.resolved
    line(page, f"  $ {command_line(('cp', '-p', live, receipt.backup))}", "dim")
    if file.backup and file.clean:
        line(
            page,
            f"  $ {command_line(('cp', '-p', file.backup, f'{live}.new'))} && {command_line(('mv', f'{live}.new', live))}",
            "dim",
        )
        line(page, "  restored" if report.planned.verb == "restore" else "  reverted", "green")
    for name in file.lines:
        line(page, f"  $ {command_line(('grep', '-n', '-F', '-e', name, live))}", "dim")
        hits = [item for item in receipt.grep if name in item.text]
        for item in hits:
            line(page, f"  {item.line}:{item.text}", "green")
        if not hits:
            line(page, "  (no line)", "green")
    if receipt.matches is not None:
        line(page, f"  $ {command_line(('diff', '-q', live, receipt.matches))}", "dim")
        line(page, "  matches backup" if receipt.matches_backup else "  DIFFERS from the backup", "green")
    elif target.differences is not None and file.backup:
        line(page, f"  $ {command_line(('diff', file.backup, live))}", "dim")
        for text in target.differences:
            line(page, f"  {text}")
        kept = len(file.later_edits)
        edits = "later edit" if kept == 1 else "later edits"
        if only_later(target):
            line(page, f"  differs from the backup in the {kept} {edits} above and in nothing else", "green")
        else:
            line(page, f"  DIFFERS from the backup in more than the {kept} {edits} above", "red")
    else:
        line(page, f"  $ {command_line(((receipt.digest_tool or 'sha256sum'), live))}", "dim")
        line(page, f"  {receipt.digest[:16]}…  is the plan's result", "green")


def only_later(target: TargetOutcome) -> bool:
    """The lines in which the live file differs from the backup are exactly the later edits that were kept."""
    shown = sorted(text for text in target.differences or () if text[:2] in ("< ", "> "))
    wanted = sorted(f"{'>' if item.sign == '+' else '<'} {item.text}" for item in target.file.later_edits)
    return shown == wanted


def _reasons(report: PlanReport, page: Paper) -> None:
    planned = report.planned
    by = f"{planned.actor} for {planned.on_behalf_of}" if planned.on_behalf_of else planned.actor
    line(
        page,
        f"by {by}, {planned.at[:19].replace('T', ' ')}Z"
        + (f", because: {planned.why}" if planned.why else ""),
        "dim",
    )
    for slug in planned.hypotheses:
        line(page, f"under the hypothesis {slug}", "dim")
    if planned.despite:
        line(page, f"despite the evidence against it: {planned.despite}", "yellow")
    if report.grounds:
        from knobledger.report import terminal_grounds

        terminal_grounds.write(report.grounds, page)
    if (
        planned.restart != "none"
        and planned.files
        and not report.is_change
        and report.restart_preview is None
    ):
        line(page, f"restarts: {planned.restart}")
    if planned.policy != "confirm" or any(event.signature for event in report.approvals):
        _signatures(report, page)
    for text in (*planned.warnings, *report.remarks):
        line(page, f"warning: {text}", "yellow")
    name = short(report.id)
    if planned.confirm_within_s and not report.is_change:
        from knobledger.report.pending import countdown

        limit = countdown(planned.confirm_within_s).removesuffix(" left")
        line(
            page,
            f"to be confirmed: the host takes it back {limit} after it was made, unless `knob confirm {name}`",
        )
    if report.is_change:
        _waits(report, page)
        _afterwards(report, name, page)
    elif report.stale:
        line(
            page,
            f"stale: {report.stale_because or _OTHER_BYTES}; make a new plan",
            "red",
        )
    elif report.status in ("open", "approved"):
        line(
            page,
            f"expires {planned.expires[:16].replace('T', ' ')}Z"
            + (f"; go-ahead: {report.approval}" if report.approved else ""),
            "dim",
        )


def _signatures(report: PlanReport, page: Paper) -> None:
    """Who stands behind it, where names alone count for nothing."""
    line(page, f"policy: {report.planned.policy}", "dim")
    for event in report.approvals:
        line(page, f"  {event.at[:16].replace('T', ' ')}Z  {event.source}", "dim")
        if event.break_glass:
            line(page, f"  emergency: {event.break_glass}", "red")


def _waits(report: PlanReport, page: Paper) -> None:
    for item in report.armed:
        pending = item.pending
        if pending.end is not None:
            from knobledger.report.pending import ending

            line(page, f"{pending.target}: {ending(pending.end)}")
            continue
        by = f"by a {pending.armed.scheduler}" if pending.armed else ""
        line(page, f"{pending.target} puts itself back at {pending.deadline:%H:%M:%S} UTC, {by}", "yellow")
        if not pending.survives_reboot:
            line(page, "  a reboot of the host before that would leave the change in", "yellow")
        line(page, f"to keep it, once it has proved itself: knob confirm {short(report.id)}", "yellow")


def _afterwards(report: PlanReport, name: str, page: Paper) -> None:
    if report.fate not in (None, "in effect"):
        line(page, f"since then {report.fate}, by {short(report.fate_by or '')}")
        return
    if report.restarted is None:
        line(page, "nothing was restarted: a running process keeps the old value until it is", "yellow")
    verb = "restore" if report.planned.verb in ("revert", "unset") else "revert"
    line(page, f"to take it back: knob {verb} {name}", "dim")


@render.register
def _(report: Decided, page: Paper) -> None:
    planned = report.report.planned
    name = short(report.report.id)
    where = ", ".join(planned.where)
    line(page, f"plan {name}, {planned.verb} {where}: {report.decision} by {report.by}")
    if report.decision == "approved":
        expires = planned.expires[:16].replace("T", " ")
        what = "the file" if planned.files else "hosts.toml"
        line(page, f"next, until {expires}Z and as long as {what} is not changed: knob apply {name}", "dim")


@render.register
def _(report: NothingToDo, page: Paper) -> None:
    for name in report.targets:
        line(page, f"{name}: nothing to change, it is so already; no entry and no backup were made")
    for text in report.remarks:
        line(page, f"warning: {text}", "yellow")
