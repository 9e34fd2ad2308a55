"""Many items on all cores."""

from __future__ import annotations

import os
import signal

import pytest

from knobledger.many import FEW, over


def _doubled(item: int) -> int:
    if item < 0:
        os.kill(os.getpid(), signal.SIGKILL)
    if item == 7_000:
        raise ValueError(item)
    return 2 * item


def _lost(item: int) -> int:
    return -1


@pytest.mark.parametrize("count", [0, 3, FEW, 5 * FEW + 1])
def test_results_are_in_order(count: int) -> None:
    assert over(range(count), _doubled, _lost) == [2 * item for item in range(count)]


def test_a_dead_worker_costs_its_own_item() -> None:
    items = [*range(100), -1, *range(100, 150)]
    assert over(items, _doubled, _lost) == [2 * item for item in range(100)] + [-1] + [
        2 * item for item in range(100, 150)
    ]


def test_an_error_is_raised() -> None:
    with pytest.raises(ValueError, match="7000"):
        over([*range(200), 7_000], _doubled, _lost)
