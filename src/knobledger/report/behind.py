"""What a plan still lacks before it may be applied."""

from __future__ import annotations

from typing import Any

from msgspec import Struct

from knobledger.folds.plans import PlanStatus
from knobledger.names import EventId


class Standing(Struct, frozen=True):
    """One plan, seen from the go-ahead that it needs."""

    plan: EventId
    status: PlanStatus
    may_apply: bool
    """whoever asked may apply it now"""
    go_ahead: str = ""
    """what stands behind it, such as `signature of anna@example.org`"""
    missing: str = ""
    """why it may not be applied"""

    @property
    def settled(self) -> bool:
        """Waiting changes nothing any more."""
        return self.may_apply or self.status not in ("open", "approved")

    def to_json(self) -> dict[str, Any]:
        """As `wait_for_approval` gives it."""
        return {
            "plan": self.plan,
            "status": self.status,
            "may_apply": self.may_apply,
            "go_ahead": self.go_ahead,
            "missing": self.missing,
        }
