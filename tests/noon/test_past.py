"""What copies beside a file say about its past: their names, their times, their order. Pure."""

from __future__ import annotations

import itertools
from datetime import UTC, datetime, timedelta

import pytest
from hypothesis import given
from hypothesis import strategies as st

from knobledger.names import HostPath, digest_of
from knobledger.past import Sighting, drift_bounds, is_copy, moment_in, reconstruct
from knobledger.receipt import Manifest

NOON = datetime(2026, 11, 30, 12, tzinfo=UTC)
PATH = HostPath("/root/serve.sh")
MANIFEST = Manifest(path=PATH, resolved=PATH, uid=0, gid=0, mode="0755", size=1, mtime=0)

COPIES = (
    *(
        "serve.sh.bak",
        "serve.sh.orig",
        "serve.sh~",
        "serve.sh.old",
        "serve.sh.bak2",
        "serve.sh.~3~",
        "serve.sh.save",
    ),
    *("serve.sh.20251130", "serve.sh.2025-11-30", "serve.sh-2025-11-30T20:25", "serve.sh.20251130202504.bak"),
    *(
        "serve.sh.pretgt_revert_2025.bak",
        "serve.sh.bak-before-tuning",
        "serve.sh.bak_2025",
        "serve.sh.1764530704",
    ),
    "serve.sh.15697.2026-11-30@07:55:09~",  # ansible.builtin.lineinfile, backup=yes
    "serve.sh.2611300755",  # pyinfra's files.line and files.replace, backup=True
    *("serve.sh.dpkg-old", "serve.sh.rpmsave", "serve.sh.20261130T075025Z-a2a5b484.bak"),
)
OTHERS = (
    *(
        "serve.sh",
        "serve.sh.log",
        "serve.sh.j2",
        "serve.sh.d",
        "serve.sh2",
        "serve.sh.lock",
        "serve.sh.rpmnew",
    ),
    *(
        "serve.sh.dpkg-dist",
        "serve.sh.swp",
        "serve.sh.gold",
        "other.sh.bak",
        "serve.sh.20251130.log",
        "serve.sh.bak.gz",
    ),
)


@pytest.mark.parametrize("name", COPIES)
def test_is_a_copy(name: str) -> None:
    assert is_copy(name, "serve.sh")


@pytest.mark.parametrize("name", OTHERS)
def test_is_none(name: str) -> None:
    assert not is_copy(name, "serve.sh")


@pytest.mark.parametrize(
    ("name", "offset_h", "moment"),
    [
        (".15697.2026-11-30@07:55:09~", 0, "2026-11-30T07:55:09"),
        (".15697.2026-11-30@07:55:09~", 1, "2026-11-30T06:55:09"),
        (".2611300755", 0, "2026-11-30T07:55:00"),
        (".20251130T202504Z-a2a5b484.bak", 5, "2025-11-30T20:25:04"),
        (".1764534304", 0, "2025-11-30T20:25:04"),
        (".2025-11-30_2025.bak", 0, "2025-11-30T20:25:00"),
        (".20251130", 0, None),  # a day is no moment
        (".pretgt_revert_2025.bak", 0, None),
        (".2025-13-30_2025.bak", 0, None),
    ],
)
def test_moment_in_a_name(name: str, offset_h: int, moment: str | None) -> None:
    found = moment_in(name, timedelta(hours=offset_h))
    assert (found.replace(tzinfo=None).isoformat() if found else None) == moment


def at(minutes: float) -> datetime:
    return NOON + timedelta(minutes=minutes)


def sighting(text: str, minutes: float, source: str = "", **more: object) -> Sighting:
    content = text.encode()
    return Sighting(content, digest_of(content), MANIFEST, source or f"copy {minutes}", at(minutes), **more)  # type: ignore[arg-type]


def story(*copies: Sighting, live: Sighting) -> list[tuple[bytes | None, bytes, datetime | None, datetime]]:
    past = reconstruct(copies, live)
    return [
        (p.before.content if p.before else None, p.after.content, p.not_before, p.not_after)
        for p in past.passages
    ]


def test_a_change_lies_between_one_copy_and_the_next() -> None:
    assert story(sighting("b", 20), sighting("a", 0), live=sighting("c", 30)) == [
        (None, b"a", None, at(0)),
        (b"a", b"b", at(0), at(20)),
        (b"b", b"c", at(20), at(30)),
    ]


def test_a_name_that_tells_when_the_copy_was_made_narrows_it() -> None:
    found = story(sighting("a", 0, still=at(25)), live=sighting("b", 30))
    assert found[-1] == (b"a", b"b", at(25), at(30))
    contradicted = story(sighting("a", 0, still=at(40)), live=sighting("b", 30))
    assert contradicted[-1] == (b"a", b"b", at(0), at(30))


def test_equal_copies_are_one_state_and_a_copy_of_the_live_bytes_is_no_change() -> None:
    assert story(sighting("a", 0), sighting("a", 10), live=sighting("b", 30))[-1][2] == at(10)
    assert story(sighting("a", 0), live=sighting("a", 30)) == []


def test_a_state_that_came_back_is_three_states() -> None:
    assert [p[1] for p in story(sighting("a", 0), sighting("b", 10), live=sighting("a", 20))] == [
        b"a",
        b"b",
        b"a",
    ]


def test_a_live_file_with_old_times_is_still_the_last_and_that_is_said() -> None:
    past = reconstruct([sighting("a", 0), sighting("b", 10)], sighting("a", 0, "live", latest=at(50)))
    assert (past.passages[-1].not_before, past.passages[-1].not_after) == (at(10), at(50))
    assert any("older time" in text for text in past.remarks)


def test_copies_of_one_time_are_ordered_by_content_and_that_is_said() -> None:
    live = sighting("x\n1\n2\n3\n", 30)
    past = reconstruct([sighting("x\n1\n2\n", 0, "A"), sighting("x\n1\n", 0, "B")], live)
    assert [p.after.content for p in past.passages] == [b"x\n1\n", b"x\n1\n2\n", b"x\n1\n2\n3\n"]
    assert any("same time" in text for text in past.remarks)


@given(st.lists(st.tuples(st.sampled_from("abc"), st.integers(0, 50)), max_size=6), st.sampled_from("abc"))
def test_the_passages_are_a_chain_in_time(copies: list[tuple[str, int]], live: str) -> None:
    """Whatever lies around: each passage begins where the one before ended, no time runs backwards, live is last."""
    seen = [sighting(text, minutes, f"{i}") for i, (text, minutes) in enumerate(copies)]
    past = reconstruct(seen, sighting(live, 25, "live", latest=at(60))).passages
    assert past == reconstruct(seen[::-1], sighting(live, 25, "live", latest=at(60))).passages
    for before, after in itertools.pairwise(past):
        assert after.before is not None
        assert after.before.digest == before.after.digest != after.after.digest
        assert after.not_before is not None
        assert after.not_before <= after.not_after
    if past:
        assert past[-1].after.content == live.encode()
    else:
        assert {text for text, _ in copies} <= {live}


SECOND = timedelta(microseconds=999_999)


@pytest.mark.parametrize(
    ("mtime", "end"),
    [(10, at(10) + SECOND), (-30, at(20)), (40, at(20)), (0, at(0) + SECOND), (20, at(20))],
    ids=["edited", "cp -p", "touch into the future", "in the second of the last proof", "just now"],
)
def test_drift_bounds(mtime: int, end: datetime) -> None:
    assert drift_bounds(at(0), at(mtime), at(20)) == (at(0), end)
