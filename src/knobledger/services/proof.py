"""The proof that a service is well again: a new main process, no restart loop, green gates, for a stable time."""

from __future__ import annotations

import time
from collections.abc import Callable

from msgspec import Struct, field

from knobledger.hosts.config import Service
from knobledger.hosts.host import Host
from knobledger.hosts.sections import Health
from knobledger.services.gates import GateKind, asked_of, kind_of, port_of, probe
from knobledger.services.running import Running, look

Wait = Callable[[str, float, float], None]
"""told what is waited for, the elapsed time and the limit, both in seconds"""

APPEARS_S = 30.0
"""within this time after the order to start there must be a process"""
LOOP = 3
"""coming up so often before it is healthy is a restart loop"""
_LOOKS_S = 0.4
"""between two looks at the processes while a gate is asked"""
_FRESH_S = 0.25
"""a look that is no older need not be repeated"""


class GateAnswer(Struct, frozen=True):
    """What a gate said last."""

    kind: GateKind
    asked: str
    ok: bool
    detail: str
    after_s: float
    """since the order to start"""


class Proof(Struct):
    """`reason` is empty if it holds, else why not."""

    running: Running
    reason: str = ""
    restarts: int = 0
    gates: list[GateAnswer] = field(default_factory=list)


def prove(host: Host, service: Service, before: Running, begun: float, wait: Wait) -> Proof:
    """Waits until a service has proven itself, or can't any more. `begun`: its start was ordered (monotonic).

    Raises `Unreachable`, `StateUnknown`.
    """
    watch = _Watch(host, service, before, begun, wait, Proof(before))
    watch.appears()
    for gate in service.health:
        watch.passes(gate)
    watch.stays()
    return watch.proof


def still_up(service: Service, now: Running, pid: int, restarts: int) -> str:
    """Why a service that was healthy is so no longer; empty if its main process is the same one still."""
    if now.main == pid and (now.unit is None or now.unit.restarts <= restarts):
        return ""
    if now.main is None:
        return f"{service.full_name} was healthy, and its process {pid} ended while the others were started"
    return f"{service.full_name} was healthy, and came up again as process {now.main} while the others were started"


class _Watch(Struct):
    """Looks again and again; once `proof.reason` is set, every further step returns at once."""

    host: Host
    service: Service
    before: Running
    begun: float
    wait: Wait
    proof: Proof
    looked: float = 0.0
    main: tuple[int, int] | None = None
    ports: tuple[int, ...] = ()
    """whose listeners the next looks report"""

    @property
    def elapsed(self) -> float:
        return time.monotonic() - self.begun

    def appears(self) -> None:
        """Until there is a main process that was not there before."""
        pause = 0.02
        while not self.proof.reason and not self._look():
            if self.elapsed > APPEARS_S:
                self.proof.reason = f"there is no new process {APPEARS_S:g} s after the order to start"
            self.wait("a new process", self.elapsed, APPEARS_S)
            time.sleep(pause)
            pause = min(0.5, pause * 1.5)

    def passes(self, gate: Health) -> None:
        """Until the gate is green, by this service and nobody else."""
        if self.proof.reason:
            return
        kind, asked = kind_of(gate), asked_of(gate)
        step = f"{kind} {asked}"
        pause = 0.02
        while True:
            left = gate.within - self.elapsed
            answer = probe(self.host, self.service, gate, timeout_s=left)
            detail, green = answer.detail, answer.ok
            if green and (stranger := self._answered_by(gate)):
                detail, green = stranger, False
            if green or left <= 0:
                break
            if time.monotonic() - self.looked > _LOOKS_S:
                self._look()
                if self.proof.reason:
                    break
            self.wait(f"{step}: {detail}", self.elapsed, gate.within)
            time.sleep(min(pause, max(0.0, left)))
            pause = min(1.0, pause * 1.25)
        self.proof.gates.append(GateAnswer(kind, asked, green, detail, round(self.elapsed, 3)))
        if not green and not self.proof.reason:
            self.proof.reason = f"{step} is not green within {gate.within:g} s: {detail}"

    def stays(self) -> None:
        """For the stable time without coming up again; at least one look that is not older than the gates."""
        first, restarts, since = self.main, self.proof.restarts, time.monotonic()
        if not self.service.stable_s and since - self.looked < _FRESH_S:
            return
        while not self.proof.reason:
            stable = time.monotonic() - since
            up = self._look()
            if not up or self.main != first or self.proof.restarts > restarts:
                ended = f"process {first[0]} ended" if first else "its process ended"
                again = " and came up again" if up else ""
                self.proof.reason = f"restart loop: {ended}{again} within {stable:.1f} s after it was healthy"
            if stable >= self.service.stable_s:
                break
            self.wait("staying up", stable, self.service.stable_s)
            time.sleep(min(0.5, max(0.02, self.service.stable_s - stable)))

    def _look(self) -> bool:
        """One look; True if the main process is a new one. Sets the reason where it can't get well any more."""
        now = look(self.host, self.service, self.ports, self.proof.running.pids if self.ports else ())
        self.looked = time.monotonic()
        previous, self.proof.running = self.main, now
        new = {process.pid: process.identity for process in now.new(self.before)}
        self.main = new.get(now.main) if now.main is not None else None
        if now.unit:
            self.proof.restarts = max(self.proof.restarts, now.unit.restarts)
        elif previous and self.main and self.main != previous:
            self.proof.restarts += 1
        if self.proof.restarts >= LOOP:
            self.proof.reason = (
                f"restart loop: it came up again {self.proof.restarts} times within {self.elapsed:.1f} s"
            )
        elif now.unit and now.unit.active == "failed":
            self.proof.reason = (
                f"unit {self.service.unit} failed after {self.elapsed:.1f} s: {now.unit.result}"
            )
        elif previous and not self.main and (now.unit is None or now.unit.active == "inactive"):
            self.proof.reason = f"process {previous[0]} ended {self.elapsed:.1f} s after the order to start"
        return self.main is not None

    def _answered_by(self, gate: Health) -> str:
        """Who answers on a gate's port if it is not this service, and was there before; empty if all is well.

        Where nobody can be seen to listen (another user's processes, without sudo), nothing is said against it.
        """
        port = port_of(gate)
        if port is None:
            return ""
        self.ports = (port,)
        self._look()
        self.ports = ()
        holders = [one.process for one in self.proof.running.listeners if one.port == port]
        old = {process.identity for process in self.before.everything}
        ours = {process.identity for process in self.proof.running.processes}
        if not holders or any(p.identity in ours or p.identity not in old for p in holders):
            return ""
        other = holders[0]
        command = " ".join(other.command)[:80]
        return (
            f"port {port} is answered by process {other.pid} ({command!r}), which was there before the restart and "
            f"is not of {self.service.full_name}"
        )
