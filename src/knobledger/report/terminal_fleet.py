"""A plan for many targets, or what came of it: what is the same is said once, what failed is said last."""

from __future__ import annotations

from knobledger.names import short
from knobledger.report.paper import Paper
from knobledger.report.plans import PlanReport, TargetOutcome
from knobledger.report.terminal import diff_text, edit_text, line


def fleet(report: PlanReport, page: Paper) -> None:
    """The part of a plan's report that is about its targets."""
    tried = any(target.outcome != "planned" for target in report.targets)
    head = "applied" if report.is_change else f"plan ({report.status})"
    line(page, f"{head} {short(report.id)}   {report.planned.verb} on {len(report.targets)} targets", "bold")
    if report.planned.batches:
        line(
            page,
            f"in batches of {', '.join(report.planned.batches)}; stops when more than "
            f"{report.planned.max_failures} have failed",
        )
    for alike in _alike(report):
        _same(alike, page, whole=not tried)
    if not tried:
        return
    for target in report.targets:
        if target.outcome == "applied":
            _proof(target, page)
    waiting = [target.file.target for target in report.targets if target.outcome == "not tried"]
    if waiting:
        line(page, f"not tried: {', '.join(waiting)}", "yellow")
    for target in report.targets:
        if target.exit:
            line(page, f"{target.file.target}: {target.outcome}: {target.message}", "red")
    done = sum(target.outcome == "applied" for target in report.targets)
    failed = sum(bool(target.exit) for target in report.targets)
    line(page, f"{done} applied, {failed} failed, {len(waiting)} not tried", "red" if failed else "green")


def _alike(report: PlanReport) -> list[list[TargetOutcome]]:
    """The targets in groups of equal edits and differences, in the order of the first of each."""
    groups: dict[tuple[object, ...], list[TargetOutcome]] = {}
    for target in report.targets:
        file = target.file
        groups.setdefault((file.edits, file.diff, file.later_edits), []).append(target)
    return list(groups.values())


def _same(alike: list[TargetOutcome], page: Paper, *, whole: bool) -> None:
    file = alike[0].file
    line(page, f"{', '.join(target.file.target for target in alike)}   {file.path}", "bold")
    for edit in file.edits:
        line(page, f"  {edit_text(edit)}")
    for item in file.later_edits:
        word = "keeps" if item.kept else "DROPS"
        line(page, f"  {word} the later edit  {item.sign}{item.text}", "" if item.kept else "red")
    if whole:
        diff_text(page, file.diff)


def _proof(target: TargetOutcome, page: Paper) -> None:
    receipt, name = target.receipt, target.file.target
    if receipt is None:
        line(page, f"  {name}: {target.message}")
        return
    proof = f"{receipt.digest[:16]}… is the plan's result"
    if receipt.matches is not None:
        proof = "matches backup" if receipt.matches_backup else "DIFFERS from the backup"
    line(page, f"  {name}: {proof}; backup {receipt.backup}", "green")
