"""What the tests of watching run on."""

from __future__ import annotations

import os
from collections.abc import Iterator
from pathlib import Path

import pytest
from watched import Watched

from knobledger.founding import found


@pytest.fixture
def watched(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Iterator[Watched]:
    root, folder = tmp_path / "ws", tmp_path / "host"
    folder.mkdir()
    found(root)
    monkeypatch.chdir(root)
    monkeypatch.setattr("sys.stdin", open(os.devnull))  # noqa: SIM115
    for name, value in {"KNOBLEDGER_ACTOR": "anna", "TZ": "UTC", "KNOBLEDGER_TRACEBACK": "1"}.items():
        monkeypatch.setenv(name, value)
    service = Watched(root, folder)
    service.configure()
    try:
        yield service
    finally:
        service.stop()
