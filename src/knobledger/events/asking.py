"""Events of asking why: hypotheses, what speaks for and against them, verdicts, and documents that are put right."""

from __future__ import annotations

from typing import Literal

from knobledger.events.entry import Event
from knobledger.measured import Run
from knobledger.names import Digest, EventId
from knobledger.receipt import Frozen

Side = Literal["supports", "contradicts"]
Weight = Literal["timing", "observation", "experiment"]
Ruling = Literal["confirmed", "refuted", "inconclusive"]
Outcome = Literal["pass", "fail"]


class HypothesisOpened(Event):
    """A claim about a cause, under a name of its own."""

    kind: Literal["hypothesis_opened"] = "hypothesis_opened"
    slug: str
    claim: str
    about: tuple[EventId, ...] = ()
    """the changes that are suspected"""


class EvidenceGiven(Event):
    """What speaks for or against a hypothesis. A later entry may supersede it; both stay."""

    kind: Literal["evidence_given"] = "evidence_given"
    hypothesis: str
    side: Side
    text: str
    weight: Weight
    source: str = ""
    """where it comes from: `by hand`, or the kind of entry that it rests on"""
    rests_on: EventId | None = None
    supersedes: EventId | None = None
    """earlier evidence that this entry corrects"""


class ProbeRun(Frozen):
    """One round of a reproducer."""

    exit: int | None
    """None: it was stopped because its time was up"""
    seconds: float
    output: str
    """the end of what it printed, both streams as they came, secrets masked"""


class Probed(Event):
    """A reproducer that was run here, so many times."""

    kind: Literal["probed"] = "probed"
    hypothesis: str
    command: str
    """as one would type it, secrets masked"""
    asked: int
    """how many rounds were asked for; fewer runs: it was interrupted"""
    runs: tuple[ProbeRun, ...]
    passes: int
    supports_if: Outcome | None = None
    """all rounds passed, or one failed: which of the two supports the hypothesis"""
    contradicts_if: Outcome | None = None


class Measured(Event):
    """Benchmark runs of a change: some without it, some with it."""

    kind: Literal["measured"] = "measured"
    change: EventId
    runs: tuple[Run, ...]


class VerdictGiven(Event):
    """What was found of a hypothesis. A later verdict supersedes it; both stay."""

    kind: Literal["verdict_given"] = "verdict_given"
    hypothesis: str
    ruling: Ruling
    because: str
    cause: str = ""
    """the true cause, where it is known"""
    supersedes: EventId | None = None


class StaleLine(Frozen):
    """A line of a document that contradicts the record."""

    line: int
    """from 1"""
    text: str
    """secrets masked"""
    why: str
    hypothesis: str | None = None


class DocumentChecked(Event):
    """What a document on this machine said when it was compared with the record."""

    kind: Literal["document_checked"] = "document_checked"
    document: str
    """relative to the workspace, where it lies inside or beside it; else absolute"""
    digest: Digest
    stale: tuple[StaleLine, ...] = ()
    """empty: nothing contradicts any more"""


class DocumentCorrected(Event):
    """An addendum that was appended to a document; its author's text is untouched above it."""

    kind: Literal["document_corrected"] = "document_corrected"
    document: str
    hypothesis: str
    verdict: EventId
    before: Digest
    after: Digest
    commit: str = ""
    """the git commit of that one file; empty: none was made"""
