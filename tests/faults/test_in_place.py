"""Writing in place is not atomic: what holds when it is torn, in the middle of the bytes.

The file is then old, new, or neither; `knob recover` says which and how the backup comes back, and that works.
moby#38797 (a file written half), ansible#13981 and ansible-modules-core#4188 (files that can't be renamed over).
"""

from __future__ import annotations

import os
import random

import pytest

from faults import matrix, remote
from faults.matrix import Cell, Sites
from lab.fixtures import MARKS

pytestmark = [
    *MARKS,
    pytest.mark.tool("setfacl", "getfacl", "getfattr", "git", "mkfs.btrfs"),
    pytest.mark.timeout(300),
]
SEED = 1 if os.environ.get("CI") == "true" else random.randrange(1_000_000)


@pytest.fixture(scope="session")
def in_place(fabric_sites: Sites) -> list[Cell]:
    return matrix.in_place(fabric_sites)


@pytest.mark.parametrize("fault", [fault.name for fault in remote.FAULTS if fault.name != "read-only"])
def test_torn(in_place: list[Cell], fabric_sites: Sites, fault: str) -> None:
    cells = [cell for cell in in_place if cell.column == fault]
    if not cells and os.environ.get("CI") != "true":
        pytest.skip(f"{fault}: the lab has no disk for it here (a kernel without btrfs?)")
    [outcome] = matrix.run(random.Random(SEED).sample(cells, 1), fabric_sites, lambda _: None)
    assert outcome.violations == (), f"{outcome.cell.row}, {outcome.cell.where}, seed {SEED}"
