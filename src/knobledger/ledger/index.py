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
from knobledger.event import decode
from knobledger.ledger.lookup import SCHEMA
from knobledger.ledger.query import selection
from knobledger.ledger.store import Ledger, Stored
from knobledger.ledger.writing import private_folder
from knobledger.names import EventId, TargetName

if TYPE_CHECKING:
    import sqlite3

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
        self._connection: sqlite3.Connection | None = None

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
        from sqlite3 import DatabaseError

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
        from sqlite3 import DatabaseError

        from knobledger.ledger.filling import Gone, close, take_in

        try:
            connection = self._connection or self._opened()
            if connection is not None:
                with connection:
                    taken = take_in(connection, self.ledger, lenient=self.lenient)
                    if taken.read:
                        close(connection, taken.plans)
                    return taken.read
        except (DatabaseError, Gone):
            pass
        return self.rebuild()

    def rebuild(self) -> int:
        """Throw the index away and build it from the event files; returns how many it holds.

        Raises `LedgerBroken` at a damaged event file, leaving the old index as it was.
        """
        self.close()
        if not self._writable():
            self._connection = _connected(None)
            return self._fill(self._connection)
        made = self.path.with_name(f".index.{os.getpid()}.{secrets.token_hex(4)}.tmp")
        connection = _connected(made)
        try:
            # nobody sees this file before it is whole, so it needs no journal
            connection.execute("PRAGMA journal_mode = OFF")
            connection.execute("PRAGMA synchronous = OFF")
            connection.execute("PRAGMA cache_size = -200000")
            read = self._fill(connection)
            connection.close()
            made.replace(self.path)
        finally:
            connection.close()
            made.unlink(missing_ok=True)
        self._connection = _connected(self.path)
        return read

    def reader(self) -> sqlite3.Connection:
        """The database, up to date. Raises as `update`."""
        self.update()
        assert self._connection is not None
        return self._connection

    def close(self) -> None:
        """Let go of the database; the next query opens it again."""
        if self._connection is not None:
            self._connection.close()
            self._connection = None

    def _writable(self) -> bool:
        with suppress(LedgerUnwritable):
            return os.access(private_folder(self.ledger.root), os.W_OK)
        return False

    def _opened(self) -> sqlite3.Connection | None:
        """The index on disk, if this version can read and write it. Raises `DatabaseError`."""
        if not os.access(self.path, os.R_OK | os.W_OK):
            return None
        connection = _connected(self.path)
        try:
            known = connection.execute("PRAGMA user_version").fetchone() == (SCHEMA,)
        except BaseException:
            connection.close()
            raise
        if not known:
            connection.close()
            return None
        self._connection = connection
        return connection

    def _fill(self, connection: sqlite3.Connection) -> int:
        from knobledger.ledger.filling import close, take_in
        from knobledger.ledger.tables import statements

        tables, indexes = statements()
        with connection:
            for said in tables:
                connection.execute(said)
            read = take_in(connection, self.ledger, lenient=self.lenient).read
            for said in indexes:
                connection.execute(said)
            close(connection)
            connection.execute(f"PRAGMA user_version = {SCHEMA}")
        return read

    def _select(
        self,
        facets: list[tuple[str, str]],
        since: datetime | None,
        until: datetime | None,
        limit: int | None,
        newest_first: bool,
    ) -> list[tuple[str, str]]:
        assert self._connection is not None
        said, values = selection(facets, since, until, limit, newest_first=newest_first)
        return self._connection.execute(said, values).fetchall()

    def _stored(self, id_: str, body: str) -> Stored:
        try:
            return Stored(EventId(id_), decode(body.encode()))
        except LedgerBroken as e:
            raise LedgerBroken(f"the event {id_} can't be read: {e.message}", hint="`knob verify`") from e


def _connected(path: Path | None) -> sqlite3.Connection:
    """A database file, or one in memory."""
    import sqlite3  # no change needs it

    return sqlite3.connect(path or ":memory:", timeout=_LOCK_S, check_same_thread=False)
