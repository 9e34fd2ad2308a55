"""A ledger of everything that can happen to knobs, drawn by chance, with clocks that are set back."""

from __future__ import annotations

from typing import Any

from hypothesis import strategies as st
from ledgers import SCRIPT, at, manifest

from knobledger.event import encode
from knobledger.events.arming import Armed, Arming, Confirmed, Expired
from knobledger.events.asking import HypothesisOpened, VerdictGiven
from knobledger.events.changes import (
    Applied,
    Approved,
    Failed,
    Observed,
    Planned,
    Rejected,
    RolledBack,
    Settled,
    Started,
)
from knobledger.events.notes import Noted
from knobledger.events.serving import Before, RestartEnded, RestartStarted, SeenRunning, ServiceRestarted
from knobledger.events.watching import SeenKnob, SeenLive, SeenProcess, SeenValue
from knobledger.ledger.store import Ledger
from knobledger.names import EventId, HostPath, TargetName, digest_of
from knobledger.plan import Edit, PlannedFile
from knobledger.receipt import Receipt
from knobledger.state import State

TARGETS = [TargetName(f"gpu{n}/decode") for n in range(1, 6)] + [TargetName("gpu1/decode:env")]
LAST = 600
"""minutes after noon in which everything happens"""


class Teller:
    """Writes events into a ledger at moments that are drawn, so a later one may name an earlier moment."""

    def __init__(self, ledger: Ledger, data: st.DataObject) -> None:
        self.ledger, self.data = ledger, data
        self.minute = 0.0
        self.last: EventId | None = None
        self.values: dict[tuple[TargetName, str], str | None] = {}
        self.changes: list[EventId] = []
        self.plans: list[EventId] = []
        self.chains: list[EventId] = []
        self.armed: list[tuple[EventId, TargetName]] = []

    def tell(self, kind: type[Any], **facts: Any) -> EventId:
        self.minute += self.data.draw(st.sampled_from([0.5, 1, 2, -3, -40, 90]))
        self.minute = min(max(self.minute, 0), LAST)
        parents = (self.last,) if self.last else ()
        event = kind.of({"at": at(self.minute), "actor": "anna@example.org", "parents": parents, **facts})
        self.last = self.ledger.add(encode(event))
        return self.last

    def target(self) -> TargetName:
        return self.data.draw(st.sampled_from(TARGETS))

    def edits(self, target: TargetName) -> tuple[Edit, ...]:
        found = []
        for name in self.data.draw(st.lists(st.sampled_from("AB"), max_size=2, unique=True)):
            after = self.data.draw(st.sampled_from([None, "1", "2"]))
            found.append(Edit(name=name, kind="env", before=self.values.get((target, name)), after=after))
            self.values[target, name] = after
        return tuple(found)

    def change(self) -> None:
        where = self.data.draw(st.lists(st.sampled_from(TARGETS), min_size=1, max_size=2, unique=True))
        undoes = self.data.draw(st.sampled_from([None, *self.changes[-3:]]))
        files = tuple(
            PlannedFile(
                target=target,
                path=SCRIPT,
                dialect="bash",
                edits=self.edits(target),
                base=digest_of(b"%f" % self.minute),
                result=digest_of(b"%f+" % self.minute),
                diff="",
            )
            for target in where
        )
        plan = self.tell(
            Planned,
            verb="revert" if undoes else "set",
            undoes=undoes,
            files=files,
            expires=at(self.data.draw(st.sampled_from([100, 3000]))),
            why=self.data.draw(st.sampled_from(["", "because"])),
            hypotheses=self.data.draw(st.sampled_from([(), ("leak",)])),
            restart=self.data.draw(st.sampled_from(["none", "service"])),
        )
        self.plans.append(plan)
        match self.data.draw(
            st.sampled_from(["applied", "applied", "glass", "reviewed", "rejected", "open"])
        ):
            case "open":
                return
            case "rejected":
                self.tell(Rejected, plan=plan, why="no")
                return
            case "applied":
                self.tell(Approved, plan=plan, source="flag")
            case how:
                self.tell(Approved, plan=plan, source="glass", principal="anna", break_glass="down")
                if how == "reviewed":
                    self.tell(Approved, plan=plan, source="review", principal="ben", review=True)
        for file in files:
            self.attempt(plan, file)
        self.changes.append(plan)
        if self.data.draw(st.booleans()):
            self.tell(Arming, plan=plan, target=where[0], window_s=60, token="t")
            self.tell(Armed, plan=plan, target=where[0], scheduler="timer persistent", deadline=at(LAST))
            self.armed.append((plan, where[0]))

    def attempt(self, plan: EventId, file: PlannedFile) -> None:
        attempt = self.tell(Started, plan=plan, target=file.target, base=file.base, result=file.result)
        about = {"plan": plan, "attempt": attempt, "target": file.target}
        match self.data.draw(
            st.sampled_from(["applied", "applied", "settled", "failed", "rolled back", "in doubt"])
        ):
            case "applied":
                receipt = Receipt(
                    backup=HostPath("/b"), backup_digest=file.base, digest=file.result, manifest=manifest()
                )
                self.tell(Applied, **about, receipt=receipt)
            case "settled":
                outcome = self.data.draw(st.sampled_from(["applied", "unchanged"]))
                self.tell(Settled, **about, outcome=outcome, digest=file.result, manifest=manifest())
            case "failed":
                outcome = self.data.draw(st.sampled_from(["unchanged", "unknown"]))
                self.tell(Failed, **about, outcome=outcome, error="drifted", reason="bytes")
                if outcome == "unknown" and self.data.draw(st.booleans()):
                    self.tell(
                        Settled, **about, outcome="overwritten", digest=file.result, manifest=manifest()
                    )
            case "rolled back":
                self.tell(RolledBack, **about, reason="no proof")
            case _:
                pass

    def put_back(self) -> None:
        if self.armed:
            plan, target = self.armed.pop()
            if self.data.draw(st.booleans()):
                self.tell(Confirmed, plan=plan, target=target)
            else:
                planned = self.ledger.get(plan).event
                assert isinstance(planned, Planned)
                base = next(file.base for file in planned.files if file.target == target)
                self.tell(
                    Expired,
                    plan=plan,
                    target=target,
                    outcome="reverted",
                    digest=base,
                    ended_at=at(self.minute),
                )

    def by_hand(self) -> None:
        target = self.target()
        source = self.data.draw(st.sampled_from(["", "/root/serve.sh.bak"]))
        earlier = self.data.draw(st.integers(0, 200))
        self.tell(
            Observed,
            target=target,
            path=SCRIPT,
            digest=digest_of(b"%d" % self.data.draw(st.integers(0, 2))),
            previous=digest_of(b"before") if self.data.draw(st.booleans()) else None,
            edits=self.edits(target),
            manifest=manifest(),
            source=source,
            not_after=at(max(self.minute - earlier, 0)) if source or self.data.draw(st.booleans()) else "",
        )

    def restart(self) -> None:
        resumes = self.data.draw(st.sampled_from([None, *self.chains[-1:]]))
        service = self.data.draw(st.sampled_from(TARGETS[:5]))
        chain = self.tell(
            RestartStarted,
            cause="asked",
            scope="service",
            services=(Before(service=service),),
            plan=self.data.draw(st.sampled_from([None, *self.changes[-1:]])),
            resumes=resumes,
        )
        self.chains.append(chain)
        if self.data.draw(st.booleans()):
            after = (
                (SeenRunning(pid=7, parent=1, started=1.0, command="x"),)
                if self.data.draw(st.booleans())
                else ()
            )
            outcome = self.data.draw(st.sampled_from(["healthy", "unhealthy"]))
            took = self.data.draw(st.sampled_from([None, 5.0, 60.0]))
            self.tell(
                ServiceRestarted,
                chain=chain,
                service=service,
                outcome=outcome,
                after=after,
                healthy_after_s=took,
            )
            if self.data.draw(st.booleans()):
                self.tell(RestartEnded, chain=chain, outcome="done", touched=self.data.draw(st.booleans()))

    def look(self) -> None:
        target = self.target()
        value = self.data.draw(st.sampled_from(["1", "2"]))
        process = SeenProcess(
            pid=7, parent=1, started=at(0), command="x", after_write=self.data.draw(st.booleans())
        )
        knob = SeenKnob(
            name="A",
            kind="env",
            written="1",
            state="present",
            value=value,
            values=(SeenValue(state="present", value=value, pids=(7,)),),
        )
        service = target.partition(":")[0]
        self.tell(SeenLive, target=target, service=service, path=SCRIPT, processes=(process,), knobs=(knob,))

    def say(self) -> None:
        match self.data.draw(st.sampled_from(["note", "hypothesis", "verdict"])):
            case "note":
                self.tell(Noted, text="said")
            case "hypothesis":
                about = tuple(self.changes[-1:])
                self.tell(HypothesisOpened, slug="leak", claim="it leaks", about=about)
            case _:
                self.tell(VerdictGiven, hypothesis="leak", ruling="refuted", because="measured")


def drawn(ledger: Ledger, data: st.DataObject, most: int = 14) -> Teller:
    """Fills a ledger; its index is brought up to date now and then."""
    teller = Teller(ledger, data)
    acts = [teller.change] * 3 + [teller.by_hand, teller.restart, teller.look, teller.put_back, teller.say]
    for n in data.draw(st.lists(st.integers(0, len(acts) - 1), max_size=most)):
        acts[n]()
        if data.draw(st.integers(0, 4)) == 0:
            index = ledger.index()
            index.update()
            index.close()
    return teller


def whole(ledger: Ledger) -> State:
    """The fold of everything."""
    return State.of((stored.id, stored.event) for stored in ledger.events())
