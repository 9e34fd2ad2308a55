"""The shapes of gauges and counters: cases as data, and properties."""

from __future__ import annotations

from collections.abc import Sequence
from itertools import pairwise

import pytest
from hypothesis import given
from hypothesis import strategies as st

from knobledger.services.series import FEWEST, counter, gauge, total

numbers = st.integers(0, 1000).map(float)
long = st.lists(numbers, min_size=FEWEST, max_size=60)


@pytest.mark.parametrize(
    ("values", "shape", "returns"),
    [
        ([0] * 10, "idle", 0),
        # The incident's prefill inflight gauge: it rotates and returns to zero, so nothing is pinned.
        ([0, 3, 5, 0, 2, 0, 0, 4, 1, 0], "rotating", 3),
        ([2, 0, 3, 0, 1, 0], "rotating", 2),
        ([0, 1, 0, 0, 0, 0], "rotating", 1),
        ([2, 5, 3, 2, 6, 2, 2, 9], "pinned", 2),
        ([1] * 10, "pinned", 0),
        # Under load, never under a floor; it does not grow, so it is pinned at that floor.
        ([48, 53, 50, 49, 53, 48, 51, 50], "pinned", 1),
        ([0, 1, 2, 4, 5, 7, 8, 9], "growing", 0),
        ([3, 2, 5, 6, 9, 8, 12, 15, 14, 18, 17, 21], "growing", 0),
        # A step is not growth, a drain is not a rotation.
        ([0, 0, 0, 0, 5, 5, 5, 5], "varying", 0),
        ([5, 4, 3, 2, 1, 0, 0, 0], "varying", 0),
        ([0, 3, 0, 2], "unknown", 1),
        ([0, None, 3, None, 0, 2, 0, None], "rotating", 2),
        ([None, None], "unknown", 0),
        ([], "unknown", 0),
    ],
)
def test_gauges(values: Sequence[float | None], shape: str, returns: int) -> None:
    seen = gauge(values)
    assert (seen.shape, seen.returns) == (shape, returns)


def test_figures_of_a_gauge() -> None:
    seen = gauge([0, 53, None, 12, 7])
    assert (seen.floor, seen.peak, seen.median, seen.last, seen.samples) == (0, 53, 9.5, 7, 4)


@given(long)
def test_above_zero_for_the_whole_time_is_pinned_or_growing(values: list[float]) -> None:
    assert gauge([value + 1 for value in values]).shape in ("pinned", "growing")


@given(long)
def test_what_touches_zero_is_never_pinned(values: list[float]) -> None:
    assert gauge([*values, 0]).shape not in ("pinned", "growing")
    assert gauge([0, *values]).shape != "pinned"


@given(long, st.integers(1, 9))
def test_the_unit_of_a_gauge_changes_nothing(values: list[float], factor: int) -> None:
    one, other = gauge(values), gauge([value * factor for value in values])
    assert (one.shape, one.returns) == (other.shape, other.returns)


@given(long, st.data())
def test_missing_samples_change_nothing(values: list[float], data: st.DataObject) -> None:
    at = data.draw(st.integers(0, len(values)))
    assert gauge([*values[:at], None, *values[at:]]) == gauge(values)


@given(long)
def test_it_can_not_return_more_often_than_it_left(values: list[float]) -> None:
    seen = gauge(values)
    rises = sum(a == seen.floor and b != seen.floor for a, b in pairwise(values))
    assert 0 <= seen.returns <= rises


@given(long)
def test_played_backwards_it_returns_as_often(values: list[float]) -> None:
    assert gauge(values).returns == gauge(values[::-1]).returns


@given(st.lists(numbers, min_size=8, max_size=60))
def test_what_grows_does_not_grow_backwards(values: list[float]) -> None:
    assert gauge(values).shape != "growing" or gauge(values[::-1]).shape != "growing"


@pytest.mark.parametrize(
    ("samples", "shape", "increase", "resets"),
    [
        ([{"": 10}, {"": 12}, {"": 16}], "counting", 6, ()),
        ([{"": 10}, {"": 10}], "still", 0, ()),
        ([{"": 10}], "unknown", None, ()),
        ([{"": 10}, {"": 12}, {"": 3}, {"": 4}], "counting", 6, (2,)),
        ([{"": 10}, None, {"": 12}, None, {"": 1}], "counting", 3, (4,)),
        # One rank restarts while the other goes on: the sum rises, and yet there was a reset.
        ([{"0": 5, "1": 100}, {"0": 1, "1": 200}], "counting", 101, (1,)),
        # A rank that comes up, or goes, is no reset.
        ([{"0": 5}, {"0": 6, "1": 100}, {"0": 7}, {"0": 7, "1": 110}], "counting", 12, ()),
        ([{"": float("nan")}, {"": 1}, {"": 3}], "counting", 2, ()),
    ],
)
def test_counters(
    samples: list[dict[str, float] | None], shape: str, increase: float | None, resets: tuple[int, ...]
) -> None:
    seen = counter(samples, 2.0)
    assert (seen.shape, seen.increase, seen.reset_at) == (shape, increase, resets)
    if increase is not None:
        known = [i for i, sample in enumerate(samples) if total(sample) is not None]
        assert seen.rate == pytest.approx(increase / (2.0 * (known[-1] - known[0])))


@given(st.lists(numbers, min_size=2, max_size=40), numbers)
def test_a_counter_rises_by_what_was_added(steps: list[float], begin: float) -> None:
    values = [begin]
    for step in steps:
        values.append(values[-1] + step)
    seen = counter([{"": value} for value in values], 1.0)
    assert seen.increase == sum(steps)
    assert seen.resets == 0


@given(st.lists(st.dictionaries(st.sampled_from("abc"), numbers), min_size=2, max_size=20))
def test_a_counter_never_falls(samples: list[dict[str, float]]) -> None:
    seen = counter(samples, 1.0)
    assert seen.increase is None or seen.increase >= 0
