"""The fold of restarts: which are owed, how long each service takes to start, which chain was left in the middle. Pure.

Nothing is believed that was not seen: only a process that started after the write ends an owed restart, and a
value that was seen to be missing in such a process brings it back.
"""

from __future__ import annotations

from typing import TYPE_CHECKING, cast

from msgspec import Struct, field

from knobledger.events.changes import ROLLS_BACK, Applied, Approved, Observed, Planned, Settled
from knobledger.events.entry import Event, Foreign
from knobledger.names import EventId, TargetName

if TYPE_CHECKING:
    from knobledger.events.serving import RestartEnded, RestartStarted, ServiceRestarted
    from knobledger.events.watching import SeenKnob, SeenLive

# Every command asks this fold for its footer, so the classes of events that a ledger does not hold stay unimported.

REMEMBERED = 5
"""recorded starts that an expectation is made from, the newest"""
NAMED = 3
"""services that the footer of every command names, before it says that there are more"""


class Chain(Struct):
    """A chain of restarts; one with neither an end nor a successor was left in the middle, or is still going on."""

    id: EventId
    started: RestartStarted
    outcomes: dict[str, ServiceRestarted] = field(default_factory=dict)
    ended: RestartEnded | None = None
    taken_over_by: EventId | None = None

    @property
    def services(self) -> tuple[str, ...]:
        """In the order of their start."""
        return tuple(before.service for before in self.started.services)


class Owed(Struct):
    """A target whose process runs with older bytes, as far as anybody has seen."""

    target: TargetName
    service: str
    changes: list[EventId] = field(default_factory=list)
    since: str = ""
    """when the first of them was written, UTC"""
    seen: str = ""
    """what a new process was seen without, if that is the reason"""


class Serving(Struct):
    """What the ledger says of restarts."""

    chains: dict[EventId, Chain] = field(default_factory=dict)
    owed: dict[TargetName, Owed] = field(default_factory=dict)
    current: set[TargetName] = field(default_factory=set)
    """targets whose process was seen to have started after their last write"""
    unhealthy: dict[str, ServiceRestarted] = field(default_factory=dict)
    """services whose last restart did not end well"""
    _times: dict[str, list[tuple[float, float]]] = field(default_factory=dict)
    _recorded: set[TargetName] = field(default_factory=set)
    _to_restart: dict[EventId, bool] = field(default_factory=dict)
    """changes that were to be followed by a restart, and whether one was begun"""
    _plans: dict[EventId, Planned] = field(default_factory=dict)
    _rolling_back: set[EventId] = field(default_factory=set)
    """plans by which a failed change takes itself back, at once"""
    _takers: dict[EventId, EventId] = field(default_factory=dict)
    """chain to the one that took it over"""
    _untouched: set[EventId] = field(default_factory=set)
    """changes whose restart failed before any process was asked to stop"""
    _until: dict[TargetName, EventId] = field(default_factory=dict)
    """the change that took a target out of `current`"""

    def in_the_middle(self) -> list[Chain]:
        """Chains whose end nobody recorded, and that no other took over, oldest first."""
        found = (one for one in self.chains.values() if one.ended is None and one.taken_over_by is None)
        return sorted(found, key=lambda one: (one.started.at, one.id))

    def root_of(self, chain: Chain) -> Chain:
        """The chain that was begun first, if this one takes over another."""
        while chain.started.resumes in self.chains:
            chain = self.chains[chain.started.resumes]
        return chain

    def never_begun(self) -> list[EventId]:
        """Changes that were to be followed by a restart, and nothing of it is recorded while it is still owed."""
        owed = {change for one in self.owed.values() for change in one.changes}
        return [change for change, begun in self._to_restart.items() if not begun and change in owed]

    def expected_start_s(self, service: str) -> float | None:
        """From the order to start until healthy: the median of the newest recorded ones; None: never recorded."""
        times = self._times.get(service)
        return _middle([start for _, start in times[-REMEMBERED:]]) if times else None

    def expected_stop_s(self, service: str) -> float | None:
        """From the order to stop until it has gone, in the same way."""
        times = self._times.get(service)
        return _middle([stop for stop, _ in times[-REMEMBERED:]]) if times else None

    def slowest_start_s(self, service: str) -> float | None:
        """The longest recorded start."""
        times = self._times.get(service)
        return max(start for _, start in times) if times else None

    def take(self, id_: EventId, event: Event) -> None:
        """Events come in their order."""
        if isinstance(event, Foreign):
            return
        match event.kind:
            case "planned":
                self._plans[id_] = cast("Planned", event)
            case "approved":
                if cast("Approved", event).source.startswith(ROLLS_BACK):
                    self._rolling_back.add(cast("Approved", event).plan)
            case "applied":
                self._written(cast("Applied", event))
            case "settled":
                if cast("Settled", event).outcome == "applied":
                    self._written(cast("Settled", event))
            case "observed":
                self._recorded.add(cast("Observed", event).target)
                self.current.discard(cast("Observed", event).target)
            case "restart_started":
                started = cast("RestartStarted", event)
                self.chains[id_] = Chain(id_, started, taken_over_by=self._takers.get(id_))
                if started.resumes is not None:
                    # Where a clock was set back, the chain that is taken over may come later.
                    self._takers[started.resumes] = id_
                if started.resumes in self.chains:
                    self.chains[started.resumes].taken_over_by = id_
                if started.plan in self._to_restart:
                    self._to_restart[started.plan] = True
            case "service_restarted":
                self._restarted(cast("ServiceRestarted", event))
            case "restart_ended":
                ended = cast("RestartEnded", event)
                if chain := self.chains.get(ended.chain):
                    chain.ended = chain.ended or ended
                if not ended.touched and chain and chain.started.resumes is None:
                    self._nothing_was_stopped(ended)
            case "seen_live":
                self._seen_live(cast("SeenLive", event))
            case _:
                pass

    def _written(self, event: Applied | Settled) -> None:
        target, change = event.target, event.plan
        self._recorded.add(target)
        planned = self._plans.get(change)
        if planned and self._taken_back_in_time(event, planned):
            return
        if target in self.current:
            self.current.discard(target)
            self._until[target] = change
        if planned and planned.restart != "none":
            self._to_restart.setdefault(change, False)
        owed = self.owed.setdefault(target, Owed(target, target.partition(":")[0]))
        owed.changes.append(change)
        owed.since = owed.since or event.at

    def _taken_back_in_time(self, event: Applied | Settled, planned: Planned) -> bool:
        """The bytes are back that the process was started on: its restart had failed before anything was stopped."""
        change, target = planned.undoes, event.target
        owed = self.owed.get(target)
        if change is None or change not in self._untouched or event.plan not in self._rolling_back:
            return False
        if owed is None or owed.changes[-1:] != [change]:
            return False
        base = next((file.base for file in self._plans[change].files if file.target == target), None)
        if base != (event.receipt.digest if event.kind == "applied" else event.digest):
            return False
        owed.changes.pop()
        if not owed.changes and not owed.seen:
            del self.owed[target]
            if self._until.get(target) == change:
                self.current.add(target)
        return True

    def _nothing_was_stopped(self, ended: RestartEnded) -> None:
        """Each process runs on as it was: none is the worse for it."""
        if ended.plan is not None:
            self._untouched.add(ended.plan)
        for service in [name for name, one in self.unhealthy.items() if one.chain == ended.chain]:
            del self.unhealthy[service]

    def _restarted(self, event: ServiceRestarted) -> None:
        if chain := self.chains.get(event.chain):
            chain.outcomes[event.service] = event
        if event.outcome == "healthy":
            self.unhealthy.pop(event.service, None)
            if event.healthy_after_s is not None:
                times = self._times.setdefault(event.service, [])
                times.append((event.stopped_after_s or 0.0, event.healthy_after_s))
        else:
            self.unhealthy[event.service] = event
        if event.after:  # these started after all that is recorded so far was written
            for target in self._recorded:
                if target.partition(":")[0] == event.service:
                    self.owed.pop(target, None)
                    self.current.add(target)

    def _seen_live(self, event: SeenLive) -> None:
        """Processes that started after the write, and the knobs in them."""
        target = event.target
        if not any(process.after_write for process in event.processes):
            return
        older = {process.pid for process in event.processes if not process.after_write}
        lacking = [knob for knob in event.knobs if _lacks(knob, older)]
        if not lacking:
            self.owed.pop(target, None)
            self.current.add(target)
            return
        self.current.discard(target)
        owed = self.owed.setdefault(target, Owed(target, target.partition(":")[0], since=event.at))
        owed.seen = ", ".join(
            f"{knob.name} is {knob.written!r} in the file and "
            + (repr(knob.value) if knob.state == "present" else knob.state)
            + " in the process"
            for knob in lacking
        )


def _middle(times: list[float]) -> float:
    """The median; of an even number the longer one."""
    return sorted(times)[len(times) // 2]


def _lacks(knob: SeenKnob, older: set[int]) -> bool:
    """The file gives it a value, and each newer process that could be read has another one, or none."""
    groups = [group for group in knob.values if group.state != "unreadable" and not set(group.pids) <= older]
    return (
        knob.written is not None and bool(groups) and not any(group.value == knob.written for group in groups)
    )
