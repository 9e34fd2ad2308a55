"""The fold of asking why: what stands for and against each hypothesis, and the verdict in effect. Pure.

Nothing is edited: an entry that is superseded stays, with the one that supersedes it.
"""

from __future__ import annotations

from typing import Generic, Literal, TypeVar

from msgspec import Struct, field

from knobledger.events.asking import (
    DocumentChecked,
    DocumentCorrected,
    EvidenceGiven,
    HypothesisOpened,
    Measured,
    Probed,
    Ruling,
    Side,
    VerdictGiven,
    Weight,
)
from knobledger.events.changes import Planned
from knobledger.events.entry import Event
from knobledger.names import EventId
from knobledger.plan import Finding

Standing = Literal["open"] | Ruling

WEIGHTS: tuple[Weight, ...] = ("timing", "observation", "experiment")
"""the weakest first"""

E = TypeVar("E", bound=Event)


class Entered(Generic[E], Struct):
    """An entry, and the later one that corrects it."""

    id: EventId
    event: E
    superseded_by: EventId | None = None


class Hypothesis(Struct):
    """All that is recorded under one slug. `openings` is empty where only older changes name it."""

    slug: str
    openings: list[Entered[HypothesisOpened]] = field(default_factory=list)
    """one, unless two clones opened it at the same time; the first is the claim"""
    evidence: list[Entered[EvidenceGiven]] = field(default_factory=list)
    probes: list[Entered[Probed]] = field(default_factory=list)
    verdicts: list[Entered[VerdictGiven]] = field(default_factory=list)

    @property
    def claim(self) -> str:
        """What is claimed; empty if nobody opened it."""
        return self.openings[0].event.claim if self.openings else ""

    @property
    def about(self) -> tuple[EventId, ...]:
        """The changes that are suspected."""
        return tuple(dict.fromkeys(id_ for opening in self.openings for id_ in opening.event.about))

    @property
    def verdict(self) -> Entered[VerdictGiven] | None:
        """The verdict in effect."""
        standing = [verdict for verdict in self.verdicts if verdict.superseded_by is None]
        return standing[-1] if standing else None

    @property
    def standing(self) -> Standing:
        """`open`, or the ruling in effect."""
        return self.verdict.event.ruling if self.verdict else "open"

    def on(self, side: Side) -> list[Entered[EvidenceGiven]]:
        """The evidence of one side that stands, strongest first, then oldest first."""
        found = [item for item in self.evidence if item.event.side == side and item.superseded_by is None]
        return sorted(found, key=lambda item: -WEIGHTS.index(item.event.weight))

    @property
    def moments(self) -> list[str]:
        """When something was said on it."""
        said: list[Event] = [item.event for item in self.openings]
        said += [item.event for item in self.evidence]
        said += [item.event for item in self.probes]
        said += [item.event for item in self.verdicts]
        return [event.at for event in said]

    @property
    def timing_alone(self) -> bool:
        """Something supports it, and all that does is that one thing came after another."""
        supports = self.on("supports")
        return bool(supports) and all(item.event.weight == "timing" for item in supports)


class Document(Struct):
    """A document that was compared with the record, or corrected."""

    path: str
    checks: list[Entered[DocumentChecked]] = field(default_factory=list)
    corrections: list[Entered[DocumentCorrected]] = field(default_factory=list)


class Asked(Struct):
    """Everything that follows from the events of this topic; `take` wants them in the ledger's order."""

    hypotheses: dict[str, Hypothesis] = field(default_factory=dict)
    documents: dict[str, Document] = field(default_factory=dict)
    measured: dict[EventId, list[Entered[Measured]]] = field(default_factory=dict)
    """benchmarks by the change that they are attached to"""
    suspecting: dict[EventId, set[str]] = field(default_factory=dict)
    """the hypotheses that are about a change"""

    def take(self, id_: EventId, event: Event) -> None:
        """Takes in the next event; one of another topic means nothing here."""
        match event:
            case HypothesisOpened():
                self._of(event.slug).openings.append(Entered(id_, event))
                for change in event.about:
                    self.suspecting.setdefault(change, set()).add(event.slug)
            case EvidenceGiven():
                _enter(self._of(event.hypothesis).evidence, Entered(id_, event), event.supersedes)
            case Probed():
                self._of(event.hypothesis).probes.append(Entered(id_, event))
            case Measured():
                self.measured.setdefault(event.change, []).append(Entered(id_, event))
            case VerdictGiven():
                _enter(self._of(event.hypothesis).verdicts, Entered(id_, event), event.supersedes)
            case DocumentChecked():
                self._document(event.document).checks.append(Entered(id_, event))
            case DocumentCorrected():
                self._document(event.document).corrections.append(Entered(id_, event))
            case _:
                pass

    def standing(self, slug: str) -> Standing:
        """Of a hypothesis that nobody opened, nothing is known: it is open."""
        found = self.hypotheses.get(slug)
        return found.standing if found else "open"

    def _of(self, slug: str) -> Hypothesis:
        return self.hypotheses.setdefault(slug, Hypothesis(slug))

    def _document(self, path: str) -> Document:
        return self.documents.setdefault(path, Document(path))


def _enter(entries: list[Entered[E]], new: Entered[E], supersedes: EventId | None) -> None:
    for item in entries:
        if item.id == supersedes:
            item.superseded_by = new.id
    entries.append(new)


def reason_of_its_own(asked: Asked, planned: Planned) -> str:
    """Why a change stays although a hypothesis that it was made under fell; empty: nothing else speaks for it.

    A fix stays. So does what stands on another hypothesis too, and what has a reason and is no mitigation.
    """
    others = [slug for slug in planned.hypotheses if asked.standing(slug) != "refuted"]
    if others:
        return f"made under {', '.join(others)} as well, which is {asked.standing(others[0])}"
    if planned.purpose == "fix":
        return f"a fix: {planned.why}" if planned.why else "a fix"
    if planned.why and planned.purpose != "mitigation":
        return f"has a reason of its own: {planned.why}"
    return ""


def finding(asked: Asked, planned: Planned, suspected_under: tuple[str, ...]) -> Finding | None:
    """What the verdicts mean for a change, by its own hypotheses or those it is suspected under.

    None where they mean nothing for it.
    """
    standings = [asked.standing(slug) for slug in planned.hypotheses]
    if not standings:
        suspicions = [asked.standing(slug) for slug in suspected_under]
        fell = suspicions and all(standing == "refuted" for standing in suspicions)
        return "wrongful suspect" if fell else None
    if "confirmed" in standings:
        return "justified"
    if "open" in standings:
        return "under test"
    if "inconclusive" in standings:
        return "unproven"
    return "justified" if reason_of_its_own(asked, planned) else "wrongful suspect"
