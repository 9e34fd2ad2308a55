"""`knob show PLAN` says all that somebody wants to have read who is to approve it."""

from __future__ import annotations

import json
from pathlib import Path
from typing import Any

import pytest
from test_attacks import RESTARTABLE, Desk

pytestmark = pytest.mark.tool("ssh-keygen", "git")

TABLE = """\
| concurrency | 256 (baseline) | 512 (variant) |
|---|---|---|
| C64 | 719.5 | 811.7 |
"""


def said(desk: Desk, *words: str) -> Any:
    done = desk.knob(*words, "--json")
    assert done.returncode == 0, done.stdout + done.stderr
    return json.loads(done.stdout)


def test_everything_is_shown(tmp_path: Path) -> None:
    desk = Desk(tmp_path, "confirm")
    hosts = desk.root / "hosts.toml"
    hosts.write_text(hosts.read_text() + RESTARTABLE)
    (tmp_path / "ab.md").write_text(TABLE)
    change = said(desk, "set", "gpu1/decode", "KNOB=512", "--go-ahead")["change"]
    said(desk, "bench", "table", str(tmp_path / "ab.md"), "--change", change)
    desk.script.write_bytes(desk.script.read_bytes() + b"export LATER=1\n")
    said(desk, "hypothesis", "open", "it-hangs", "the knob hangs it", "--about", change)
    said(desk, "evidence", "it-hangs", "--supports", "it worked at noon", "--weight", "timing")
    said(desk, "evidence", "it-hangs", "--contradicts", "the engines are idle")
    plan = said(
        desk, "revert", change, "--plan", "--why", "to see", "--for", "it-hangs", "--despite", "it is urgent",
        "--restart", "service",
    )["plan"]  # fmt: skip
    shown = said(desk, "show", plan)
    assert "-export KNOB=512" in shown["diff"]
    assert [(edit["name"], edit["before"], edit["after"]) for edit in shown["edits"]] == [
        ("KNOB", "512", "256")
    ]
    assert (shown["why"], shown["despite"]) == ("to see", "it is urgent")
    [hypothesis] = shown["grounds"]["hypotheses"]
    assert [one["text"] for one in hypothesis["supports"]] == ["it worked at noon"]
    assert [one["text"] for one in hypothesis["contradicts"]] == ["the engines are idle"]
    measured = shown["grounds"]["measured"]
    assert measured["change"] == change
    assert [(gain["at"], gain["baseline"], gain["variant"]) for gain in measured["gains"]] == [
        ("C64", 719.5, 811.7)
    ]
    assert shown["restart"] == "service"
    assert [one["service"] for one in shown["restart_preview"]["services"]] == ["gpu1/decode"]
    assert shown["restart_preview"]["expected_outage_s"] is None
    assert [one["text"] for one in shown["later_edits"]] == ["export LATER=1"]
    text = desk.knob("show", plan).stdout
    for line in (
        "KNOB   512 → 256",
        "keeps the later edit  +export LATER=1",
        "hypothesis it-hangs (open, on timing alone): the knob hangs it",
        "supports     timing       it worked at noon",
        "contradicts  observation  the engines are idle",
        "C64    719.5 → 811.7       +12.8 %  n=1/1  not enough data",
        "1. gpu1/decode   start never recorded",
        "expected outage: not known yet",
        "despite the evidence against it: it is urgent",
        "because: to see",
    ):
        assert line in text, line
    assert "expected outage" not in desk.knob("show", change).stdout
