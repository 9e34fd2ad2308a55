"""The event files: written once, named by their content, read only from their place.

The format is docs/ledger-format.md.
"""

from __future__ import annotations

import json
import threading
from collections.abc import Iterator, Sequence
from datetime import UTC, datetime
from pathlib import Path
from typing import TYPE_CHECKING

from msgspec import Struct

from knobledger.errors import LedgerBroken, LedgerUnwritable, Unknown
from knobledger.event import decode, encode, id_of, stamp
from knobledger.events.entry import Event
from knobledger.ledger.days import Day, day_of, days, ids_in
from knobledger.ledger.heads import Heads
from knobledger.ledger.lookup import ids_with
from knobledger.ledger.reading import content_of
from knobledger.ledger.writing import sweep, write_in_order
from knobledger.names import EventId

if TYPE_CHECKING:
    from knobledger.ledger.index import Index

FEWEST_DIGITS = 4
"""A prefix of an id has at least so many digits."""


class Stored(Struct, frozen=True):
    """An event as the ledger holds it."""

    id: EventId
    event: Event


class Ledger:
    """The events of one workspace. Threads and processes may append at the same time.

    Making one reads and writes nothing; a workspace without any event has no `ledger/events/`.
    """

    def __init__(self, root: Path) -> None:
        self.root = root
        self.folder = root / "ledger" / "events"
        self.written: list[EventId] = []
        """what this process appended; whoever commits to git clears it"""
        self._prefix = str(self.folder)
        self._heads = Heads(root, self.folder, self._parents_of)
        self._appending = threading.Lock()

    def append(self, event: Event) -> EventId:
        """Write an event whose parents are the heads of this moment; durable when this returns.

        Raises `LedgerUnwritable` (disk full, no permission, read-only) with nothing written, and
        `ValueError` if the event's `at` is not what `stamp` writes.
        """
        ids, failure = self.append_each([event])
        if failure is not None:
            raise failure
        return ids[0]

    def append_each(self, events: Sequence[Event]) -> tuple[list[EventId], LedgerUnwritable | None]:
        """`append` for several, each the parent of the next: the disk is waited for once.

        Returns the ids of those that were written, in order, and why the one after them could not be. Raises
        `ValueError` as `append` does, with nothing written.
        """
        days = [day_of(event.at) for event in events]
        with self._appending:
            parents = self._heads.now()
            ids: list[EventId] = []
            files: list[tuple[Path, bytes]] = []
            for event, day in zip(events, days, strict=True):
                content = encode(event.but(parents=parents))
                decode(content)
                ids.append(id_of(content))
                files.append((self.path(ids[-1], day), content))
                parents = (ids[-1],)
            fresh, failure = self._keep(files)
            self.written.extend(ids[: len(fresh)])
        for (path, content), new in zip(files, fresh, strict=False):
            _prove(path, content, new)
        return ids[: len(fresh)], failure

    def add(self, content: bytes) -> EventId:
        """Keep an event that exists already, such as another clone's; adding it twice is once.

        Raises `LedgerBroken` if the bytes are not an event, `LedgerUnwritable` as `append` does.
        """
        decode(content)
        id_ = id_of(content)
        path = self.path(id_, day_of(json.loads(content)["at"]))
        fresh, failure = self._keep([(path, content)])
        if failure is not None:
            raise failure
        _prove(path, content, fresh[0])
        return id_

    def _keep(self, files: Sequence[tuple[Path, bytes]]) -> tuple[list[bool], LedgerUnwritable | None]:
        """The one way by which events come into the folder: see `write_in_order`."""
        return write_in_order(files)

    def has(self, id_: EventId, at: str) -> bool:
        """Whether the event of that id and moment is here."""
        return self.path(id_, day_of(at)).exists()

    def path(self, id_: EventId, day: Day) -> Path:
        """Where an event of that day lies, whether or not it exists."""
        return self.folder / day / f"{id_}.json"

    def events(
        self, *, since: datetime | None = None, until: datetime | None = None, lenient: bool = False
    ) -> Iterator[Stored]:
        """The events with `since <= at < until`, in order of (at, id); reads a day at a time.

        Raises `LedgerBroken` at a damaged or misplaced file; `lenient` leaves such files out.
        """
        first = stamp(since) if since else ""
        last = stamp(until) if until else "~"
        for day in days(self.folder):
            # a day's events lie in [day, day + "~"): no need to open folders outside the bounds
            if day.replace("/", "-") + "~" < first or day.replace("/", "-") >= last:
                continue
            found: list[Stored] = []
            for id_ in ids_in(self.folder, day):
                try:
                    found.append(Stored(id_, self._read(day, id_)[1]))
                except LedgerBroken:
                    if not lenient:
                        raise
            found.sort(key=lambda stored: (stored.event.at, stored.id))
            yield from (stored for stored in found if first <= stored.event.at < last)

    def get(self, id_: EventId) -> Stored:
        """The event with this whole id. Raises `Unknown`, or `LedgerBroken` if it is damaged."""
        return Stored(id_, self._read(self._day_of(id_), id_)[1])

    def content(self, id_: EventId) -> bytes:
        """The exact bytes of the event with this whole id. Raises as `get` does."""
        return self._read(self._day_of(id_), id_)[0]

    def read(self, day: Day, id_: EventId, *, proven: bytes | None = None) -> bytes:
        """The bytes of the event in that day's folder, proven to have that id; not yet decoded.

        `proven`: bytes that were seen to have it, so the same ones need not be hashed again.
        Raises `Unknown` if the file is not there, `LedgerBroken` if it is damaged.
        """
        try:
            content = content_of(f"{self._prefix}/{day}/{id_}.json")
        except FileNotFoundError as e:
            raise _no_event(id_) from e
        except OSError as e:
            raise broken(self.path(id_, day), (e.strerror or str(e)).lower()) from e
        if content != proven and (actual := id_of(content)) != id_:
            raise broken(self.path(id_, day), f"its bytes have the SHA-256 {actual}")
        return content

    def resolve(self, prefix: str) -> EventId:
        """The one id that begins with `prefix`, in either case of letters.

        Raises `Unknown`: too short, not hexadecimal, no such event, or several
        (`values["candidates"]` lists up to ten).
        """
        wanted = prefix.lower()
        if len(wanted) < FEWEST_DIGITS or len(wanted) > 64 or not set(wanted) <= set("0123456789abcdef"):
            raise Unknown(
                f"not an id: {prefix!r}; an id is {FEWEST_DIGITS} to 64 hex digits",
                hint="`knob log` lists the ids",
                value=prefix,
            )
        if len(wanted) == 64:
            self._prove_there(EventId(wanted))
            return EventId(wanted)
        found = self._ids(wanted)
        match found:
            case [id_]:
                return id_
            case []:
                raise _no_event(prefix)
            case _:
                listed = found[:10]
                more = f" and {len(found) - 10} more" if len(found) > 10 else ""
                raise Unknown(
                    f"{prefix!r} stands for {len(found)} events: "
                    + ", ".join(id_[: max(12, len(wanted) + 2)] for id_ in listed)
                    + more,
                    hint="type more digits; `knob log` lists the ids",
                    value=prefix,
                    candidates=listed,
                )

    def heads(self) -> tuple[EventId, ...]:
        """The events that no event names as a parent, sorted; several after clones diverged."""
        with self._appending:
            return self._heads.now()

    def tidy(self) -> int:
        """Remove what crashed writers left in `ledger/events/` and `.knobledger/` more than an hour ago.

        Returns how many files that were.
        """
        return sweep(self.folder) + sweep(self.root / ".knobledger")

    def index(self) -> Index:
        """The SQL index for questions to this ledger."""
        from knobledger.ledger.index import Index

        return Index(self)

    def _prove_there(self, id_: EventId) -> None:
        """Raises `Unknown` if there is no such event."""
        self._day_of(id_)

    def _ids(self, prefix: str) -> list[EventId]:
        """The ids that begin with `prefix`, sorted."""
        return ids_with(self.root, self.folder, prefix)

    def _day_of(self, id_: EventId) -> Day:
        for day in reversed(days(self.folder)):
            if self.path(id_, day).exists():
                return day
        raise _no_event(id_)

    def _read(self, day: Day, id_: EventId) -> tuple[bytes, Event]:
        content = self.read(day, id_)
        try:
            event = decode(content)
            check_day(event.at, day)
        except LedgerBroken as e:
            raise broken(self.path(id_, day), e.message) from e
        return content, event

    def _parents_of(self, day: Day, id_: EventId) -> tuple[EventId, ...] | None:
        try:
            raw = json.loads(self.read(day, id_))
            check_day(raw["at"], day)
            return tuple(EventId(parent) for parent in raw["parents"])
        except (LedgerBroken, Unknown, ValueError, KeyError, TypeError, RecursionError):
            return None


def now() -> str:
    """This moment, as an event's `at`."""
    return stamp(datetime.now(UTC))


def check_day(at: str, day: Day) -> None:
    """Raises `LedgerBroken` if an event of this moment does not belong to the folder of that day."""
    try:
        belongs = day_of(at)
    except ValueError as e:
        raise LedgerBroken(str(e)) from e
    if belongs != day:
        raise LedgerBroken(f"an event of {belongs} lies in the folder of {day}")


def broken(path: Path, why: str) -> LedgerBroken:
    """The error to raise at an event file that is not what it should be."""
    return LedgerBroken(
        f"the event file {str(path)!r} is damaged: {why}", hint="`knob verify`", path=str(path)
    )


def _prove(path: Path, content: bytes, new: bool) -> None:
    """Raises `LedgerBroken` if the file was there already, with other bytes than its name stands for."""
    if not new and path.read_bytes() != content:
        raise broken(path, "its bytes are not those that its name stands for")


def _no_event(id_: str) -> Unknown:
    return Unknown(f"no event {id_!r}", hint="`knob log` lists the ids", value=id_)
