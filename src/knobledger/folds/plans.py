"""A plan, the tries at its targets, and how far it has come."""

from __future__ import annotations

from datetime import datetime
from typing import Literal

from msgspec import Struct, field

from knobledger.event import moment_of
from knobledger.events.changes import (
    Applied,
    Approved,
    Failed,
    Planned,
    Rejected,
    RolledBack,
    Settled,
    Started,
)
from knobledger.names import EventId, TargetName
from knobledger.plan import PlannedFile

PlanStatus = Literal["open", "approved", "rejected", "expired", "used", "in doubt"]


class Attempt(Struct):
    """One try at one target; `outcome` is None while it is in doubt."""

    id: EventId
    started: Started
    outcome: Applied | RolledBack | Failed | Settled | None = None
    outcome_id: EventId | None = None

    @property
    def in_doubt(self) -> bool:
        """Nothing recorded says what the host holds."""
        return self.outcome is None or (
            isinstance(self.outcome, Failed) and self.outcome.outcome == "unknown"
        )

    @property
    def untidy(self) -> bool:
        """It may have left files on the host: it failed in the middle, or said that it could not remove them."""
        match self.outcome:
            case Applied(receipt=receipt):
                return not all(step.ok for step in receipt.steps)
            case Failed(error=error):
                return error == "not_written"
            case RolledBack() | Settled():
                return True
            case None:
                return False

    @property
    def succeeded(self) -> bool:
        """The file was seen with the result."""
        return isinstance(self.outcome, Applied) or (
            isinstance(self.outcome, Settled) and self.outcome.outcome == "applied"
        )

    @property
    def torn(self) -> bool:
        """The file was seen with neither base nor result."""
        return isinstance(self.outcome, Settled) and self.outcome.outcome == "overwritten"


class Plan(Struct):
    """A plan and all that happened to it. `id` is the change's id as well."""

    id: EventId
    planned: Planned
    approvals: list[tuple[EventId, Approved]] = field(default_factory=list)
    rejected: tuple[EventId, Rejected] | None = None
    attempts: list[Attempt] = field(default_factory=list)
    begun: bool = False
    """its services were restarted, or that was begun: of a plan that only restarts"""

    @property
    def is_change(self) -> bool:
        """It was applied to at least one target."""
        return any(attempt.succeeded for attempt in self.attempts)

    @property
    def unreviewed(self) -> bool:
        """It was applied by breaking the glass, and nobody else has signed for it since."""
        broken = {approved.principal for _, approved in self.approvals if approved.break_glass}
        reviewers = {approved.principal for _, approved in self.approvals if approved.review}
        return (self.is_change or self.begun) and bool(broken) and not reviewers - broken

    def attempt_on(self, target: TargetName) -> Attempt | None:
        """The newest attempt on a target."""
        return next((a for a in reversed(self.attempts) if a.started.target == target), None)

    def file_of(self, target: TargetName) -> PlannedFile | None:
        """What the plan does to a target."""
        return next((f for f in self.planned.files if f.target == target), None)

    def status(self, now: datetime) -> PlanStatus:
        """An attempt that left the file untouched does not spend the plan."""
        if any(attempt.in_doubt for attempt in self.attempts):
            return "in doubt"
        if self.begun or any(
            one.succeeded or one.torn or isinstance(one.outcome, RolledBack) for one in self.attempts
        ):
            return "used"
        if self.rejected:
            return "rejected"
        if now >= moment_of(self.planned.expires):
            return "expired"
        return "approved" if self.approvals else "open"
