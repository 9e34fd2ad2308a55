"""How files come to be, and how it is known that a day has not changed."""

from __future__ import annotations

import errno
import os
import stat
import time
from collections.abc import Iterator
from pathlib import Path

import pytest

from knobledger.errors import LedgerUnwritable
from knobledger.ledger import writing
from knobledger.ledger.days import Day, days, ids_in, stamps
from knobledger.ledger.writing import private_folder, sweep, write_once, write_over


def _mode(path: Path) -> int:
    return stat.S_IMODE(path.stat().st_mode)


@pytest.fixture
def no_umask() -> Iterator[None]:
    old = os.umask(0)
    yield
    os.umask(old)


@pytest.fixture
def forced(monkeypatch: pytest.MonkeyPatch) -> list[str]:
    """The names of what is forced to disk, in order; a temporary file as `*.tmp`."""
    names: list[str] = []
    fsync = os.fsync

    def force(fd: int) -> None:
        name = Path(os.readlink(f"/proc/self/fd/{fd}")).name
        names.append("*.tmp" if name.endswith(".tmp") else name)
        fsync(fd)

    monkeypatch.setattr(writing.os, "fsync", force)
    return names


def test_who_may_read_what_is_written(tmp_path: Path, no_umask: None) -> None:
    write_once(tmp_path / "open" / "once", b"")
    writing.write_in_order([(tmp_path / "several" / "first", b"")])
    write_over(tmp_path / "closed" / "over", b"")
    private_folder(tmp_path)
    modes = {path.relative_to(tmp_path).as_posix(): _mode(path) for path in tmp_path.rglob("*")}
    assert modes == {
        "open": 0o777,
        "open/once": 0o444,
        "several": 0o777,
        "several/first": 0o444,
        "closed": 0o700,
        "closed/over": 0o600,
        ".knobledger": 0o700,
        ".knobledger/.gitignore": 0o600,
    }
    assert (tmp_path / ".knobledger" / ".gitignore").read_text() == "*\n"


def test_what_is_written_is_forced_to_disk_with_the_folders_that_name_it(
    tmp_path: Path, forced: list[str]
) -> None:
    write_once(tmp_path / "a" / "b" / "once", b"content")
    assert forced == [tmp_path.name, "a", "*.tmp", "b"]
    forced.clear()
    write_over(tmp_path / "a" / "over", b"content")
    assert forced == ["*.tmp", "a"]
    forced.clear()
    write_over(tmp_path / "a" / "cache", b"content", durable=False)
    assert forced == []


def test_a_name_that_is_taken_keeps_its_bytes_without_hard_links_too(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    def refuse(self: Path, target: Path) -> None:
        raise OSError(errno.EPERM, os.strerror(errno.EPERM))

    for name in ("linked", "moved"):
        path = tmp_path / name
        assert write_once(path, b"first")
        assert not write_once(path, b"second")
        assert path.read_bytes() == b"first"
        monkeypatch.setattr(Path, "hardlink_to", refuse)
    assert sorted(os.listdir(tmp_path)) == ["linked", "moved"]


def test_what_can_not_be_written_over_stays_as_it_was_and_leaves_nothing_beside_it(tmp_path: Path) -> None:
    path = tmp_path / "taken"
    path.mkdir()
    (path / "inside").touch()
    with pytest.raises(LedgerUnwritable) as caught:
        write_over(path, b"content")
    assert caught.value.message == f"can't write {str(path)!r}: is a directory"
    assert caught.value.hint == "free the space or mend the permissions, then `knob recover`"
    assert caught.value.values["path"] == str(path)
    assert os.listdir(tmp_path) == ["taken"]


def test_a_link_laid_in_the_way_is_not_followed(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """The temporary name is drawn by chance; here somebody has guessed it."""
    monkeypatch.setattr(writing.secrets, "token_hex", lambda _size: "ab")
    victim = tmp_path / "victim"
    victim.write_bytes(b"theirs")
    (tmp_path / f".name.{os.getpid()}.ab.tmp").symlink_to(victim)
    with pytest.raises(LedgerUnwritable, match="file exists"):
        write_once(tmp_path / "name", b"ours")
    assert victim.read_bytes() == b"theirs"
    assert not (tmp_path / "name").exists()


def test_every_stale_file_is_swept_and_counted(tmp_path: Path) -> None:
    for name in (".a.tmp", ".b.tmp", ".c.tmp", "kept.tmp", ".kept"):
        (tmp_path / name).touch()
        os.utime(tmp_path / name, (0, time.time() - writing.STALE_S - 60))
    (tmp_path / ".fresh.tmp").touch()
    assert sweep(tmp_path) == 3
    assert sorted(os.listdir(tmp_path)) == [".fresh.tmp", ".kept", "kept.tmp"]
    assert sweep(tmp_path / "nowhere") == 0


def test_only_folders_of_digits_are_days(tmp_path: Path) -> None:
    for place in (
        "2026/11/30",
        "2026/02/01",
        "2025/12/31",
        "2026/11/3",
        "2026/11/३०",
        "2026/1a/01",
        "20261/11/30",
    ):
        (tmp_path / place).mkdir(parents=True)
    (tmp_path / "2026/11/29").touch()
    (tmp_path / "2024").touch()
    assert days(tmp_path) == ["2025/12/31", "2026/02/01", "2026/11/30"]
    assert ids_in(tmp_path, Day("2026/11/29")) == set()


def test_a_day_that_goes_while_days_are_looked_at_hides_no_other(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    for number in (28, 29, 30):
        (tmp_path / f"2026/11/{number}").mkdir(parents=True)
    every = days(tmp_path)
    (tmp_path / "2026/11/29").rmdir()
    monkeypatch.setattr("knobledger.ledger.days.days", lambda _: every)
    assert list(stamps(tmp_path)) == ["2026/11/28", "2026/11/30"]


def test_a_day_that_changed_just_now_has_no_stamp(tmp_path: Path) -> None:
    day = tmp_path / "2026/11/30"
    day.mkdir(parents=True)
    assert stamps(tmp_path) == {"2026/11/30": None}
