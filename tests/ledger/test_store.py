from __future__ import annotations

import errno
import json
import os
import shutil
import sqlite3
import stat
import subprocess
import sys
import threading
import time
from contextlib import closing
from datetime import timedelta
from pathlib import Path

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
from ledgers import NOON, at, chain, change, files, note, overwrite, path_of, scratch

from knobledger.errors import LedgerBroken, LedgerUnwritable, Unknown
from knobledger.event import encode, id_of
from knobledger.events.entry import Foreign
from knobledger.events.notes import Noted
from knobledger.ledger import days as dates
from knobledger.ledger import lookup, writing
from knobledger.ledger.days import SETTLED_NS, day_of
from knobledger.ledger.index import Index
from knobledger.ledger.store import Ledger
from knobledger.ledger.verify import verify
from knobledger.names import EventId


@pytest.fixture
def ledger(tmp_path: Path) -> Ledger:
    return Ledger(tmp_path)


def test_an_event_file_is_named_by_its_bytes_and_lies_in_its_day(ledger: Ledger) -> None:
    id_ = ledger.append(note("first"))
    assert list(files(ledger)) == [f"2026/11/30/{id_}.json"]
    path = path_of(ledger, id_)
    said = subprocess.run(
        ["sha256sum", path.name], cwd=path.parent, capture_output=True, text=True, check=True
    )
    assert said.stdout == f"{id_}  {id_}.json\n"
    assert path.read_bytes() == encode(note("first"))
    assert stat.S_IMODE(path.stat().st_mode) & 0o222 == 0


def test_parents_are_the_heads_that_the_writer_knew(ledger: Ledger) -> None:
    first = ledger.append(note("first"))
    second = ledger.append(note("second", 1))
    assert ledger.get(first).event.parents == ()
    assert ledger.get(second).event.parents == (first,)
    assert ledger.heads() == (second,)
    assert ledger.written == [first, second]


def test_diverged_clones_meet_in_the_next_event(tmp_path: Path) -> None:
    left, right = Ledger(tmp_path / "left"), Ledger(tmp_path / "right")
    base = left.append(note("base"))
    right.add(left.content(base))
    a, b = left.append(note("left", 1)), right.append(note("right", 2))
    right.add(left.content(a))
    assert right.heads() == tuple(sorted((a, b)))
    joined = right.append(note("joined", 3))
    assert right.get(joined).event.parents == tuple(sorted((a, b)))
    assert right.heads() == (joined,)
    assert verify(right) == ()


def test_events_come_in_order_of_time_then_id_across_days(ledger: Ledger) -> None:
    for minutes in (3000, 10, 0, 10, 1500):
        ledger.append(note(f"{minutes} {time.monotonic_ns()}", minutes))
    listed = [(stored.event.at, stored.id) for stored in ledger.events()]
    assert listed == sorted(listed)
    assert len(listed) == 5


def test_events_within_bounds_open_no_other_day(ledger: Ledger) -> None:
    for minutes in (-1440, 0, 10, 1440):
        ledger.append(note(str(minutes), minutes))
    overwrite(next(iter((ledger.folder / "2026/11/29").iterdir())), b"damaged")
    found = ledger.events(since=NOON, until=NOON + timedelta(minutes=1440))
    assert [stored.event.text for stored in found if isinstance(stored.event, Noted)] == ["0", "10"]


def test_adding_an_event_twice_is_once(ledger: Ledger) -> None:
    content = encode(note("again"))
    assert ledger.add(content) == ledger.add(content) == id_of(content)
    assert len(files(ledger)) == 1


def test_an_append_never_overwrites(ledger: Ledger) -> None:
    id_ = ledger.append(note("first"))
    overwrite(path_of(ledger, id_), b"{}")
    with pytest.raises(LedgerBroken):
        ledger.add(encode(note("first")))
    assert path_of(ledger, id_).read_bytes() == b"{}"


def test_what_is_no_event_is_not_added(ledger: Ledger) -> None:
    with pytest.raises(LedgerBroken):
        ledger.add(b'{"kind":"noted"}')
    with pytest.raises(ValueError, match="not a moment"):
        ledger.append(Noted(at="../../../../etc/passwd", actor="x", text="y"))
    assert not ledger.folder.exists()


def test_an_event_of_a_newer_version_is_kept_and_shown(ledger: Ledger) -> None:
    content = b'{"actor":"a","at":"%s","format":1,"kind":"measured","parents":[],"speed":9}' % at().encode()
    id_ = ledger.add(content)
    stored = ledger.get(id_)
    assert isinstance(stored.event, Foreign)
    assert stored.event.kind == "measured"
    assert ledger.content(id_) == content
    assert ledger.heads() == (id_,)


@pytest.mark.parametrize(
    "damage", [b"", b"{", b'{"kind":"noted"}', b"\xff\xfe", b"[1]", b"null", b"[" * 99_999]
)
def test_a_damaged_file_is_named(ledger: Ledger, damage: bytes) -> None:
    bad, good = ledger.append(note("bad")), ledger.append(note("good", 1))
    overwrite(path_of(ledger, bad), damage)
    for read in (lambda: list(ledger.events()), lambda: ledger.get(bad), lambda: ledger.content(bad)):
        with pytest.raises(LedgerBroken, match=bad) as caught:
            read()
        assert caught.value.hint == "`knob verify`"
        assert caught.value.values["path"] == str(path_of(ledger, bad))
    assert [stored.id for stored in ledger.events(lenient=True)] == [good]


def test_an_event_in_the_wrong_folder_is_damage(ledger: Ledger) -> None:
    path = path_of(ledger, ledger.append(note()))
    other = ledger.folder / "2026/12/01"
    other.mkdir(parents=True)
    path.rename(other / path.name)
    with pytest.raises(LedgerBroken, match="2026/11/30 lies in the folder of 2026/12/01"):
        list(ledger.events())
    assert list(ledger.events(lenient=True)) == []


def test_appending_works_beside_a_damaged_file(ledger: Ledger) -> None:
    first, second = ledger.append(note("first")), ledger.append(note("second", 1))
    overwrite(path_of(ledger, second), b"damaged")
    third = Ledger(ledger.root).append(note("third", 2))
    assert ledger.get(third).event.parents == (first,)


def test_prefixes(ledger: Ledger) -> None:
    ids = [ledger.append(note(str(n), n)) for n in range(40)]
    assert ledger.resolve(ids[0]) == ids[0]
    assert ledger.resolve(ids[0][:12].upper()) == ids[0]
    for wrong in ("abc", "", "xyzw", "../../..", "f" * 65):
        with pytest.raises(Unknown) as caught:
            ledger.resolve(wrong)
        assert caught.value.message == f"not an id: {wrong!r}; an id is 4 to 64 hex digits"
        assert caught.value.hint == "`knob log` lists the ids"
        assert caught.value.values["value"] == wrong
    absent = next(f"{n:04x}" for n in range(65536) if not any(i.startswith(f"{n:04x}") for i in ids))
    for missing in (absent, "0" * 64, "0123456789abcdef"):
        with pytest.raises(Unknown) as caught:
            ledger.resolve(missing)
        assert caught.value.message == f"no event {missing!r}"
        assert caught.value.hint == "`knob log` lists the ids"
        assert caught.value.values["value"] == missing


@pytest.mark.parametrize("index", ["none", "current", "lagging", "ahead", "damaged", "of another version"])
def test_prefixes_are_true_whatever_the_index_says(ledger: Ledger, index: str) -> None:
    ids = [ledger.append(note(str(n), n * 700)) for n in range(12)]
    path = ledger.root / ".knobledger" / "index.sqlite"
    if index != "none":
        for day in ledger.folder.glob("*/*/*"):
            _age(day)
        Index(ledger).rebuild()
    match index:
        case "lagging":
            ids += [ledger.append(note(f"later {n}", n * 700)) for n in range(12)]
        case "ahead":
            gone = ids.pop()
            path_of(ledger, gone).unlink()
        case "damaged":
            path.write_bytes(b"no database" * 99)
        case "of another version":
            with closing(sqlite3.connect(path)) as database:
                database.execute("PRAGMA user_version = 99")
        case _:
            pass
    every = [path.stem for path in ledger.folder.rglob("*.json")]
    assert sorted(every) == sorted(ids)
    for id_ in ids:
        assert ledger.resolve(id_[:16]) == id_
    if index == "ahead":
        with pytest.raises(Unknown):
            ledger.resolve(gone[:16])


def _settled(monkeypatch: pytest.MonkeyPatch) -> None:
    """From now on each folder's stamp counts at once; changes must be a tick of the kernel's clock apart."""
    monkeypatch.setattr(dates, "SETTLED_NS", -(10**12))


def test_days_that_the_index_holds_are_not_listed(ledger: Ledger, monkeypatch: pytest.MonkeyPatch) -> None:
    ids = [ledger.append(note(str(n), n * 700)) for n in range(12)]
    _settled(monkeypatch)
    Index(ledger).rebuild()
    listed: list[str] = []
    list_names = lookup.names_in
    monkeypatch.setattr(
        lookup, "names_in", lambda events, day, prefix: listed.append(day) or list_names(events, day, prefix)
    )
    assert [ledger.resolve(id_[:16]) for id_ in ids] == ids
    assert listed == []
    time.sleep(0.05)
    late = ledger.append(note("later", 0.5))
    assert ledger.resolve(late[:16]) == late
    assert listed == ["2026/11/30"]


def _age(folder: Path) -> None:
    """Waits until a folder's stamp counts."""
    while time.time_ns() - folder.stat().st_ctime_ns <= SETTLED_NS:
        time.sleep(0.1)


def test_an_ambiguous_prefix_lists_its_candidates(ledger: Ledger) -> None:
    twins: dict[str, bytes] = {}
    for n in range(100_000):
        content = encode(note(str(n)))
        first = twins.setdefault(id_of(content)[:4], content)
        if first is not content:
            break
    ids = sorted((ledger.add(first), ledger.add(content)))
    with pytest.raises(Unknown, match="stands for 2 events") as caught:
        ledger.resolve(ids[0][:4])
    assert caught.value.values["candidates"] == ids
    assert all(id_[:12] in caught.value.message for id_ in ids)


@pytest.mark.parametrize(("count", "more"), [(10, ""), (11, " and 1 more"), (13, " and 3 more")])
def test_ten_candidates_are_named_and_the_others_counted(ledger: Ledger, count: int, more: str) -> None:
    """Names alone count here, so files without content will do."""
    folder = ledger.path(EventId("0" * 64), day_of(at())).parent
    folder.mkdir(parents=True)
    ids = [f"abcdef012345{n:02}{'0' * 50}" for n in range(count)]
    for id_ in ids:
        (folder / f"{id_}.json").touch()
    for prefix, shown in (("abcd", 12), ("abcdef01234", 13), ("abcdef012345", 14)):
        with pytest.raises(Unknown) as caught:
            ledger.resolve(prefix.upper())
        listed = ", ".join(id_[:shown] for id_ in ids[:10])
        assert caught.value.message == f"{prefix.upper()!r} stands for {count} events: {listed}{more}"
        assert caught.value.hint == "type more digits; `knob log` lists the ids"
        assert caught.value.values == {"value": prefix.upper(), "candidates": ids[:10]}


def test_a_folder_in_the_place_of_an_event_is_damage(ledger: Ledger) -> None:
    path = path_of(ledger, ledger.append(note()))
    path.unlink()
    path.mkdir()
    with pytest.raises(LedgerBroken) as caught:
        list(ledger.events())
    assert caught.value.message == f"the event file {str(path)!r} is damaged: is a directory"
    assert caught.value.values["path"] == str(path)


def test_what_is_wrong_with_a_damaged_file_is_said(ledger: Ledger) -> None:
    path = path_of(ledger, ledger.append(note("first")))
    overwrite(path, encode(note("other")))
    with pytest.raises(LedgerBroken) as caught:
        ledger.get(EventId(path.stem))
    assert caught.value.message == (
        f"the event file {str(path)!r} is damaged: its bytes have the SHA-256 {id_of(encode(note('other')))}"
    )
    with pytest.raises(LedgerBroken) as caught:
        ledger.add(encode(note("first")))
    assert caught.value.message == (
        f"the event file {str(path)!r} is damaged: its bytes are not those that its name stands for"
    )
    nested = b"[" * 99_999
    deep = path.with_name(f"{id_of(nested)}.json")
    deep.write_bytes(nested)
    with pytest.raises(LedgerBroken) as caught:
        ledger.get(EventId(deep.stem))
    assert caught.value.message.startswith(f"the event file {str(deep)!r} is damaged: not an event: ")
    timeless = b'{"actor":"a","at":"noon","kind":"noted","parents":[],"text":"t"}'
    odd = path.with_name(f"{id_of(timeless)}.json")
    odd.write_bytes(timeless)
    with pytest.raises(LedgerBroken) as caught:
        ledger.get(EventId(odd.stem))
    assert caught.value.message == (
        f"the event file {str(odd)!r} is damaged: not a moment in UTC with microseconds: 'noon'"
    )


def test_an_event_is_here_or_not_by_its_id_and_moment(ledger: Ledger) -> None:
    id_ = ledger.append(note())
    assert ledger.has(id_, at())
    assert not ledger.has(id_, at(1440))
    assert not ledger.has(EventId("0" * 64), at())


def test_get_of_an_unknown_id(ledger: Ledger) -> None:
    with pytest.raises(Unknown, match="no event"):
        ledger.get(EventId("0" * 64))


def test_unfinished_files_are_ignored_and_tidied_after_an_hour(ledger: Ledger) -> None:
    id_ = ledger.append(note())
    fresh, stale = (path_of(ledger, id_).with_name(f".{name}.1.ab.tmp") for name in ("fresh", "stale"))
    snapshot = ledger.root / ".knobledger" / "snapshots" / "ab" / ".abcd.1.ab.tmp"
    snapshot.parent.mkdir(parents=True)
    for path in (fresh, stale, snapshot):
        path.write_bytes(b"{")
    for path in (stale, snapshot):
        os.utime(path, (time.time() - 3700, time.time() - 3700))
    assert [stored.id for stored in ledger.events()] == [id_]
    assert verify(ledger) == ()
    assert ledger.tidy() == 2
    assert fresh.exists()
    assert not stale.exists()
    assert not snapshot.exists()
    assert ledger.tidy() == 0


@pytest.mark.parametrize("number", [errno.ENOSPC, errno.EACCES, errno.EROFS, errno.EDQUOT])
@pytest.mark.parametrize("call", ["write", "fsync", "open"])
def test_a_disk_that_refuses_leaves_nothing(
    ledger: Ledger, monkeypatch: pytest.MonkeyPatch, number: int, call: str
) -> None:
    # a full or read-only disk can't be had for every step in a test folder; the calls are the boundary
    ledger.append(note("before"))
    before = files(ledger)

    def refuse(*_: object) -> int:
        raise OSError(number, os.strerror(number))

    with monkeypatch.context() as patch:
        patch.setattr(writing.os, call, refuse)
        with pytest.raises(LedgerUnwritable) as caught:
            ledger.append(note("after", 1))
    assert os.strerror(number).lower() in caught.value.message
    assert str(ledger.folder) in caught.value.message
    assert caught.value.exit_code == 1
    assert files(ledger) == before
    ledger.append(note("after", 1))
    assert verify(ledger) == ()


def test_a_real_full_disk(tmp_path: Path) -> None:
    mount = tmp_path / "small"
    mount.mkdir()
    if subprocess.run(["mount", "-t", "tmpfs", "-o", "size=64k", "tmpfs", mount], check=False).returncode:
        pytest.skip("needs root and tmpfs")
    try:
        ledger = Ledger(mount)
        ledger.append(note("fits"))
        with pytest.raises(LedgerUnwritable, match="no space left"):
            ledger.append(note("x" * 100_000, 1))
        assert list(ledger.folder.rglob(".*")) == []
        assert verify(ledger) == ()
    finally:
        subprocess.run(["umount", mount], check=True)


def test_a_disk_without_hard_links(ledger: Ledger, monkeypatch: pytest.MonkeyPatch) -> None:
    def refuse(self: Path, target: Path) -> None:
        raise OSError(errno.EPERM, os.strerror(errno.EPERM))

    monkeypatch.setattr(Path, "hardlink_to", refuse)
    id_ = ledger.append(note())
    assert ledger.add(ledger.content(id_)) == id_
    assert list(files(ledger)) == [f"2026/11/30/{id_}.json"]


_CRASH = """
import os, sys
from pathlib import Path
from knobledger.events.notes import Noted
from knobledger.ledger import writing
from knobledger.ledger.store import Ledger
def die(*_): os.kill(os.getpid(), 9)
step = sys.argv[2]
if step == "before link": writing._link = die
if step == "before fsync": writing.os.fsync = die
if step == "after link": writing.sync_folder = die
Ledger(Path(sys.argv[1])).append(Noted(at="2026-11-30T13:00:00.000000Z", actor="a", text="t"))
"""


@pytest.mark.parametrize(("step", "visible"), [("before link", 1), ("before fsync", 1), ("after link", 2)])
def test_a_process_killed_while_writing_leaves_all_or_nothing(
    ledger: Ledger, step: str, visible: int
) -> None:
    ledger.append(note())
    killed = subprocess.run([sys.executable, "-c", _CRASH, str(ledger.root), step], check=False)
    assert killed.returncode == -9
    assert len(list(ledger.events())) == visible
    assert verify(ledger) == ()
    ledger.append(note("after", 90))
    assert len(ledger.heads()) == 1


_APPEND = """
import sys
from pathlib import Path
from knobledger.events.notes import Noted
from knobledger.ledger.store import Ledger, now
ledger = Ledger(Path(sys.argv[1]))
for n in range(30): ledger.append(Noted(at=now(), actor=sys.argv[2], text=str(n)))
"""


def test_two_processes_append_at_once(ledger: Ledger) -> None:
    running = [
        subprocess.Popen([sys.executable, "-c", _APPEND, str(ledger.root), name]) for name in ("one", "two")
    ]
    assert [process.wait() for process in running] == [0, 0]
    assert len(list(ledger.events())) == 60
    assert verify(ledger) == ()
    heads = ledger.heads()
    assert 1 <= len(heads) <= 2
    assert heads == _heads_by_definition(ledger)


def test_threads_append_at_once(ledger: Ledger) -> None:
    threads = [threading.Thread(target=ledger.append, args=(note(str(n), n),)) for n in range(20)]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join()
    assert len(list(ledger.events())) == len(ledger.written) == 20
    assert len(ledger.heads()) == 1


def _heads_by_definition(ledger: Ledger) -> tuple[EventId, ...]:
    stored = list(ledger.events())
    named = {parent for one in stored for parent in one.event.parents}
    return tuple(sorted(one.id for one in stored if one.id not in named))


@settings(max_examples=25)
@given(st.data())
def test_heads_are_right_in_any_order_of_arrival_and_loss(data: st.DataObject) -> None:
    """The same `Ledger` and a fresh one, cache and all, agree with the definition after every step."""
    made = chain([str(n) for n in range(data.draw(st.integers(2, 12)))])
    fork = encode(note("fork", 9000).but(parents=(id_of(made[0]),)))
    with scratch() as folder:
        root = Path(folder)
        ledger = Ledger(root)
        for content in data.draw(st.permutations([*made, fork])):
            id_ = ledger.add(content)
            if data.draw(st.booleans()):
                assert ledger.heads() == Ledger(root).heads() == _heads_by_definition(ledger)
            if data.draw(st.integers(0, 5)) == 0:
                path_of(ledger, id_).unlink()
        assert ledger.heads() == Ledger(root).heads() == _heads_by_definition(ledger)


def test_the_heads_cache_is_used_and_may_be_deleted_or_damaged(
    ledger: Ledger, monkeypatch: pytest.MonkeyPatch
) -> None:
    made = chain([str(n) for n in range(40)])
    for content in made:
        ledger.add(content)
    head = (id_of(made[-1]),)
    assert ledger.heads() == head
    cache = ledger.root / ".knobledger" / "heads.json"
    assert cache.exists()
    opened: list[EventId] = []
    again = Ledger(ledger.root)
    monkeypatch.setattr(again._heads, "parents_of", lambda _day, id_: opened.append(id_))
    assert again.heads() == head
    assert opened == []
    for damage in (b"", b"[]", b'{"format":1,"days":{"2026/11/30":{}}}', b"\xff"):
        cache.write_bytes(damage)
        assert Ledger(ledger.root).heads() == head
    cache.unlink()
    assert Ledger(ledger.root).heads() == head


def test_only_what_changed_is_read_again_for_the_heads(
    ledger: Ledger, monkeypatch: pytest.MonkeyPatch
) -> None:
    """The names of the newest two days are remembered, so one of their events is read; of older days, all are."""
    made = chain([str(n) for n in range(40)])
    for content in made[:-1]:
        ledger.add(content)
    ledger.heads()
    cache = ledger.root / ".knobledger" / "heads.json"
    days = json.loads(cache.read_bytes())["days"]
    assert all(day["ids"] for day in days.values()), (
        "changed just now: without a stamp, names are what is known"
    )
    _settled(monkeypatch)
    cache.unlink()
    Ledger(ledger.root).heads()
    days = json.loads(cache.read_bytes())["days"]
    assert [day for day, known in days.items() if known["ids"] is not None] == sorted(days)[-2:]

    def read_by(again: Ledger) -> list[EventId]:
        read: list[EventId] = []
        parents_of = again._heads.parents_of
        monkeypatch.setattr(
            again._heads, "parents_of", lambda day, id_: read.append(id_) or parents_of(day, id_)
        )
        assert again.heads() == again.heads() == _heads_by_definition(again)
        return read

    time.sleep(0.05)
    newest = ledger.add(made[-1])
    assert read_by(Ledger(ledger.root)) == [newest]
    oldest = ledger.add(encode(note("of the first day", 1).but(parents=(id_of(made[0]),))))
    assert sorted(read_by(Ledger(ledger.root))) == sorted([newest, oldest, id_of(made[0]), id_of(made[1])])
    shutil.rmtree(path_of(ledger, newest).parent)
    read_by(Ledger(ledger.root))
    assert sorted(json.loads(cache.read_bytes())["days"]) == dates.days(ledger.folder)


def test_a_cache_of_heads_in_another_format_is_not_believed(ledger: Ledger) -> None:
    for content in chain([str(n) for n in range(40)]):
        ledger.add(content)
    head = ledger.heads()
    cache = ledger.root / ".knobledger" / "heads.json"
    lying = json.loads(cache.read_bytes())
    for day in lying["days"].values():
        day["tips"] = ["0" * 64]
    for known in (1, 2):
        cache.write_text(json.dumps({**lying, "format": known}))
        assert (Ledger(ledger.root).heads() == head) == (known == 2)


def test_a_workspace_whose_cache_folder_is_unusable_still_appends(ledger: Ledger) -> None:
    (ledger.root / ".knobledger").write_text("not a folder")
    for content in chain([str(n) for n in range(40)]):
        ledger.add(content)
    id_ = ledger.append(note("last", 90_000))
    assert ledger.heads() == (id_,)


_POOL = chain([str(n) for n in range(8)])
_SOME = st.lists(st.sampled_from(_POOL), max_size=6)


@settings(max_examples=25)
@given(_SOME, _SOME, _SOME, st.data())
def test_union_of_ledgers(a: list[bytes], b: list[bytes], c: list[bytes], data: st.DataObject) -> None:
    """Commutative, associative, idempotent; any order of arrival gives the same events."""

    def union(*contents: bytes) -> tuple[dict[str, bytes], list[EventId], tuple[EventId, ...]]:
        with scratch() as folder:
            ledger = Ledger(Path(folder))
            for content in contents:
                ledger.add(content)
            return files(ledger), [stored.id for stored in ledger.events()], ledger.heads()

    def merged(left: dict[str, bytes], right: dict[str, bytes]) -> dict[str, bytes]:
        return union(*left.values(), *right.values())[0]

    one, two, three = (union(*part)[0] for part in (a, b, c))
    assert merged(one, two) == merged(two, one)
    assert merged(merged(one, two), three) == merged(one, merged(two, three))
    assert merged(one, one) == one
    assert union(*data.draw(st.permutations(a))) == union(*a)


@settings(max_examples=25)
@given(st.lists(st.text(), min_size=1, max_size=5))
def test_what_is_appended_verifies(texts: list[str]) -> None:
    with scratch() as folder:
        ledger = Ledger(Path(folder))
        for n, text in enumerate(texts):
            ledger.append(note(text, n))
        assert [stored.event.text for stored in ledger.events() if isinstance(stored.event, Noted)] == texts
        assert verify(ledger) == ()


def test_a_whole_change_verifies(ledger: Ledger) -> None:
    change(ledger)
    assert verify(ledger) == ()


def test_importing_the_ledger_loads_neither_git_nor_sql() -> None:
    code = (
        "import sys, knobledger.ledger.store, knobledger.ledger.history, knobledger.ledger.index,"
        " knobledger.ledger.verify, knobledger.ledger.snapshots, knobledger.ledger.key;"
        "print([m for m in ('git', 'sqlmodel', 'sqlalchemy', 'sqlite3') if m in sys.modules])"
    )
    done = subprocess.run([sys.executable, "-c", code], capture_output=True, text=True, check=True)
    assert done.stdout == "[]\n"


def test_only_event_files_count_as_events(ledger: Ledger) -> None:
    path = path_of(ledger, ledger.append(note()))
    for name in (
        "x" * 64 + ".json",
        "A" * 64 + ".json",
        "0" * 64 + ".JSON",
        "0" * 64,
        "ü" * 64 + ".json",
        "a.json",
    ):
        path.with_name(name).write_bytes(b"")
    (path.parent / os.fsdecode(b"\xff" * 64 + b".json")).write_bytes(b"")
    assert [stored.id for stored in ledger.events()] == list(ledger.heads()) == [path.stem]
