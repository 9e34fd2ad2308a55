"""Hypotheses as people and scripts see them: the claim, both sides, verdicts, and the changes with their findings."""

from __future__ import annotations

from typing import Any

from msgspec import Struct

from knobledger.events.asking import (
    DocumentChecked,
    DocumentCorrected,
    EvidenceGiven,
    HypothesisOpened,
    Measured,
    Outcome,
    Probed,
    Side,
    VerdictGiven,
)
from knobledger.events.entry import Event
from knobledger.folds.asking import Entered, Hypothesis
from knobledger.inquiry import Swept, sweep
from knobledger.names import EventId
from knobledger.report.changes import ChangeLine, change_line
from knobledger.state import State


class SweptLine(Struct, frozen=True):
    """A change with what the verdict means for it."""

    change: ChangeLine
    swept: Swept

    def to_json(self) -> dict[str, Any]:
        """One entry of `changes`."""
        return {
            **self.change.to_json(),
            "made_under": self.swept.made_under,
            "stays_because": self.swept.stays_because or None,
        }


class HypothesisReport(Struct, frozen=True):
    """One hypothesis, and what became of the changes made under it."""

    hypothesis: Hypothesis
    changes: tuple[SweptLine, ...]
    documents: tuple[tuple[str, int, str], ...] = ()
    """(document, line, why) of those that still contradict the verdict, as far as they were looked at"""

    def to_json(self) -> dict[str, Any]:
        """The JSON of `hypothesis show` and `verdict`."""
        return {
            "hypothesis": hypothesis_json(self.hypothesis),
            "changes": [line.to_json() for line in self.changes],
            "documents": [{"document": name, "line": line, "why": why} for name, line, why in self.documents],
        }


class Hypotheses(Struct, frozen=True):
    """All hypotheses, open ones first."""

    hypotheses: tuple[Hypothesis, ...]

    def to_json(self) -> dict[str, Any]:
        """The JSON of `hypothesis list`."""
        return {"hypotheses": [hypothesis_json(one) for one in self.hypotheses]}


class ProbeReport(Struct, frozen=True):
    """A probe, and which side it took."""

    id: EventId
    event: Probed
    outcome: Outcome
    side: Side | None
    """None: what came out was not said to mean anything"""

    @property
    def exit_code(self) -> int:
        """130 if it was interrupted; whatever the command did is data."""
        return 130 if len(self.event.runs) < self.event.asked else 0

    def to_json(self) -> dict[str, Any]:
        """The JSON of `probe`."""
        return {
            **probe_json(self.id, self.event),
            "hypothesis": self.event.hypothesis,
            "rounds": len(self.event.runs),
            "outcome": self.outcome,
            "evidence": self.side,
        }


def hypothesis_report(state: State, hypothesis: Hypothesis) -> HypothesisReport:
    """A hypothesis with its sweep."""
    lines = tuple(SweptLine(change_line(state, s.change), s) for s in sweep(state, hypothesis.slug))
    return HypothesisReport(hypothesis, lines)


def hypotheses(state: State) -> Hypotheses:
    """Every hypothesis that was opened, or that an older change names."""
    known = state.asked.hypotheses.values()
    return Hypotheses(tuple(sorted(known, key=lambda one: one.standing != "open")))


def hypothesis_json(one: Hypothesis) -> dict[str, Any]:
    """A hypothesis; every entry that was ever made on it is in there."""
    opening = one.openings[0] if one.openings else None
    superseded = [item for item in one.evidence if item.superseded_by]
    return {
        "slug": one.slug,
        "claim": one.claim,
        "standing": one.standing,
        "timing_alone": one.timing_alone,
        "id": opening.id if opening else None,
        "at": opening.event.at if opening else None,
        "actor": opening.event.actor if opening else None,
        "about": list(one.about),
        "also_claimed": [item.event.claim for item in one.openings[1:]],
        "supports": [evidence_json(item) for item in one.on("supports")],
        "contradicts": [evidence_json(item) for item in one.on("contradicts")],
        "superseded": [evidence_json(item) for item in superseded],
        "probes": [probe_json(item.id, item.event) for item in one.probes],
        "verdict": verdict_json(one.verdict) if one.verdict else None,
        "verdicts": [verdict_json(item) for item in one.verdicts],
    }


def evidence_json(item: Entered[EvidenceGiven]) -> dict[str, Any]:
    """One entry of evidence."""
    event = item.event
    return {
        "id": item.id,
        "at": event.at,
        "actor": event.actor,
        "side": event.side,
        "weight": event.weight,
        "text": event.text,
        "source": event.source,
        "rests_on": event.rests_on,
        "supersedes": event.supersedes,
        "superseded_by": item.superseded_by,
    }


def verdict_json(item: Entered[VerdictGiven]) -> dict[str, Any]:
    """One verdict."""
    event = item.event
    return {
        "id": item.id,
        "at": event.at,
        "actor": event.actor,
        "ruling": event.ruling,
        "because": event.because,
        "cause": event.cause or None,
        "supersedes": event.supersedes,
        "superseded_by": item.superseded_by,
    }


def probe_json(id_: EventId, event: Probed) -> dict[str, Any]:
    """One probe with its rounds."""
    return {
        "id": id_,
        "at": event.at,
        "actor": event.actor,
        "command": event.command,
        "asked": event.asked,
        "passes": event.passes,
        "runs": [run.plain() for run in event.runs],
    }


def phrase(event: Event) -> str:
    """What `log` says of an event of this topic."""
    match event:
        case HypothesisOpened(slug=slug, claim=claim):
            return f"{slug}: {claim}"
        case EvidenceGiven(hypothesis=slug, side=side, weight=weight, text=text):
            return f"{side} {slug}, {weight}: {text}"
        case Probed(hypothesis=slug, passes=passes, runs=runs, command=command):
            return f"{slug}: {passes} of {len(runs)} rounds pass: {command}"
        case Measured(runs=runs):
            return f"{len(runs)} runs: {', '.join(dict.fromkeys(f'{run.label} {run.arm}' for run in runs))}"
        case VerdictGiven(hypothesis=slug, ruling=ruling, because=because):
            return f"{slug} {ruling}: {because}"
        case DocumentChecked(document=document, stale=stale):
            lines = "1 line contradicts" if len(stale) == 1 else f"{len(stale)} lines contradict"
            return f"{document}: {lines} the record" if stale else f"{document}: agrees with the record"
        case DocumentCorrected(document=document, hypothesis=slug):
            return f"{document}: addendum on {slug}"
        case _:
            return ""
