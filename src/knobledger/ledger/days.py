"""The day folders of `ledger/events/`, and how to know without reading it that one has not changed.

A folder's inode change time moves whenever an entry is added, removed or renamed, and no program
can set it back. It is as coarse as the kernel's tick, so a folder that changed just now gets no
stamp: it would still be the same after another change within that tick (git calls this "racy").
"""

from __future__ import annotations

import os
import re
import time
from collections.abc import Iterator
from pathlib import Path
from typing import NewType, cast

from knobledger.names import EventId

Day = NewType("Day", str)
"""`YYYY/MM/DD`, UTC; the path of a day folder below `ledger/events/`."""

Stamp = NewType("Stamp", str)
"""Equal stamps of one folder mean equal entries."""

SETTLED_NS = 2_000_000_000
"""A change older than this, in nanoseconds, can't share its tick with a later one."""

_EVENT_FILE = re.compile(r"([0-9a-f]{64})\.json")
_HEX = b"0123456789abcdef"
_MOMENT = re.compile(r"(\d{4})-(\d\d)-(\d\d)T\d\d:\d\d:\d\d\.\d{6}Z")


def day_of(at: str) -> Day:
    """The day of an event's `at`. Raises `ValueError` if it is not what `stamp` writes."""
    found = _MOMENT.fullmatch(at)
    if found is None:
        raise ValueError(f"not a moment in UTC with microseconds: {at!r}")
    return Day("/".join(found.groups()))


def event_id(name: str) -> EventId | None:
    """The id that a file's name claims; None if it is not the name of an event file."""
    found = _EVENT_FILE.fullmatch(name)
    return EventId(found[1]) if found else None


def days(events: Path) -> list[Day]:
    """Every day folder that exists, oldest first."""
    return sorted(_days(str(events)))


def stamps(events: Path) -> dict[Day, Stamp | None]:
    """Every day folder, oldest first, with its stamp; None: changed just now, so look inside."""
    settled = time.time_ns() - SETTLED_NS
    top = str(events)
    found: dict[Day, Stamp | None] = {}
    for day in days(events):
        try:
            status = os.stat(f"{top}/{day}")  # noqa: PTH116 - a path object costs several times as much
        except FileNotFoundError:
            continue
        changed = status.st_ctime_ns
        found[day] = Stamp(f"{status.st_ino}:{changed}") if changed < settled else None
    return found


def ids_in(events: Path, day: Day) -> set[EventId]:
    """The ids that the names of a day's event files claim; empty if there is no such folder."""
    try:
        names = os.listdir(events / day)  # noqa: PTH208 - ten thousand path objects cost 20 ms
    except (FileNotFoundError, NotADirectoryError):
        return set()
    found = {name[:64] for name in names if len(name) == 69 and name.endswith(".json")}
    if "".join(found).encode("utf-8", "surrogateescape").translate(None, _HEX):
        found = {name for name in found if event_id(f"{name}.json")}
    return cast("set[EventId]", found)


def names_in(events: Path, day: Day, prefix: str) -> list[EventId]:
    """The ids of a day that begin with `prefix`: much quicker than `ids_in`, which checks every name."""
    try:
        names = os.listdir(events / day)  # noqa: PTH208 - as above
    except (FileNotFoundError, NotADirectoryError):
        return []
    return [id_ for name in names if name.startswith(prefix) and (id_ := event_id(name))]


def _days(events: str) -> Iterator[Day]:
    for year in _numbered(events, 4):
        for month in _numbered(f"{events}/{year}", 2):
            for day in _numbered(f"{events}/{year}/{month}", 2):
                yield Day(f"{year}/{month}/{day}")


def _numbered(folder: str, digits: int) -> list[str]:
    """The folders whose name is a number of so many digits."""
    try:
        with os.scandir(folder) as entries:
            return [
                name
                for entry in entries
                if len(name := entry.name) == digits and name.isascii() and name.isdigit() and entry.is_dir()
            ]
    except (FileNotFoundError, NotADirectoryError):
        return []
