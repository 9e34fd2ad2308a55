"""What `verify` reports: one value per thing that is not as it should be."""

from __future__ import annotations

from typing import Literal

from msgspec import Struct

FindingKind = Literal[
    "edited",
    "misnamed",
    "misplaced",
    "unreadable",
    "not_canonical",
    "missing",
    "wrong_reference",
    "stray",
    "deleted_in_git",
    "rewritten_in_git",
    "snapshot",
    "backup",
    "warning_clock",
    "warning_history",
    "warning_inserted",
    "warning_drift",
    "warning_host",
]
"""Those that begin with `warning` are worth a look, and no proof of damage."""


class Finding(Struct, frozen=True):
    """One thing that is not as it should be."""

    kind: FindingKind
    event: str
    """the event's id where there is one, else a digest or a path; never empty"""
    message: str

    @property
    def warning(self) -> bool:
        """Whether the ledger still verifies with this finding alone."""
        return self.kind.startswith("warning")
