from __future__ import annotations

import os
import sqlite3
import subprocess
import sys
import time
from collections.abc import Callable
from concurrent.futures import ThreadPoolExecutor
from datetime import timedelta
from pathlib import Path

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
from ledgers import (
    DECODE,
    KNOB,
    NOON,
    PREFILL,
    SCRIPT,
    at,
    change,
    files,
    note,
    observed,
    overwrite,
    path_of,
    planned,
    scratch,
)

from knobledger.errors import LedgerBroken
from knobledger.event import encode
from knobledger.events.changes import Approved
from knobledger.events.notes import Noted
from knobledger.events.serving import ServiceRestarted
from knobledger.events.watching import SeenKnob, SeenLive, SeenValue
from knobledger.ledger import days, filling
from knobledger.ledger import index as indices
from knobledger.ledger.index import Index
from knobledger.ledger.store import Ledger, Stored
from knobledger.names import EventId, TargetName


@pytest.fixture
def ledger(tmp_path: Path) -> Ledger:
    return Ledger(tmp_path)


def ids(found: list[Stored]) -> list[EventId]:
    return [stored.id for stored in found]


def test_it_holds_the_same_events_as_the_files(ledger: Ledger) -> None:
    change(ledger)
    ledger.append(note("later", 2000))
    assert Index(ledger).find(newest_first=False) == list(ledger.events())
    assert Index(ledger).find() == list(ledger.events())[::-1]
    assert Index(ledger).find(limit=2) == list(ledger.events())[:-3:-1]
    assert Index(ledger).find(limit=2, newest_first=False) == list(ledger.events())[:2]


def test_an_empty_ledger(ledger: Ledger) -> None:
    assert Index(ledger).find() == []
    assert Index(ledger).rebuild() == 0


def test_tables_that_lie_in_the_order_of_their_keys(ledger: Ledger) -> None:
    made = Index(ledger).reader().execute("SELECT name FROM sqlite_master WHERE sql LIKE '%WITHOUT ROWID%'")
    assert sorted(name for (name,) in made) == ["edit", "facet", "newest", "parent", "tally"]


def test_what_is_found_by_a_knob(ledger: Ledger) -> None:
    """Plans and observations with an edit of it, and everything about such a plan."""
    mine = change(ledger, 0)
    change(ledger, 10, planned(10, knob="OTHER"))
    seen = ledger.append(observed(20))
    ledger.append(observed(21, knob="OTHER"))
    ledger.append(note("about nothing", 30))
    assert set(ids(Index(ledger).find(knob=KNOB))) == {*mine, seen}


def test_a_knob_is_found_where_it_was_met(ledger: Ledger) -> None:
    """On first contact it is in the file, and nobody has set it yet; a process has it, whatever its file says."""
    first = observed(0).but(edits=(), knobs=(KNOB, "OTHER"))
    value = SeenValue(state="present", value="512", pids=(7,))
    there = SeenKnob(name=KNOB, kind="env", state="present", value="512", values=(value,))
    gone = SeenKnob(name="GONE", kind="env", written="1", state="absent")
    seen = SeenLive(
        at=at(1), actor="a", target=PREFILL, service="gpu1/prefill", path=SCRIPT, knobs=(there, gone)
    )
    made = [ledger.append(first), ledger.append(seen)]
    assert ids(Index(ledger).find(knob=KNOB, newest_first=False)) == made
    assert ids(Index(ledger).find(knob="OTHER")) == made[:1]
    assert ids(Index(ledger).find(knob="GONE")) == []


def test_what_is_found_by_a_target(ledger: Ledger) -> None:
    both = change(ledger, 0, planned(0, targets=(DECODE, PREFILL)))
    one = change(ledger, 10, planned(10, targets=(PREFILL,)))
    seen = ledger.append(observed(20))
    index = Index(ledger)
    assert set(ids(index.find(target=DECODE))) == {*both, seen}
    # the attempts of `both` were on decode; its plan and approval concern prefill too
    assert set(ids(index.find(target=PREFILL))) == {both[0], both[1], *one}
    assert set(ids(index.find(target=PREFILL, knob=KNOB, kind="approved"))) == {both[1], one[1]}


def test_what_is_found_by_kind_verb_and_purpose(ledger: Ledger) -> None:
    first = change(ledger, 0, planned(0, verb="revert", purpose="mitigation"))
    second = change(ledger, 10, planned(10, verb="restore", purpose="perf"))
    index = Index(ledger)
    assert ids(index.find(kind="approved")) == [second[1], first[1]]
    assert ids(index.find(kind="revert")) == [first[0]]
    assert ids(index.find(kind="perf")) == [second[0]]
    assert ids(index.find(kind="planned")) == [second[0], first[0]]
    assert index.find(kind="fix") == []


def test_what_is_found_by_actor(ledger: Ledger) -> None:
    change(ledger, 0, planned(0, actor="agent 7", behalf="anna@example.org"))
    own = ledger.append(note(minutes=10, actor="anna@example.org"))
    found = Index(ledger).find(actor="anna@example.org")
    assert ids(found)[0] == own
    assert [stored.event.kind for stored in found] == ["noted", "planned"]
    assert len(Index(ledger).find(actor="agent 7")) == 3


def test_bounds_in_time_are_half_open(ledger: Ledger) -> None:
    made = [ledger.append(note(str(n), n)) for n in range(4)]
    found = Index(ledger).find(since=NOON + timedelta(minutes=1), until=NOON + timedelta(minutes=3))
    assert ids(found) == [made[2], made[1]]


def test_a_foreign_event_is_found(ledger: Ledger) -> None:
    content = (
        '{"about":"x","actor":"a","at":"%s","format":1,"kind":"measured","parents":[],"target":"gpu1/decode"}'
    )
    id_ = ledger.add((content % at()).encode())
    assert ids(Index(ledger).find(kind="measured", target=DECODE)) == [id_]


def test_new_events_are_taken_in_and_old_ones_not_read_again(ledger: Ledger) -> None:
    change(ledger)
    assert Index(ledger).update() == 4
    assert Index(ledger).update() == 0
    new = ledger.append(note("new", 10))
    index = Index(ledger)
    assert index.update() == 1
    late = ledger.add(encode(note("from another clone", -3000)))
    assert ids(index.find()) == [new, *ids(list(ledger.events()))[::-1][1:]]
    assert ids(index.find(newest_first=False))[0] == late


@pytest.mark.parametrize("order", [1, -1])
def test_a_plan_that_arrives_before_or_after_what_is_about_it(tmp_path: Path, order: int) -> None:
    there, here = Ledger(tmp_path / "there"), Ledger(tmp_path / "here")
    made = change(there, 0, planned(0, targets=(DECODE, PREFILL)))
    index = Index(here)
    for id_ in made[::order]:
        here.add(there.content(id_))
        assert index.update() == 1
    for key in ({"knob": KNOB}, {"target": DECODE}, {"target": PREFILL}):
        assert index.find(**key) == Index(there).find(**key)


def test_what_is_summed_up_is_the_same_however_events_arrive(ledger: Ledger) -> None:
    """The newest events, how many plans there are, and what is found by the targets of its plan."""
    told = [
        planned(1),
        planned(2, targets=(DECODE, PREFILL)),
        *(
            ServiceRestarted(at=at(n), actor="a", chain=EventId("1" * 64), service="gpu1/a", outcome=outcome)
            for n, outcome in ((30, "healthy"), (20, "healthy"), (10, "unhealthy"))
        ),
        *(
            SeenLive(at=at(n), actor="a", target=target, service=DECODE, path=SCRIPT)
            for n, target in ((1, DECODE), (3, DECODE), (2, TargetName(f"{DECODE}:unit")))
        ),
    ]
    index = ledger.index()
    for event in told:
        ledger.add(encode(event))
        index.update()
    change(ledger)
    index.update()
    found = [_summed_up(index)]
    index.rebuild()
    found.append(_summed_up(index))
    assert found[0] == found[1]
    newest, plans, shared = found[0]
    assert plans == [("planned", 3)]
    assert [row[:4] for row in newest if row[0] != "written"] == [
        ("healthy", "gpu1/a", "", at(30)),
        ("live", DECODE, DECODE, at(3)),
        ("live", DECODE, f"{DECODE}:unit", at(2)),
        ("unhealthy", "gpu1/a", "", at(10)),
    ]
    assert len(shared) > 2
    index.close()


def _summed_up(index: Index) -> list[list[tuple[object, ...]]]:
    asked = ("newest", "tally", "facet WHERE facet = 'shared'")
    return [sorted(index.reader().execute(f"SELECT * FROM {what}")) for what in asked]


def test_only_days_that_changed_are_listed(ledger: Ledger, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(days, "SETTLED_NS", -(10**12))  # every stamp counts at once
    for n in range(3):
        ledger.append(note(str(n), n * 1440))
    index = Index(ledger)
    assert index.update() == 3
    listed: list[str] = []

    def spied(events: Path, day: days.Day) -> set[EventId]:
        listed.append(day)
        return days.ids_in(events, day)

    monkeypatch.setattr(filling, "ids_in", spied)
    time.sleep(0.05)
    ledger.append(note("more", 1441))
    assert index.update() == 1
    assert listed == ["2026/12/01"]


def test_many_events_are_taken_in_by_parts(ledger: Ledger, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(filling, "_BATCH", 1)
    made = change(ledger)
    index = Index(ledger)
    assert index.update() == len(made)
    assert set(ids(index.find(knob=KNOB))) == set(made)


def test_events_that_go_leave_the_index(ledger: Ledger) -> None:
    made = [ledger.append(note(str(n), n * 1000)) for n in range(3)]
    index = Index(ledger)
    index.find()
    path_of(ledger, made[1]).unlink()
    assert ids(index.find()) == [made[2], made[0]]
    gone = path_of(ledger, made[2])
    gone.unlink()
    gone.parent.rmdir()
    assert ids(index.find()) == [made[0]]


def _older(path: Path) -> None:
    with sqlite3.connect(path) as database:
        database.execute("PRAGMA user_version = 0")


def _no_table(path: Path) -> None:
    with sqlite3.connect(path) as database:
        database.execute("DROP TABLE facet")


def _torn(path: Path) -> None:
    content = path.read_bytes()
    path.write_bytes(content[:4096] + b"\xff" * (len(content) - 4096))


@pytest.mark.parametrize(
    "damage",
    [
        Path.unlink,
        lambda path: path.write_bytes(b""),
        lambda path: path.write_bytes(b"not a database, not at all" * 100),
        _torn,
        _older,
        _no_table,
    ],
    ids=["deleted", "empty", "no database", "torn", "older", "without a table"],
)
def test_a_useless_index_is_built_anew(ledger: Ledger, damage: Callable[[Path], object]) -> None:
    change(ledger)
    index = Index(ledger)
    expected = index.find()
    index.close()
    damage(index.path)
    for again in (Index(ledger), index):
        assert again.find() == expected
        assert again.find(knob=KNOB) == expected
    assert [path.name for path in index.path.parent.glob("*index*")] == ["index.sqlite"]


def test_a_damaged_event_is_named_or_left_out(ledger: Ledger) -> None:
    bad, good = ledger.append(note("bad")), ledger.append(note("good", 1))
    overwrite(path_of(ledger, bad), b"{}")
    with pytest.raises(LedgerBroken, match=bad):
        Index(ledger).find()
    assert ids(Index(ledger, lenient=True).find()) == [good]


def test_a_read_only_workspace_is_indexed_in_memory(ledger: Ledger) -> None:
    change(ledger)
    (ledger.root / ".knobledger").write_text("in the way")
    index = Index(ledger)
    assert len(index.find()) == 4
    ledger.append(note("new", 10))
    assert len(index.find()) == 5


def test_an_index_that_may_only_be_read_is_left_alone(
    ledger: Ledger, monkeypatch: pytest.MonkeyPatch
) -> None:
    change(ledger)
    index = Index(ledger)
    index.find()
    index.close()
    before = index.path.read_bytes()
    # root may write everywhere, so the question itself is answered here
    monkeypatch.setattr(indices.os, "access", lambda _, mode: not mode & os.W_OK)
    ledger.append(note("new", 10))
    assert len(Index(ledger).find()) == 5
    assert index.path.read_bytes() == before


def test_a_row_that_is_no_event(ledger: Ledger) -> None:
    id_ = ledger.append(note())
    index = Index(ledger)
    with index.reader() as connection:
        connection.execute("UPDATE event SET body = '{}'")
    with pytest.raises(LedgerBroken, match=f"the event {id_} can't be read") as error:
        index.find()
    assert error.value.hint == "`knob verify`"


def test_one_thread_opens_it_and_another_one_asks(ledger: Ledger) -> None:
    change(ledger)
    index = Index(ledger)
    expected = index.find()
    with ThreadPoolExecutor(1) as pool:
        assert pool.submit(index.find).result() == expected


def test_two_processes_update_at_once(ledger: Ledger) -> None:
    code = (
        "import sys; from pathlib import Path; from knobledger.events.notes import Noted;"
        "from knobledger.ledger.store import Ledger, now; from knobledger.ledger.index import Index;"
        "ledger = Ledger(Path(sys.argv[1])); index = Index(ledger)\n"
        "for n in range(6): ledger.append(Noted(at=now(), actor='a', text=str(n))); index.find(limit=1)"
    )
    running = [subprocess.Popen([sys.executable, "-c", code, ledger.root]) for _ in range(2)]
    assert [process.wait() for process in running] == [0, 0]
    assert Index(ledger).find(newest_first=False) == list(ledger.events())
    assert len(list(ledger.events())) == 12


def test_rows_can_rebuild_the_files(ledger: Ledger, tmp_path: Path) -> None:
    change(ledger)
    ledger.append(note("ünïcode \\ \x7f 🎛", 10))
    Index(ledger).find()
    copy = Ledger(tmp_path / "copy")
    with sqlite3.connect(ledger.root / ".knobledger" / "index.sqlite") as database:
        for (body,) in database.execute("SELECT body FROM event"):
            copy.add(body.encode())
    assert files(copy) == files(ledger)


_TARGETS = [TargetName(f"gpu{n}/decode") for n in range(2)]
_EVENTS = st.lists(
    st.one_of(
        st.builds(
            planned,
            st.integers(0, 4000),
            targets=st.lists(st.sampled_from(_TARGETS), min_size=1, unique=True).map(tuple),
            knob=st.sampled_from(["A", "B"]),
            actor=st.sampled_from(["x", "y"]),
            behalf=st.sampled_from(["", "x"]),
        ),
        st.builds(
            observed, st.integers(0, 4000), target=st.sampled_from(_TARGETS), knob=st.sampled_from("AB")
        ),
        st.builds(note, st.text(max_size=3), st.integers(0, 4000), st.sampled_from(["x", "y"])),
    ),
    max_size=12,
)


@settings(max_examples=15)
@given(_EVENTS, st.data())
def test_queries_agree_with_a_walk_over_the_files(events: list[Noted], data: st.DataObject) -> None:
    """Whatever the order of arrival and however often the index is updated on the way."""
    with scratch() as folder:
        ledger = Ledger(Path(folder))
        index = Index(ledger)
        for event in events:
            id_ = ledger.append(event)
            if event.kind == "planned" and data.draw(st.booleans()):
                ledger.append(Approved(at=event.at, actor="z", plan=id_, source="flag"))
            if data.draw(st.integers(0, 3)) == 0:
                index.update()
        wanted = {
            "target": data.draw(st.sampled_from([None, *_TARGETS])),
            "knob": data.draw(st.sampled_from([None, "A", "B"])),
            "actor": data.draw(st.sampled_from([None, "x", "z"])),
            "kind": data.draw(st.sampled_from([None, "planned", "approved", "set", "perf"])),
        }
        found = index.find(**wanted, newest_first=False)
        assert found == [stored for stored in ledger.events() if _matches(ledger, stored, wanted)]
        assert found == Index(Ledger(Path(folder))).find(**wanted, newest_first=False)
        index.close()


def _matches(ledger: Ledger, stored: Stored, wanted: dict[str, str | None]) -> bool:
    event = stored.event
    plan = ledger.get(event.plan).event if isinstance(event, Approved) else event
    edited = getattr(plan, "edits", ())
    places = [getattr(plan, "target", None)]
    for file in getattr(plan, "files", ()):
        edited = (*edited, *file.edits)
        places.append(file.target)
    words = {event.kind, getattr(event, "verb", None), getattr(event, "purpose", None)}
    return (
        wanted["target"] in (None, *places)
        and wanted["knob"] in (None, *(one.name for one in edited))
        and wanted["actor"] in (None, event.actor, event.on_behalf_of)
        and wanted["kind"] in (None, *words)
    )


def test_a_rebuild_that_fails_leaves_the_old_index(ledger: Ledger) -> None:
    bad = ledger.append(note("bad"))
    index = Index(ledger)
    index.find()
    before = index.path.read_bytes()
    overwrite(path_of(ledger, bad), b"{}")
    with pytest.raises(LedgerBroken):
        index.rebuild()
    assert index.path.read_bytes() == before
    assert sorted(os.listdir(index.path.parent)) == [".gitignore", "index.sqlite"]
