"""The fold: events to who runs what, open plans, the fate of each change. Pure.

The order of arrival does not matter: events are folded in the order (time, id), parents before children.
Nothing here is stored; everything is derived anew from the ledger.
"""

from __future__ import annotations

from collections.abc import Iterable
from datetime import UTC, datetime
from typing import TYPE_CHECKING, cast

from msgspec import Struct, field

from knobledger.event import moment_of, topic_of
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
from knobledger.events.entry import Event
from knobledger.folds.edits import Fate, File, KnobEdit
from knobledger.folds.order import in_order
from knobledger.folds.plans import Attempt, Plan
from knobledger.folds.serving import Serving
from knobledger.names import Digest, EventId, HostPath, TargetName
from knobledger.plan import Finding

if TYPE_CHECKING:
    from knobledger.events.arming import Expired
    from knobledger.events.serving import RestartStarted
    from knobledger.folds.arming import Armings, Pending
    from knobledger.folds.asking import Asked


class State(Struct):
    """Everything derived from a ledger."""

    events: dict[EventId, Event] = field(default_factory=dict)
    plans: dict[EventId, Plan] = field(default_factory=dict)
    attempts: dict[EventId, Attempt] = field(default_factory=dict)
    files: dict[TargetName, File] = field(default_factory=dict)
    edits: dict[tuple[TargetName, str], list[KnobEdit]] = field(default_factory=dict)
    """per target and knob, oldest first"""
    changes: list[EventId] = field(default_factory=list)
    """in the order in which they were applied"""
    applied_at: dict[EventId, str] = field(default_factory=dict)
    repeated: set[EventId] = field(default_factory=set)
    """what two clones have reconstructed alike: counted once, for the first of them"""
    serving: Serving = field(default_factory=Serving)
    """restarts: those that are owed, and how those went that were made"""
    _by_event: dict[EventId, list[KnobEdit]] = field(default_factory=dict)
    """edits by the change or observation that made them"""
    _undoing: dict[EventId, list[KnobEdit]] = field(default_factory=dict)
    """edits by the change or observation of which they undid one"""
    _told: set[tuple[TargetName, Digest | None, Digest, str]] = field(default_factory=set)
    _armings: Armings | None = None
    _asked: Asked | None = None

    @property
    def armings(self) -> Armings:
        """Changes that put themselves back unless they are confirmed."""
        if self._armings is None:
            from knobledger.folds.arming import Armings

            self._armings = Armings()
        return self._armings

    def pending(self) -> list[Pending]:
        """Armed changes whose end is not recorded; costs nothing where nothing was ever armed."""
        return [] if self._armings is None else self._armings.open()

    def not_put_back(self) -> list[Pending]:
        """Armed changes that their hosts could not put back, confirmed by nobody since; some may be reverted by now."""
        return [one for one in self._armings.by_plan.values() if one.not_put_back] if self._armings else []

    def overdue(self, target: TargetName, now: datetime) -> Pending | None:
        """The armed change of a target whose deadline is over, while nobody has looked what its host did."""
        pending = self._armings.on(target) if self._armings else None
        return pending if pending and now >= pending.deadline else None

    @classmethod
    def of(cls, events: Iterable[tuple[EventId, Event]]) -> State:
        """Folds events that arrive in any order, each once or several times."""
        state = cls(events=in_order(dict(events)))
        for id_, event in state.events.items():
            state._take(id_, event)
        return state

    def refolded(self) -> State:
        """The same events in their order: needed after `add` of some that tell of an earlier time."""
        return State.of(self.events.items())

    def add(self, id_: EventId, event: Event) -> None:
        """Takes in an event that this process has just written; one of an earlier time needs `refolded` after it."""
        self.events[id_] = event
        self._take(id_, event)

    @property
    def newest(self) -> datetime:
        """The latest moment that any event names."""
        newest = max((event.at for event in self.events.values()), default="")  # they sort as text
        return moment_of(newest) if newest else datetime.min.replace(tzinfo=UTC)

    def in_doubt(self) -> list[Attempt]:
        """Attempts that `recover` has to settle, oldest first."""
        return [attempt for attempt in self.attempts.values() if attempt.in_doubt]

    def doubts_on(self, target: TargetName) -> list[Attempt]:
        """Those on one target."""
        return [attempt for attempt in self.in_doubt() if attempt.started.target == target]

    def torn_on(self, target: TargetName, digest: Digest) -> Attempt | None:
        """The newest attempt on a target if these bytes were found after it, and are neither base nor result."""
        mine = [attempt for attempt in self.attempts.values() if attempt.started.target == target]
        outcome = mine[-1].outcome if mine else None
        return (
            mine[-1] if isinstance(outcome, Settled) and mine[-1].torn and outcome.digest == digest else None
        )

    def overtaken_by(self, plan: Plan) -> EventId | None:
        """The change that was applied since and left other bytes than the plan was made for; None: nothing recorded did."""
        for file in plan.planned.files:
            history = self.files[file.target].history if file.target in self.files else []
            digests = [digest for _, digest in history]
            if file.base in digests:
                since = history[len(digests) - digests[::-1].index(file.base) :]
                if found := next((id_ for id_, _ in since if id_ in self.plans and id_ != plan.id), None):
                    return found
        return None

    def owner(self, target: TargetName, knob: str) -> KnobEdit | None:
        """The newest recorded edit of a knob."""
        edits = self.edits.get((target, knob))
        return edits[-1] if edits else None

    def edits_of(self, change: EventId, target: TargetName | None = None) -> list[KnobEdit]:
        """A change's (or observation's) edits with their fates."""
        found = self._by_event.get(change, [])
        return [edit for edit in found if target is None or edit.target == target]

    def fate(self, change: EventId) -> tuple[Fate, EventId | None]:
        """The fate of a change: in effect while any of its edits is."""
        edits = self.edits_of(change)
        if not edits or any(edit.fate == "in effect" for edit in edits):
            return "in effect", None
        last = max(edits, key=lambda edit: self.events[edit.by].at if edit.by else edit.at)
        return last.fate, last.by

    def named_undone(self, change: EventId) -> EventId | None:
        """The change that a plan says it undoes: it is a revert or a restore by intention."""
        plan = self.plans.get(change)
        return plan.planned.undoes if plan else None

    def turns(self, change: EventId) -> bool:
        """It undid something, by name or only by the values that it gave."""
        return self.named_undone(change) is not None or any(edit.undoes for edit in self.edits_of(change))

    def takes_back(self, change: EventId) -> bool:
        """It took something out or back, so that undoing it brings something back.

        What is undone by name goes the other way than what it undoes; of any other change its edits tell.
        """
        turned = False
        while (below := self.named_undone(change)) is not None:
            turned, change = not turned, below
        edits = self.edits_of(change)
        takes = bool(edits) and all(edit.takes for edit in edits)
        return (takes or any(edit.takes and edit.undoes for edit in edits)) is not turned

    def finding(self, change: EventId) -> Finding | None:
        """What the verdicts mean for a change; None where nothing was suspected and nothing undone."""
        planned = self.plans[change].planned
        if self._asked is not None:
            from knobledger.folds.asking import finding

            found = finding(self._asked, planned, self.suspected_under(change))
            if found:
                return found
        if planned.hypotheses:
            return "under test"
        unexplained = self.turns(change) and self.takes_back(change) and not planned.why
        return "unexplained" if unexplained else None

    def suspected_under(self, change: EventId) -> tuple[str, ...]:
        """The hypotheses that are about a change, or under which it was taken back, in alphabetical order."""
        slugs = set(self.asked.suspecting.get(change, ()))
        for edit in self._undoing.get(change, ()):
            if edit.event in self.plans:
                slugs |= set(self.plans[edit.event].planned.hypotheses)
        return tuple(sorted(slugs))

    @property
    def anything_asked(self) -> bool:
        """Whether the ledger holds events of that topic (or somebody has looked for them): else nothing is imported."""
        return self._asked is not None

    @property
    def asked(self) -> Asked:
        """Hypotheses, evidence, verdicts, documents; the fold is imported when something was asked or is looked for."""
        if self._asked is None:
            from knobledger.folds.asking import Asked

            self._asked = Asked()
        return self._asked

    def _take(self, id_: EventId, event: Event) -> None:
        self.serving.take(id_, event)
        match event:
            case Planned():
                self.plans[id_] = Plan(id_, event)
            case Approved():
                if plan := self.plans.get(event.plan):
                    plan.approvals.append((id_, event))
            case Rejected():
                if plan := self.plans.get(event.plan):
                    plan.rejected = plan.rejected or (id_, event)
            case Started():
                attempt = self.attempts[id_] = Attempt(id_, event)
                if plan := self.plans.get(event.plan):
                    plan.attempts.append(attempt)
            case Applied() | RolledBack() | Failed() | Settled():
                self._outcome(id_, event)
            case Observed() if self._is_repeated(id_, event):
                self.repeated.add(id_)
            case Observed():
                self._record(event.target, event.path, event.digest, id_, event.happened)
                for edit in event.edits:
                    self._edit(KnobEdit(id_, event.target, edit, event.happened, observed=True), None)
            case _:
                self._take_topic(id_, event)

    def _is_repeated(self, id_: EventId, event: Observed) -> bool:
        if not event.reconstructed or id_ in self.repeated:
            return id_ in self.repeated
        told = (event.target, event.previous, event.digest, event.not_after)
        known = told in self._told
        self._told.add(told)
        return known

    def _take_topic(self, id_: EventId, event: Event) -> None:
        """Topics of their own; their classes are imported when the first of their events is met."""
        match topic_of(event.kind):
            case "arming":
                from knobledger.events.arming import ArmingEvent, Expired

                self.armings.take(cast("ArmingEvent", event))
                if isinstance(event, Expired):
                    self._put_back(id_, event)
            case "asking":
                self.asked.take(id_, event)
            case "serving" if event.kind == "restart_started":
                plan = self.plans.get(cast("RestartStarted", event).plan or EventId(""))
                if plan and plan.planned.verb == "restart":
                    plan.begun = True
            case "approving" | "changes" | "notes" | "serving" | "watching" | None:
                pass

    def _put_back(self, id_: EventId, event: Expired) -> None:
        """A change that nobody confirmed: the host has taken it back."""
        plan = self.plans.get(event.plan)
        file = plan.file_of(event.target) if plan else None
        if file is None or event.outcome != "reverted" or event.digest is None:
            return
        self._record(event.target, file.path, event.digest, id_, event.ended_at)
        for edit in file.edits if event.digest == file.base else ():
            back = edit.but(before=edit.after, after=edit.before)
            self._edit(KnobEdit(id_, event.target, back, event.ended_at), event.plan)

    def _outcome(self, id_: EventId, event: Applied | RolledBack | Failed | Settled) -> None:
        attempt = self.attempts.get(event.attempt)
        # Somebody else may have looked before its transaction had begun: its own proof is later, and stronger.
        done = isinstance(event, Applied) or (isinstance(event, Settled) and event.outcome == "applied")
        proof = done and attempt and isinstance(attempt.outcome, Settled) and not attempt.succeeded
        if attempt is None or not (attempt.in_doubt or proof):
            return
        attempt.outcome, attempt.outcome_id = event, id_
        plan = self.plans.get(event.plan)
        file = plan.file_of(event.target) if plan else None
        if plan is None or file is None or not attempt.succeeded:
            return
        if plan.id not in self.applied_at:
            self.changes.append(plan.id)
            self.applied_at[plan.id] = event.at
        self._record(event.target, file.path, file.result, plan.id, event.at)
        for edit in file.edits:
            self._edit(KnobEdit(plan.id, event.target, edit, event.at), plan.planned.undoes)

    def _record(self, target: TargetName, path: HostPath, digest: Digest, id_: EventId, at: str) -> None:
        known = self.files.get(target)
        history = known.history if known else []
        history.append((id_, digest))
        self.files[target] = File(target, path, digest, id_, at, history)

    def _edit(self, new: KnobEdit, undoes: EventId | None) -> None:
        """Appends an edit of a knob and settles what it means for the earlier ones.

        By name: the plan of a revert or a restore says which change it undoes. Then that one is reverted, what that one
        had brought to its fate is restored, what *that* had is reverted again, and so on down. By value: an edit that
        only takes the knob out, or leads back to the value before, reverts the newest one that is in effect and no more:
        that a value comes round again tells nothing of why, so nothing older is restored, and the edit stays one of its
        own. An edit by hand undoes another one by hand in this way, but never a recorded change: it overwrites it.
        """
        edits = self.edits.setdefault((new.target, new.edit.name), [])
        current = next((edit for edit in reversed(edits) if edit.fate == "in effect"), None)
        edits.append(new)
        new.takes = new.edit.after is None
        self._by_event.setdefault(new.event, []).append(new)
        if current is None:
            return
        named = current.event == undoes
        back = current.edit.before == new.edit.after and current.edit.after == new.edit.before
        drift = new.observed and not current.observed
        if drift or not (named or back or new.edit.after is None):
            current.fate, current.by = "overwritten", new.event
            return
        new.undoes = current
        new.takes = new.takes or not current.takes
        self._undoing.setdefault(current.event, []).append(new)
        current.fate, current.by = "reverted", new.event
        below: KnobEdit | None = current.undoes
        fate: Fate = "restored"
        while named and below is not None and below.by == current.event:
            below.fate, below.by = fate, new.event
            below, fate = below.undoes, "reverted" if fate == "restored" else "restored"


def changes_after(state: State, target: TargetName, change: EventId) -> list[EventId]:
    """The recorded states of a target after a change: changes and observations, oldest first."""
    history = state.files[target].history if target in state.files else []
    seen = [id_ for id_, _ in history]
    return seen[len(seen) - seen[::-1].index(change) :] if change in seen else []
