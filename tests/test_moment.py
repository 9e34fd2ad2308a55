"""WHEN and DURATION as data: what was typed, at which moment, and what it was taken to mean."""

from __future__ import annotations

from contextlib import suppress
from datetime import UTC, datetime, timedelta
from pathlib import Path
from zoneinfo import ZoneInfo

import pytest
from hypothesis import example, given
from hypothesis import strategies as st

from knobledger.errors import Usage
from knobledger.moment import DURATIONS, FORMS, duration, local_zone, parse

BERLIN = ZoneInfo("Europe/Berlin")
NEW_YORK = ZoneInfo("America/New_York")
EVENING = datetime(2026, 11, 30, 20, 25, 3, 123456, tzinfo=BERLIN)  # a Monday

SAID = [
    ("noon", "2026-11-30T11:00:00Z"),
    ("Noon", "2026-11-30T11:00:00Z"),
    ("midnight", "2026-11-29T23:00:00Z"),
    ("14:14", "2026-11-30T13:14:00Z"),
    ("9:05", "2026-11-30T08:05:00Z"),
    ("14:14:05.25", "2026-11-30T13:14:05.250000Z"),
    ("today", "2026-11-29T23:00:00Z"),
    ("today 18:00", "2026-11-30T17:00:00Z"),
    ("yesterday", "2026-11-28T23:00:00Z"),
    ("yesterday 18:00", "2026-11-29T17:00:00Z"),
    ("  yesterday   at  18:00 ", "2026-11-29T17:00:00Z"),
    ("yesterday noon", "2026-11-29T11:00:00Z"),
    ("2h", "2026-11-30T17:25:03Z"),
    ("2 hours ago", "2026-11-30T17:25:03Z"),
    ("90m", "2026-11-30T17:55:03Z"),
    ("1h30m", "2026-11-30T17:55:03Z"),
    ("1h 30m ago", "2026-11-30T17:55:03Z"),
    ("3 days ago", "2026-11-27T19:25:03Z"),
    ("1d 2h", "2026-11-29T17:25:03Z"),
    ("2 weeks ago", "2026-11-16T19:25:03Z"),
    ("sunday", "2026-11-28T23:00:00Z"),
    ("tue 09:00", "2026-11-24T08:00:00Z"),
    ("2026-11-30", "2026-11-29T23:00:00Z"),
    ("2026-11-29 noon", "2026-11-29T11:00:00Z"),
    ("2026-11-30T14:14", "2026-11-30T13:14:00Z"),
    ("2026-11-30 14:14:05", "2026-11-30T13:14:05Z"),
    ("2026-11-30T14:14:05.123456789", "2026-11-30T13:14:05.123456Z"),
    ("2026-11-30T13:14Z", "2026-11-30T13:14:00Z"),
    ("2026-11-30t13:14:05.5z", "2026-11-30T13:14:05.500000Z"),
    ("2026-11-30T14:14+01:00", "2026-11-30T13:14:00Z"),
    ("2026-11-30 08:14:00 -0500", "2026-11-30T13:14:00Z"),
    ("2026-11-30T18:44+05:30", "2026-11-30T13:14:00Z"),
    ("now", "2026-11-30T19:25:03.123456Z"),
]


@pytest.mark.parametrize(("text", "instant"), SAID)
def test_reads(text: str, instant: str) -> None:
    found = parse(text, now=EVENING, zone=BERLIN)
    assert found.instant == datetime.fromisoformat(instant)
    assert found.instant.tzinfo is UTC
    assert found.zone == "Europe/Berlin"
    assert found.remarks == ()


def test_every_advertised_form_is_read() -> None:
    for text in FORMS.split(", "):
        parse(text, now=EVENING, zone=BERLIN)
    for text in DURATIONS.split(", "):
        duration(text)


UNREADABLE = [
    *("", "0h", "0 days ago", "3", "foo", "august", "25:00", "14:60", "14", "2026-02-30", "2026-13-01"),
    *("2026-11-30Z", "2026-11-3014:14", "mondayt09:00", "monday foo", "noon noon", "-2h", "2h 2h", "٢h"),
    *("99999999d", "9999999999d", "0001-01-01", "2026-11-30T14:14+25:00", "2026-11-30 14:14 CET", "2h later"),
]


@pytest.mark.parametrize("text", UNREADABLE)
def test_refuses_what_it_cannot_read(text: str) -> None:
    with pytest.raises(Usage) as e:
        parse(text, now=EVENING, zone=BERLIN)
    assert repr(text) in e.value.message
    assert "yesterday 18:00" in e.value.hint
    assert e.value.values == {"value": text}


@pytest.mark.parametrize("text", ["today 23:00", "2026-12-01", "2026-11-30T20:25:04", "2026-11-30T19:26Z"])
def test_a_given_time_in_the_future_is_an_error_for_the_past_only(text: str) -> None:
    with pytest.raises(Usage, match="in the future") as e:
        parse(text, now=EVENING, zone=BERLIN)
    assert repr(text) in e.value.message
    assert parse(text, now=EVENING, zone=BERLIN, past=False).instant > EVENING


MORNING = datetime(2026, 11, 30, 9, 0, tzinfo=BERLIN)
MOVED = [
    ("noon", "2026-11-29T11:00:00Z", "noon has not come yet today: yesterday's noon"),
    ("14:14", "2026-11-29T13:14:00Z", "14:14 has not come yet today: yesterday's 14:14"),
    (
        "monday 10:00",
        "2026-11-23T09:00:00Z",
        "monday 10:00 has not come yet: the one a week ago, 2026-11-23",
    ),
    (
        "monday",
        "2026-11-29T23:00:00Z",
        "today is monday: today's was taken, the one before is 2026-11-23",
    ),
]


@pytest.mark.parametrize(("text", "instant", "remark"), MOVED)
def test_says_which_day_it_took(text: str, instant: str, remark: str) -> None:
    found = parse(text, now=MORNING, zone=BERLIN)
    assert found.instant == datetime.fromisoformat(instant)
    assert found.remarks == (remark,)


def test_for_an_end_that_may_lie_ahead_a_time_is_today() -> None:
    found = parse("noon", now=MORNING, zone=BERLIN, past=False)
    assert found.instant == datetime(2026, 11, 30, 11, tzinfo=UTC)
    assert found.remarks == ()


ECHOES = [
    ("noon", BERLIN, "noon = 2026-11-30 12:00 CET (Europe/Berlin) = 11:00 UTC"),
    ("midnight", BERLIN, "midnight = 2026-11-30 00:00 CET (Europe/Berlin) = 2026-11-29 23:00 UTC"),
    ("2h", BERLIN, "2h = 2026-11-30 18:25:03 CET (Europe/Berlin) = 17:25:03 UTC"),
    ("Yesterday  18:00", NEW_YORK, "Yesterday 18:00 = 2026-11-29 18:00 EST (America/New_York) = 23:00 UTC"),
    ("noon", ZoneInfo("UTC"), "noon = 2026-11-30 12:00 UTC"),
    ("noon", ZoneInfo("Asia/Kolkata"), "noon = 2026-11-30 12:00 IST (Asia/Kolkata) = 06:30 UTC"),
    ("noon", ZoneInfo("America/Sao_Paulo"), "noon = 2026-11-30 12:00 -03 (America/Sao_Paulo) = 15:00 UTC"),
]


@pytest.mark.parametrize(("text", "zone", "echo"), ECHOES)
def test_echo(text: str, zone: ZoneInfo, echo: str) -> None:
    assert parse(text, now=EVENING, zone=zone).echo() == echo


CLOCK_CHANGES = [
    # zone, now in UTC, text, instant, remark
    (
        BERLIN,
        "2026-03-29T10:00:00Z",
        "02:30",
        "2026-03-29T01:00:00Z",
        "02:30 does not exist on 2026-03-29 in Europe/Berlin (the clock was put forward): "
        "taken as 03:00 CEST, the first moment after it",
    ),
    (
        NEW_YORK,
        "2026-03-08T20:00:00Z",
        "2026-03-08 02:00",
        "2026-03-08T07:00:00Z",
        "02:00 does not exist on 2026-03-08 in America/New_York (the clock was put forward): "
        "taken as 03:00 EDT, the first moment after it",
    ),
    (
        BERLIN,
        "2026-10-25T10:00:00Z",
        "02:30",
        "2026-10-25T00:30:00Z",
        "02:30 came twice on 2026-10-25 (the clock was put back): "
        "the first was taken, 02:30 CEST; the second is 2026-10-25T01:30:00+00:00",
    ),
    (
        NEW_YORK,
        "2026-11-01T20:00:00Z",
        "01:59:59",
        "2026-11-01T05:59:59Z",
        "01:59:59 came twice on 2026-11-01 (the clock was put back): "
        "the first was taken, 01:59:59 EDT; the second is 2026-11-01T06:59:59+00:00",
    ),
    (  # between the two: the first has come, so there is no need to go back a day
        BERLIN,
        "2026-10-25T00:45:00Z",
        "02:30",
        "2026-10-25T00:30:00Z",
        "02:30 came twice on 2026-10-25 (the clock was put back): "
        "the first was taken, 02:30 CEST; the second is 2026-10-25T01:30:00+00:00",
    ),
    (  # days that begin at 01:00
        ZoneInfo("America/Havana"),
        "2026-03-08T20:00:00Z",
        "today",
        "2026-03-08T05:00:00Z",
        "00:00 does not exist on 2026-03-08 in America/Havana (the clock was put forward): "
        "taken as 01:00 CDT, the first moment after it",
    ),
    (
        BERLIN,
        "2026-03-29T10:00:00Z",
        "1 day ago",
        "2026-03-28T11:00:00Z",
        "the clock was changed in between: the same time of day was taken",
    ),
    (BERLIN, "2026-03-29T10:00:00Z", "24h", "2026-03-28T10:00:00Z", None),
    (BERLIN, "2026-03-29T10:00:00Z", "01:59", "2026-03-29T00:59:00Z", None),
    (BERLIN, "2026-03-29T10:00:00Z", "03:00", "2026-03-29T01:00:00Z", None),
    (BERLIN, "2026-10-25T10:00:00Z", "01:59", "2026-10-24T23:59:00Z", None),
    (BERLIN, "2026-10-25T10:00:00Z", "03:00", "2026-10-25T02:00:00Z", None),
    (NEW_YORK, "2026-03-08T20:00:00Z", "noon", "2026-03-08T16:00:00Z", None),
    (NEW_YORK, "2026-11-01T20:00:00Z", "noon", "2026-11-01T17:00:00Z", None),
    (BERLIN, "2026-10-25T10:00:00Z", "2026-10-25T02:30+01:00", "2026-10-25T01:30:00Z", None),
]


@pytest.mark.parametrize(("zone", "now", "text", "instant", "remark"), CLOCK_CHANGES)
def test_clock_changes_are_said(
    zone: ZoneInfo, now: str, text: str, instant: str, remark: str | None
) -> None:
    found = parse(text, now=datetime.fromisoformat(now), zone=zone)
    assert found.instant == datetime.fromisoformat(instant)
    assert found.remarks == ((remark,) if remark else ())


def test_a_skipped_time_that_the_clock_has_just_passed_is_no_future() -> None:
    now = datetime(2026, 3, 29, 1, 0, 1, tzinfo=UTC)  # 03:00:01 CEST
    assert parse("02:59", now=now, zone=BERLIN).instant == datetime(2026, 3, 29, 1, tzinfo=UTC)


@given(
    st.datetimes(datetime(1990, 1, 1), datetime(2030, 1, 1)),
    st.sampled_from([BERLIN, NEW_YORK, ZoneInfo("Australia/Lord_Howe"), ZoneInfo("Africa/Monrovia")]),
)
@example(datetime(2026, 10, 25, 0, 30), BERLIN)
@example(datetime(2026, 3, 29, 1, 0), BERLIN)
def test_what_the_zones_clock_shows_is_read_back(moment: datetime, zone: ZoneInfo) -> None:
    instant = moment.replace(tzinfo=UTC)
    local = instant.astimezone(zone)
    later = instant + timedelta(days=2)
    found = parse(local.replace(tzinfo=None).isoformat(), now=later, zone=zone)
    if local.fold:
        assert found.instant < instant
        assert "came twice" in found.remarks[0]
    else:
        assert found.instant == instant
    assert parse(found.instant.isoformat(), now=later, zone=zone).instant == found.instant


@given(st.text(max_size=30))
def test_never_fails_in_another_way(text: str) -> None:
    for reader in (lambda: parse(text, now=EVENING, zone=BERLIN), lambda: duration(text)):
        with suppress(Usage):
            reader()


@pytest.mark.parametrize(
    ("text", "seconds"),
    [
        *[
            ("85s", 85.0),
            ("10m", 600.0),
            ("1h30m", 5400.0),
            ("2d", 172800.0),
            ("1w", 604800.0),
            ("0.5s", 0.5),
        ],
        *[
            ("1h 30m", 5400.0),
            ("2 hours", 7200.0),
            ("500ms", 0.5),
            ("1m500ms", 60.5),
            (" 10M ", 600.0),
            ("0s", 0.0),
        ],
    ],
)
def test_durations(text: str, seconds: float) -> None:
    assert duration(text) == seconds


@pytest.mark.parametrize("text", ["", "85", "m", "-5s", "5 parsecs", "1m1h", "1m1m", "1e3s", "٣s", "5s ago"])
def test_no_durations(text: str) -> None:
    with pytest.raises(Usage, match="no duration") as e:
        duration(text)
    assert repr(text) in e.value.message
    assert "1h30m" in e.value.hint


def machine(root: Path, localtime: str | None = None, timezone: str | None = None) -> Path:
    (root / "etc").mkdir()
    if localtime is not None:
        (root / "etc/localtime").symlink_to(localtime)
    if timezone is not None:
        (root / "etc/timezone").write_text(timezone)
    return root


ZONES = [
    ({"TZ": "America/New_York"}, "/usr/share/zoneinfo/Europe/Berlin", "Asia/Tokyo\n", "America/New_York"),
    ({"TZ": ":America/New_York"}, None, None, "America/New_York"),
    ({"TZ": "/usr/share/zoneinfo/posix/America/New_York"}, None, None, "America/New_York"),
    ({"TZ": ""}, "/usr/share/zoneinfo/Europe/Berlin", None, "UTC"),
    ({"TZ": "CET-1CEST"}, "/usr/share/zoneinfo/Europe/Berlin", None, "Europe/Berlin"),
    ({}, "/usr/share/zoneinfo/Europe/Berlin", "Asia/Tokyo\n", "Europe/Berlin"),
    ({}, "../usr/share/zoneinfo/Etc/UTC", None, "Etc/UTC"),
    ({}, None, "Asia/Tokyo\n", "Asia/Tokyo"),
    ({}, "/somewhere/else", "\n", "UTC"),
    ({}, None, None, "UTC"),
]


@pytest.mark.parametrize(("env", "localtime", "timezone", "zone"), ZONES)
def test_the_operators_zone(
    tmp_path: Path, env: dict[str, str], localtime: str | None, timezone: str | None, zone: str
) -> None:
    assert local_zone(env, machine(tmp_path, localtime, timezone)) == zone
