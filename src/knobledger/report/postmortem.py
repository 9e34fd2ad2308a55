"""The post-mortem: from the ledger alone, what was believed when, why it was wrong, and what it cost.

`facts` are what the templates `postmortem.md.j2` and `postmortem.html.j2` are given. Nothing hangs on the present: the
same ledger gives the same bytes. Where something still lasts, it is counted up to the last entry.
"""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from typing import Any

from msgspec import Struct

from knobledger.comparison import Cell, Comparison
from knobledger.event import moment_of
from knobledger.events.changes import Observed
from knobledger.events.notes import Noted
from knobledger.folds.asking import Hypothesis
from knobledger.inquiry import begun_at, comparison_of, kept, original, sweep, value, wrongful
from knobledger.names import EventId, TargetName, short
from knobledger.report.benches import change_text, interval_text, value_text
from knobledger.report.changes import change_line, observed_line
from knobledger.report.postmortem_timeline import story, when
from knobledger.report.terminal import edit_text, length
from knobledger.state import State


class Scope(Struct, frozen=True):
    """What a post-mortem is about."""

    hypotheses: tuple[Hypothesis, ...]
    start: str
    """as events write moments; entries before it are left out"""
    end: str
    """of the last entry"""
    targets: frozenset[TargetName]
    zone: str


def scope_of(state: State, slug: str | None, start: str | None, zone: str) -> Scope:
    """All hypotheses or one, from the moment at which the story begins unless another is given."""
    known = state.asked.hypotheses.values()
    chosen = tuple(one for one in known if slug in (None, one.slug))
    begun = min((begun_at(state, one) for one in chosen), default="")
    events = state.events.values()
    end = max((event.at for event in events), default="")
    first = start or begun or min((event.at for event in events), default="")
    changes = [item.change for one in chosen for item in sweep(state, one.slug)]
    targets = frozenset(target for change in changes for target in change_line(state, change).targets)
    return Scope(chosen, first, end, targets, zone)


def facts(state: State, scope: Scope) -> dict[str, Any]:
    """Everything that a post-mortem tells, as plain values for templates."""
    slugs = {one.slug for one in scope.hypotheses}
    costs = [
        _cost(state, scope, change)
        for change in wrongful(state)
        if slugs & set(state.plans[change].planned.hypotheses)
    ]
    beliefs = [_belief(state, scope, one) for one in scope.hypotheses]
    return {
        "title": _title(scope),
        "zone": scope.zone,
        "begun": when(scope.start, scope.zone),
        "as_of": when(scope.end, scope.zone),
        "summary": list(_summary(state, scope, costs)),
        "timeline": list(story(state, scope.start, scope.zone, slugs, scope.targets)),
        "beliefs": beliefs,
        "costs": costs,
        "kept": [
            {**_changed(state, scope, item.change), "why": item.why}
            for item in kept(state)
            if state.applied_at[item.change] >= scope.start
        ],
        "owed": list(_owed(state, scope, costs)),
        "open": [belief for belief in beliefs if belief["standing"] == "open"],
        "documents": list(_documents(state, scope)),
    }


def comparisons(state: State, scope: Scope) -> list[tuple[EventId, Comparison]]:
    """What was measured of each change that was wrongly taken away, as often as it was; for the plots."""
    slugs = {one.slug for one in scope.hypotheses}
    found: dict[EventId, Comparison] = {}
    for change in wrongful(state):
        if slugs & set(state.plans[change].planned.hypotheses):
            about = original(state, change) or change
            comparison = comparison_of(state, about) if state.asked.measured else None
            if comparison and comparison.cells:
                found[about] = comparison
    return list(found.items())


def _title(scope: Scope) -> str:
    if len(scope.hypotheses) == 1:
        one = scope.hypotheses[0]
        return f"Post-mortem: “{one.claim or one.slug}”"
    return "Post-mortem"


def _changed(state: State, scope: Scope, change: EventId) -> dict[str, Any]:
    event = state.events[change]
    seen = isinstance(event, Observed)
    line = observed_line(state, change, event) if isinstance(event, Observed) else change_line(state, change)
    return {
        "id": change,
        "short": short(change),
        "targets": ", ".join(line.targets),
        "what": "; ".join(map(edit_text, line.edits)) or "lines that hold no knob",
        "verb": line.verb,
        "kind": line.kind,
        "why_made": line.why,
        "actor": "by hand"
        if seen
        else f"{line.actor} for {line.on_behalf_of}"
        if line.on_behalf_of
        else line.actor,
        "at": when(line.at, scope.zone),
        "status": line.status,
        "finding": line.finding or "",
        "despite": "" if seen else state.plans[change].planned.despite,
    }


def _cost(state: State, scope: Scope, change: EventId) -> dict[str, Any]:
    """What a wrongful change took: for how long, and how much at each operating point."""
    line = change_line(state, change)
    took = original(state, change)
    back = line.by if line.status == "reverted" else None
    until = state.applied_at[back] if back and back in state.applied_at else None
    gone_s = (moment_of(until or scope.end) - moment_of(line.at)).total_seconds()
    comparison = comparison_of(state, took or change) if state.asked.measured else None
    return {
        **_changed(state, scope, change),
        "took": _changed(state, scope, took) if took else None,
        "from": when(line.at, scope.zone),
        "until": when(until, scope.zone) if until else None,
        "gone": length(gone_s),
        "lost": " and ".join(
            f"{edit.name} without a value" if edit.before is None else f"{edit.name} = {edit.before or 'set'}"
            for edit in line.edits
        )
        or f"what {short(change)} took",
        "back": _changed(state, scope, back) if back and back in state.plans else None,
        "metric": comparison.metric if comparison else "",
        "unit": comparison.unit if comparison else "",
        "cells": [_cell(cell) for cell in comparison.cells] if comparison else [],
        "dips": [str(dip) for dip in comparison.dips] if comparison else [],
        "best_pct": value(comparison)[1],
        "notes": [
            event.text
            for event in state.events.values()
            if isinstance(event, Noted) and event.about in {change, took}
        ],
    }


def _cell(cell: Cell) -> dict[str, Any]:
    return {
        "at": cell.name,
        "baseline": value_text(cell.baseline.value),
        "variant": value_text(cell.variant.value),
        "change": change_text(cell),
        "interval": interval_text(cell),
        "n": f"{cell.baseline.n} / {cell.variant.n}",
        "call": cell.call,
    }


def _belief(state: State, scope: Scope, one: Hypothesis) -> dict[str, Any]:
    """A hypothesis: both sides with their weight and time, verdicts, and what was known when something was done."""
    verdict = one.verdict
    return {
        "slug": one.slug,
        "claim": one.claim or one.slug,
        "standing": one.standing,
        "timing_alone": one.timing_alone,
        "opened": when(one.openings[0].event.at, scope.zone) if one.openings else None,
        "opened_by": one.openings[0].event.actor if one.openings else "",
        "supports": [_evidence(scope, item.event, item.id) for item in one.on("supports")],
        "contradicts": [_evidence(scope, item.event, item.id) for item in one.on("contradicts")],
        "superseded": [
            {**_evidence(scope, item.event, item.id), "by": short(item.superseded_by)}
            for item in one.evidence
            if item.superseded_by
        ],
        "verdicts": [
            {
                "ruling": item.event.ruling,
                "because": item.event.because,
                "cause": item.event.cause,
                "at": when(item.event.at, scope.zone),
                "actor": item.event.actor,
                "superseded_by": short(item.superseded_by) if item.superseded_by else "",
            }
            for item in one.verdicts
        ],
        "because": verdict.event.because if verdict else "",
        "cause": verdict.event.cause if verdict else "",
        "moments": [
            {
                **_changed(state, scope, item.change),
                "known": known_at(one, state.plans[item.change].planned.at),
                "stays_because": item.stays_because,
            }
            for item in sweep(state, one.slug)
            if item.made_under
        ],
    }


def _evidence(scope: Scope, event: Any, id_: EventId) -> dict[str, Any]:
    return {
        "id": short(id_),
        "text": event.text,
        "weight": event.weight,
        "source": event.source.replace("_", " "),
        "at": when(event.at, scope.zone),
        "actor": event.actor,
    }


def known_at(one: Hypothesis, at: str) -> str:
    """What the ledger held on a hypothesis at a moment, in a phrase."""
    said = [item.event for item in one.evidence if item.event.at <= at]
    sides = {side: [e for e in said if e.side == side] for side in ("supports", "contradicts")}
    if not said:
        return "nothing had been written down for it or against it"
    timing = sides["supports"] and all(event.weight == "timing" for event in sides["supports"])
    alone = " (timing alone)" if timing else ""
    return f"{len(sides['supports'])} for it{alone} and {len(sides['contradicts'])} against it had been written down"


def _summary(state: State, scope: Scope, costs: Sequence[dict[str, Any]]) -> Iterator[str]:
    """The story in a few sentences, each of them from the ledger."""
    for cost in costs:
        took, slugs = cost["took"], state.plans[cost["id"]].planned.hypotheses
        if took:
            why = f" ({took['why_made']})" if took["why_made"] else ""
            yield f"{took['at']['text']}: {took['targets']}, {took['what']}{why}."
        claims = " and ".join(f"“{state.asked.hypotheses[slug].claim or slug}”" for slug in slugs)
        known = known_at(state.asked.hypotheses[slugs[0]], state.plans[cost["id"]].planned.at)
        yield (
            f"{cost['at']['text']}: {cost['targets']}, {cost['what']}, under the hypothesis {claims}. "
            f"At that moment {known}."
        )
    for one in scope.hypotheses:
        verdict = one.verdict
        against = [f"{item.event.text} ({item.event.weight})" for item in one.on("contradicts")]
        if against:
            yield f"What contradicts that, strongest first: {'; '.join(against)}."
        if verdict:
            cause = f" The true cause: {verdict.event.cause}." if verdict.event.cause else ""
            at = when(verdict.event.at, scope.zone)["text"]
            yield f"{at}: the hypothesis was {verdict.event.ruling}: {verdict.event.because}.{cause}"
    for cost in costs:
        best = max(cost["cells"], key=lambda cell: _percent(cell["change"]), default=None)
        worth = (
            f" It was worth up to {best['change']} ({best['at']}, {best['call']})."
            if cost["best_pct"] and best
            else ""
        )
        end = f"It is back since {cost['until']['text']}." if cost["until"] else "It is not back yet."
        yield f"{cost['lost']} was wrongly away for {cost['gone']}.{worth} {end}"
    if not scope.hypotheses:
        yield "No hypothesis was opened."


def _percent(text: str) -> float:
    return float(text.rstrip(" %")) if text[:1] in "+-" else 0.0


def _owed(state: State, scope: Scope, costs: Sequence[dict[str, Any]]) -> Iterator[str]:
    """What is still to be done, each with the command to type."""
    for cost in costs:
        if not cost["until"]:
            takes = state.takes_back(cost["id"])
            still, verb = ("away", "restore") if takes else ("so", "revert")
            yield f"{cost['targets']}: {cost['what']} is still {still}: `knob {verb} {cost['short']}`"
    hosts = {target.partition("/")[0] for target in scope.targets}
    for owed in state.serving.owed.values():
        if not hosts or owed.target.partition("/")[0] in hosts:
            since = f" since {when(owed.since, scope.zone)['text']}" if owed.since else ""
            yield f"{owed.target}: a restart is owed{since}: `knob restart {owed.service}`"
    for chain in state.serving.in_the_middle():
        yield f"restart {short(chain.id)} of {', '.join(chain.services)} was left in the middle: `knob recover`"
    for document in _documents(state, scope):
        if document["stale"]:
            name = document["name"]
            yield f"{name} contradicts the record ({len(document['stale'])} of its lines): `knob docs stale {name}`"
    for attempt in state.in_doubt():
        yield f"{short(attempt.started.plan)} on {attempt.started.target} is in doubt: `knob recover`"
    for one in scope.hypotheses:
        if one.standing == "open":
            yield f"the hypothesis {one.slug} has no verdict: `knob verdict {one.slug} RULING --because TEXT`"


def _documents(state: State, scope: Scope) -> Iterator[dict[str, Any]]:
    """Documents that were compared with the record or corrected, as they stood at the last look."""
    for name, document in sorted(state.asked.documents.items()):
        last = document.checks[-1].event if document.checks else None
        yield {
            "name": name,
            "stale": [{"line": item.line, "why": item.why} for item in last.stale] if last else [],
            "corrected": [
                {
                    "at": when(item.event.at, scope.zone),
                    "hypothesis": item.event.hypothesis,
                    "actor": item.event.actor,
                }
                for item in document.corrections
            ],
        }
