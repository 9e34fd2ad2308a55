"""The tables of the SQL index and of the replica.

Importing this loads sqlmodel (0.5 s), so only they do who make the tables. A row never holds anything that its event's
bytes don't say; `body` is these bytes, so rows can rebuild files.
"""

from __future__ import annotations

from sqlalchemy import Index as SqlIndex
from sqlalchemy.dialects import sqlite
from sqlalchemy.schema import CreateIndex, CreateTable
from sqlmodel import Field, SQLModel


class EventRow(SQLModel, table=True):
    """One event."""

    __tablename__ = "event"
    __table_args__ = (SqlIndex("event_order", "at", "id"), SqlIndex("event_plan", "plan"))
    id: str = Field(primary_key=True)
    at: str
    kind: str
    actor: str
    on_behalf_of: str
    target: str | None
    """where the event concerns exactly one"""
    plan: str | None
    """the change that the event belongs to; a plan belongs to itself"""
    body: str
    """the canonical JSON"""


class EditRow(SQLModel, table=True):
    """One knob's edit in a plan or in what was observed."""

    __tablename__ = "edit"
    __table_args__ = {"sqlite_with_rowid": False}
    change: str = Field(primary_key=True)
    position: int = Field(primary_key=True)
    """from 0, in the order of the event"""
    target: str
    knob: str
    kind: str
    before: str | None
    after: str | None


class ParentRow(SQLModel, table=True):
    """One parent of one event."""

    __tablename__ = "parent"
    __table_args__ = {"sqlite_with_rowid": False}
    event: str = Field(primary_key=True)
    parent: str = Field(primary_key=True)


class FacetRow(SQLModel, table=True):
    """One thing that an event can be found by, in the order in which it is listed.

        `facet` is `target`, `knob`, `kind` (an event's kind, a plan's verb and purpose) or `actor` (who did it and on
    whose behalf); those of `rows.py` that tell how things stand; and in the index `later parent` and `awaits`
    (`filling.py`). The primary key is the order of a query, so a screenful costs the same at any size.
    """

    __tablename__ = "facet"
    __table_args__ = {"sqlite_with_rowid": False}
    facet: str = Field(primary_key=True)
    value: str = Field(primary_key=True)
    at: str = Field(primary_key=True)
    event: str = Field(primary_key=True)


class DayRow(SQLModel, table=True):
    """A day folder that is in the index completely, while it has this stamp."""

    __tablename__ = "day"
    day: str = Field(primary_key=True)
    stamp: str


TABLES = [SQLModel.metadata.tables[name] for name in ("event", "edit", "parent", "facet", "day")]

_SUMS = (
    "CREATE TABLE newest (facet TEXT NOT NULL, service TEXT NOT NULL, target TEXT NOT NULL, at TEXT NOT NULL, "
    "event TEXT NOT NULL, PRIMARY KEY (facet, service, target)) WITHOUT ROWID",
    "CREATE TABLE tally (kind TEXT PRIMARY KEY, events INTEGER NOT NULL) WITHOUT ROWID",
)
"""Of the index alone: the newest event of some facets by what they are about (`filling.STANDING`), and how many plans."""

_BY_TARGET = ("CREATE INDEX edit_where ON edit (target, knob)", "CREATE INDEX event_target ON event (target)")
_COUNTING = (
    "INSERT INTO tally SELECT 'planned', COUNT(*) FROM facet WHERE facet = 'kind' AND value = 'planned'",
    "CREATE TRIGGER tallied AFTER INSERT ON event WHEN new.kind = 'planned' BEGIN "
    "UPDATE tally SET events = events + 1 WHERE kind = 'planned'; END",
)


def statements() -> tuple[list[str], list[str]]:
    """What makes the tables in SQLite, and what makes their indexes and counts, which is quicker when the rows are there."""
    dialect = sqlite.dialect()
    made = [str(CreateTable(table).compile(dialect=dialect)) for table in TABLES]
    indexes = [
        str(CreateIndex(one).compile(dialect=dialect))
        for table in TABLES
        for one in sorted(table.indexes, key=lambda one: str(one.name))
    ]
    return [*made, *_SUMS], [*indexes, *_BY_TARGET, *_COUNTING]
