"""Who types, and where there is no terminal."""

from __future__ import annotations

import os

import pytest


@pytest.fixture(autouse=True)
def _typed_by_anna(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr("sys.stdin", open(os.devnull))  # noqa: SIM115
    for name, value in {"KNOBLEDGER_ACTOR": "anna", "TZ": "UTC", "KNOBLEDGER_TRACEBACK": "1"}.items():
        monkeypatch.setenv(name, value)
