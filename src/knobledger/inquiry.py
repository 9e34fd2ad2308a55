"""What follows from asking why: objections to a plan, the sweep of a verdict, what can be clawed back. Pure.

Findings, objections and rankings are derived from the state anew each time; none of them is stored.
"""

from __future__ import annotations

from collections.abc import Container, Iterable
from datetime import UTC, datetime
from typing import Literal

from msgspec import Struct
from msgspec.structs import replace

from knobledger.comparison import Comparison, Live, compare
from knobledger.documents import Case
from knobledger.events.asking import EvidenceGiven, VerdictGiven
from knobledger.events.serving import ServiceRestarted
from knobledger.folds.asking import Entered, Hypothesis, reason_of_its_own
from knobledger.measured import Arm, Run, better
from knobledger.names import EventId, TargetName
from knobledger.plan import Finding
from knobledger.state import State

Restorable = Literal["clean", "later edits", "conflict", "restored", "host unknown"]

_STRENGTH: dict[str, int] = {"gain": 3, "suggestive gain": 2, "inconclusive": 1, "not enough data": 1}


class Objection(Struct, frozen=True):
    """One thing that speaks against taking something away under a hypothesis."""

    hypothesis: str
    entry: EventId
    weight: str
    """`verdict`, else the weight of the evidence"""
    text: str
    at: str
    actor: str


def objections(state: State, slugs: Iterable[str]) -> list[Objection]:
    """What contradicts these hypotheses, strongest first: a verdict that refutes one, then evidence by weight."""
    found: list[Objection] = []
    for slug in dict.fromkeys(slugs):
        hypothesis = state.asked.hypotheses.get(slug)
        if hypothesis is None:
            continue
        verdict = hypothesis.verdict
        if verdict and verdict.event.ruling == "refuted":
            found.append(_objection(slug, verdict, "verdict", f"refuted: {verdict.event.because}"))
        found += [_objection(slug, e, e.event.weight, e.event.text) for e in hypothesis.on("contradicts")]
    order = ("verdict", "experiment", "observation", "timing")
    return sorted(found, key=lambda item: order.index(item.weight))


def _objection(
    slug: str, entry: Entered[EvidenceGiven] | Entered[VerdictGiven], weight: str, text: str
) -> Objection:
    return Objection(slug, entry.id, weight, text, entry.event.at, entry.event.actor)


def turns_back(state: State, target: TargetName, knob: str, value: str | None) -> bool:
    """Whether giving a knob this value (None: taking it out) undoes its newest recorded edit."""
    current = next((e for e in reversed(state.edits.get((target, knob), [])) if e.fate == "in effect"), None)
    return value is None or (current is not None and not current.observed and current.edit.before == value)


class Swept(Struct, frozen=True):
    """A change that a verdict touches."""

    change: EventId
    finding: Finding | None
    made_under: bool
    """False: it is only suspected"""
    stays_because: str
    """why it stays although the hypothesis fell; empty where it did not fall, or nothing else speaks for it"""


def sweep(state: State, slug: str) -> tuple[Swept, ...]:
    """Every change made under a hypothesis or suspected under it, oldest first, with its finding."""
    found = []
    for change in state.changes:
        planned = state.plans[change].planned
        made = slug in planned.hypotheses
        if made or slug in state.suspected_under(change):
            fell = made and state.asked.standing(slug) == "refuted"
            why = reason_of_its_own(state.asked, planned) if fell else ""
            found.append(Swept(change, state.finding(change), made, why))
    return tuple(found)


def wrongful(state: State) -> list[EventId]:
    """The changes that only a refuted hypothesis spoke for, oldest first; whatever had been done before them.

    What makes one of them good again is none of them, even under the same hypothesis.
    """
    found: dict[EventId, None] = {}
    for change in state.changes:
        fell = state.plans[change].planned.hypotheses and state.finding(change) == "wrongful suspect"
        if fell and not _makes_good(state, change, found):
            found[change] = None
    return list(found)


def _makes_good(state: State, change: EventId, wrong: Container[EventId]) -> bool:
    """It undoes a wrongful change: it says so, or leads each of its knobs back to the value from before one."""
    edits = state.edits_of(change)
    return state.named_undone(change) in wrong or (
        bool(edits) and all(edit.leads_back and edit.undoes and edit.undoes.event in wrong for edit in edits)
    )


class Kept(Struct, frozen=True):
    """A change that stays, and why."""

    change: EventId
    why: str


def kept(state: State) -> list[Kept]:
    """The changes that are in effect and stay although they were made under, or beside, a hypothesis that fell.

    Beside: a fix on a target of the same services, made while the wrongful change was in the file or since the suspect came.
    """
    fell = {s for s, one in state.asked.hypotheses.items() if one.standing == "refuted"}
    if not fell:
        return []
    begun = min((begun_at(state, state.asked.hypotheses[slug]) for slug in fell), default="")
    found = []
    for change in state.changes:
        planned = state.plans[change].planned
        if state.fate(change)[0] != "in effect":
            continue
        under = fell & set(planned.hypotheses)
        beside = planned.purpose == "fix" and state.applied_at[change] >= begun
        if (under or beside) and (why := reason_of_its_own(state.asked, planned)):
            found.append(Kept(change, why))
    return found


def begun_at(state: State, hypothesis: Hypothesis) -> str:
    """When the story of a hypothesis begins: with the first change that it is about, or with itself."""
    moments = [state.applied_at[c] for c in state.changes if hypothesis.slug in state.suspected_under(c)]
    return min([*moments, *hypothesis.moments], default="")


def original(state: State, change: EventId) -> EventId | None:
    """The change, or the edit by hand, whose worth a revert took away. None where the ledger has none."""
    undone = [edit.undoes.event for edit in state.edits_of(change) if edit.undoes]
    named = state.named_undone(change)
    return undone[0] if undone else named if named in state.plans else None


def cases(state: State) -> tuple[Case, ...]:
    """The hypotheses that were judged, as far as a document can be wrong about them."""
    found = []
    for slug, one in state.asked.hypotheses.items():
        if one.verdict is None:
            continue
        wrong = [item.change for item in sweep(state, slug) if item.finding == "wrongful suspect"]
        knobs = dict.fromkeys(edit.edit.name for change in wrong for edit in state.edits_of(change))
        refuted = one.verdict.event.ruling == "refuted"
        found.append(Case(slug, one.verdict.id, refuted, one.verdict.event.cause, tuple(knobs), tuple(wrong)))
    return tuple(found)


def runs_of(state: State, change: EventId) -> tuple[Run, ...]:
    """The benchmark runs that tell what a change is worth, oldest first: its own, and those of its reverts.

    Without the revert is with the change, so the arms of a revert's runs are exchanged.
    """
    found: list[Run] = []
    for about, entries in state.asked.measured.items():
        own = about == change or (about in state.plans and origin(state, about) == change)
        turned = own and state.takes_back(about) != state.takes_back(change)
        for run in (run for entry in entries if own for run in entry.event.runs):
            arm: Arm = "variant" if run.arm == "baseline" else "baseline"
            found.append(run.but(arm=arm) if turned else run)
    return tuple(found)


def origin(state: State, change: EventId) -> EventId:
    """The change at the bottom of reverts and restores."""
    below = original(state, change)
    return change if below is None else origin(state, below)


def live_spans(state: State, change: EventId) -> list[Live] | None:
    """When a process ran with a change's value, by the recorded restarts of its service; None where none is recorded.

    A process reads its file once, when it starts: a span begins with a restart while the value is in the file, and
    ends with a restart while it is not.
    """
    edits = state.edits_of(change)
    if not edits:
        return None
    first = edits[0]
    service = first.target.partition(":")[0]
    history = state.edits[(first.target, first.edit.name)]
    later = history[history.index(first) :]
    restarts = [
        (_began(event), event.at)
        for event in state.events.values()
        if isinstance(event, ServiceRestarted) and event.service == service and event.after
    ]
    found: list[Live] = []
    for began, at in restarts:
        held = [edit.edit.after == first.edit.after for edit in later if edit.at <= at]
        running = bool(found) and found[-1].until is None
        if held and held[-1] and not running:
            found.append(Live(began))
        elif running and not (held and held[-1]):
            found[-1] = replace(found[-1], until=began)
    return found if restarts else None


def _began(event: ServiceRestarted) -> datetime:
    """When the new process started, by its host's clock."""
    return datetime.fromtimestamp(event.after[0].started, UTC)


def comparison_of(state: State, change: EventId, metric: str | None = None) -> Comparison:
    """Both arms of a change; by the first metric that its runs have, unless one is named. Raises `Usage`."""
    runs = runs_of(state, change)
    names = {measure.name for run in runs for measure in run.measures if better(measure.name)}
    usual = [name for name in ("output_throughput", "total_throughput", *sorted(names)) if name in names]
    knobs = {edit.edit.name for edit in state.edits_of(change)}
    return compare(
        runs,
        metric=metric or (usual or ["output_throughput"])[0],
        knobs=knobs,
        live=live_spans(state, change),
    )


def value(comparison: Comparison | None) -> tuple[int, float]:
    """By what clawback ranks: the strongest call among the improvements, then the largest one with that call."""
    best = (0, 0.0)
    for cell in comparison.cells if comparison else ():
        if cell.change_pct is not None and comparison:
            better_by = cell.change_pct if comparison.better == "higher" else -cell.change_pct
            if better_by > 0:
                best = max(best, (_STRENGTH.get(cell.call, 0), better_by))
    return best
