"""`render` for every report. Only the renderings of the report's own kind are imported."""

from __future__ import annotations

from importlib import import_module

from knobledger.report import terminal
from knobledger.report.paper import Paper

_HOMES = {
    "knobledger.report.plans": "knobledger.report.terminal_plan",
    "knobledger.report.blame": "knobledger.report.terminal_look",
    "knobledger.report.changes": "knobledger.report.terminal_look",
    "knobledger.report.drift": "knobledger.report.terminal_drift",
    "knobledger.report.pending": "knobledger.report.terminal_pending",
    "knobledger.report.sharing": "knobledger.report.terminal_sharing",
    "knobledger.report.signers": "knobledger.report.terminal_signers",
    "knobledger.report.status": "knobledger.report.terminal_look",
    "knobledger.report.clawback": "knobledger.report.terminal_asking",
    "knobledger.report.documents": "knobledger.report.terminal_documents",
    "knobledger.report.paged": "knobledger.report.terminal_documents",
    "knobledger.report.asking": "knobledger.report.terminal_asking",
    "knobledger.report.scanned": "knobledger.report.terminal_look",
    "knobledger.report.serving": "knobledger.report.terminal_serving",
    "knobledger.report.upkeep": "knobledger.report.terminal_upkeep",
    "knobledger.report.benches": "knobledger.report.terminal_bench",
    "knobledger.report.watching": "knobledger.report.terminal_watching",
}
"""modules of report values, and where these are rendered"""


def render(report: object, page: Paper) -> None:
    """Writes a report on a page. Raises `TypeError` for a value that is none."""
    home = _HOMES.get(type(report).__module__)
    if home is not None:
        import_module(home)
    terminal.render(report, page)
