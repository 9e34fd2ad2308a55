"""What `verify` reports: one value per thing that is not as it should be."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Literal

FindingKind = Literal[
    "edited",
    "misnamed",
    "misplaced",
    "unreadable",
    "not canonical",
    "missing",
    "wrong reference",
    "stray",
    "deleted in git",
    "rewritten in git",
    "snapshot",
    "clock",
    "other history",
]

WARNINGS: frozenset[FindingKind] = frozenset({"clock", "other history"})
"""Worth a look, and no proof of damage: clocks differ between machines, branches get switched."""


@dataclass(frozen=True, slots=True)
class Finding:
    """One thing that is not as it should be."""

    kind: FindingKind
    event: str
    """the event's id where there is one, else a digest or a path; never empty"""
    message: str

    @property
    def warning(self) -> bool:
        """Whether the ledger still verifies with this finding alone."""
        return self.kind in WARNINGS
