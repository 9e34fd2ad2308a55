"""A plan, or the change it became, as people and scripts see it. The JSON is fixed by docs/cli.md."""

from __future__ import annotations

from collections.abc import Mapping
from datetime import datetime
from typing import TYPE_CHECKING, Any, Literal

from msgspec import Struct

from knobledger.errors import KnobError, worst
from knobledger.events.changes import Applied, Approved, Failed, Planned, RolledBack, Settled
from knobledger.folds.edits import Fate
from knobledger.folds.plans import Attempt, Plan, PlanStatus
from knobledger.names import EventId, TargetName
from knobledger.plan import PlannedFile
from knobledger.receipt import Receipt
from knobledger.state import State

if TYPE_CHECKING:
    from knobledger.events.watching import ObservedMetric
    from knobledger.report.grounds import Grounds
    from knobledger.report.pending import PendingLine
    from knobledger.report.serving import RestartPreview, RestartReport
    from knobledger.report.watching import LiveReport


class TargetOutcome(Struct, frozen=True):
    """What came of a plan on one target; `outcome` is `planned` until it was tried."""

    file: PlannedFile
    outcome: str
    """`planned applied rolled back failed in doubt not tried`"""
    exit: int = 0
    message: str = ""
    receipt: Receipt | None = None
    settled: Settled | None = None
    differences: tuple[str, ...] | None = None
    """`diff BACKUP LIVE` as the host printed it, secrets masked (an undo that kept later edits)"""

    def to_json(self) -> dict[str, Any]:
        """Its part of the list `targets`."""
        out = self.file.plain(*_FILE_FIELDS)
        out |= {"outcome": self.outcome, "exit": self.exit, "message": self.message}
        if self.receipt:
            out["receipt"] = self.receipt.plain()
        if self.settled:
            out["settled"] = self.settled.plain("outcome", "digest", "manifest", "backup")
        if self.differences is not None:
            out["differences"] = list(self.differences)
        return out


_OBSERVED = ("at", "target", "metric", "labels", "start", "interval_s", "shape", "peak", "median", "last")
_FILE_FIELDS = ("target", "path", "edits", "base", "result", "diff", "clean", "later_edits")


class PlanReport(Struct, frozen=True):
    """A plan with its status and, per target, its outcome."""

    id: EventId
    planned: Planned
    status: PlanStatus
    targets: tuple[TargetOutcome, ...]
    approved: bool
    approval: str
    """what stood behind the go-ahead, such as `confirm at a terminal`; empty without one"""
    approvals: tuple[Approved, ...]
    """all of them, oldest first; whether they are enough is seen when it is applied"""
    stale: bool | None
    """the live bytes are no longer the plan's base, or `stale_because`; None: not looked, or spent"""
    stale_because: str = ""
    """what else of that which it is bound to is no longer so: the way to a host, a unit; empty: nothing"""
    fate: Fate | None = None
    """of the change, if it was applied"""
    fate_by: EventId | None = None
    remarks: tuple[str, ...] = ()
    armed: tuple[PendingLine, ...] = ()
    """where it waits, or waited, for its confirmation"""
    restart_preview: RestartPreview | None = None
    """the services that it would restart; None: none, or not asked"""
    restarted: RestartReport | None = None
    """the newest restart that belongs to the change"""

    grounds: Grounds | None = None
    """what speaks for and against it; None: nobody asked why, or it was not looked up"""
    live: LiveReport | None = None
    """the changed knobs in the processes that were started for it; None: nobody looked"""
    observed: tuple[ObservedMetric, ...] = ()
    """what was seen after its restart, and made part of it"""

    @property
    def word(self) -> str:
        """The status, or `stale` where it waits in vain."""
        return "stale" if self.stale else self.status

    @property
    def is_change(self) -> bool:
        """It was applied to at least one target."""
        return any(target.outcome == "applied" for target in self.targets)

    @property
    def exit_code(self) -> int:
        """0, or the highest-ranking exit code among the targets."""
        return worst(target.exit for target in self.targets)

    def to_json(self) -> dict[str, Any]:
        """The flat form for one target, and the list `targets` in any case."""
        planned = self.planned
        out: dict[str, Any] = {"plan": self.id}
        if len(self.targets) == 1:
            out |= planned.files[0].plain(*_FILE_FIELDS)
        out |= {
            "verb": planned.verb,
            "kind": planned.purpose,
            "why": planned.why,
            "hypothesis": planned.hypotheses[0] if planned.hypotheses else None,
            "hypotheses": list(planned.hypotheses),
            "label": planned.label,
            "undoes": planned.undoes,
            "actor": planned.actor,
            "on_behalf_of": planned.on_behalf_of,
            "at": planned.at,
            "expires": planned.expires,
            "status": self.status,
            "approved": self.approved,
            "approval": self.approval,
            "approvals": [given(event) for event in self.approvals],
            "policy": planned.policy,
            "stale": self.stale,
            "stale_because": self.stale_because,
            "restart": planned.restart,
            "confirm_within_s": planned.confirm_within_s,
            "roll_back_on_failure": planned.roll_back_on_failure,
            "restart_preview": self.restart_preview.to_json() if self.restart_preview else None,
            "grounds": self.grounds.to_json() if self.grounds else None,
            "despite": planned.despite,
            "batches": list(planned.batches),
            "max_failures": planned.max_failures,
            "warnings": [*planned.warnings, *self.remarks],
            "targets": [target.to_json() for target in self.targets],
        }
        if planned.only_restarts:
            out["services"] = [one.plain() for one in planned.services]
            if self.restarted:
                out["restart"] = self.restarted.to_json()
        if self.is_change:
            only = self.targets[0] if len(self.targets) == 1 else None
            out |= {
                "change": self.id,
                "receipt": only.receipt.plain() if only and only.receipt else None,
                "restart": self.restarted.to_json()
                if self.restarted
                else {"scope": planned.restart, "done": False, "services": []},
                "fate": self.fate,
                "by": self.fate_by,
            }
            if self.live:
                out["live"] = self.live.to_json()["targets"]
            if self.observed:
                out["observed"] = [
                    event.plain(*_OBSERVED) | {"summary": event.summary} for event in self.observed
                ]
            if self.armed:
                out["armed"] = [item.to_json() for item in self.armed]
        return out


def given(event: Approved) -> dict[str, Any]:
    """One go-ahead: by whom, and what stood behind it."""
    said = ("on_behalf_of", "source", "policy", "principal", "fingerprint", "break_glass", "review")
    return event.plain("actor", "at", *said)


class Decided(Struct, frozen=True):
    """A go-ahead or a rejection as it was recorded."""

    report: PlanReport
    decision: Literal["approved", "rejected"]
    by: str
    """the actor, and what stood behind it"""

    def to_json(self) -> dict[str, Any]:
        """The plan's JSON, with its new status."""
        return self.report.to_json()


class NothingToDo(Struct, frozen=True):
    """Every target is as wished already: no entry, no backup."""

    targets: tuple[TargetName, ...]
    remarks: tuple[str, ...] = ()

    def to_json(self) -> dict[str, Any]:
        """`changed` is False, and that is all there is to say."""
        return {
            "changed": False,
            "targets": [{"target": name, "outcome": "unchanged", "exit": 0} for name in self.targets],
        }


def plan_report(
    state: State,
    plan: Plan,
    now: datetime,
    *,
    stale: bool | None = None,
    stale_because: str = "",
    failures: Mapping[TargetName, KnobError] | None = None,
    differences: Mapping[TargetName, tuple[str, ...]] | None = None,
    remarks: tuple[str, ...] = (),
    restart_preview: RestartPreview | None = None,
) -> PlanReport:
    """The report of a plan, from the ledger's state and what went wrong in this process."""
    targets = tuple(
        _outcome(plan, file, (failures or {}).get(file.target), (differences or {}).get(file.target))
        for file in plan.planned.files
    )
    fate, by = state.fate(plan.id) if plan.is_change else (None, None)
    return PlanReport(
        id=plan.id,
        planned=plan.planned,
        status=plan.status(now),
        targets=targets,
        approved=bool(plan.approvals),
        approval=plan.approvals[-1][1].source if plan.approvals else "",
        approvals=tuple(event for _, event in plan.approvals),
        stale=stale,
        stale_because=stale_because,
        fate=fate,
        fate_by=by,
        remarks=remarks,
        armed=_armed(state, plan, now) if plan.planned.confirm_within_s else (),
        restart_preview=restart_preview,
        restarted=_restart(state, plan),
    )


def _armed(state: State, plan: Plan, now: datetime) -> tuple[PendingLine, ...]:
    from knobledger.report.pending import PendingLine

    return tuple(PendingLine(pending, now) for pending in state.armings.of(plan.id))


def _restart(state: State, plan: Plan) -> RestartReport | None:
    if not (plan.is_change or plan.begun) or not state.serving.chains:
        return None
    from knobledger.report.serving import restart_of

    return restart_of(state.serving, plan.id)


def _outcome(
    plan: Plan, file: PlannedFile, failure: KnobError | None, differences: tuple[str, ...] | None
) -> TargetOutcome:
    attempt = plan.attempt_on(file.target)
    if failure is not None and (attempt is None or not attempt.succeeded):
        return TargetOutcome(file, "failed", failure.exit_code, failure.message)
    if attempt is None:
        return TargetOutcome(file, "not tried" if plan.attempts else "planned")
    return _attempted(attempt, file, differences)


def _attempted(attempt: Attempt, file: PlannedFile, differences: tuple[str, ...] | None) -> TargetOutcome:
    match attempt.outcome:
        case Applied(receipt=receipt):
            return TargetOutcome(file, "applied", receipt=receipt, differences=differences)
        case Settled(outcome="applied") as settled:
            message = "the answer was lost on the way; a fresh look showed the change in the file"
            return TargetOutcome(file, "applied", message=message, settled=settled)
        case Settled(outcome=outcome) as settled:
            return TargetOutcome(file, outcome, settled=settled)
        case RolledBack(reason=reason):
            return TargetOutcome(file, "rolled back", 21, reason)
        case Failed(outcome="unchanged", reason=reason):
            return TargetOutcome(file, "failed", 1, reason)
        case _:
            return TargetOutcome(file, "in doubt", 22, "its outcome is not known; `knob recover` settles it")
