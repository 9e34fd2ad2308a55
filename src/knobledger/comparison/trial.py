"""One operating point: from its runs to numbers, and from numbers to a call."""

from __future__ import annotations

from collections.abc import Collection, Sequence
from math import exp, log, log1p
from statistics import fmean

from msgspec import Struct

from knobledger.comparison.groups import Group, confounds
from knobledger.comparison.values import Call, Cell, Side
from knobledger.comparison.welch import CONFIDENCE, Effect, effect, mean_interval, pooled, starts_needed
from knobledger.measured import Arm, Run

FEWEST = 3
"""starts an arm for a call"""
FEWEST_ALIKE = 5
"""starts with one same setting (A/A) from which a spread may be borrowed"""
_ALPHA = 1 - CONFIDENCE
_TIE = 1e-12
"""a change of exactly the margin reaches it, whatever the last bit of its logarithm"""


class Trial(Struct, frozen=True):
    """A group with its numbers, before the correction over all operating points."""

    group: Group
    baseline: Side
    variant: Side
    effect: Effect | None
    """None where nothing may be computed: invalid, or too few starts"""
    borrowed: int
    """starts alike whose spread was used; 0: the arms' own"""
    faults: tuple[str, ...]
    """why rule 2 (comparable runs, all requests completed) is broken"""
    notes: tuple[str, ...]
    confounds: tuple[str, ...]

    @property
    def change(self) -> float | None:
        """Of the value, on the log scale."""
        if self.baseline.value is None or self.variant.value is None:
            return None
        return log(self.variant.value / self.baseline.value)


def tried(group: Group, metric: str, margin: float, knobs: Collection[str], alike: Sequence[Run]) -> Trial:
    """The numbers of one operating point."""
    runs = (*group.baseline, *group.variant)
    faults = [*group.unequal, *_shared(group)]
    faults += [f"{run.source}:{run.line}: {fault}" for run in runs for fault in run.faults]
    for run in runs:
        value = run.number(metric)
        if value == "unbounded" or (isinstance(value, float) and value <= 0):
            faults.append(f"{run.source}:{run.line}: {metric} is {value}")
    sides = {"baseline": _side(group.baseline, metric), "variant": _side(group.variant, metric)}
    notes = [note for arm, side in sides.items() for note in _notes(arm, side, getattr(group, arm), metric)]
    baseline, variant = sides["baseline"], sides["variant"]
    found, borrowed = None, 0
    if not faults and min(baseline.n, variant.n) >= FEWEST:
        found = effect(_logs(baseline), _logs(variant), log1p(margin))
    elif not faults and min(baseline.n, variant.n) >= 1:
        found, borrowed = _borrowed(group, baseline, variant, metric, margin, alike)
    return Trial(
        group, baseline, variant, found, borrowed, tuple(faults), tuple(notes), confounds(group, knobs)
    )


def called(
    trial: Trial, better: int, margin: float, adjusted: tuple[float, float] | None, points: int
) -> Cell:
    """The call. `better` is 1 or -1 (latency); `adjusted` are Holm's p-values over `points` operating points."""
    call, reasons, needed = _call(trial, better, margin, adjusted, points)
    change = trial.change
    if trial.effect is None:
        interval = None
    else:
        low, high = trial.effect.interval(CONFIDENCE)
        interval = (percent(low), percent(high))
    return Cell(
        label=trial.group.label,
        settings=trial.group.settings,
        load=trial.group.load,
        baseline=trial.baseline,
        variant=trial.variant,
        call=call,
        change_pct=None if change is None else percent(change),
        interval_pct=interval,
        reasons=(*reasons, *trial.notes),
        confounds=trial.confounds,
        needed=needed,
    )


def percent(logarithm: float) -> float:
    """A difference of logarithms as a change in percent."""
    return (exp(logarithm) - 1) * 100


def _call(
    trial: Trial, better: int, margin: float, adjusted: tuple[float, float] | None, points: int
) -> tuple[Call, tuple[str, ...], int | None]:
    if trial.faults:
        return "invalid", trial.faults, None
    counts = f"{_starts(trial.baseline.n)} of the baseline and {trial.variant.n} of the variant"
    too_few = f"{counts}: a call takes {FEWEST} of each"
    if trial.effect is None or adjusted is None:
        return "not enough data", (too_few,), FEWEST
    found, (p_differ, p_flat) = trial.effect, adjusted
    way = "gain" if found.estimate * better > 0 else "loss"
    reaches = abs(found.estimate) >= log1p(margin) - _TIE
    low, high = (f"{percent(bound):+.1f} %" for bound in found.interval(CONFIDENCE))
    within = f"the 95 % interval, {low} to {high},"
    limit = f"the margin of {margin * 100:g} %"
    if trial.borrowed:
        spread = f"by the spread of {trial.borrowed} starts alike"
        if p_differ < _ALPHA and reaches:
            suggestive: Call = "suggestive gain" if way == "gain" else "suggestive loss"
            return suggestive, (f"{within} excludes 0 {spread}", too_few), FEWEST
        return "not enough data", (too_few, f"nothing to suggest {spread}: {low} to {high}"), FEWEST
    if p_differ < _ALPHA and reaches:
        sure: Call = "gain" if way == "gain" else "loss"
        return sure, (f"{within} excludes 0 and the change is at least {limit}",), None
    if p_flat < _ALPHA:
        inner = " to ".join(f"{percent(bound):+.1f} %" for bound in found.interval(2 * CONFIDENCE - 1))
        return "flat", (f"the 90 % interval, {inner}, lies inside {limit}",), None
    return _open(trial, found, p_differ, within, limit, reaches, margin, points)


def _open(
    trial: Trial,
    found: Effect,
    p_differ: float,
    within: str,
    limit: str,
    reaches: bool,
    margin: float,
    points: int,
) -> tuple[Call, tuple[str, ...], int | None]:
    needed = starts_needed(_logs(trial.baseline), _logs(trial.variant), log1p(margin))
    more = f"about {needed} starts an arm" if needed else "more than 1000 starts an arm"
    if found.p_differ < _ALPHA <= p_differ:
        why = f"{within} excludes 0 by itself, but not after Holm's correction for {points} operating points"
    elif found.p_differ < _ALPHA and not reaches:
        why = f"{within} excludes 0, but the change is below {limit} and not surely inside it"
    else:
        why = f"{within} holds 0 and reaches beyond {limit}"
    return "inconclusive", (why, f"it would take {more}, if change and spread stay as they are"), needed


def _side(runs: Sequence[Run], metric: str) -> Side:
    """One arm: geometric means, of each start's runs and then of the starts."""
    values: dict[str, list[float]] = {}
    for run in runs:
        value = run.number(metric)
        if isinstance(value, float) and value > 0:
            values.setdefault(run.start, []).append(value)
    starts = tuple((start, _geometric(of_start)) for start, of_start in sorted(values.items()))
    if not starts:
        return Side(None, (), 0)
    count = sum(map(len, values.values()))
    bounds: tuple[float | None, float | None] = (None, None)
    if len(starts) >= FEWEST:
        low, high = mean_interval([log(value) for _, value in starts])
        bounds = exp(low), exp(high)
    return Side(_geometric([value for _, value in starts]), starts, count, *bounds)


def _geometric(values: Sequence[float]) -> float:
    """The geometric mean; of equal values exactly that value."""
    return values[0] if len(set(values)) == 1 else exp(fmean(map(log, values)))


def _logs(side: Side) -> list[float]:
    return [log(value) for _, value in side.starts]


def _borrowed(
    group: Group, baseline: Side, variant: Side, metric: str, margin: float, alike: Sequence[Run]
) -> tuple[Effect | None, int]:
    """The effect by the spread of starts alike: those given, and an arm's own where it has several."""
    own = {run.digest for run in (*group.baseline, *group.variant)}
    conditions = dict((*group.baseline, *group.variant)[0].conditions)
    fitting = [
        run
        for run in alike
        if run.label == group.label
        and run.digest not in own
        and not run.faults
        and all(conditions.get(key, value) == value for key, value in run.conditions)
    ]
    sides = [side for side in (baseline, variant, _side(fitting, metric)) if side.n >= 2]
    known = pooled([_logs(side) for side in sides])
    if known is None or max(side.n for side in sides) < FEWEST_ALIKE:
        return None, 0
    return effect(_logs(baseline), _logs(variant), log1p(margin), known=known), sum(side.n for side in sides)


def _shared(group: Group) -> list[str]:
    """What can't be in both arms: one run, or one start, since a knob is read when the process starts."""
    before, after = ({run.digest: run for run in side} for side in (group.baseline, group.variant))
    found = [f"{run.source}:{run.line} is in both arms" for digest, run in before.items() if digest in after]
    given = [
        {run.start for run in side if run.start_from == "given"} for side in (group.baseline, group.variant)
    ]
    return found + [f"start {start!r} is in both arms" for start in sorted(given[0] & given[1])]


def _notes(arm: Arm | str, side: Side, runs: Sequence[Run], metric: str) -> list[str]:
    found = []
    lacking = sum(run.number(metric) is None for run in runs)
    if lacking:
        found.append(f"{lacking} of {len(runs)} runs of the {arm} have no {metric}")
    if side.runs > side.n:
        unnamed = any(run.start_from == "file" for run in runs)
        hint = "; name distinct starts with `--start`" if unnamed else ""
        found.append(f"{side.runs} runs of the {arm} on {_starts(side.n)} count as {side.n}{hint}")
    return found


def _starts(n: int) -> str:
    return f"{n} start" if n == 1 else f"{n} starts"
