"""What a host's own records say about who was there in an interval: logins and sudo. Pure; hints, never facts.

Formats: `last --time-format iso` of util-linux; auth.log and secure of rsyslog, with RFC 3339 or with the
traditional stamps (month, day, time, no year, local time); `journalctl -o short-unix`.
"""

from __future__ import annotations

import re
from collections.abc import Iterator
from datetime import UTC, datetime, timedelta, timezone

from msgspec import Struct

_LAST = re.compile(r"(\S+)\s+(\S+)\s+(?:(\S+)\s+)?(\d{4}-\d\d-\d\dT\S+)\s*(?:-\s*(\S+)|(\S.*))?")
_ISO = re.compile(r"(\d{4}-\d\d-\d\dT\d\d:\d\d:\d\d(?:\.\d+)?(?:Z|[+-]\d\d:?\d\d))\s+(.*)")
_UNIX = re.compile(r"(\d{10})(?:\.\d+)?\s+(.*)")
_OLD = re.compile(r"([A-Z][a-z]{2})\s+(\d\d?)\s+(\d\d):(\d\d):(\d\d)\s+(.*)")
_MONTHS = ("Jan", "Feb", "Mar", "Apr", "May", "Jun", "Jul", "Aug", "Sep", "Oct", "Nov", "Dec")
_SUDO = re.compile(r"sudo(?:\[\d+\])?:\s+(\S+)\s*:.*?\bUSER=(\S+)\s*;.*?\bCOMMAND=(.*)")
_SSHD = re.compile(r"sshd\S*:\s+Accepted \S+ for (\S+) from (\S+)")
_NOT_PEOPLE = {"reboot", "shutdown", "runlevel", "wtmp", "boot"}
MOST = 8
"""hints of one kind that are worth showing"""


class Interval(Struct, frozen=True):
    """Aware moments by the host's clock; `offset` is what its local time is ahead of UTC."""

    start: datetime
    end: datetime
    offset: timedelta


def logins(text: str, within: Interval) -> list[str]:
    """Who was logged in at some time of the interval, by the output of `last`."""
    found = []
    for line in text.splitlines():
        match = _LAST.match(line)
        if match is None or match[1] in _NOT_PEOPLE:
            continue
        begin, end = _iso(match[4]), _iso(match[5] or "")
        if begin is None or begin > within.end or (end is not None and end < within.start):
            continue
        until = f"to {_clock(end, within)}" if end else "and has not logged out in these records"
        origin = f" from {match[3]}" if match[3] else ""
        found.append(f"{match[1]} was logged in on {match[2]}{origin}, {_clock(begin, within)} {until}")
    return list(dict.fromkeys(found))[:MOST]


def commands(text: str, within: Interval, name: str) -> list[str]:
    """sudo commands and accepted logins of the interval, those that name the file first."""
    about: list[str] = []
    others: list[str] = []
    for at, said in _lines(text, within):
        if not within.start <= at <= within.end:
            continue
        if sudo := _SUDO.search(said):
            hint = f"{sudo[1]} ran `{sudo[3].strip()}` by sudo as {sudo[2]} at {_clock(at, within)}"
            (about if name in sudo[3] else others).append(hint)
        elif sshd := _SSHD.search(said):
            others.append(f"{sshd[1]} came in by ssh from {sshd[2]} at {_clock(at, within)}")
    return list(dict.fromkeys([*about, *others]))[:MOST]


def _lines(text: str, within: Interval) -> Iterator[tuple[datetime, str]]:
    for line in text.splitlines():
        if match := _ISO.match(line):
            at = _iso(match[1])
            if at is not None:
                yield at, match[2]
        elif match := _UNIX.match(line):
            yield datetime.fromtimestamp(int(match[1]), UTC), match[2]
        elif (match := _OLD.match(line)) and match[1] in _MONTHS:
            at = _old(match, within)
            if at is not None:
                yield at, match[6]


def _old(match: re.Match[str], within: Interval) -> datetime | None:
    """A stamp without a year: of the last year in which it is not later than the interval."""
    zone = timezone(within.offset)
    for year in (within.end.astimezone(zone).year, within.end.astimezone(zone).year - 1):
        try:
            day, hour, minute, second = (int(match[i]) for i in range(2, 6))
            at = datetime(year, _MONTHS.index(match[1]) + 1, day, hour, minute, second, tzinfo=zone)
        except ValueError:
            continue
        if at <= within.end + timedelta(days=1):
            return at.astimezone(UTC)
    return None


def _iso(text: str) -> datetime | None:
    try:
        at = datetime.fromisoformat(text)
    except ValueError:
        return None
    return at if at.tzinfo else None


def _clock(at: datetime, within: Interval) -> str:
    local = at.astimezone(timezone(within.offset))
    sign, minutes = ("-", -within.offset) if within.offset < timedelta() else ("+", within.offset)
    hours, rest = divmod(int(minutes.total_seconds()) // 60, 60)
    return f"{local:%Y-%m-%d %H:%M:%S}{sign}{hours:02}:{rest:02}"
