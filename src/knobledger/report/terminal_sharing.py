"""What `sync` did, for a person."""

from __future__ import annotations

from knobledger.report.paper import Paper
from knobledger.report.sharing import Synced
from knobledger.report.terminal import line, render


@render.register
def _(report: Synced, page: Paper) -> None:
    where = f"{report.remote}/{report.branch}"
    if not report.received and not report.sent:
        line(page, f"{where}: nothing new here or there")
    if report.received:
        total = sum(count for _, _, count in report.received)
        line(page, f"{where}: {_events(total)} came in", "bold")
        for kind, actor, count in report.received:
            line(page, f"  {count:>4} {kind.replace('_', ' '):12} by {actor}")
    if report.sent:
        line(page, f"{where}: {_events(report.sent)} sent")
    if report.heads > 1:
        line(page, f"the ledger has {report.heads} heads: the next entry joins them", "dim")


def _events(count: int) -> str:
    return f"{count} event{'' if count == 1 else 's'}"
