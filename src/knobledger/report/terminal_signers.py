"""Who may sign approvals, for a person."""

from __future__ import annotations

from knobledger.names import short
from knobledger.report.paper import Paper
from knobledger.report.signers import SignersReport
from knobledger.report.terminal import line, render


@render.register
def _(report: SignersReport, page: Paper) -> None:
    if report.first:
        line(
            page,
            "FIRST USE: these keys are believed from now on. Compare them with their owners:",
            "bold yellow",
        )
    for text in report.lines:
        line(page, f"  {text}")
    line(
        page,
        f"recorded {report.at[:19].replace('T', ' ')}Z by {report.by}, digest {short(report.digest)}",
        "dim",
    )
    if report.first:
        line(page, "a later change of the file, or of the policies, needs a signature by one of them", "dim")
    if report.problem:
        line(page, report.problem, "red")
