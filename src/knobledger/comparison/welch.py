"""Welch's interval on the difference of log means, two one-sided tests for "flat", Holm over several.

Only `scipy.special` is imported, and only when something is computed: `scipy.stats` costs a command another
second and gives the same numbers (the tests compare them).
"""

from __future__ import annotations

from bisect import bisect_left
from collections.abc import Sequence
from math import hypot, sqrt
from statistics import fmean, variance

from msgspec import Struct

CONFIDENCE = 0.95
POWER = 0.8
"""the chance to get a call that `starts_needed` aims at"""
MOST_STARTS = 1000
"""more than so many are not counted out"""


class Effect(Struct, frozen=True):
    """The difference of two arms, on the log scale."""

    estimate: float
    error: float
    """standard error"""
    freedom: float
    """degrees of freedom"""
    p_differ: float
    """two-sided, of no difference"""
    p_flat: float
    """the larger of two one-sided tests, of a difference as large as the margin"""

    def interval(self, confidence: float) -> tuple[float, float]:
        """The two-sided interval of the difference."""
        half = quantile(0.5 + confidence / 2, self.freedom) * self.error
        return self.estimate - half, self.estimate + half


def effect(
    baseline: Sequence[float],
    variant: Sequence[float],
    margin: float,
    *,
    known: tuple[float, float] | None = None,
) -> Effect:
    """Welch's t for `variant - baseline`, all on the log scale, one value per start.

    `known` is (spread, degrees of freedom) from other starts alike, for arms too small to have one of their own.
    Degrees of freedom by Welch and Satterthwaite.
    """
    sizes = len(baseline), len(variant)
    if known is not None:
        spread, freedom = known
        error = spread * sqrt(1 / sizes[0] + 1 / sizes[1])
    else:
        parts = variance(baseline) / sizes[0], variance(variant) / sizes[1]
        error = sqrt(sum(parts))
        weights = sum(part**2 / (size - 1) for part, size in zip(parts, sizes, strict=True))
        freedom = sum(parts) ** 2 / weights if weights else float(sum(sizes) - 2)
    estimate = fmean(variant) - fmean(baseline)
    return Effect(
        estimate,
        error,
        freedom,
        p_differ=2 * _tail(abs(estimate), error, freedom),
        p_flat=_tail(margin - abs(estimate), error, freedom),
    )


def mean_interval(values: Sequence[float], confidence: float = CONFIDENCE) -> tuple[float, float]:
    """The t interval of one arm's mean; at least two values."""
    centre, error = fmean(values), sqrt(variance(values) / len(values))
    half = quantile(0.5 + confidence / 2, len(values) - 1) * error
    return centre - half, centre + half


def pooled(groups: Sequence[Sequence[float]]) -> tuple[float, float] | None:
    """(spread, degrees of freedom) of several groups of starts alike; None if no group has two."""
    able = [group for group in groups if len(group) >= 2]
    freedom = sum(len(group) - 1 for group in able)
    if not freedom:
        return None
    return sqrt(sum(variance(group) * (len(group) - 1) for group in able) / freedom), float(freedom)


def holm(p_values: Sequence[float]) -> tuple[float, ...]:
    """Holm's adjusted p-values, in the given order (Holm 1979)."""
    adjusted = [0.0] * len(p_values)
    worst = 0.0
    for rank, index in enumerate(sorted(range(len(p_values)), key=p_values.__getitem__)):
        worst = max(worst, min(1.0, (len(p_values) - rank) * p_values[index]))
        adjusted[index] = worst
    return tuple(adjusted)


def starts_needed(baseline: Sequence[float], variant: Sequence[float], margin: float) -> int | None:
    """Starts an arm that give a call with a chance of 0.8, if estimate and spread stay as they are.

    A gain or loss where the estimate reaches the margin, else flat. None if more than `MOST_STARTS`.
    """
    distance = abs(fmean(variant) - fmean(baseline))
    spread = hypot(sqrt(variance(baseline)), sqrt(variance(variant)))
    reach, one_sided = (distance, 0.975) if distance >= margin else (margin - distance, 0.95)

    def enough(starts: int) -> bool:
        freedom = 2.0 * (starts - 1)
        needed = quantile(one_sided, freedom) + quantile(POWER, freedom)
        return reach >= needed * spread / sqrt(starts)

    candidates = range(max(3, len(baseline), len(variant)), MOST_STARTS + 1)
    first = bisect_left(candidates, True, key=enough)
    return candidates[first] if first < len(candidates) else None


def quantile(p: float, freedom: float) -> float:
    """Of Student's t."""
    from scipy.special import stdtrit

    return float(stdtrit(freedom, p))


def _tail(distance: float, error: float, freedom: float) -> float:
    """The chance of a t beyond `distance / error`."""
    from scipy.special import stdtr

    if error == 0:
        return 0.5 if distance == 0 else (0.0 if distance > 0 else 1.0)
    return float(stdtr(freedom, -distance / error))
