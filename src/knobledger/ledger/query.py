"""The one question to the rows, in SQL that SQLite and PostgreSQL read alike. By text: sqlmodel takes half a second."""

from __future__ import annotations

from collections.abc import Sequence
from datetime import datetime

from knobledger.event import stamp


def selection(
    facets: Sequence[tuple[str, str]],
    since: datetime | None,
    until: datetime | None,
    limit: int | None,
    *,
    newest_first: bool,
) -> tuple[str, dict[str, str | int]]:
    """A statement for (id, body) of what is asked for, and its parameters by name.

    The first facet is walked in order, the others are checked.
    """
    values: dict[str, str | int] = {}
    at, event, tables, where = "e.at", "e.id", "event e", []
    for n, (facet, value) in enumerate(facets):
        values |= {f"facet{n}": facet, f"value{n}": value}
        same = f"f{n}.facet = :facet{n} AND f{n}.value = :value{n}"
        if n == 0:
            at, event, tables = "f0.at", "f0.event", "facet f0 JOIN event e ON e.id = f0.event"
            where.append(same)
        else:
            where.append(
                f"EXISTS (SELECT 1 FROM facet f{n} WHERE {same} AND f{n}.at = f0.at AND f{n}.event = f0.event)"
            )
    if since is not None:
        values["since"] = stamp(since)
        where.append(f"{at} >= :since")
    if until is not None:
        values["until"] = stamp(until)
        where.append(f"{at} < :until")
    way = "DESC" if newest_first else "ASC"
    said = f"SELECT e.id, e.body FROM {tables}"
    said += f" WHERE {' AND '.join(where)}" if where else ""
    said += f" ORDER BY {at} {way}, {event} {way}"
    if limit is not None:
        values["limit"] = limit
        said += " LIMIT :limit"
    return said, values
