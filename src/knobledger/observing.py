"""What a target holds now, and the event that records it: first contact, and what was changed by hand."""

from __future__ import annotations

import threading
from collections.abc import Sequence
from datetime import UTC, datetime

from knobledger.drafting import Desk, Seen, masked_diff, masked_edits
from knobledger.errors import StateUnknown
from knobledger.event import moment_of, stamp
from knobledger.events.changes import Observed
from knobledger.folds.plans import Attempt
from knobledger.hosts.config import Target
from knobledger.hosts.host import Host, RemoteFile
from knobledger.knobs import KnobEdit, Reading, changed_knobs
from knobledger.knobs.reading import prepare
from knobledger.names import short


def load_readers(targets: Sequence[Target]) -> None:
    """Loads what reads these targets, while their hosts are waited for, who take as long."""
    for dialect in {target.dialect for target in targets}:
        threading.Thread(target=prepare, args=(dialect,), daemon=True).start()


def look(desk: Desk, target: Target, host: Host) -> Seen:
    """Reads a target, and records its bytes if they are not the ones last recorded: see `see`."""
    load_readers([target])
    return see(desk, target, host.read(target.path))


def see(desk: Desk, target: Target, remote: RemoteFile) -> Seen:
    """Records the bytes that were read, if they are not the ones last recorded.

    Drift and first contact are recorded as observed, never credited to the one who looks.
    """
    seen, event = observation(desk, target, remote)
    if event is not None:
        record(desk, [(seen, event)])
    return seen


def record(desk: Desk, observed: Sequence[tuple[Seen, Observed]]) -> None:
    """Writes down what observations have found: the bytes, then the events about them."""
    for content in {seen.remote.digest: seen.remote.content for seen, _ in observed}.values():
        desk.snapshots.put(content)
    desk.write_each([event for _, event in observed])


def observation(
    desk: Desk, target: Target, remote: RemoteFile, hints: Sequence[str] = ()
) -> tuple[Seen, Observed | None]:
    """A target as it was read, and the event that would record its bytes; None: they are recorded. Writes nothing.

    Raises `StateUnknown` where they may be the work of an attempt that is still in doubt, or of a deadline.
    """
    reading = desk.reading(remote.content, target.dialect)
    known = desk.state.files.get(target.name)
    if known and known.digest == remote.digest:
        return Seen(target, remote, reading), None
    if doubts := desk.state.doubts_on(target.name):
        raise undecided(doubts[0])
    if overdue := desk.state.overdue(target.name, desk.author.now()):
        raise StateUnknown(
            f"{target.name} may hold what its host has put back: the deadline of {short(overdue.plan)} is over; "
            "`knob pending` looks",
            hint="first `knob pending`",
            change=overdue.plan,
        )
    if torn := desk.state.torn_on(target.name, remote.digest):
        hints = (*hints, _perhaps_by(torn))
    before = desk.snapshots.get(known.digest) if known else None
    edits: tuple[KnobEdit, ...] = ()
    diff = ""
    if before is not None:
        old = desk.reading(before, target.dialect)
        edits, diff = changed_knobs(old, reading), masked_diff(desk.masker, old, reading, target.path)
    start = end = ""
    if known:
        # Only drift needs it, and a change seldom meets any.
        from knobledger.past import drift_bounds

        bounds = drift_bounds(moment_of(known.at), mtime_of(remote), desk.author.now())
        start, end = map(stamp, bounds)
    event = Observed(
        **desk.author.signs(),
        target=target.name,
        path=target.path,
        digest=remote.digest,
        previous=known.digest if known else None,
        edits=masked_edits(desk.masker, edits),
        knobs=names_in(reading) if before is None else (),
        diff=diff,
        manifest=remote.manifest,
        not_before=start,
        not_after=end,
        hints=tuple(map(desk.masker.text, hints)),
    )
    return Seen(target, remote, reading, known.digest if known else None), event


def undecided(attempt: Attempt) -> StateUnknown:
    """What is said where the bytes of a target may be the work of an attempt that is in doubt."""
    started = attempt.started
    return StateUnknown(
        f"{started.target} may hold what {short(started.plan)} has written: that attempt has no outcome in the "
        "ledger; `knob recover` finds it out",
        hint="first `knob recover`",
        change=started.plan,
    )


def _perhaps_by(torn: Attempt) -> str:
    name = short(torn.started.plan)
    return f"an attempt of {name} was interrupted before: nobody knows how much of this is its work"


def names_in(reading: Reading) -> tuple[str, ...]:
    """The knobs that are set in these bytes, each once, in their order."""
    return tuple(dict.fromkeys(item.name for item in reading.occurrences if item.active))


def mtime_of(remote: RemoteFile) -> datetime:
    """When the file was last written, by this machine's clock."""
    return on_our_clock(remote.manifest.mtime, remote.clock_offset_s)


def on_our_clock(seconds: float, offset_s: float) -> datetime:
    """A moment of a host's clock (seconds since 1970) on ours; an offset below its own error is none."""
    return datetime.fromtimestamp(seconds - (offset_s if abs(offset_s) >= 2 else 0), UTC)
