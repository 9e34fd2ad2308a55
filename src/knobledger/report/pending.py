"""Changes that wait for their confirmation, and how some of them ended."""

from __future__ import annotations

from datetime import datetime
from typing import Any

from msgspec import Struct

from knobledger.event import moment_of, stamp
from knobledger.events.arming import Confirmed, Disarmed, Expired
from knobledger.folds.arming import Pending
from knobledger.names import short
from knobledger.state import State


class PendingLine(Struct, frozen=True):
    """One arming; `watched` is None where its host was not asked."""

    pending: Pending
    now: datetime
    watched: bool | None = None
    error: str = ""
    commands: tuple[str, ...] = ()
    """where the host could not put the file back: to look and to mend by hand"""

    @property
    def remaining_s(self) -> float:
        """Until the deadline; negative after it. The host's clock decides."""
        return (self.pending.deadline - self.now).total_seconds()

    @property
    def state(self) -> str:
        """`armed confirmed disarmed reverted unchanged failed`"""
        match self.pending.kept or self.pending.end:
            case None:
                return "armed"
            case Expired(outcome=outcome):
                return outcome
            case end:
                return end.kind

    def to_json(self) -> dict[str, Any]:
        """One entry of `pending`."""
        pending = self.pending
        return {
            "change": pending.plan,
            "target": pending.target,
            "state": self.state,
            "actor": pending.arming.actor,
            "deadline": stamp(pending.deadline),
            "remaining_s": round(self.remaining_s),
            "scheduler": pending.armed.scheduler if pending.armed else None,
            "survives_reboot": pending.survives_reboot,
            "watched": self.watched,
            "services": list(pending.arming.services),
            "command": f"knob confirm {short(pending.plan)}",
            "error": self.error,
            "commands": list(self.commands),
        }


class PendingReport(Struct, frozen=True):
    """Everything armed, oldest first."""

    lines: tuple[PendingLine, ...]
    looked: bool
    exit_code: int = 0

    def to_json(self) -> dict[str, Any]:
        """The JSON of `pending` and `confirm`."""
        return {"pending": [line.to_json() for line in self.lines], "looked": self.looked}


def countdown(seconds: float) -> str:
    """`9 min 12 s`; `its deadline is over` when it is."""
    if seconds <= 0:
        return "its deadline is over"
    minutes, rest = divmod(round(seconds), 60)
    hours, minutes = divmod(minutes, 60)
    if hours:
        return f"{hours} h {minutes} min left"
    return f"{minutes} min {rest} s left" if minutes else f"{rest} s left"


def ending(end: Confirmed | Disarmed | Expired) -> str:
    """How an arming ended, in a phrase."""
    match end:
        case Confirmed():
            return f"confirmed by {end.actor}"
        case Disarmed():
            return f"ended without a deadline: {end.reason}"
        case Expired(outcome="reverted"):
            after = {True: "; its services were restarted", False: "; RESTARTING its services FAILED"}
            done = f"not confirmed in time; the host put the file back at {_clock(end.ended_at)}"
            return done + ("" if end.restarted is None else after[end.restarted])
        case Expired(outcome="unchanged"):
            return "not confirmed in time; the change had never reached the file"
        case Expired():
            return f"not confirmed in time, and the host could NOT put the file back: {end.reason or 'no reason given'}"


def _clock(at: str) -> str:
    return f"{moment_of(at):%Y-%m-%d %H:%M:%S} UTC"


def promises_not_kept(state: State) -> list[Pending]:
    """Armed changes that their hosts could not put back, and that are still in effect, confirmed by nobody."""
    return [one for one in state.not_put_back() if _stands(state, one)]


def _stands(state: State, pending: Pending) -> bool:
    edits = state.edits_of(pending.plan, pending.target)
    if edits:
        return any(edit.fate == "in effect" for edit in edits)
    return not any(one.is_change and one.planned.undoes == pending.plan for one in state.plans.values())


def not_put_back(pending: Pending) -> str:
    """The promise that was not kept, and what ends it, in a sentence; until then it is under every command."""
    end, name = pending.not_put_back, short(pending.plan)
    assert end is not None
    return (
        f"{name} on {pending.target} was to be put back by its host at {_clock(end.ended_at)}, and was NOT: "
        f"{end.reason or 'no reason given'}; `knob revert {name}` takes it back and keeps later edits, "
        f"`knob confirm {name}` keeps it"
    )


def footer(pending: Pending, now: datetime) -> str:
    """The sentence under every command while something is armed."""
    left = countdown((pending.deadline - now).total_seconds())
    name = short(pending.plan)
    if left.startswith("its"):
        return f"{name} on {pending.target} was to be confirmed, and {left}: `knob pending` looks what the host did"
    return f"{name} on {pending.target} puts itself back unless `knob confirm {name}` is typed: {left}"
