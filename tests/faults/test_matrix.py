"""A sample of the matrix; `make faults` runs all of it.

Each thread of ours about a file that was lost, cut short or half written is a cell here: nextcloud#25175 and
moby#38797 (a full disk), salt#69583 (an empty file after a crash), kamal#656 (a lock after Ctrl-C).
"""

from __future__ import annotations

import os
import random

import pytest

from faults import here, matrix, remote
from faults.matrix import Cell, Sites
from lab.fixtures import MARKS

pytestmark = [
    *MARKS,
    pytest.mark.tool("setfacl", "getfacl", "getfattr", "git", "mkfs.btrfs"),
    pytest.mark.timeout(300),
]
SEED = 1 if os.environ.get("CI") == "true" else random.randrange(1_000_000)
EACH = 2
"""points per fault"""


@pytest.fixture(scope="session")
def on_the_host(sites: Sites) -> list[Cell]:
    return matrix.on_the_host(sites)


@pytest.fixture(scope="session")
def at_the_operators(fabric_sites: Sites) -> list[Cell]:
    return matrix.at_the_operators(fabric_sites)


def _sample(cells: list[Cell], fault: str, count: int) -> list[Cell]:
    found = [cell for cell in cells if cell.column == fault]
    return random.Random(SEED).sample(found, count)


def _check(cells: list[Cell], sites: Sites) -> None:
    wrong = {
        f"{one.cell.row}, {one.cell.where}": one.violations
        for one in matrix.run(cells, sites, lambda _: None)
        if one.violations
    }
    assert wrong == {}, f"seed {SEED}"


def test_the_matrix_has_every_step(
    on_the_host: list[Cell], at_the_operators: list[Cell], sites: Sites
) -> None:
    every = [*on_the_host, *matrix.in_place(sites)]
    assert list(dict.fromkeys(cell.row for cell in every)) == list(matrix.PLACES.values())
    assert {"started", "outcome", "git command", "git objects", "git index"} <= {
        cell.row for cell in at_the_operators
    }


@pytest.mark.parametrize("fault", [fault.name for fault in remote.FAULTS])
def test_on_the_host_and_on_the_way(on_the_host: list[Cell], sites: Sites, fault: str) -> None:
    if fault not in {cell.column for cell in on_the_host} and os.environ.get("CI") != "true":
        pytest.skip(f"{fault}: the lab has no disk for it here (a kernel without btrfs?)")
    _check(_sample(on_the_host, fault, 1 if fault == "silence" else EACH), sites)


@pytest.mark.parametrize("fault", here.FAULTS)
def test_at_the_operators(at_the_operators: list[Cell], fabric_sites: Sites, fault: str) -> None:
    _check(_sample(at_the_operators, fault, EACH), fabric_sites)
