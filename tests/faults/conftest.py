"""One lab host per transport, for all faults."""

from __future__ import annotations

import pytest

from faults.matrix import Sites
from lab import LabHost


@pytest.fixture(scope="session", params=["fabric", pytest.param("openssh", marks=pytest.mark.tool("ssh"))])
def sites(
    request: pytest.FixtureRequest, plain_host: LabHost, tmp_path_factory: pytest.TempPathFactory
) -> Sites:
    """The same host by each transport."""
    return Sites(plain_host, tmp_path_factory.mktemp(request.param), request.param)


@pytest.fixture(scope="session")
def fabric_sites(plain_host: LabHost, tmp_path_factory: pytest.TempPathFactory) -> Sites:
    """By the default transport, for what does not depend on it."""
    return Sites(plain_host, tmp_path_factory.mktemp("default"), "fabric")
