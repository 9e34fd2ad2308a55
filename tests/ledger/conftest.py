"""Every test here writes and syncs many small files; in memory that takes no time."""

from __future__ import annotations

from collections.abc import Iterator
from pathlib import Path

import pytest
from ledgers import scratch


@pytest.fixture
def tmp_path() -> Iterator[Path]:
    """As pytest's, but in memory where there is such a disk."""
    with scratch() as folder:
        yield Path(folder)
