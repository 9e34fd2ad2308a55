"""What changed since a moment, as a page tells it."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

from knobledger.moment import Resolved
from knobledger.names import short
from knobledger.report.changes import ChangeLine
from knobledger.report.postmortem_timeline import when
from knobledger.report.standing import HypothesisLine
from knobledger.report.terminal import edit_text


def since_facts(
    start: Resolved, changes: Sequence[ChangeLine], hypotheses: Sequence[HypothesisLine], zone: str
) -> dict[str, Any]:
    """What the templates `since.md.j2` and `since.html.j2` are given."""
    return {
        "start": start.echo(),
        "zone": zone,
        "changes": [
            {
                "at": when(line.at, zone),
                "short": short(line.change),
                "targets": ", ".join(line.targets),
                "what": "; ".join(map(edit_text, line.edits)) or "lines that hold no knob",
                "verb": "by hand" if line.verb == "observed" else line.verb,
                "kind": line.kind,
                "actor": f"{line.actor} for {line.on_behalf_of}" if line.on_behalf_of else line.actor,
                "why": line.why,
                "hypotheses": ", ".join(line.hypotheses),
                "finding": line.finding or "",
                "status": line.status,
                "by": short(line.by) if line.by else "",
            }
            for line in sorted(changes, key=lambda line: (line.at, line.change))
        ],
        "hypotheses": [
            {"slug": one.slug, "claim": one.claim, "standing": one.standing, "timing_alone": one.timing_alone}
            for one in hypotheses
        ],
    }
