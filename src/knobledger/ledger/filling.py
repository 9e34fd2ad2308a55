"""Taking event files into the tables of the SQL index, whole or only what is new."""

from __future__ import annotations

import json
import sqlite3
from collections.abc import Collection, Iterator, Sequence
from typing import NamedTuple

from knobledger.errors import LedgerBroken, Unknown
from knobledger.ledger.days import Day, Stamp, ids_in, stamps
from knobledger.ledger.rows import Owed, PlanFacets, Rows
from knobledger.ledger.store import Ledger, broken, check_day
from knobledger.names import EventId

STANDING = {
    "written": "target",
    "live": "target",
    "renewed": "service",
    "healthy": "service",
    "unhealthy": "service",
}
"""Facets on which it hangs how things stand, with what they are about: the table `newest` tells when that was last."""

_BATCH = 20_000
"""events whose rows are in memory at one time"""


class Gone(Exception):
    """The tables hold an event that the ledger no longer has (another branch was checked out)."""


class Taken(NamedTuple):
    """What was new."""

    read: int
    """events"""
    plans: set[str]
    """that they are about"""


def take_in(connection: sqlite3.Connection, ledger: Ledger, *, lenient: bool) -> Taken:
    """Write the rows of every event that the tables lack.

    Raises `Gone`: only a rebuild will do; `LedgerBroken` at a damaged file unless `lenient`.
    """
    # the stamps are taken before the names, so that a file which comes in between shows the next time
    now = stamps(ledger.folder)
    held: dict[str, str] = dict(connection.execute("SELECT day, stamp FROM day"))
    if held.keys() - now.keys():
        raise Gone
    plans: dict[str, PlanFacets] = {}
    read, about = 0, set[str]()
    for rows in _batches(connection, ledger, held, now, lenient):
        read += len(rows.events)
        about.update(plan for event in rows.events if (plan := event[6]))
        _insert(connection, rows, plans, before=bool(held))
    marks = [(day, mark or "") for day, mark in now.items() if held.get(day) != (mark or "")]
    _write(connection, "INSERT OR REPLACE INTO day VALUES (?, ?)", marks)
    return Taken(read, about)


def close(connection: sqlite3.Connection, plans: Collection[str] | None = None) -> None:
    """Drop what marks an armed change, a chain of restarts, a plan or an attempt as open, where its end has come.

    Of plans only these are looked at, if they are given: those that were never used pile up.
    """
    among = "" if plans is None else "event IN (SELECT value FROM json_each(?)) AND "
    connection.execute(
        "DELETE FROM facet WHERE facet = 'chain open' AND EXISTS "
        "(SELECT 1 FROM facet g WHERE g.facet IN ('ended', 'resumed') AND g.value = facet.value)"
    )
    connection.execute(
        "DELETE FROM facet WHERE facet = 'armed' AND EXISTS (SELECT 1 FROM event a JOIN event b "
        "ON b.plan = a.plan AND +b.target = a.target WHERE a.id = facet.event "
        # What a host could not put back stays open until somebody reverts or confirms it.
        "AND (b.kind IN ('confirmed', 'disarmed') OR b.kind = 'expired' "
        "AND (json_extract(b.body, '$.outcome') <> 'failed' OR EXISTS (SELECT 1 FROM facet g CROSS JOIN event u "
        "ON u.id = g.event JOIN event d ON d.plan = u.id WHERE g.facet = 'kind' AND g.value = 'planned' "
        "AND json_extract(u.body, '$.undoes') = a.plan AND (d.kind = 'applied' "
        "OR d.kind = 'settled' AND json_extract(d.body, '$.outcome') = 'applied')))))"
    )
    connection.execute(
        f"DELETE FROM facet WHERE facet = 'waiting' AND {among}EXISTS (SELECT 1 FROM event a JOIN event b "
        "ON b.plan = a.plan LEFT JOIN event s ON s.id = json_extract(b.body, '$.attempt') WHERE a.id = facet.event AND ("
        "b.kind = 'rejected' OR b.kind IN ('applied', 'rolled_back') AND s.kind = 'started' "
        "OR b.kind = 'restart_started' AND json_extract(a.body, '$.verb') = 'restart'))",
        () if plans is None else (json.dumps(sorted(plans)),),
    )
    connection.execute(
        "DELETE FROM facet WHERE facet = 'doubt' AND EXISTS (SELECT 1 FROM event a JOIN event b ON b.plan = a.plan "
        "WHERE a.id = facet.event AND json_extract(b.body, '$.attempt') = a.id AND (b.kind IN ('applied', "
        "'rolled_back', 'settled') OR b.kind = 'failed' AND json_extract(b.body, '$.outcome') = 'unchanged'))"
    )


def _batches(
    connection: sqlite3.Connection,
    ledger: Ledger,
    held: dict[str, str],
    now: dict[Day, Stamp | None],
    lenient: bool,
) -> Iterator[Rows]:
    rows = Rows()
    for day, mark in now.items():
        if mark is not None and held.get(day) == mark:
            continue
        lacking = ids_in(ledger.folder, day)
        if day in held:
            first = day.replace("/", "-")
            known = {
                id_
                for (id_,) in connection.execute(
                    "SELECT id FROM event WHERE at >= ? AND at < ?", (first, first + "~")
                )
            }
            if known - lacking:
                raise Gone
            lacking -= known
        for id_ in lacking:
            try:
                _add(rows, ledger, day, id_)
            except LedgerBroken:
                if not lenient:
                    raise
            if len(rows.events) >= _BATCH:
                yield rows
                rows = Rows(owed=rows.owed)
    yield rows


def _add(rows: Rows, ledger: Ledger, day: Day, id_: EventId) -> None:
    try:
        content = ledger.read(day, id_)
    except Unknown:
        return
    try:
        raw = json.loads(content)
        check_day(raw["at"], day)
        rows.add(id_, raw, content.decode())
    except (LedgerBroken, ValueError, KeyError, TypeError, AttributeError, RecursionError) as e:
        raise broken(ledger.path(id_, day), f"not an event: {e}") from e


def _insert(
    connection: sqlite3.Connection, rows: Rows, plans: dict[str, PlanFacets], *, before: bool
) -> None:
    """Write one batch. `before`: there were events in the tables, so plans and their events may be there."""
    plans.update(rows.plans)
    waiting: list[Owed] = []
    for owed in rows.owed:
        plan = plans.get(owed.plan) or (_plan(connection, owed.plan) if before else None)
        if plan is None:
            waiting.append(owed)
        else:
            rows.inherit(owed, plan)
    rows.owed = waiting
    if before:
        for id_, plan in rows.plans.items():
            for owed in _events_of(connection, id_):
                rows.inherit(owed, plan)
    # what lies close in time is asked for together, so it is to lie close in the file
    rows.events.sort(key=lambda row: (row[1], row[0]))
    connection.executemany("INSERT OR IGNORE INTO event VALUES (?, ?, ?, ?, ?, ?, ?, ?)", rows.events)
    _write(connection, "INSERT OR IGNORE INTO edit VALUES (?, ?, ?, ?, ?, ?, ?)", rows.edits)
    _write(connection, "INSERT OR IGNORE INTO parent VALUES (?, ?)", rows.parents)
    rows.facets.extend(_turned_round(connection, rows))
    _write(connection, "INSERT OR IGNORE INTO facet VALUES (?, ?, ?, ?)", rows.facets)
    _write(connection, _NEWER, _newest(rows))


def _newest(rows: Rows) -> list[tuple[str, str, str, str, str]]:
    """Rows of the table `newest`: (facet, service, target or nothing, moment, event)."""
    found: dict[tuple[str, str, str], tuple[str, str]] = {}
    for facet, value, at, id_ in rows.facets:
        if facet in STANDING:
            key = (
                (facet, value.partition(":")[0], value) if STANDING[facet] == "target" else (facet, value, "")
            )
            found[key] = max((at, id_), found.get(key, ("", "")))
    return [(*key, *last) for key, last in found.items()]


_NEWER = (
    "INSERT INTO newest VALUES (?, ?, ?, ?, ?) ON CONFLICT DO UPDATE SET at = excluded.at, event = excluded.event "
    "WHERE (excluded.at, excluded.event) > (newest.at, newest.event)"
)


def _turned_round(connection: sqlite3.Connection, rows: Rows) -> Iterator[tuple[str, str, str, str]]:
    """Facets for the edges of the ledger that lead to a later moment: a parent that is later than its child.

    (`later parent`, the parent's moment, the child's, the child). A parent that has not come yet is waited for:
    (`awaits`, the parent, the child's moment, the child).
    """
    moments = {str(event[0]): str(event[1]) for event in rows.events}
    for child, parent in rows.parents:
        at = moments.get(parent)
        if at is None:
            found = connection.execute("SELECT at FROM event WHERE id = ?", (parent,)).fetchone()
            at = found[0] if found else None
        if at is None:
            yield "awaits", parent, moments[child], child
        elif at > moments[child]:
            yield "later parent", at, moments[child], child
    for id_, at in moments.items():
        for child_at, child in connection.execute(
            "SELECT at, event FROM facet WHERE facet = 'awaits' AND value = ?", (id_,)
        ):
            if at > child_at:
                yield "later parent", at, child_at, child


def _write(connection: sqlite3.Connection, sql: str, rows: Sequence[tuple[str | int | None, ...]]) -> None:
    # the driver's own executemany, in the order of the primary key: a B-tree likes that
    if rows:
        connection.executemany(sql, sorted(rows))


def _plan(connection: sqlite3.Connection, id_: str) -> PlanFacets | None:
    found = connection.execute("SELECT body FROM event WHERE id = ? AND plan = id", (id_,)).fetchone()
    if found is None:
        return None
    rows = Rows()
    rows.add(EventId(id_), json.loads(found[0]), found[0])
    return rows.plans.get(id_)


def _events_of(connection: sqlite3.Connection, plan: str) -> list[Owed]:
    found = connection.execute(
        "SELECT at, id, target IS NULL FROM event WHERE plan = ? AND id != plan", (plan,)
    )
    return [Owed(plan, at, id_, bool(whole)) for at, id_, whole in found]
