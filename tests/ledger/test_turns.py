"""Several events at once: one wait for the disk, one line of parents, and nobody is told what is not so."""

from __future__ import annotations

import threading
from pathlib import Path

import pytest
from ledgers import files, note

from knobledger.errors import LedgerUnwritable
from knobledger.events.entry import Event
from knobledger.ledger import writing
from knobledger.ledger.store import Ledger
from knobledger.ledger.turns import Turns
from knobledger.ledger.verify import verify
from knobledger.names import EventId


@pytest.fixture
def ledger(tmp_path: Path) -> Ledger:
    return Ledger(tmp_path)


def test_each_event_is_the_parent_of_the_next(ledger: Ledger) -> None:
    first = ledger.append(note("first"))
    ids, failure = ledger.append_each([note(str(n), n) for n in (1, 2, 2000)])
    assert failure is None
    assert [ledger.get(id_).event.parents for id_ in ids] == [(first,), (ids[0],), (ids[1],)]
    assert ledger.written == [first, *ids]
    assert ledger.heads() == (ids[-1],)
    assert verify(ledger) == ()


def test_all_are_forced_to_disk_before_the_first_has_its_name_and_the_folder_once(
    ledger: Ledger, monkeypatch: pytest.MonkeyPatch
) -> None:
    ledger.append(note("makes the folders"))
    done: list[str] = []
    write, link, sync = writing._write_beside, writing._link, writing.sync_folder
    monkeypatch.setattr(writing, "_write_beside", lambda *a, **k: (write(*a, **k), done.append("forced"))[0])
    monkeypatch.setattr(writing, "_link", lambda *a: (done.append("named"), link(*a))[1])
    monkeypatch.setattr(writing, "sync_folder", lambda folder: (done.append("folder"), sync(folder))[1])
    ledger.append_each([note(str(n), 1) for n in range(20)])
    assert done == ["forced"] * 20 + ["named"] * 20 + ["folder"]


@pytest.mark.parametrize("step", ["_write_beside", "_link"])
def test_after_the_first_that_can_not_be_written_there_is_none(
    ledger: Ledger, step: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    ledger.append(note("before"))
    real = getattr(writing, step)

    def full(*arguments: object, **more: object) -> object:
        content = arguments[1] if step == "_write_beside" else arguments[0].read_bytes()  # type: ignore[attr-defined]
        if b"the third" in content:  # type: ignore[operator]
            raise OSError(28, "No space left on device")
        return real(*arguments, **more)

    with monkeypatch.context() as patch:
        patch.setattr(writing, step, full)
        ids, failure = ledger.append_each(
            [note(f"the {name}", 1) for name in ("first", "second", "third", "last")]
        )
    assert isinstance(failure, LedgerUnwritable)
    assert failure.message.endswith("no space left on device")
    assert [ledger.get(id_).event for id_ in ids] == [ledger.get(id_).event for id_ in ledger.written[1:]]
    assert len(ids) == 2
    assert len(files(ledger)) == 3
    assert list(ledger.folder.rglob(".*")) == []
    assert verify(ledger) == ()


def test_a_moment_that_is_none_leaves_nothing_of_all(ledger: Ledger) -> None:
    with pytest.raises(ValueError, match="not a moment"):
        ledger.append_each([note("good"), note("bad").but(at="../x")])
    assert not ledger.folder.exists()


def _side_by_side(turns: Turns, ledger: Ledger, events: list[Event]) -> tuple[list[object], list[EventId]]:
    """What each thread got, and what was heard; all threads wait for a first one that holds the turn."""
    got: list[object] = [None] * len(events)
    heard: list[EventId] = []

    def work(at: int) -> None:
        try:
            [got[at]] = turns.append_each(ledger, [events[at]], lambda id_, _: heard.append(id_))
        except Exception as error:
            got[at] = error

    threads = [threading.Thread(target=work, args=(at,)) for at in range(len(events))]
    with turns._mine:
        for thread in threads:
            thread.start()
        while len(turns._waiting) < len(events):
            pass
    for thread in threads:
        thread.join()
    return got, heard


def test_who_waits_is_written_for_in_the_same_order_for_all(
    ledger: Ledger, monkeypatch: pytest.MonkeyPatch
) -> None:
    calls: list[int] = []
    each = Ledger.append_each

    def counted(self: Ledger, events: list[Event]) -> object:
        calls.append(len(events))
        return each(self, events)

    monkeypatch.setattr(Ledger, "append_each", counted)
    events: list[Event] = [note(str(n), n) for n in range(30)]
    got, heard = _side_by_side(Turns(), ledger, events)
    assert calls == [30]
    assert heard == ledger.written
    assert [ledger.get(id_).event.at for id_ in got] == [event.at for event in events]  # type: ignore[arg-type]
    assert len(ledger.heads()) == 1


def test_each_thread_is_told_by_an_error_of_its_own(ledger: Ledger, monkeypatch: pytest.MonkeyPatch) -> None:
    def full(*_: object) -> int:
        raise OSError(28, "No space left on device")

    turns = Turns()
    with monkeypatch.context() as patch:
        patch.setattr(writing.os, "write", full)
        got, heard = _side_by_side(turns, ledger, [note(str(n), n) for n in range(3)])
    assert [type(error) for error in got] == [LedgerUnwritable] * 3
    assert len({id(error) for error in got}) == 3
    [values] = {str(error.values) for error in got if isinstance(error, LedgerUnwritable)}
    assert str(ledger.root) in values
    assert heard == []
    turns.append_each(ledger, [note("room again")], lambda id_, _: heard.append(id_))
    assert heard == ledger.written


def test_a_bug_while_writing_for_others_is_told_to_all(ledger: Ledger) -> None:
    got, heard = _side_by_side(Turns(), ledger, [note("good"), note("bad").but(at="noon")])
    assert [type(error) for error in got] == [ValueError] * 2
    assert heard == []
