"""What tests of every room get of the lab. The hosts live for the session: leave them as you found them."""

from __future__ import annotations

import os
import shutil
import tempfile
from collections.abc import Iterator
from pathlib import Path

import pytest

from lab.lab import Lab, LabError, LabHost

TOOLS = ("ip", "sshd", "ssh-keygen", "unshare", "nsenter", "systemctl")
MARKS = [
    pytest.mark.tool(*TOOLS),
    pytest.mark.skipif(os.geteuid() != 0, reason="the lab needs root"),
]
"""`pytestmark = MARKS` in a test file that uses the lab"""


@pytest.fixture(scope="session")
def lab() -> Iterator[Lab]:
    """A lab without hosts so far: `lab.host(name)`, `lab.host(name, systemd=True)`."""
    # Not below pytest's folder, which stays after the tests.
    folder = Path(tempfile.mkdtemp(prefix="knoblab-"))
    try:
        with Lab(folder / "lab") as lab:
            yield lab
    finally:
        shutil.rmtree(folder, ignore_errors=True)


@pytest.fixture(scope="session")
def plain_host(lab: Lab) -> LabHost:
    """`gpu1`: its own disk, address and sshd."""
    return _host(lab, "gpu1", systemd=False)


@pytest.fixture(scope="session")
def systemd_host(lab: Lab) -> LabHost:
    """`gpu2`: the same with a systemd as process 1."""
    return _host(lab, "gpu2", systemd=True)


def _host(lab: Lab, name: str, *, systemd: bool) -> LabHost:
    try:
        return lab.host(name, systemd=systemd)
    except LabError as error:
        # A container may forbid even its root to make namespaces; where the tests are trusted, that is a failure.
        if os.environ.get("CI") == "true":
            raise
        pytest.skip(f"the lab does not work here: {error}")
