"""A copy of the ledger in PostgreSQL, for dashboards and for whoever has no clone: `[ledger] replica` in hosts.toml.

The event files stay the source. A replica that is down or slow never fails a command: what it lacks is written
there by the next one. Its rows hold the events' exact bytes, so they can rebuild the files. The tables are
those of the SQL index (`tables.py`) in the schema `knobledger`, made by the migrations in `migrations/`.
"""

from __future__ import annotations

import json
from collections.abc import Iterator, Sequence
from contextlib import contextmanager, suppress
from datetime import datetime
from pathlib import Path
from typing import TYPE_CHECKING, Any, NoReturn

from knobledger.errors import KnobError, LedgerBroken, Refused, Unknown, Unreachable
from knobledger.event import decode, id_of, stamp
from knobledger.ledger.days import Day, Stamp, ids_in, stamps
from knobledger.ledger.store import Ledger, Stored
from knobledger.ledger.writing import private_folder, write_over
from knobledger.names import EventId

if TYPE_CHECKING:
    from sqlalchemy import Connection, Engine

    from knobledger.ledger.index import Index
    from knobledger.ledger.rows import PlanFacets, Rows

REVISION = "0001"
"""the migration that this version reads and writes"""
CONNECT_S = 2
"""how long a command waits for the replica at most, in seconds"""
STATEMENT_S = 20
_BATCH = 5_000
"""events in one transaction"""
_FORMAT = 1
_COLUMNS = {
    "event": ("id", "at", "kind", "actor", "on_behalf_of", "target", "plan", "body"),
    "edit": ("change", "position", "target", "knob", "kind", "before", "after"),
    "parent": ("event", "parent"),
    "facet": ("facet", "value", "at", "event"),
}


class Replica:
    """One PostgreSQL database. Making one connects to nothing."""

    def __init__(self, url: str) -> None:
        """`url` is SQLAlchemy's: `postgresql+psycopg://USER@HOST/DATABASE`. Raises `Refused`."""
        self.url = url
        self._engine: Engine | None = None

    @property
    def name(self) -> str:
        """The URL without a password."""
        from sqlalchemy import make_url

        return make_url(self.url).render_as_string(hide_password=True)

    @contextmanager
    def connected(self) -> Iterator[Connection]:
        """A transaction in its schema, the tables being as this version has them.

        Raises `Unreachable` for whatever is wrong with the database, `Refused` for what is missing here or if a
        newer version has made the tables.
        """
        try:
            from sqlalchemy.exc import SQLAlchemyError

            self._engine = self._engine or _engine(self.url)
        except ImportError as error:
            raise Refused(
                f"a replica needs what is not installed: {error.name}",
                hint="pip install 'knobledger[replica]'",
            ) from error
        try:
            with self._engine.begin() as connection:
                _migrated(connection)
                yield connection
        except SQLAlchemyError as error:
            cause = getattr(error, "orig", None) or error
            said = str(cause).strip().splitlines()
            raise Unreachable(
                f"the replica {self.name} can't be used: {said[0] if said else type(cause).__name__}",
                hint="no entry is lost: the event files are the source, and the next command catches up",
            ) from error

    def close(self) -> None:
        """Lets the connection go."""
        if self._engine is not None:
            self._engine.dispose()
            self._engine = None

    def catch_up(self, ledger: Ledger, *, whole: bool = False) -> int:
        """Writes what the replica lacks; returns how many events. `whole` looks into every day, not only changed ones.

        Raises as `connected`, and `LedgerBroken` at a damaged event file.
        """
        now = stamps(ledger.folder)
        with self.connected() as connection:
            identity = str(connection.exec_driver_sql("SELECT identity FROM replica").scalar_one())
        held = {} if whole else _load(ledger.root, identity)
        written = 0
        for day, mark in now.items():
            if mark is None or held.get(day) != mark:
                written += self._take_in(ledger, day)
        _save(ledger.root, identity, now)
        return written

    def _take_in(self, ledger: Ledger, day: Day) -> int:
        with self.connected() as connection:
            lacking = sorted(ids_in(ledger.folder, day) - _held(connection, day))
        for start in range(0, len(lacking), _BATCH):
            with self.connected() as connection:
                _write(connection, ledger, day, lacking[start : start + _BATCH])
        return len(lacking)

    def rebuild_files(self, ledger: Ledger) -> int:
        """Brings every event of the replica into the ledger, each proven; returns how many were not there.

        Raises as `connected`, and `LedgerBroken` at a row that is not what its id stands for.
        """
        fresh = 0
        with self.connected() as connection:
            for id_, body in _bodies(connection):
                content = _proven(id_, body)
                if not ledger.has(id_, json.loads(content)["at"]):
                    ledger.add(content)
                    fresh += 1
        return fresh


class ReplicaLedger(Ledger):
    """The ledger as the replica has it, to be read only."""

    def __init__(self, root: Path, replica: Replica) -> None:
        super().__init__(root)
        self.replica = replica

    def _keep(self, files: Sequence[tuple[Path, bytes]]) -> NoReturn:
        """Raises `Refused`: nothing is written by way of a replica."""
        del files
        raise Refused("a replica is only read", hint="leave out `--from replica`")

    def events(
        self, *, since: datetime | None = None, until: datetime | None = None, lenient: bool = False
    ) -> Iterator[Stored]:
        """See `Ledger.events`."""
        first, last = stamp(since) if since else "", stamp(until) if until else "~"
        with self.replica.connected() as connection:
            for id_, body in _bodies(connection, first, last):
                try:
                    stored = Stored(id_, decode(_proven(id_, body)))
                except LedgerBroken:
                    if not lenient:
                        raise
                else:
                    yield stored

    def _prove_there(self, id_: EventId) -> None:
        self.content(id_)

    def _ids(self, prefix: str) -> list[EventId]:
        with self.replica.connected() as connection:
            rows = connection.exec_driver_sql(
                "SELECT id FROM event WHERE id >= %s AND id < %s ORDER BY id", (prefix, prefix + "g")
            )
            return [EventId(id_) for id_ in rows.scalars()]

    def index(self) -> Index:
        """See `Ledger.index`."""
        from knobledger.ledger.replica_index import ReplicaIndex

        return ReplicaIndex(self)

    def get(self, id_: EventId) -> Stored:
        """See `Ledger.get`."""
        return Stored(id_, decode(self.content(id_)))

    def content(self, id_: EventId) -> bytes:
        """See `Ledger.content`."""
        with self.replica.connected() as connection:
            body = connection.exec_driver_sql("SELECT body FROM event WHERE id = %s", (id_,)).scalar()
        if body is None:
            raise Unknown(f"no event {id_!r} in the replica", hint="`knob log --from replica`", value=id_)
        return _proven(id_, body)


def _engine(url: str) -> Engine:
    import psycopg  # noqa: F401 - so that what is missing is named
    from sqlalchemy import create_engine, make_url
    from sqlalchemy.exc import ArgumentError

    try:
        parsed = make_url(url)
    except ArgumentError as error:
        raise Refused(
            "[ledger] replica is no URL", hint='"postgresql+psycopg://USER@HOST/DATABASE"'
        ) from error
    if parsed.drivername != "postgresql+psycopg":
        raise Refused(
            f"a replica is a PostgreSQL by psycopg, not {parsed.drivername!r}",
            hint='"postgresql+psycopg://USER@HOST/DATABASE"',
        )
    options = f"-c search_path=knobledger -c statement_timeout={STATEMENT_S}s -c lock_timeout={STATEMENT_S}s"
    return create_engine(
        parsed, pool_pre_ping=True, connect_args={"connect_timeout": CONNECT_S, "options": options}
    )


def _migrated(connection: Connection) -> None:
    """Brings the tables to `REVISION`. Raises `Refused` if they are newer."""
    found = connection.exec_driver_sql("SELECT to_regclass('knobledger.alembic_version')").scalar()
    if found is not None:
        revision = connection.exec_driver_sql("SELECT version_num FROM alembic_version").scalar()
        if revision == REVISION:
            return
        if revision is not None and revision > REVISION:
            raise Refused(
                f"the replica's tables are of revision {revision}, this version knows {REVISION}",
                hint="update knobledger",
            )
    # two clones may be first at the same time
    connection.exec_driver_sql("SELECT pg_advisory_xact_lock(7262634)")
    connection.exec_driver_sql("CREATE SCHEMA IF NOT EXISTS knobledger")
    from alembic import command
    from alembic.config import Config

    config = Config()
    config.set_main_option("script_location", str(Path(__file__).with_name("migrations")))
    config.attributes["connection"] = connection
    command.upgrade(config, REVISION)


def _held(connection: Connection, day: Day) -> set[str]:
    first = day.replace("/", "-")
    rows = connection.exec_driver_sql("SELECT id FROM event WHERE at >= %s AND at < %s", (first, first + "~"))
    return set(rows.scalars())


def _bodies(connection: Connection, first: str = "", last: str = "~") -> Iterator[tuple[EventId, str]]:
    rows = connection.execution_options(stream_results=True).exec_driver_sql(
        'SELECT id, body FROM event WHERE at >= %s AND at < %s ORDER BY at COLLATE "C", id COLLATE "C"',
        (first, last),
    )
    return ((EventId(id_), body) for id_, body in rows)


def _proven(id_: str, body: str) -> bytes:
    content = body.encode()
    if id_of(content) != id_:
        raise LedgerBroken(
            f"the replica holds the event {id_[:8]} with other bytes than it was written with",
            hint="`knob verify` looks at the event files, which are the source",
            event=id_,
        )
    return content


def _write(connection: Connection, ledger: Ledger, day: Day, ids: Sequence[EventId]) -> None:
    from knobledger.ledger.rows import Rows

    rows = Rows()
    for id_ in ids:
        content = ledger.read(day, id_)
        rows.add(id_, json.loads(content), content.decode())
    for owed in rows.owed:
        plan = rows.plans.get(owed.plan) or _plan(ledger, owed.plan)
        if plan is not None:
            rows.inherit(owed, plan)
    _inherit(connection, rows)
    for table, found in (
        ("event", rows.events),
        ("edit", rows.edits),
        ("parent", rows.parents),
        ("facet", rows.facets),
    ):
        columns = _COLUMNS[table]
        values = [tuple(map(_text, row)) for row in sorted(found, key=repr)]
        if values:
            connection.exec_driver_sql(
                f"INSERT INTO {table} ({', '.join(columns)}) VALUES ({', '.join(['%s'] * len(columns))}) "
                "ON CONFLICT DO NOTHING",
                values,
            )


def _inherit(connection: Connection, rows: Rows) -> None:
    """Events that were there before their plan came can be found by it from now on."""
    from knobledger.ledger.rows import Owed

    for id_, plan in rows.plans.items():
        found = connection.exec_driver_sql(
            "SELECT at, id, target IS NULL FROM event WHERE plan = %s AND id != plan", (id_,)
        )
        for at, event, whole in found.all():
            rows.inherit(Owed(id_, at, event, bool(whole)), plan)


def _plan(ledger: Ledger, id_: str) -> PlanFacets | None:
    from knobledger.ledger.rows import Rows

    with suppress(Unknown):
        content = ledger.content(EventId(id_))
        rows = Rows()
        rows.add(EventId(id_), json.loads(content), content.decode())
        return rows.plans.get(id_)
    return None


def _text(value: Any) -> Any:
    # PostgreSQL's text has no NUL; the body has it escaped
    return value.replace("\0", "\\x00") if isinstance(value, str) else value


def _load(root: Path, identity: str) -> dict[Day, Stamp]:
    """The day folders that this replica holds completely. A cache: odd content is no content."""
    try:
        raw: dict[str, Any] = json.loads((root / ".knobledger" / "replica.json").read_bytes())
        if raw["format"] != _FORMAT or raw["replica"] != identity:
            return {}
        return {Day(day): Stamp(mark) for day, mark in raw["days"].items()}
    except (OSError, ValueError, KeyError, TypeError, AttributeError):
        return {}


def _save(root: Path, identity: str, days: dict[Day, Stamp | None]) -> None:
    body = {
        "format": _FORMAT,
        "replica": identity,
        "days": {day: mark for day, mark in days.items() if mark is not None},
    }
    with suppress(KnobError):
        private_folder(root)
        write_over(root / ".knobledger" / "replica.json", json.dumps(body).encode(), durable=False)
