"""Which changes are armed: they put themselves back unless they are confirmed. Pure."""

from __future__ import annotations

from datetime import datetime, timedelta
from typing import assert_never

from msgspec import Struct, field

from knobledger.event import moment_of
from knobledger.events.arming import Armed, Arming, ArmingEvent, Confirmed, Disarmed, Expired
from knobledger.names import EventId, TargetName


class Pending(Struct):
    """One arming and how it ended, as far as it is recorded."""

    arming: Arming
    armed: Armed | None = None
    """None: whether the host ever knew of it is not recorded"""
    end: Confirmed | Disarmed | Expired | None = None
    kept: Confirmed | None = None
    """after a deadline at which its host could not put the file back: somebody has confirmed it on purpose"""

    @property
    def plan(self) -> EventId:
        """The change that waits."""
        return self.arming.plan

    @property
    def target(self) -> TargetName:
        """Where it waits."""
        return self.arming.target

    @property
    def not_put_back(self) -> Expired | None:
        """Its deadline, if its host could not do then what had been promised, and nobody has confirmed the change since."""
        failed = isinstance(self.end, Expired) and self.end.outcome == "failed" and self.kept is None
        return self.end if failed and isinstance(self.end, Expired) else None

    @property
    def survives_reboot(self) -> bool | None:
        """Would it still fire after the host went down and came up? None: whether it is armed is not recorded."""
        return self.armed.scheduler == "timer persistent" if self.armed else None

    @property
    def deadline(self) -> datetime:
        """By the host's clock where it is known, else by the one of whoever armed it."""
        if self.armed:
            return moment_of(self.armed.deadline)
        return moment_of(self.arming.at) + timedelta(seconds=self.arming.window_s)


class Armings(Struct):
    """Every arming of a ledger."""

    by_plan: dict[tuple[EventId, TargetName], Pending] = field(default_factory=dict)

    def take(self, event: ArmingEvent) -> None:
        """Events come in their order; those about an arming that is not known say nothing here."""
        where = (event.plan, event.target)
        match event:
            case Arming():
                self.by_plan[where] = Pending(event)
            case Armed():
                if found := self.by_plan.get(where):
                    found.armed = event
            case Confirmed() | Disarmed() | Expired():
                found = self.by_plan.get(where)
                if found and found.end is None:
                    found.end = event
                elif found and found.not_put_back and isinstance(event, Confirmed):
                    found.kept = event
            case _:
                assert_never(event)

    def open(self) -> list[Pending]:
        """Those whose end is not recorded; first the one that fires first."""
        found = (pending for pending in tuple(self.by_plan.values()) if pending.end is None)
        return sorted(found, key=lambda pending: (pending.deadline, pending.plan, pending.target))

    def on(self, target: TargetName) -> Pending | None:
        """The open one of a target."""
        return next((pending for pending in self.open() if pending.target == target), None)

    def of(self, plan: EventId) -> list[Pending]:
        """All of one change."""
        return [pending for (about, _), pending in self.by_plan.items() if about == plan]
