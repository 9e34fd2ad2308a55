"""What a metric was seen to do, from its samples. Pure.

Samples are evenly spaced; None is one that is missing, and is left out of everything.
"""

from __future__ import annotations

import math
from collections.abc import Iterator, Mapping, Sequence
from itertools import pairwise
from statistics import median

from msgspec import Struct

from knobledger.events.watching import Shape

FEWEST = 5
"""with fewer samples than this nothing is said about a shape"""

Sample = Mapping[str, float] | None
"""one look at a metric: a value for each of its series, by the text of its labels"""


class Seen(Struct, frozen=True):
    """The shape of a series, and its figures; None where there was no sample."""

    shape: Shape
    samples: int
    """that are not missing"""
    floor: float | None = None
    """the lowest value"""
    peak: float | None = None
    median: float | None = None
    last: float | None = None
    returns: int = 0
    """of a gauge: how often it came back to its floor"""
    increase: float | None = None
    """of a counter: by how much it rose, across resets"""
    rate: float | None = None
    """the same per second"""
    resets: int = 0
    """of a counter: how often a series of it fell back"""
    reset_at: tuple[int, ...] = ()
    """the indices of the samples that showed this"""


def total(sample: Sample) -> float | None:
    """The sum over all series; None where there is none, or where it is no finite number."""
    if not sample:
        return None
    value = math.fsum(sample.values()) if all(map(math.isfinite, sample.values())) else math.nan
    return value if math.isfinite(value) else None


def gauge(values: Sequence[float | None]) -> Seen:
    """What a gauge did.

    - `growing`: the minimum of each quarter of the time is above that of the quarter before, and the last
      quarter never came down to where the first half has been.
    - `pinned`: never under a floor above 0, for the whole time.
    - `idle`: 0 for the whole time.
    - `rotating`: left its floor and came back to it, once or more.
    - `varying`: anything else, such as one rise that has not come down yet.
    - `unknown`: fewer than `FEWEST` samples.
    """
    known = [value for value in values if value is not None]
    if not known:
        return Seen("unknown", 0)
    floor, returns = min(known), _returns(known)
    return Seen(
        shape=_shape(known, floor, returns),
        samples=len(known),
        floor=floor,
        peak=max(known),
        median=median(known),
        last=known[-1],
        returns=returns,
    )


def _shape(known: Sequence[float], floor: float, returns: int) -> Shape:
    if len(known) < FEWEST:
        return "unknown"
    if _grows(known):
        return "growing"
    if floor > 0:
        return "pinned"
    if floor == 0 == max(known):
        return "idle"
    return "rotating" if returns else "varying"


def _returns(known: Sequence[float]) -> int:
    """How many stretches above the floor have the floor on both sides."""
    floor = min(known)
    ups = sum(a == floor < b for a, b in pairwise(known))
    downs = sum(a > floor == b for a, b in pairwise(known))
    # A stretch that was under way at the first sample was not seen to begin.
    return min(ups, downs) if known[0] == floor else downs - 1


def _grows(known: Sequence[float]) -> bool:
    if len(known) < 8:
        return False
    cuts = [len(known) * i // 4 for i in range(5)]
    quarters = [known[a:b] for a, b in pairwise(cuts)]
    lows = [min(quarter) for quarter in quarters]
    return all(a < b for a, b in pairwise(lows)) and lows[-1] > max(*quarters[0], *quarters[1])


def counter(samples: Sequence[Sample], interval_s: float) -> Seen:
    """What a counter did: `counting`, `still`, or `unknown` with fewer than two samples.

    As Prometheus has it: a series that falls was reset to 0, and what it shows afterwards is new; a series that
    comes up in the middle counts from its first sample on. Series are compared one by one, since a sum hides resets.
    """
    known = [(i, sample) for i, sample in enumerate(samples) if total(sample) is not None]
    totals = [total(sample) for _, sample in known]
    figures = [value for value in totals if value is not None]
    if len(known) < 2:
        last = figures[-1] if figures else None
        return Seen("unknown", len(known), floor=last, peak=last, median=last, last=last)
    rises = list(_rises([sample or {} for _, sample in known]))
    increase = math.fsum(rise for rise, _ in rises)
    reset_at = tuple(known[i + 1][0] for i, (_, reset) in enumerate(rises) if reset)
    elapsed_s = (known[-1][0] - known[0][0]) * interval_s
    return Seen(
        shape="counting" if increase > 0 else "still",
        samples=len(known),
        floor=min(figures),
        peak=max(figures),
        median=median(figures),
        last=figures[-1],
        increase=increase,
        rate=increase / elapsed_s,
        resets=len(reset_at),
        reset_at=reset_at,
    )


def _rises(samples: Sequence[Mapping[str, float]]) -> Iterator[tuple[float, bool]]:
    """From one sample to the next: by how much all series rose, and whether one of them was reset."""
    latest: dict[str, float] = dict(samples[0])
    for sample in samples[1:]:
        rise, reset = 0.0, False
        for name, value in sample.items():
            before = latest.get(name, value)
            reset = reset or value < before
            rise += value if value < before else value - before
        latest.update(sample)
        yield rise, reset
