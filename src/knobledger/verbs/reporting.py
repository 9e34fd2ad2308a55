"""The verbs of reports: pages that tell a story to somebody who was not there."""

from __future__ import annotations

from pathlib import Path
from typing import TYPE_CHECKING, Any
from zoneinfo import ZoneInfo

from knobledger.errors import Refused, Usage
from knobledger.event import stamp
from knobledger.verbs.asking import Asking
from knobledger.verbs.benching import Benching

if TYPE_CHECKING:
    from knobledger.moment import Resolved
    from knobledger.report.paged import Paged

# What only some verbs need is imported by these verbs: a change is to be quick.


class Reporting(Asking, Benching):
    """Pages, as Markdown or as one HTML file."""

    def postmortem(self, slug: str | None, start: Resolved | None, file: Path | None) -> Paged:
        """What was believed when, why it was wrong, and what it cost. Raises `Unknown`, `Usage`, `Refused`."""
        from knobledger.inquiry import wrongful
        from knobledger.report.paged import Paged, html, markdown
        from knobledger.report.plots import bench_svg
        from knobledger.report.postmortem import comparisons, facts, scope_of
        from knobledger.report.postmortem_timeline import marks, spans
        from knobledger.report.timeline import timeline_svg

        form = _form(file)
        if slug is not None:
            self.find_hypothesis(slug)
        if not self.state.events:
            raise Refused(
                "nothing is recorded yet: there is no story to tell", hint="`knob status`, `knob set`"
            )
        zone = self.desk.author.zone
        scope = scope_of(self.state, slug, stamp(start.instant) if start else None, zone)
        told: dict[str, Any] = facts(self.state, scope)
        if form == "md":
            return self._page(Paged(markdown("postmortem", told, self.root), form, file, told))
        timeline = ""
        if told["timeline"]:
            timeline = timeline_svg(
                marks(told["timeline"]),
                ZoneInfo(zone),
                "What happened, in order",
                spans=spans(self.state, wrongful(self.state)),
                workspace=self.root,
            )
        plots = [
            bench_svg(comparison, self.title_of(change), ident=f"bench{number}", workspace=self.root)
            for number, (change, comparison) in enumerate(comparisons(self.state, scope), 1)
        ]
        page = html("postmortem", told, self.root, timeline_svg=timeline, plots=plots)
        return self._page(Paged(page, form, file, told))

    def report_since(self, start: Resolved, file: Path) -> Paged:
        """What changed since a moment, as a page. Raises `Usage`, `Refused`."""
        from knobledger.report.changes import change_lines, observed_lines
        from knobledger.report.paged import Paged, html, markdown
        from knobledger.report.since_page import since_facts
        from knobledger.report.standing import hypothesis_lines

        form = _form(file)
        first, last = stamp(start.instant), "9999"
        changes = change_lines(self.state, first, last)
        named = [slug for change in changes for slug in change.hypotheses]
        told = since_facts(
            start,
            [*changes, *observed_lines(self.state, first, last)],
            hypothesis_lines(self.state, first, last, named),
            self.desk.author.zone,
        )
        render = markdown if form == "md" else html
        return self._page(Paged(render("since", told, self.root), form, file, told))

    def _page(self, page: Paged) -> Paged:
        if page.file is not None:
            try:
                page.file.write_text(page.text, encoding="utf-8")
            except OSError as error:
                reason = (error.strerror or str(error)).lower()
                raise Refused(f"{str(page.file)!r} can't be written: {reason}") from error
        return page


def _form(file: Path | None) -> str:
    form = file.suffix.lower().lstrip(".") if file else "md"
    if form not in ("md", "html"):
        raise Usage(f"{str(file)!r} is neither Markdown nor HTML", hint="`-o FILE.md` or `-o FILE.html`")
    return form
