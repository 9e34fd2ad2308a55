"""The SQL index over the event files: a cache in `.knobledger/index.sqlite`, never a source.

Deleted, damaged or made by another version, it is built anew; every query first takes in the event
files that it lacks, looking only into day folders that changed. Two processes may do so at once.
"""

from __future__ import annotations

import os
import secrets
from contextlib import suppress
from datetime import datetime
from pathlib import Path
from typing import TYPE_CHECKING

from knobledger.errors import LedgerBroken, LedgerUnwritable
from knobledger.event import decode, stamp
from knobledger.ledger.lookup import SCHEMA
from knobledger.ledger.store import Ledger, Stored
from knobledger.ledger.writing import private_folder
from knobledger.names import EventId, TargetName

if TYPE_CHECKING:
    from sqlalchemy import Connection, Engine

_LOCK_S = 30.0
"""how long one process waits for another one's update"""


class Index:
    """Queries over one ledger. Making one reads and writes nothing.

    Where `.knobledger/` can't be written (a read-only workspace), the index lives in memory.
    `lenient` leaves damaged event files out instead of raising `LedgerBroken`.
    """

    def __init__(self, ledger: Ledger, *, lenient: bool = False) -> None:
        self.ledger = ledger
        self.path = ledger.root / ".knobledger" / "index.sqlite"
        self.lenient = lenient
        self._engine: Engine | None = None

    def find(
        self,
        *,
        target: TargetName | None = None,
        knob: str | None = None,
        kind: str | None = None,
        actor: str | None = None,
        since: datetime | None = None,
        until: datetime | None = None,
        limit: int | None = None,
        newest_first: bool = True,
    ) -> list[Stored]:
        """The events that meet every condition given, in order of (at, id), newest first or last.

        target: planned, observed or done there, or about a plan for it.
        knob: planned or observed with an edit of it, or about such a plan.
        kind: an event's kind, or a plan's verb or purpose (then the plans themselves).
        actor: who did it, or on whose behalf.
        since, until: `since <= at < until`. limit: at most so many, from the beginning of that order.

        Raises `LedgerBroken` at a damaged event file.
        """
        from sqlalchemy.exc import DatabaseError

        wanted = {"target": target, "knob": knob, "actor": actor, "kind": kind}
        facets = [(facet, value) for facet, value in wanted.items() if value is not None]
        asked = (facets, since, until, limit, newest_first)
        try:
            self.update()
            found = self._select(*asked)
        except DatabaseError:
            self.rebuild()
            found = self._select(*asked)
        return [self._stored(id_, body) for id_, body in found]

    def update(self) -> int:
        """Take in what the index lacks, drop what the ledger no longer has; returns events read.

        Raises `LedgerBroken` at a damaged event file.
        """
        from sqlalchemy.exc import DatabaseError

        from knobledger.ledger.filling import Gone, take_in

        try:
            engine = self._engine or self._opened()
            if engine is not None:
                with engine.begin() as connection:
                    return take_in(connection, self.ledger, lenient=self.lenient)
        except (DatabaseError, Gone):
            pass
        return self.rebuild()

    def rebuild(self) -> int:
        """Throw the index away and build it from the event files; returns how many it holds.

        Raises `LedgerBroken` at a damaged event file, leaving the old index as it was.
        """
        self.close()
        if not self._writable():
            self._engine = _engine(None)
            return self._fill(self._engine)
        made = self.path.with_name(f".index.{os.getpid()}.{secrets.token_hex(4)}.tmp")
        engine = _engine(made)
        try:
            with engine.connect() as connection:
                # nobody sees this file before it is whole, so it needs no journal
                connection.exec_driver_sql("PRAGMA journal_mode = OFF")
                connection.exec_driver_sql("PRAGMA synchronous = OFF")
                connection.exec_driver_sql("PRAGMA cache_size = -200000")
            read = self._fill(engine)
            engine.dispose()
            made.replace(self.path)
        finally:
            engine.dispose()
            made.unlink(missing_ok=True)
        self._engine = _engine(self.path)
        return read

    def close(self) -> None:
        """Let go of the database; the next query opens it again."""
        if self._engine is not None:
            self._engine.dispose()
            self._engine = None

    def _writable(self) -> bool:
        with suppress(LedgerUnwritable):
            return os.access(private_folder(self.ledger.root), os.W_OK)
        return False

    def _opened(self) -> Engine | None:
        """The index on disk, if this version can read and write it. Raises `DatabaseError`."""
        if not os.access(self.path, os.R_OK | os.W_OK):
            return None
        engine = _engine(self.path)
        with engine.connect() as connection:
            version = connection.exec_driver_sql("PRAGMA user_version").scalar_one()
        if version != SCHEMA:
            engine.dispose()
            return None
        self._engine = engine
        return engine

    def _fill(self, engine: Engine) -> int:
        from sqlmodel import SQLModel

        from knobledger.ledger.filling import take_in
        from knobledger.ledger.rows import TABLES

        with engine.begin() as connection:
            SQLModel.metadata.create_all(connection, tables=TABLES)
            read = take_in(connection, self.ledger, lenient=self.lenient)
            connection.exec_driver_sql(f"PRAGMA user_version = {SCHEMA}")
        return read

    def _select(
        self,
        facets: list[tuple[str, str]],
        since: datetime | None,
        until: datetime | None,
        limit: int | None,
        newest_first: bool,
    ) -> list[tuple[str, str]]:
        assert self._engine is not None
        with self._engine.connect() as connection:
            return select_events(connection, facets, since, until, limit, newest_first)

    def _stored(self, id_: str, body: str) -> Stored:
        try:
            return Stored(EventId(id_), decode(body.encode()))
        except LedgerBroken as e:
            raise LedgerBroken(f"the event {id_} can't be read: {e.message}", hint="`knob verify`") from e


def _engine(path: Path | None) -> Engine:
    """A database file, or one in memory."""
    from sqlalchemy import URL, StaticPool
    from sqlmodel import create_engine

    if path is None:
        return create_engine("sqlite://", poolclass=StaticPool, connect_args={"check_same_thread": False})
    return create_engine(URL.create("sqlite", database=str(path)), connect_args={"timeout": _LOCK_S})


def select_events(
    connection: Connection,
    facets: list[tuple[str, str]],
    since: datetime | None,
    until: datetime | None,
    limit: int | None,
    newest_first: bool,
) -> list[tuple[str, str]]:
    """(id, body) of what is asked for. The first facet is walked in order, the others are checked."""
    from sqlalchemy import exists
    from sqlalchemy.orm import aliased
    from sqlmodel import col, select

    from knobledger.ledger.rows import EventRow, FacetRow

    at, event = col(EventRow.at), col(EventRow.id)
    chosen = select(EventRow.id, EventRow.body)
    if facets:
        (facet, value), *facets = facets
        at, event = col(FacetRow.at), col(FacetRow.event)
        chosen = chosen.join(FacetRow, col(EventRow.id) == event)
        chosen = chosen.where(col(FacetRow.facet) == facet, col(FacetRow.value) == value)
    for facet, value in facets:
        other = aliased(FacetRow)
        same = (col(other.at) == at, col(other.event) == event)
        chosen = chosen.where(exists().where(col(other.facet) == facet, col(other.value) == value, *same))
    if since is not None:
        chosen = chosen.where(at >= stamp(since))
    if until is not None:
        chosen = chosen.where(at < stamp(until))
    order = (at.desc(), event.desc()) if newest_first else (at.asc(), event.asc())
    return [(id_, body) for id_, body in connection.execute(chosen.order_by(*order).limit(limit))]
