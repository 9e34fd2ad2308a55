"""A chain of restarts: services stop in reverse order, then each starts, and must prove itself before the next.

A service has proven itself when its main process is one that was not there before, it does not come up again and
again, and its gates are green. Every step is in the ledger before the next one: a chain that was killed in the middle
shows as such, and `knob recover` finishes it or takes it back.
"""

from __future__ import annotations

import os
import socket
import time
from collections.abc import Callable, Collection, Mapping, Sequence
from typing import Any, Literal

from msgspec import Struct, field

from knobledger.errors import Interrupted, KnobError, Unhealthy
from knobledger.events.entry import Event
from knobledger.events.serving import (
    Before,
    Cause,
    GateSeen,
    RestartEnded,
    RestartStarted,
    SeenRunning,
    ServiceRestarted,
)
from knobledger.hosts.config import Service, Target
from knobledger.hosts.host import Host
from knobledger.names import EventId, short
from knobledger.plan import RestartScope
from knobledger.services.control import check_startable, reload, start, stop
from knobledger.services.log import last_lines
from knobledger.services.progress import Progress
from knobledger.services.proof import Proof, prove, still_up
from knobledger.services.running import Process, Running, look
from knobledger.services.units import load_problem, mismatches

COMMAND_SHOWN = 200
"""characters of a command line that an event keeps"""


class Hands(Struct, frozen=True):
    """What a chain works with."""

    host: Callable[[str], Host]
    write: Callable[[Event], EventId]
    signs: Callable[[], dict[str, Any]]
    mask: Callable[[str], str]
    progress: Progress


class ChainResult(Struct, frozen=True):
    """A chain that came to its end, well or not."""

    id: EventId
    services: tuple[ServiceRestarted, ...]
    """in the order in which they were dealt with; those that never were are left out"""
    ended: RestartEnded
    touched: bool
    """a stop was ordered; else every process is the one that was there before"""

    @property
    def failed(self) -> ServiceRestarted | None:
        """The service that ended it."""
        return next((one for one in self.services if one.outcome != "healthy"), None)


def run(
    hands: Hands,
    services: Sequence[Service],
    *,
    cause: Cause,
    scope: RestartScope,
    plan: EventId | None = None,
    resumes: EventId | None = None,
    files: Mapping[str, Sequence[Target]] | None = None,
    wanted: Collection[str] = (),
) -> ChainResult:
    """Restarts services, which are in the order of their start.

    `files`: the targets of each, compared with what systemd has in effect; `wanted`: knobs that must be in effect
    for the restart to make sense, else nothing is stopped.

    Raises `Refused` before anything is touched, `Interrupted`, `Unreachable` or `StateUnknown` in the middle. A service
    that fails is no error here: the result says so.
    """
    for service in services:
        check_startable(service)
    before = {service.full_name: look(hands.host(service.host), service) for service in services}
    started = RestartStarted(
        **hands.signs(),
        cause=cause,
        scope=scope,
        services=tuple(
            Before(service=name, processes=_seen(hands, running.processes))
            for name, running in before.items()
        ),
        plan=plan,
        resumes=resumes,
        machine=socket.gethostname(),
        process=os.getpid(),
    )
    chain = _Chain(hands, tuple(services), before, hands.write(started), plan, files or {}, frozenset(wanted))
    return chain.run()


class _Chain(Struct):
    hands: Hands
    services: tuple[Service, ...]
    before: dict[str, Running]
    id: EventId
    plan: EventId | None
    files: Mapping[str, Sequence[Target]]
    wanted: frozenset[str]
    outcomes: list[ServiceRestarted] = field(default_factory=list)
    stops: dict[str, tuple[float, float]] = field(default_factory=dict)
    """per service: when its stop was ordered (monotonic seconds), and how long it took"""
    steps: dict[str, list[str]] = field(default_factory=dict)
    touched: bool = False
    healthy_at: float = 0.0
    """when the last service was, monotonic seconds"""

    def run(self) -> ChainResult:
        try:
            failure = self._reload_all() or self._stop_all() or self._start_all()
        except KeyboardInterrupt:
            raise Interrupted(f"interrupted {self._middle()}", hint=_HINT, restart=self.id) from None
        except KnobError as error:
            # The host was lost, not the service: nothing can be said of it now.
            error.message = f"{error.message}; this was {self._middle()}"
            error.args = (error.message,)
            error.hint = _HINT
            error.values.setdefault("restart", self.id)
            raise
        return self._end("failed" if failure else "done", failure)

    def _reload_all(self) -> str:
        """systemd reads its files again, and must have in effect what they say; before anything is stopped."""
        for service in self.services:
            if service.unit is None:
                continue
            host = self._host(service)
            try:
                reload(host, service)
            except Unhealthy as error:
                return self._failed(service, "not stopped", error.message)
            unit = look(host, service).unit
            assert unit is not None
            found = mismatches(host, unit, self.files.get(service.full_name, ()))
            fatal = [one.why for one in found if one.blocks or one.name in self.wanted]
            if problem := load_problem(unit, service.unit) or "; ".join(fatal):
                return self._failed(service, "not stopped", f"nothing was stopped: {problem}")
            for one in found:
                self._say(service)(f"warning: {one.why}")
        return ""

    def _stop_all(self) -> str:
        self.touched = True
        for service in reversed(self.services):
            name = service.full_name
            begun = time.monotonic()
            try:
                stop(self._host(service), service, self.before[name], self._say(service), self._wait(service))
            except Unhealthy as error:
                return self._failed(service, "not stopped", error.message)
            self.stops[name] = (begun, time.monotonic() - begun)
        return ""

    def _start_all(self) -> str:
        for service in self.services:
            begun = time.monotonic()
            try:
                start(self._host(service), service, self._say(service))
            except Unhealthy as error:
                return self._failed(service, "not started", error.message)
            proof = prove(
                self._host(service), service, self.before[service.full_name], begun, self._wait(service)
            )
            if proof.reason:
                return self._failed(service, "unhealthy", proof.reason, proof)
            self.healthy_at = time.monotonic()
            healthy = self.healthy_at - begun
            self._say(service)(f"healthy after {healthy:.1f} s, {_pids(proof.running.processes)}")
            self._record(service, "healthy", proof, healthy_after_s=round(healthy, 3))
        return self._look_back()

    def _look_back(self) -> str:
        """Those that started first are looked at once more: a crash meanwhile must not pass."""
        for service, outcome in list(zip(self.services, self.outcomes, strict=True))[:-1]:
            now = look(self._host(service), service)
            if reason := still_up(service, now, outcome.after[0].pid, outcome.restarts):
                return self._failed(service, "unhealthy", reason)
        return ""

    def _failed(
        self,
        service: Service,
        outcome: Literal["unhealthy", "not stopped", "not started"],
        reason: str,
        proof: Proof | None = None,
    ) -> str:
        self._say(service)(reason)
        log = last_lines(self._host(service), service)
        lines = tuple(self.hands.mask(line) for line in log)
        self._record(service, outcome, proof, reason=self.hands.mask(reason), log=lines)
        return reason

    def _record(
        self,
        service: Service,
        outcome: Literal["healthy", "unhealthy", "not stopped", "not started"],
        proof: Proof | None,
        **more: Any,
    ) -> None:
        name = service.full_name
        begun, took = self.stops.get(name, (None, None))
        mask = self.hands.mask
        event = ServiceRestarted(
            **self.hands.signs(),
            chain=self.id,
            plan=self.plan,
            service=name,
            outcome=outcome,
            before=_seen(self.hands, self.before[name].processes),
            after=_seen(self.hands, proof.running.new(self.before[name])) if proof else (),
            stopped_after_s=None if took is None else round(took, 3),
            down_s=round(time.monotonic() - begun, 3) if begun is not None and outcome == "healthy" else None,
            restarts=proof.restarts if proof else 0,
            gates=tuple(
                GateSeen(
                    gate=gate.kind,
                    asked=mask(gate.asked),
                    ok=gate.ok,
                    detail=mask(gate.detail),
                    after_s=gate.after_s,
                )
                for gate in (proof.gates if proof else ())
            ),
            steps=tuple(self.steps.get(name, ())),
            **more,
        )
        self.hands.write(event)
        self.outcomes.append(event)

    def _end(self, outcome: Literal["done", "failed"], reason: str) -> ChainResult:
        first = min((begun for begun, _ in self.stops.values()), default=None)
        event = RestartEnded(
            **self.hands.signs(),
            chain=self.id,
            plan=self.plan,
            outcome=outcome,
            reason=self.hands.mask(reason),
            outage_s=round(self.healthy_at - first, 3) if first is not None and outcome == "done" else None,
            touched=self.touched,
        )
        self.hands.write(event)
        return ChainResult(self.id, tuple(self.outcomes), event, self.touched)

    def _middle(self) -> str:
        """Where the chain is, for messages."""
        done = [one.service for one in self.outcomes]
        left = [one.full_name for one in self.services if one.full_name not in done]
        return f"in the middle of restart {short(self.id)}: {', '.join(done) or 'nothing'} is up, {', '.join(left)} is not"

    def _host(self, service: Service) -> Host:
        return self.hands.host(service.host)

    def _say(self, service: Service) -> Callable[[str], None]:
        def say(step: str) -> None:
            shown = self.hands.mask(step)
            self.steps.setdefault(service.full_name, []).append(shown)
            self.hands.progress.took(service.full_name, shown)

        return say

    def _wait(self, service: Service) -> Callable[[str, float, float], None]:
        def wait(step: str, elapsed_s: float, limit_s: float) -> None:
            self.hands.progress.waits(service.full_name, self.hands.mask(step), elapsed_s, limit_s)

        return wait


_HINT = "`knob recover` says what is up and what is down; with --finish or --roll-back it settles it"


def _seen(hands: Hands, processes: Sequence[Process]) -> tuple[SeenRunning, ...]:
    return tuple(
        SeenRunning(
            pid=process.pid,
            parent=process.parent,
            started=round(process.started, 2),
            command=hands.mask(" ".join(process.command))[:COMMAND_SHOWN],
        )
        for process in processes
    )


def _pids(processes: Sequence[Process]) -> str:
    pids = [str(process.pid) for process in processes]
    return (
        f"pid {pids[0]}" + (f" and {len(pids) - 1} more" if len(pids) > 1 else "") if pids else "no process"
    )
