"""Documents and addenda for a person at a terminal."""

from __future__ import annotations

from knobledger.names import short
from knobledger.report.documents import Correction, Stale
from knobledger.report.paged import Paged
from knobledger.report.paper import Paper
from knobledger.report.terminal import line, render


@render.register
def _(report: Stale, page: Paper) -> None:
    for name, lines in report.documents:
        for item in lines:
            line(page, f"{name}:{item.line}: {item.why}", "yellow")
            line(page, f"    {item.text}", "dim")
    count = len(report.documents)
    looked = f"{count} document{'s' * (count != 1)} looked at"
    wrong = sum(bool(lines) for _, lines in report.documents)
    line(
        page, f"{looked}, {wrong} contradict the record" if wrong else f"{looked}: they agree with the record"
    )
    slugs = dict.fromkeys(
        item.hypothesis for _, lines in report.documents for item in lines if item.hypothesis
    )
    for slug in slugs:
        line(page, f"next: `knob docs correct FILE --hypothesis {slug}`", "dim")


@render.register
def _(report: Correction, page: Paper) -> None:
    if not report.addendum:
        line(page, f"{report.document} has the addendum on {report.slug} already; nothing was changed")
        return
    done = "appended to" if report.written else "to be appended to"
    line(page, f"{done} {report.document}:", "bold")
    for text in report.addendum.splitlines():
        line(page, f"+ {text}", "green")
    if report.commit:
        line(page, f"committed, this file alone: {short(report.commit)}")
    elif report.in_git and not report.written:
        line(page, "the file is in git: it is committed alone, what you have staged stays staged", "dim")


@render.register
def _(report: Paged, page: Paper) -> None:
    if report.file is None:
        for text in report.text.splitlines():
            line(page, text)
    else:
        line(page, f"wrote {report.file}")
