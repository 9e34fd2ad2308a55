"""Ids by their first digits, from the index where it is up to date. By sqlite3 alone: sqlmodel takes half a second."""

from __future__ import annotations

from contextlib import closing
from pathlib import Path

from knobledger.ledger.days import Day, day_of, event_id, names_in, stamps
from knobledger.names import EventId

SCHEMA = 5
"""Raised with every change of a table of the index; an index of another number is built anew."""


def ids_with(root: Path, events: Path, prefix: str) -> list[EventId]:
    """The ids of event files that begin with `prefix`, sorted.

    Days that the index holds as they are now are not listed; no index, an old or a damaged one only makes it slower.
    """
    held, known = _indexed(root / ".knobledger" / "index.sqlite", prefix)
    found: set[EventId] = set()
    for day, mark in stamps(events).items():
        if mark is None or held.get(day) != mark:
            found.update(names_in(events, day, prefix))
    for id_, at in known:
        if (name := event_id(f"{id_}.json")) and (events / day_of(at) / f"{id_}.json").exists():
            found.add(name)
    return sorted(found)


def _indexed(path: Path, prefix: str) -> tuple[dict[Day, str], list[tuple[str, str]]]:
    """The days that the index holds, by their stamps, and its (id, at) with that prefix."""
    if not path.exists():
        return {}, []
    import sqlite3  # only they who name an event pay for it

    try:
        with closing(sqlite3.connect(f"{path.as_uri()}?mode=ro", uri=True, timeout=1.0)) as index:
            if index.execute("PRAGMA user_version").fetchone() != (SCHEMA,):
                return {}, []
            found = index.execute(
                "SELECT id, at FROM event WHERE id >= ? AND id < ?", (prefix, prefix + "g")
            ).fetchall()
            return dict(index.execute("SELECT day, stamp FROM day").fetchall()), found
    except sqlite3.Error:
        return {}, []
