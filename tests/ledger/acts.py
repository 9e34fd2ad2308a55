"""Single events at chosen moments, with the parents that a test gives them and no others."""

from __future__ import annotations

from collections import Counter
from collections.abc import Callable, Mapping
from typing import Any, TypeVar

from ledgers import DECODE, NOON, SCRIPT, at, edit, manifest

from knobledger.event import encode, moment_of
from knobledger.events.arming import Arming
from knobledger.events.changes import (
    Applied,
    Approved,
    Failed,
    Observed,
    Planned,
    RolledBack,
    Settled,
    Started,
)
from knobledger.events.entry import Event
from knobledger.events.serving import Before, RestartEnded, RestartStarted, SeenRunning, ServiceRestarted
from knobledger.events.watching import SeenLive, SeenProcess
from knobledger.ledger.excerpt import Excerpt
from knobledger.ledger.store import Ledger
from knobledger.names import EventId, HostPath, TargetName, digest_of
from knobledger.plan import PlannedFile, PlannedService
from knobledger.receipt import Receipt

T = TypeVar("T", bound=Excerpt)
BASE, RESULT = digest_of(b"old"), digest_of(b"new")


class Acts:
    """Writes to a ledger; `minute` is counted from noon. Each method gives the id of what it wrote."""

    def __init__(self, ledger: Ledger) -> None:
        self.ledger = ledger

    def write(self, kind: type[Any], minute: float, *parents: EventId, **facts: Any) -> EventId:
        event = kind.of({"at": at(minute), "actor": "anna@example.org", "parents": parents, **facts})
        return self.ledger.add(encode(event))

    def plan(
        self,
        minute: float,
        *targets: TargetName,
        knob: str = "A",
        services: tuple[str, ...] = (),
        expires: float = 1440,
        **facts: Any,
    ) -> EventId:
        files = tuple(
            PlannedFile(
                target=target,
                path=SCRIPT,
                dialect="bash",
                edits=(edit(knob),) if knob else (),
                base=BASE,
                result=RESULT,
                diff="",
            )
            for target in targets
        )
        facts = {
            "verb": "set",
            "services": [PlannedService(service=name, digest=BASE) for name in services],
            **facts,
        }
        return self.write(Planned, minute, files=files, expires=at(expires), **facts)

    def approved(self, minute: float, plan: EventId, **facts: Any) -> EventId:
        return self.write(Approved, minute, plan=plan, **{"source": "flag", **facts})

    def started(self, minute: float, plan: EventId, target: TargetName = DECODE) -> EventId:
        return self.write(Started, minute, plan=plan, target=target, base=BASE, result=RESULT)

    def applied(self, minute: float, plan: EventId, attempt: EventId, target: TargetName = DECODE) -> EventId:
        receipt = Receipt(backup=HostPath("/b"), backup_digest=BASE, digest=RESULT, manifest=manifest())
        return self.write(Applied, minute, plan=plan, attempt=attempt, target=target, receipt=receipt)

    def change(
        self, minute: float, target: TargetName = DECODE, knob: str = "A", **facts: Any
    ) -> list[EventId]:
        """A plan, approved, tried and done, each half a minute after the other."""
        plan = self.plan(minute, target, knob=knob, **facts)
        approved = self.approved(minute + 0.5, plan)
        attempt = self.started(minute + 1, plan, target)
        return [plan, approved, attempt, self.applied(minute + 1.5, plan, attempt, target)]

    def rolled_back(self, minute: float, plan: EventId, attempt: EventId) -> EventId:
        return self.write(RolledBack, minute, plan=plan, attempt=attempt, target=DECODE, reason="no proof")

    def failed(self, minute: float, plan: EventId, attempt: EventId, outcome: str) -> EventId:
        facts = {"target": DECODE, "outcome": outcome, "error": "drifted", "reason": "bytes"}
        return self.write(Failed, minute, plan=plan, attempt=attempt, **facts)

    def settled(
        self, minute: float, plan: EventId, attempt: EventId, outcome: str, target: TargetName = DECODE
    ) -> EventId:
        facts = {"target": target, "outcome": outcome, "digest": RESULT, "manifest": manifest()}
        return self.write(Settled, minute, plan=plan, attempt=attempt, **facts)

    def observed(self, minute: float, target: TargetName = DECODE, knob: str = "A", **facts: Any) -> EventId:
        found = {
            "path": SCRIPT,
            "digest": RESULT,
            "manifest": manifest(),
            "edits": (edit(knob),) if knob else (),
        }
        return self.write(Observed, minute, target=target, **found, **facts)

    def arming(self, minute: float, plan: EventId, target: TargetName = DECODE) -> EventId:
        return self.write(Arming, minute, plan=plan, target=target, window_s=60, token="t")

    def live(self, minute: float, target: TargetName = DECODE, *, after_write: bool = False) -> EventId:
        process = SeenProcess(pid=7, parent=1, started=at(0), command="x", after_write=after_write)
        service = target.partition(":")[0]
        return self.write(SeenLive, minute, target=target, service=service, path=SCRIPT, processes=(process,))

    def chain(self, minute: float, *services: str, **facts: Any) -> EventId:
        about = {"cause": "asked", "scope": "service", "services": [Before(service=one) for one in services]}
        return self.write(RestartStarted, minute, **about, **facts)

    def restarted(
        self,
        minute: float,
        chain: EventId,
        service: str = DECODE,
        outcome: str = "healthy",
        *,
        fresh: bool = True,
        took: float | None = None,
    ) -> EventId:
        after = (SeenRunning(pid=7, parent=1, started=1.0, command="x"),) if fresh else ()
        return self.write(
            ServiceRestarted,
            minute,
            chain=chain,
            service=service,
            outcome=outcome,
            after=after,
            healthy_after_s=took,
        )

    def ended(self, minute: float, chain: EventId) -> EventId:
        return self.write(RestartEnded, minute, chain=chain, outcome="done")


def told(events: Mapping[EventId, Event]) -> set[str]:
    """Each event by its kind and its minute; of several in the same minute the others by a number."""
    found = Counter[str]()
    for event in events.values():
        minute = (moment_of(event.at) - NOON).total_seconds() / 60
        found[f"{event.kind} {minute:g}"] += 1
    return {f"{name} #{n}" if n > 1 else name for name, count in found.items() for n in range(1, count + 1)}


def taken_in(acts: Acts, kind: type[T], ask: Callable[[T], object]) -> set[str]:
    """What an excerpt holds once it was asked, as `told` has it."""
    index = acts.ledger.index()
    taken = kind(index)
    ask(taken)
    found = told(taken.events())
    index.close()
    return found
