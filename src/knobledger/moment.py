"""WHEN and DURATION: what an operator types, resolved against a given now and zone.

Pure but for `local_zone`, which looks at the machine. Nothing here guesses silently: a choice that
another reader could make otherwise is in `Resolved.remarks`.
"""

from __future__ import annotations

import re
from collections.abc import Callable, Mapping
from datetime import UTC, date, datetime, time, timedelta
from pathlib import Path
from zoneinfo import ZoneInfo

from msgspec import Struct

from knobledger.errors import Usage

FORMS = (
    "noon, midnight, 14:14, today, yesterday 18:00, monday, monday 09:00, 2h, 90m, 3 days ago, "
    "2026-11-30, 2026-11-30T14:14, 2026-11-30T13:14:05Z"
)
"""One example of each form of WHEN, for hints and help."""

DURATIONS = "85s, 10m, 1h30m, 2d"
"""One example of each form of DURATION, for hints and help."""

_N = r"(\d{1,9}(?:\.\d{1,6})?)\s*"
# Text, not compiled: most commands import this module and read no time; `re` keeps what it compiled.
_SPAN = (
    rf"(?:{_N}(?:w|weeks?)\s*)?(?:{_N}(?:d|days?)\s*)?(?:{_N}(?:h|hrs?|hours?)\s*)?"
    rf"(?:{_N}(?:m|mins?|minutes?)\s*)?(?:{_N}(?:s|secs?|seconds?)\s*)?(?:{_N}ms)?"
)
_DAY = r"(?:([a-z]{3,9})|(\d{4}-\d\d-\d\d)(?=t\d|$| ))(?:(?: (?:at )?|(?<=\d)t)(.+))?"
_CLOCK = r"(\d\d?):(\d\d)(?::(\d\d)(?:[.,](\d{1,9}))?)?"
_OFFSET = r"(.*\d) ?(z|[+-]\d\d(?::?\d\d)?)"
_WEEKDAYS = ("monday", "tuesday", "wednesday", "thursday", "friday", "saturday", "sunday")


class Resolved(Struct, frozen=True):
    """What a WHEN was taken to mean."""

    instant: datetime
    """aware, in UTC"""
    text: str
    """as typed"""
    zone: str
    """the IANA name of the zone that it was read in"""
    remarks: tuple[str, ...] = ()
    """each choice that was made, for people to read"""

    def echo(self) -> str:
        """`noon = 2026-11-30 12:00 CET (Europe/Berlin) = 11:00 UTC`."""
        local = self.instant.astimezone(ZoneInfo(self.zone))
        shown = f"{self.text} = {local.date()} {_shown(local)}"
        if local.tzname() == "UTC":
            return shown
        other_day = "" if local.date() == self.instant.date() else f"{self.instant.date()} "
        return f"{shown} ({self.zone}) = {other_day}{_shown(self.instant)}"


def parse(text: str, *, now: datetime, zone: ZoneInfo, past: bool = True) -> Resolved:
    """The instant that `text` means at `now` (aware) for somebody whose clock shows `zone`.

    A time without a day is today's; if `past` and it has not come yet, yesterday's. A weekday is the latest
    one, today included. Days and weeks ago keep the time of day; hours, minutes and seconds are elapsed time.
    A local time that came twice is the first of the two, one that a clock change skipped is the first
    moment after it; `remarks` says so. Raises `Usage` if `text` is none of `FORMS`, or if it names a moment
    after `now` and `past` is set.
    """
    words = " ".join(text.lower().split())
    try:
        instant, remarks = _read(words, now.astimezone(zone), zone, past)
    except (ValueError, OverflowError) as e:
        raise Usage(f"no time that can be read: {text!r}", hint=f"forms: {FORMS}", value=text) from e
    resolved = Resolved(instant, " ".join(text.split()), zone.key, tuple(remarks))
    if past and instant > now:
        raise Usage(
            f"in the future: {text!r} ({resolved.echo()})",
            hint=f"give a time that has passed, in one of the forms: {FORMS}",
            value=text,
        )
    return resolved


def duration(text: str) -> float:
    """Seconds in `85s`, `10m`, `1h30m`, `2d`; units are w d h m s ms, in this order. Raises `Usage`."""
    span = re.fullmatch(_SPAN, text.strip().lower(), re.ASCII)
    if span is None or not any(span.groups()):
        raise Usage(
            f"no duration: {text!r}", hint=f"a number and a unit of w d h m s ms: {DURATIONS}", value=text
        )
    weeks, days, hours, minutes, seconds, ms = (float(part or 0) for part in span.groups())
    return (((weeks * 7 + days) * 24 + hours) * 60 + minutes) * 60 + seconds + ms / 1000


def local_zone(env: Mapping[str, str], root: Path = Path("/")) -> str:
    """The name of the operator's zone: `TZ`, then the link `etc/localtime` below `root`, then `etc/timezone`, else UTC.

    A source that names no IANA zone (a POSIX rule such as `CET-1CEST`) is passed over.
    """
    etc = root / "etc"
    sources: tuple[Callable[[], str], ...] = (
        lambda: env["TZ"].removeprefix(":") or "UTC",
        lambda: str((etc / "localtime").readlink()),
        lambda: (etc / "timezone").read_text(encoding="utf-8").strip(),
    )
    for read in sources:
        try:
            return ZoneInfo(re.sub(r".*zoneinfo/(?:posix/|right/)?", "", read())).key
        except (KeyError, OSError, ValueError):
            continue
    return "UTC"


def _read(words: str, now: datetime, zone: ZoneInfo, past: bool) -> tuple[datetime, list[str]]:
    """The instant and the remarks. `now` is local. Raises `ValueError`, `OverflowError`."""
    if words == "now":
        return now.astimezone(UTC), []
    if span := re.fullmatch(_SPAN, words.removesuffix(" ago"), re.ASCII):
        return _ago([part or "0" for part in span.groups()], now, zone)
    if clock := _time_of(words):
        instant, remarks = _local(now.date(), clock, zone)
        if past and instant > now:
            instant, remarks = _local(now.date() - timedelta(days=1), clock, zone)
            remarks.insert(0, f"{words} has not come yet today: yesterday's {words}")
        return instant, remarks
    day = re.fullmatch(_DAY, words, re.ASCII)
    if day is None:
        raise ValueError(words)
    name, iso, rest = day.groups()
    if iso:
        on = date.fromisoformat(iso)
        if rest and (offset := re.fullmatch(_OFFSET, rest, re.ASCII)):
            return _with_offset(on, offset[1], offset[2]), []
        return _local(on, _clock(rest), zone)
    if name in ("today", "yesterday"):
        return _local(now.date() - timedelta(days=name == "yesterday"), _clock(rest), zone)
    return _weekday(name, words, _clock(rest), now, zone, past)


def _ago(parts: list[str], now: datetime, zone: ZoneInfo) -> tuple[datetime, list[str]]:
    if not any(float(part) for part in parts):
        raise ValueError("nothing to go back")
    weeks, days, *clock = (float(part) for part in parts)
    hours, minutes, seconds, ms = clock
    back = timedelta(hours=hours, minutes=minutes, seconds=seconds, milliseconds=ms)
    whole, remarks = now.astimezone(UTC), list[str]()
    if calendar := timedelta(weeks=weeks, days=days):
        earlier = now.replace(tzinfo=None) - calendar
        whole, remarks = _local(earlier.date(), earlier.time(), zone)
        changed = now.utcoffset() != whole.astimezone(zone).utcoffset()
        if changed and not remarks:
            remarks = ["the clock was changed in between: the same time of day was taken"]
    return (whole - back).replace(microsecond=0), remarks


def _weekday(
    name: str, words: str, clock: time, now: datetime, zone: ZoneInfo, past: bool
) -> tuple[datetime, list[str]]:
    names = [full for full in _WEEKDAYS if full == name or full[:3] == name]
    if not names:
        raise ValueError(name)
    back = (now.weekday() - _WEEKDAYS.index(names[0])) % 7
    week_before = now.date() - timedelta(days=back + 7)
    instant, remarks = _local(now.date() - timedelta(days=back), clock, zone)
    if past and instant > now:
        instant, remarks = _local(week_before, clock, zone)
        remarks.insert(0, f"{words} has not come yet: the one a week ago, {week_before}")
    elif back == 0:
        remarks.insert(0, f"today is {names[0]}: today's was taken, the one before is {week_before}")
    return instant, remarks


def _clock(text: str | None) -> time:
    """The time of day in `text`, midnight if there is none. Raises `ValueError`."""
    if text is None:
        return time()
    clock = _time_of(text)
    if clock is None:
        raise ValueError(text)
    return clock


def _time_of(text: str) -> time | None:
    """The time of day, if `text` is one. Raises `ValueError` for one that no clock shows."""
    if text in ("noon", "midnight"):
        return time(12 if text == "noon" else 0)
    if not (found := re.fullmatch(_CLOCK, text, re.ASCII)):
        return None
    hour, minute, second, fraction = found.groups()
    return time(int(hour), int(minute), int(second or 0), int((fraction or "").ljust(6, "0")[:6]))


def _with_offset(on: date, clock: str, offset: str) -> datetime:
    local = datetime.combine(on, _clock(clock))
    return (datetime.fromisoformat(f"{local.isoformat()}{'+00:00' if offset == 'z' else offset}")).astimezone(
        UTC
    )


def _local(on: date, clock: time, zone: ZoneInfo) -> tuple[datetime, list[str]]:
    """A local time as an instant, and a remark if a clock change made it come twice or not at all."""
    naive = datetime.combine(on, clock)
    first, second = (naive.replace(tzinfo=zone, fold=fold).astimezone(UTC) for fold in (0, 1))
    if first == second:
        return first, []
    if first < second:
        return first, [
            f"{_plain(naive)} came twice on {on} (the clock was put back): "
            f"the first was taken, {_shown(first.astimezone(zone))}; the second is {second.isoformat()}"
        ]
    # Skipped: `second` lies before the change and `first` after it, whatever the names say.
    before, after = second, first
    offset = after.astimezone(zone).utcoffset()
    while after - before > timedelta(seconds=1):
        middle = before + (after - before) / 2
        if middle.astimezone(zone).utcoffset() == offset:
            after = middle
        else:
            before = middle
    change = after.replace(microsecond=0)
    return change, [
        f"{_plain(naive)} does not exist on {on} in {zone.key} (the clock was put forward): "
        f"taken as {_shown(change.astimezone(zone))}, the first moment after it"
    ]


def _plain(moment: datetime) -> str:
    return moment.time().isoformat("auto" if moment.second or moment.microsecond else "minutes")


def _shown(moment: datetime) -> str:
    return f"{_plain(moment)} {moment.tzname()}"
