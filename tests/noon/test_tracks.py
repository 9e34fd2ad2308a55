"""Login and sudo records as real hosts write them."""

from __future__ import annotations

from datetime import UTC, datetime, timedelta

import pytest

from knobledger.tracks import Interval, commands, logins

WITHIN = Interval(
    datetime(2026, 11, 30, 19, 0, tzinfo=UTC), datetime(2026, 11, 30, 19, 30, tzinfo=UTC), timedelta(hours=1)
)

LAST = """\
ben      pts/1        10.0.0.7         2026-11-30T20:10:11+01:00   still logged in
ada      pts/0        10.0.0.5         2026-11-30T13:55:01+01:00 - 2026-11-30T20:02:02+01:00  (06:07)
eve      pts/0        10.0.0.6         2026-11-29T09:00:00+01:00 - 2026-11-29T10:00:00+01:00  (01:00)
kim      tty1                          2026-11-30T08:00:00+01:00 - down                       (13:00)
reboot   system boot  6.1.0-18-amd64   2026-11-29T08:00:00+01:00   still running

wtmp begins 2026-11-01T00:00:00+01:00
"""


def test_logins_of_the_interval() -> None:
    found = logins(LAST, WITHIN)
    assert [text.split()[0] for text in found] == ["ben", "ada", "kim"]
    assert (
        found[1]
        == "ada was logged in on pts/0 from 10.0.0.5, 2026-11-30 13:55:01+01:00 to 2026-11-30 20:02:02+01:00"
    )


SUDO = "sudo:      ada : TTY=pts/0 ; PWD=/root ; USER=root ; COMMAND=/usr/bin/vi /root/serve.sh"


@pytest.mark.parametrize(
    "stamp", ["2026-11-30T20:25:04.123456+01:00 gpu1", "Nov 30 20:25:04 gpu1", "1796066704.123456 gpu1"]
)
def test_sudo_in_each_form_of_log(stamp: str) -> None:
    assert commands(f"{stamp} {SUDO}\n", WITHIN, "serve.sh") == [
        "ada ran `/usr/bin/vi /root/serve.sh` by sudo as root at 2026-11-30 20:25:04+01:00"
    ]


@pytest.mark.parametrize(
    "stamp", ["2026-11-30T19:25:04+01:00 gpu1", "Nov 30 21:25:04 gpu1", "Nov 29 20:25:04 gpu1"]
)
def test_other_times_say_nothing(stamp: str) -> None:
    assert commands(f"{stamp} {SUDO}\n", WITHIN, "serve.sh") == []


def test_what_names_the_file_comes_first() -> None:
    log = (
        "2026-11-30T20:05:00+01:00 gpu1 sshd[7]: Accepted publickey for ben from 10.0.0.7 port 50000 ssh2\n"
        "2026-11-30T20:06:00+01:00 gpu1 sudo[9]:  kim : PWD=/ ; USER=root ; COMMAND=/usr/bin/true\n"
        f"2026-11-30T20:25:04+01:00 gpu1 {SUDO}\n"
    )
    assert [text.split()[0] for text in commands(log, WITHIN, "serve.sh")] == ["ada", "ben", "kim"]


@pytest.mark.parametrize(
    "text", ["", "garbage\n", "Feb 30 20:25:04 gpu1 sudo: x", "\x00\xff\n", "9999999999 x\n"]
)
def test_odd_text_is_no_hint(text: str) -> None:
    assert commands(text, WITHIN, "serve.sh") == []
    assert logins(text, WITHIN) == []
