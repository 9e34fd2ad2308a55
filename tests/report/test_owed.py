"""The footer about restarts that are owed: every command that it names is one that works for these services."""

from __future__ import annotations

from pathlib import Path

from knobledger.hosts.config import Config
from knobledger.report.serving import owed_notes

HOSTS = """\
[hosts.g.services.unit]
script = "/a"
unit = "a.service"
[hosts.g.services.plain]
script = "/b"
start = "b"
pid = "pgrep b"
[hosts.g.services.seen]
script = "/c"
pid = "pgrep c"
[hosts.g.services.bare]
script = "/d"
[hosts.g.services.blind]
script = "/e"
start = "e"
"""


def notes(*names: str) -> list[str]:
    return list(owed_notes(names, Config.parse(HOSTS, Path("/ws"))))


def test_the_way_is_that_of_each_service() -> None:
    assert notes("g/plain", "g/seen", "g/unit") == [
        "restart owed: g/plain, g/unit; `knob restart g/plain g/unit`",
        "restart owed: g/seen; restart it yourself; `knob live g/seen` then sees the new process",
    ]


def test_what_can_be_neither_restarted_nor_seen_names_no_command_on_it() -> None:
    [note] = notes("g/bare", "g/blind", "g/gone")
    assert note.startswith("restart owed: g/bare, g/blind, g/gone; restart it yourself; with `unit`,")


def test_many_are_cut() -> None:
    [note] = notes(*["g/unit"] * 5)
    assert note == "restart owed: g/unit, g/unit, g/unit, ...; `knob restart g/unit g/unit g/unit`"
