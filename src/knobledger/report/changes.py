"""What changed, when, by whom: the reports behind `since`, `log` and `blame`."""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from dataclasses import dataclass
from difflib import SequenceMatcher
from typing import Any

from knobledger.event import stamp, topic_of
from knobledger.events.changes import Observed, Planned
from knobledger.events.entry import Event
from knobledger.events.notes import Noted
from knobledger.moment import Resolved
from knobledger.names import Digest, EventId, TargetName
from knobledger.plan import Edit, Finding
from knobledger.report.serving import RestartReport
from knobledger.report.standing import HypothesisLine
from knobledger.state import Fate, State


@dataclass(frozen=True, slots=True)
class ChangeLine:
    """One change, or one edit by hand as it was observed."""

    change: EventId
    at: str
    """when it was applied (or seen), UTC"""
    actor: str
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

    def to_json(self) -> dict[str, Any]:
        """One entry of `changes` (or `observed`)."""
        return {
            "change": self.change,
            "at": self.at,
            "actor": self.actor,
            "on_behalf_of": self.on_behalf_of,
            "target": self.targets[0],
            "targets": list(self.targets),
            "verb": self.verb,
            "kind": self.kind,
            "edits": [edit.model_dump(mode="json") for edit in self.edits],
            "why": self.why,
            "hypothesis": self.hypotheses[0] if self.hypotheses else None,
            "hypotheses": list(self.hypotheses),
            "finding": self.finding,
            "status": self.status,
            "by": self.by,
        }


@dataclass(frozen=True, slots=True)
class DriftLine:
    """A target whose live bytes are not the last recorded ones, or that could not be asked."""

    target: TargetName
    recorded: Digest | None
    live: Digest | None
    message: str

    def to_json(self) -> dict[str, Any]:
        """One entry of `drift`."""
        return {"target": self.target, "recorded": self.recorded, "live": self.live, "message": self.message}


@dataclass(frozen=True, slots=True)
class Since:
    """What changed between two moments, oldest first."""

    start: Resolved
    until: Resolved | None
    end: str
    zone: str
    changes: tuple[ChangeLine, ...]
    observed: tuple[ChangeLine, ...]
    restarts: tuple[RestartReport, ...] = ()
    hypotheses: tuple[HypothesisLine, ...] = ()
    drift: tuple[DriftLine, ...] = ()
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
    """Edits by hand, by the moment at which they were seen; first contacts are left out."""
    return [
        observed_line(state, id_, event)
        for id_, event in state.events.items()
        if isinstance(event, Observed)
        and event.previous is not None
        and start <= event.at < end
        and (target is None or event.target == target)
    ]


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
    )


def observed_line(state: State, id_: EventId, event: Observed) -> ChangeLine:
    """An observation in the form of a change; its actor is only who saw it."""
    status, by = state.fate(id_)
    return ChangeLine(
        change=id_,
        at=event.at,
        actor=event.actor,
        on_behalf_of=event.on_behalf_of,
        targets=(event.target,),
        verb="observed",
        kind="other",
        edits=event.edits,
        why="",
        hypotheses=(),
        finding=None,
        status=status,
        by=by,
    )


@dataclass(frozen=True, slots=True)
class Entry:
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
        if edits := self.edits:
            out["edits"] = [edit.model_dump(mode="json") for edit in edits]
        return out

    @property
    def target(self) -> TargetName | None:
        """The (first) target that it is about."""
        match self.event:
            case Planned(files=files):
                return files[0].target
            case event:
                return getattr(event, "target", self.plan_target)

    @property
    def edits(self) -> tuple[Edit, ...]:
        """The knobs that it is about."""
        match self.event:
            case Planned(files=files):
                return files[0].edits
            case Observed(edits=edits):
                return edits
            case _:
                return ()

    @property
    def text(self) -> str:
        """What there is to say beyond the fields, in a phrase."""
        match self.event:
            case Planned(verb=verb, why=why):
                return f"{verb}: {why}" if why else verb
            case Observed(previous=None):
                return "first contact"
            case Observed():
                return "changed by hand"
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


@dataclass(frozen=True, slots=True)
class Log:
    """Events, newest first."""

    entries: tuple[Entry, ...]

    def to_json(self) -> dict[str, Any]:
        """The JSON of `log`."""
        return {"entries": [entry.to_json() for entry in self.entries]}


@dataclass(frozen=True, slots=True)
class BlameLine:
    """One line of a target with the entry that brought it."""

    line: int
    text: str
    knobs: tuple[str, ...]
    change: EventId | None
    """None: not recorded yet"""
    at: str
    actor: str
    why: str
    first_contact: bool
    """it was there when the file was first seen"""

    def to_json(self) -> dict[str, Any]:
        """One entry of `lines`."""
        return {
            "line": self.line,
            "text": self.text,
            "knobs": list(self.knobs),
            "change": self.change,
            "at": self.at,
            "actor": self.actor,
            "why": self.why,
            "first_contact": self.first_contact,
        }


@dataclass(frozen=True, slots=True)
class Blame:
    """A target, line by line."""

    target: TargetName
    lines: tuple[BlameLine, ...]
    remarks: tuple[str, ...] = ()

    def to_json(self) -> dict[str, Any]:
        """The JSON of `blame`."""
        return {
            "target": self.target,
            "lines": [line.to_json() for line in self.lines],
            "remarks": list(self.remarks),
        }


def blame_lines(
    state: State,
    versions: Sequence[tuple[EventId | None, bytes]],
    shown: Sequence[str],
    knobs: dict[int, list[str]],
) -> tuple[BlameLine, ...]:
    """Follows each line of the last version back to the first version that has it.

    `versions` are the recorded states with their bytes, oldest first, the live bytes last (with None as
    their entry, if not recorded); `shown` are the last version's lines with secrets masked; `knobs` the names by line.
    """
    owners: list[EventId | None] = []
    before: list[bytes] = []
    for entry, content in versions:
        lines = content.split(b"\n")
        fresh: list[EventId | None] = [entry] * len(lines)
        for old, new, size in SequenceMatcher(None, before, lines, autojunk=False).get_matching_blocks():
            fresh[new : new + size] = owners[old : old + size]
        owners, before = fresh, lines
    return tuple(_blame_line(state, i, text, owners, knobs) for i, text in enumerate(shown))


def _blame_line(
    state: State, index: int, text: str, owners: Sequence[EventId | None], knobs: dict[int, list[str]]
) -> BlameLine:
    owner = owners[index] if index < len(owners) else None
    event = state.events.get(owner) if owner else None
    first = isinstance(event, Observed) and event.previous is None
    return BlameLine(
        line=index + 1,
        text=text,
        knobs=tuple(knobs.get(index + 1, ())),
        change=owner,
        at=event.at if event else "",
        actor="" if first or isinstance(event, Observed) or event is None else event.actor,
        why=getattr(event, "why", "") if event else "",
        first_contact=first,
    )


def entries(state: State, events: Iterable[tuple[EventId, Event]]) -> Log:
    """A log of events in the order given."""
    plans = state.plans
    return Log(
        tuple(
            Entry(
                id_,
                event,
                plans[plan].planned.files[0].target
                if (plan := getattr(event, "plan", None)) in plans
                else None,
            )
            for id_, event in events
        )
    )
