"""A few of the random kills; `make faults` makes 200."""

from __future__ import annotations

import os
import random

import pytest

from faults.kills import Kills
from faults.matrix import Sites
from lab.fixtures import MARKS

pytestmark = [*MARKS, pytest.mark.tool("setfacl", "getfacl", "getfattr", "git"), pytest.mark.timeout(300)]


def test_killed_at_random_moments(sites: Sites) -> None:
    kills = Kills(sites.root, 1 if os.environ.get("CI") == "true" else random.randrange(1_000_000))
    kills.run(6)
    assert kills.violations == [], f"seed {kills.seed}"
    assert kills.ended["old"] + kills.ended["new"] == 6
