"""The order of things for a post-mortem: every entry that tells something, and the spans of a knob."""

from __future__ import annotations

from collections.abc import Collection, Iterator
from typing import Any, Literal
from zoneinfo import ZoneInfo

from knobledger.event import moment_of, topic_of
from knobledger.events.asking import (
    DocumentChecked,
    DocumentCorrected,
    EvidenceGiven,
    HypothesisOpened,
    Measured,
    Probed,
    VerdictGiven,
)
from knobledger.events.changes import Failed, Observed, RolledBack
from knobledger.events.entry import Event
from knobledger.events.notes import Noted
from knobledger.events.watching import ObservedMetric, SeenLive
from knobledger.names import EventId, TargetName, short
from knobledger.report.changes import Entry, change_line
from knobledger.report.credit import doer, done_at
from knobledger.report.restart_story import proofs, restart_text
from knobledger.report.terminal import edit_text
from knobledger.report.timeline import Entry as Mark
from knobledger.report.timeline import Span
from knobledger.state import State

_QUIET = {
    *("planned", "approved", "rejected", "started", "applied", "settled"),
    *("restart_started", "service_restarted", "restart_ended"),
}
"""steps of a change, or of a restart, which is told once as a whole"""


def when(at: str, zone: str) -> dict[str, str]:
    """A moment on the clock of a zone, and in UTC."""
    instant = moment_of(at)
    local = instant.astimezone(ZoneInfo(zone))
    return {
        "date": f"{local:%Y-%m-%d}",
        "time": f"{local:%H:%M:%S}",
        "zone": f"{local:%Z}",
        "utc": f"{instant:%Y-%m-%d %H:%M:%S}Z",
        "iso": at,
        "text": f"{local:%Y-%m-%d %H:%M %Z}",
    }


def story(
    state: State, start: str, zone: str, slugs: Collection[str], targets: Collection[TargetName]
) -> Iterator[dict[str, Any]]:
    """The entries from `start` on, oldest first, each in a line; those of other hypotheses and hosts are left out.

    A service beside the changed one belongs to the story, so entries of all targets on the same hosts are told.
    """
    hosts = {target.partition("/")[0] for target in targets}
    for at, id_, kind, target, text, actor in sorted(_told(state)):
        slug = getattr(state.events[id_], "hypothesis", getattr(state.events[id_], "slug", None))
        other = hosts and target and target.partition("/")[0] not in hosts
        if at < start or other or (slug is not None and slugs and slug not in slugs):
            continue
        yield {
            "at": when(at, zone),
            "id": id_,
            "short": short(id_),
            "kind": kind,
            "target": target,
            "text": text,
            "actor": actor,
        }


def _told(state: State) -> Iterator[tuple[str, EventId, str, str, str, str]]:
    for change in state.changes:
        line = change_line(state, change)
        turned = state.turns(change) and state.takes_back(change)
        kind = "revert" if turned else "restore" if state.named_undone(change) else "change"
        what = "; ".join(map(edit_text, line.edits)) or f"{line.verb}: lines that hold no knob"
        why = f" - {line.why}" if line.why else ""
        despite = f" (despite the evidence: {state.plans[change].planned.despite})"
        acknowledged = despite if state.plans[change].planned.despite else ""
        yield line.at, change, kind, ", ".join(line.targets), f"{what}{why}{acknowledged}", line.actor
    shown = set()
    for restart in state.serving.chains.values():
        shown |= {id(event) for event in proofs(state, restart)}
        text, actor = restart_text(state, restart), restart.started.actor
        yield restart.started.at, restart.id, "restart", ", ".join(restart.services), text, actor
    rested = {e.rests_on for e in state.events.values() if isinstance(e, EvidenceGiven)}
    for id_, event in state.events.items():
        if event.kind in _QUIET or id(event) in shown or (isinstance(event, Probed) and id_ in rested):
            continue
        if isinstance(event, (Observed, DocumentChecked)) and not _news(event):
            continue
        at, actor = (done_at(event), doer(event)) if event.kind == "expired" else (event.at, event.actor)
        yield at, id_, _kind(event), _target(state, event), _text(id_, event), actor


def _news(event: Observed | DocumentChecked) -> bool:
    """First contact with a file, and a document that agrees, are no news."""
    return event.previous is not None if isinstance(event, Observed) else bool(event.stale)


def _kind(event: Event) -> str:
    match event:
        case Observed():
            return "drift"
        case HypothesisOpened():
            return "hypothesis"
        case EvidenceGiven() | Probed():
            return "evidence"
        case Measured():
            return "benchmark"
        case VerdictGiven():
            return "verdict"
        case DocumentChecked() | DocumentCorrected():
            return "document"
        case SeenLive() | ObservedMetric():
            return "observation"
        case Noted():
            return "note"
        case RolledBack() | Failed():
            return "failed attempt"
        case _:
            return event.kind.replace("_", " ")


def _target(state: State, event: Event) -> str:
    change = getattr(event, "change", getattr(event, "plan", None))
    if change in state.plans:
        return ", ".join(file.target for file in state.plans[change].planned.files)
    target = getattr(event, "target", "")
    return target if isinstance(target, str) else ""


def _text(id_: EventId, event: Event) -> str:
    match event:
        case Observed(edits=edits):
            return "; ".join(map(edit_text, edits)) or "changed by hand: lines that hold no knob"
        case HypothesisOpened(claim=claim):
            return claim
        case EvidenceGiven(side=side, weight=weight, text=text):
            return f"{side} it, {weight}: {text}"
        case VerdictGiven(ruling=ruling, because=because, cause=cause):
            return f"{ruling}: {because}" + (f"; the true cause: {cause}" if cause else "")
        case _ if topic_of(event.kind) in ("asking", "notes") or event.kind in ("rolled_back", "failed"):
            return Entry(id_, event).text
        case _:
            return Entry(id_, event).text or event.kind.replace("_", " ")


def marks(entries: Collection[dict[str, Any]]) -> tuple[Mark, ...]:
    """The entries for the drawing."""
    return tuple(
        Mark(moment_of(entry["at"]["iso"]), entry["kind"], entry["text"], entry["target"])
        for entry in entries
    )


def spans(state: State, changes: Collection[EventId]) -> tuple[Span, ...]:
    """When each knob that these changes took away had which value, from its first recorded edit on."""
    knobs = {(edit.target, edit.edit.name): None for change in changes for edit in state.edits_of(change)}
    found = []
    for target, name in knobs:
        edits = state.edits[(target, name)]
        for edit, following in zip(edits, [*edits[1:], None], strict=True):
            way: Literal["in", "out"] = "out" if edit.takes else "in"
            label = "taken out" if edit.edit.after is None else f"{edit.edit.after} in effect"
            until = moment_of(following.at) if following else None
            found.append(Span(moment_of(edit.at), until, way, target, label))
    return tuple(found)
