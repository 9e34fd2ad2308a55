"""The restart rule: a run counts for the variant only if the process that it measured had the new value."""

from __future__ import annotations

from collections.abc import Sequence
from datetime import datetime, timedelta

from msgspec import Struct

from knobledger.measured import Run


class Live(Struct, frozen=True):
    """A time in which a process with the new value ran."""

    since: datetime
    """the restart that activated it; aware"""
    until: datetime | None = None
    """the restart that ended it; None: still running"""


class Misplaced(Struct, frozen=True):
    """A run whose time does not fit its arm."""

    why: str
    certain: bool
    """the file itself states the time; else this is a warning and no rejection"""


def misplaced(run: Run, live: Sequence[Live]) -> Misplaced | None:
    """What speaks against the run's arm: taken before the restart that activated the knob, or while it was live.

    None if nothing does. `live` in any order; empty: no process ever had the new value.
    """
    if run.at is None:
        return Misplaced(
            "nothing says when it was taken, so the restart rule can't be checked", certain=False
        )
    began, ended = _span(run)
    certain = run.at_from == "file"
    source = {"file": "", "mtime": " (by the file's mtime)", "given": " (as given)", "none": ""}[run.at_from]
    if run.arm == "variant":
        if any(one.since <= began and (one.until is None or ended <= one.until) for one in live):
            return None
        if not live:
            return Misplaced("no process has had the new value: it was never restarted", certain)
        later = [one.since for one in live if one.since > began]
        if later:
            when = _clock(min(later))
            return Misplaced(
                f"taken at {_clock(began)}{source}, before the restart at {when} that activated it", certain
            )
        return Misplaced(
            f"taken at {_clock(began)}{source}, when the new value was no longer running", certain
        )
    if any(
        began < (one.until or datetime.max.replace(tzinfo=ended.tzinfo)) and one.since < ended for one in live
    ):
        return Misplaced(f"taken at {_clock(began)}{source}, while the new value was running", certain)
    return None


def _span(run: Run) -> tuple[datetime, datetime]:
    """From when to when a run measured."""
    at = datetime.fromisoformat(run.at or "")
    length = timedelta(seconds=run.duration_s if isinstance(run.duration_s, float) else 0)
    return (at - length, at) if run.at_from == "mtime" else (at, at + length)


def _clock(instant: datetime) -> str:
    return f"{instant:%Y-%m-%d %H:%M:%S}Z"
