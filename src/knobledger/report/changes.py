"""What changed, when, by whom: the reports behind `since` and `log`."""

from __future__ import annotations

from collections.abc import Iterable
from typing import Any

from msgspec import Struct

from knobledger.event import stamp, topic_of
from knobledger.events.changes import Observed, Planned
from knobledger.events.entry import Event
from knobledger.events.notes import Noted
from knobledger.folds.edits import Fate
from knobledger.moment import Resolved
from knobledger.names import EventId, TargetName, short
from knobledger.plan import Edit, Finding
from knobledger.report.credit import doer, done_at
from knobledger.report.drift import TargetDrift
from knobledger.report.serving import RestartReport
from knobledger.report.standing import HypothesisLine
from knobledger.state import State


class ChangeLine(Struct, frozen=True):
    """One change, or one edit by hand as it was observed."""

    change: EventId
    at: str
    """when it was applied, UTC; of an edit by hand, when it was there at the latest"""
    actor: str
    """empty for an edit by hand: nobody knows"""
    on_behalf_of: str
    targets: tuple[TargetName, ...]
    verb: str
    kind: str
    edits: tuple[Edit, ...]
    why: str
    hypotheses: tuple[str, ...]
    finding: Finding | None
    status: Fate
    by: EventId | None
    by_actor: str = ""
    """who undid or overwrote it; empty: by hand, or nobody"""
    apart: tuple[str, ...] = ()
    """knobs that were undone or overwritten meanwhile, where others of it are still in effect"""
    observed: Observed | None = None
    """of an edit by hand: what is known of it"""

    def to_json(self) -> dict[str, Any]:
        """One entry of `changes` (or `observed`)."""
        seen = self.observed
        more = (
            {}
            if seen is None
            else {
                "not_before": seen.not_before or None,
                "not_after": seen.not_after or None,
                "recorded_at": seen.at,
                "recorded_by": seen.actor,
                "source": seen.source or None,
                "hints": list(seen.hints),
            }
        )
        return {
            **more,
            "change": self.change,
            "at": self.at,
            "actor": self.actor,
            "on_behalf_of": self.on_behalf_of,
            "target": self.targets[0],
            "targets": list(self.targets),
            "verb": self.verb,
            "kind": self.kind,
            "edits": [edit.plain() for edit in self.edits],
            "why": self.why,
            "hypothesis": self.hypotheses[0] if self.hypotheses else None,
            "hypotheses": list(self.hypotheses),
            "finding": self.finding,
            "status": self.status,
            "by": self.by,
            "apart": list(self.apart),
        }


class Between(Struct, frozen=True):
    """Something that changed no knob by itself and belongs between the changes: a note, a host that put a change back."""

    at: str
    event: EventId
    kind: str
    target: TargetName | None
    text: str
    actor: str
    recorded_by: str = ""
    """who wrote it down; what a host did by itself, somebody noticed later"""

    def to_json(self) -> dict[str, Any]:
        """One entry of `between`."""
        return {
            "at": self.at,
            "event": self.event,
            "kind": self.kind,
            "target": self.target,
            "text": self.text,
            "actor": self.actor,
            "recorded_by": self.recorded_by or self.actor,
        }


class Since(Struct, frozen=True):
    """What changed between two moments, oldest first."""

    start: Resolved
    until: Resolved | None
    end: str
    zone: str
    changes: tuple[ChangeLine, ...]
    observed: tuple[ChangeLine, ...]
    restarts: tuple[RestartReport, ...] = ()
    hypotheses: tuple[HypothesisLine, ...] = ()
    between: tuple[Between, ...] = ()
    drift: tuple[TargetDrift, ...] = ()
    """targets that are not as recorded, or could not be asked"""
    looked: bool = False
    """the hosts were asked, too"""
    exit_code: int = 0

    def to_json(self) -> dict[str, Any]:
        """The JSON of `since`."""
        return {
            "from": stamp(self.start.instant),
            "until": self.end,
            "zone": self.zone,
            "changes": [change.to_json() for change in self.changes],
            "restarts": [restart.to_json() for restart in self.restarts],
            "observed": [change.to_json() for change in self.observed],
            "between": [item.to_json() for item in self.between],
            "hypotheses": [one.to_json() for one in self.hypotheses],
            "drift": [line.to_json() for line in self.drift],
        }


def change_lines(state: State, start: str, end: str, target: TargetName | None = None) -> list[ChangeLine]:
    """The changes applied from `start` (included) to `end` (excluded), both as events write moments."""
    found = []
    for change in state.changes:
        if start <= state.applied_at[change] < end:
            line = change_line(state, change)
            if target is None or target in line.targets:
                found.append(line)
    return sorted(found, key=lambda line: (line.at, line.change))


def observed_lines(state: State, start: str, end: str, target: TargetName | None = None) -> list[ChangeLine]:
    """Edits by hand that were seen, or may have happened, between two moments; first contacts are left out."""
    found = [
        observed_line(state, id_, event)
        for id_, event in state.events.items()
        if isinstance(event, Observed)
        and event.previous is not None
        and id_ not in state.repeated
        and _falls_in(event, start, end)
        and (target is None or event.target == target)
    ]
    return sorted(
        found, key=lambda line: line.at
    )  # those of one moment stay in the order in which they happened


def _falls_in(event: Observed, start: str, end: str) -> bool:
    if not event.reconstructed and start <= event.at < end:
        return True
    return bool(event.not_after) and start <= event.not_after and event.not_before < end


def between(state: State, start: str, end: str, target: TargetName | None = None) -> list[Between]:
    """Notes, and what hosts did by themselves, from `start` (included) to `end` (excluded).

    A topic that has events of this sort (a restart, a verdict) adds its case here.
    """
    found = []
    for id_, event in state.events.items():
        if not start <= done_at(event) < end:
            continue
        match event.kind:
            case "noted":
                text = event.text  # type: ignore[attr-defined]
            case "expired" if event.outcome == "reverted":  # type: ignore[attr-defined]
                text = f"the host put {short(event.plan)} back: nobody had confirmed it"  # type: ignore[attr-defined]
            case "expired" if event.outcome == "failed":  # type: ignore[attr-defined]
                text = f"{short(event.plan)} was to be put back, and was NOT: {event.reason}"  # type: ignore[attr-defined]
            case "verdict_given":
                from knobledger.report.asking import phrase

                text = phrase(event)
            case _:
                continue
        where = getattr(event, "target", None)
        if target is None or where in (None, target):
            found.append(Between(done_at(event), id_, event.kind, where, text, doer(event), event.actor))
    return found


def change_line(state: State, change: EventId) -> ChangeLine:
    """A change that was applied."""
    plan = state.plans[change]
    planned = plan.planned
    targets = tuple(a.started.target for a in plan.attempts if a.succeeded)
    status, by = state.fate(change)
    return ChangeLine(
        change=change,
        at=state.applied_at[change],
        actor=planned.actor,
        on_behalf_of=planned.on_behalf_of,
        targets=targets,
        verb=planned.verb,
        kind=planned.purpose,
        edits=tuple(edit for file in planned.files if file.target in targets[:1] for edit in file.edits),
        why=planned.why,
        hypotheses=planned.hypotheses,
        finding=state.finding(change),
        status=status,
        by=by,
        by_actor=_actor(state, by),
        apart=_apart(state, change),
    )


def observed_line(state: State, id_: EventId, event: Observed) -> ChangeLine:
    """An edit by hand in the form of a change, without an actor: whoever recorded it only saw it."""
    status, by = state.fate(id_)
    return ChangeLine(
        change=id_,
        at=event.not_after or event.at,
        actor="",
        on_behalf_of="",
        targets=(event.target,),
        verb="observed",
        kind="other",
        edits=event.edits,
        why="",
        hypotheses=(),
        finding=None,
        status=status,
        by=by,
        by_actor=_actor(state, by),
        apart=_apart(state, id_),
        observed=event,
    )


def _apart(state: State, change: EventId) -> tuple[str, ...]:
    edits = state.edits_of(change)
    if not any(edit.fate == "in effect" for edit in edits):
        return ()
    return tuple(dict.fromkeys(edit.edit.name for edit in edits if edit.fate in ("reverted", "overwritten")))


def _actor(state: State, id_: EventId | None) -> str:
    event = state.events.get(id_) if id_ else None
    return "" if event is None else doer(event)


class Entry(Struct, frozen=True):
    """One event as `log` shows it."""

    id: EventId
    event: Event
    plan_target: TargetName | None = None
    """the first target of the plan that it is about, if it is about one"""

    def to_json(self) -> dict[str, Any]:
        """The event's own fields with its id; the long ones (manifests, differences) only in `show`."""
        event = self.event
        out: dict[str, Any] = {
            "id": self.id,
            "kind": event.kind,
            "at": event.at,
            "actor": event.actor,
            "done_at": done_at(event),
            "done_by": doer(event),
            "on_behalf_of": event.on_behalf_of,
            "change": self.id if isinstance(event, Planned) else getattr(event, "plan", None),
            "target": self.target,
            "text": self.text,
        }
        if isinstance(event, Planned):
            out |= {
                "verb": event.verb,
                "why": event.why,
                "hypotheses": list(event.hypotheses),
                "purpose": event.purpose,
            }
        if isinstance(event, Observed):
            out |= {name: getattr(event, name) or None for name in ("not_before", "not_after", "source")}
            out |= {"hints": list(event.hints), "diff": event.diff}
        if edits := self.edits:
            out["edits"] = [edit.plain() for edit in edits]
        return out

    @property
    def target(self) -> TargetName | None:
        """The (first) target that it is about."""
        match self.event:
            case Planned() as planned:
                return _first_target(planned)
            case event:
                return getattr(event, "target", self.plan_target)

    @property
    def edits(self) -> tuple[Edit, ...]:
        """The knobs that it is about."""
        match self.event:
            case Planned(files=files):
                return tuple(edit for file in files[:1] for edit in file.edits)
            case Observed(edits=edits):
                return edits
            case _:
                return ()

    @property
    def text(self) -> str:
        """What there is to say beyond the fields, in a phrase."""
        match self.event:
            case Planned(verb="restart", why=why) as planned:
                return f"restart of {', '.join(planned.where)}" + (f": {why}" if why else "")
            case Planned(verb=verb, why=why):
                return f"{verb}: {why}" if why else verb
            case Observed(previous=None, source=source):
                return f"the oldest that is left, by {source}" if source else "first contact"
            case Observed(source=source):
                return "changed by hand" + (f", reconstructed from {source}" if source else "")
            case Noted(text=text):
                return text
            case event if topic_of(event.kind) == "asking":
                from knobledger.report.asking import phrase

                return phrase(event)
            case event:
                for field in ("summary", "source", "reason", "outcome", "why"):
                    if value := getattr(event, field, ""):
                        return str(value)
                return ""


class Log(Struct, frozen=True):
    """Events, newest first."""

    entries: tuple[Entry, ...]
    full: bool = False
    """one event in full (`show`)"""

    def to_json(self) -> dict[str, Any]:
        """The JSON of `log`."""
        return {"entries": [entry.to_json() for entry in self.entries]}


def entries(state: State, events: Iterable[tuple[EventId, Event]]) -> Log:
    """A log of events in the order given."""
    plans = state.plans
    return Log(
        tuple(
            Entry(
                id_,
                event,
                _first_target(plans[plan].planned)
                if (plan := getattr(event, "plan", None)) in plans
                else None,
            )
            for id_, event in events
        )
    )


def _first_target(planned: Planned) -> TargetName | None:
    return planned.files[0].target if planned.files else None
