"""Changes that wait for their confirmation, for a person."""

from __future__ import annotations

from knobledger.names import short
from knobledger.report.paper import Paper
from knobledger.report.pending import PendingLine, PendingReport, countdown, ending, not_put_back
from knobledger.report.terminal import line, render


@render.register
def _(report: PendingReport, page: Paper) -> None:
    if not report.lines:
        line(page, "nothing waits for a confirmation")
    for item in report.lines:
        _pending(item, page)


def _pending(item: PendingLine, page: Paper) -> None:
    pending = item.pending
    name = short(pending.plan)
    if pending.not_put_back:
        line(page, not_put_back(pending), "red")
        for command in item.commands:
            line(page, f"    $ {command}")
        return
    if pending.end is not None:
        line(
            page,
            f"{name}  {pending.target}  {ending(pending.kept or pending.end)}",
            "" if item.state == "confirmed" else "yellow",
        )
        return
    left = countdown(item.remaining_s)
    line(
        page,
        f"{name}  {pending.target}  puts itself back at {pending.deadline:%H:%M:%S} UTC  ({left})",
        "bold",
    )
    by = f"    armed by {pending.arming.actor}; knob confirm {name} keeps it"
    if pending.arming.services:
        by += f"; the deadline restarts {', '.join(pending.arming.services)}"
    line(page, by, "dim")
    if pending.armed is None:
        line(page, "    whether the host ever knew of it is not recorded", "yellow")
    elif not pending.survives_reboot:
        line(page, "    a reboot of the host would leave the change in: nothing there outlives it", "yellow")
    if item.error:
        line(page, f"    the host could not be asked: {item.error}", "red")
    elif item.watched is False:
        line(page, "    nothing on the host watches it any more: the change would stay in", "red")
