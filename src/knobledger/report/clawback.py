"""What wrongful reverts took and could come back, the most valuable first; and what stays."""

from __future__ import annotations

from typing import Any

from msgspec import Struct

from knobledger.comparison import Comparison
from knobledger.inquiry import Kept, Restorable, value
from knobledger.names import EventId
from knobledger.plan import LaterEdit
from knobledger.report.benches import gain_json
from knobledger.report.changes import ChangeLine


class Owed(Struct, frozen=True):
    """One change that only a refuted hypothesis spoke for."""

    line: ChangeLine
    took: EventId | None
    """the change whose effect it took away; None where the ledger has none"""
    reasons: tuple[tuple[str, str, str], ...]
    """(hypothesis, why it is refuted, the true cause) of each that it was made under"""
    comparison: Comparison | None
    """what came of benchmarks; None: nobody measured"""
    notes: tuple[str, ...]
    """what was noted on either change, such as a risk"""
    restorable: Restorable
    remark: str
    """why it can't come back cleanly, or is not known to"""
    later: tuple[LaterEdit, ...]
    gone_s: float
    """how long it was away, or has been"""
    command: str
    """empty where it is back already"""

    @property
    def rank(self) -> tuple[bool, int, float]:
        """What is still away first, then by the strength and size of what was measured."""
        return (self.restorable != "restored", *value(self.comparison))

    def to_json(self) -> dict[str, Any]:
        """One entry of `items`."""
        line, comparison = self.line, self.comparison
        return {
            "change": line.change,
            "target": line.targets[0],
            "targets": list(line.targets),
            "edits": [edit.plain() for edit in line.edits],
            "finding": line.finding,
            "hypothesis": line.hypotheses[0],
            "hypotheses": list(line.hypotheses),
            "refuted": [
                {"hypothesis": slug, "because": because, "cause": cause or None}
                for slug, because, cause in self.reasons
            ],
            "gains": [gain_json(comparison, cell) for cell in comparison.cells] if comparison else [],
            "dips": [str(dip) for dip in comparison.dips] if comparison else [],
            "notes": list(self.notes),
            "took": self.took,
            "at": line.at,
            "gone_s": round(self.gone_s),
            "restorable": self.restorable,
            "remark": self.remark or None,
            "later_edits": [edit.plain() for edit in self.later],
            "command": self.command,
        }


class Clawback(Struct, frozen=True):
    """Two lists: what could come back, and what stays."""

    items: tuple[Owed, ...]
    keep: tuple[tuple[Kept, ChangeLine], ...]

    def to_json(self) -> dict[str, Any]:
        """The JSON of `clawback`."""
        return {
            "items": [item.to_json() for item in self.items],
            "keep": [
                {
                    "change": kept.change,
                    "why": kept.why,
                    "target": line.targets[0],
                    "edits": [edit.plain() for edit in line.edits],
                }
                for kept, line in self.keep
            ],
        }
