"""The lab of the command line's tests."""

from __future__ import annotations

import os
from collections.abc import Iterator
from pathlib import Path

import pytest
from clilab import Lab

from knobledger.demo.sshd import EmbeddedSshd
from knobledger.founding import found


@pytest.fixture
def lab(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Iterator[Lab]:
    root, host = tmp_path / "ws", tmp_path / "host"
    host.mkdir()
    found(root)
    monkeypatch.chdir(root)
    monkeypatch.setattr("sys.stdin", open(os.devnull))  # noqa: SIM115
    for name, value in {"KNOBLEDGER_ACTOR": "anna", "TZ": "UTC", "KNOBLEDGER_TRACEBACK": "1"}.items():
        monkeypatch.setenv(name, value)
    with EmbeddedSshd(folder=tmp_path / "sshd", sandbox=host, user="demo") as sshd:
        yield Lab(root, sshd)
