"""The ledger's copy in a real PostgreSQL, which is killed, started again, and damaged."""

from __future__ import annotations

import shutil
import threading
from collections.abc import Iterator
from pathlib import Path

import pytest
from ledgers import NOON, change, files, note, observed, planned
from postgres import Postgres, postgres

from knobledger.errors import KnobError, LedgerBroken, Refused, Unreachable
from knobledger.ledger.index import Index
from knobledger.ledger.replica import Replica, ReplicaLedger
from knobledger.ledger.store import Ledger
from knobledger.names import TargetName
from knobledger.state import State
from workspaces import KNOB, Bench

pytestmark = pytest.mark.tool("pg_ctlcluster")


@pytest.fixture(scope="module")
def server() -> Iterator[Postgres]:
    with postgres() as made:
        yield made


@pytest.fixture
def fresh(server: Postgres) -> Postgres:
    """With no tables yet."""
    server.ask("DROP SCHEMA IF EXISTS knobledger CASCADE")
    return server


@pytest.fixture
def replica(fresh: Postgres) -> Iterator[Replica]:
    made = Replica(fresh.url)
    yield made
    made.close()


@pytest.fixture
def ledger(tmp_path: Path) -> Ledger:
    made = Ledger(tmp_path / "ws")
    two = (TargetName("gpu1/decode"), TargetName("gpu2/decode"))
    change(made, 0, planned(0, actor="ben@example.org", behalf="anna"))
    change(made, 2000, planned(2000, targets=two, knob="NCCL_DEBUG", verb="revert"))
    made.append(observed(2100))
    made.append(note("a NUL \0, an ü and \ud800".encode("utf-8", "replace").decode(), 2200))
    return made


def test_rows_are_the_events_and_rebuild_the_files(replica: Replica, ledger: Ledger, tmp_path: Path) -> None:
    total = len(list(ledger.events()))
    assert replica.catch_up(ledger) == total
    assert replica.catch_up(ledger) == 0
    assert replica.catch_up(ledger, whole=True) == 0
    copy = Ledger(tmp_path / "copy")
    assert replica.rebuild_files(copy) == total
    assert files(copy) == files(ledger)
    assert replica.rebuild_files(copy) == 0


def test_it_answers_as_the_files_do(replica: Replica, ledger: Ledger) -> None:
    replica.catch_up(ledger)
    there = ReplicaLedger(ledger.root, replica)
    assert list(there.events()) == list(ledger.events())
    assert list(there.events(since=NOON, until=NOON.replace(hour=13))) == list(
        ledger.events(since=NOON, until=NOON.replace(hour=13))
    )
    questions = (
        {},
        {"target": TargetName("gpu2/decode")},
        {"knob": "NCCL_DEBUG"},
        {"kind": "revert"},
        {"actor": "anna", "limit": 2},
        {"target": TargetName("gpu1/decode"), "knob": KNOB, "newest_first": False},
        {"since": NOON, "until": NOON.replace(hour=13)},
    )
    for asked in questions:
        assert there.index().find(**asked) == Index(ledger).find(**asked), asked  # type: ignore[arg-type]
    one = next(iter(ledger.events()))
    assert there.resolve(one.id[:10]) == there.resolve(one.id) == one.id
    assert there.get(one.id) == one
    with pytest.raises(KnobError):
        there.append(note("no"))


def test_events_that_come_before_their_plan_are_found_by_it(
    replica: Replica, ledger: Ledger, tmp_path: Path
) -> None:
    late = Ledger(tmp_path / "late")
    stored = list(ledger.events())
    for one in stored:
        if one.event.kind != "planned":
            late.add(ledger.content(one.id))
    replica.catch_up(late)
    for one in stored:
        if one.event.kind == "planned":
            late.add(ledger.content(one.id))
    replica.catch_up(late)
    found = ReplicaLedger(late.root, replica).index().find(knob="NCCL_DEBUG")
    assert found == Index(ledger).find(knob="NCCL_DEBUG")


def test_two_clones_write_at_the_same_time(fresh: Postgres, ledger: Ledger, tmp_path: Path) -> None:
    other = Ledger(tmp_path / "other")
    for one in ledger.events():
        other.add(ledger.content(one.id))
    other.append(note("only there", 3000))
    ledger.append(note("only here", 3001))
    failed: list[BaseException] = []

    def write(which: Ledger) -> None:
        made = Replica(fresh.url)
        try:
            made.catch_up(which)
        except BaseException as error:
            failed.append(error)
        finally:
            made.close()

    threads = [threading.Thread(target=write, args=(which,)) for which in (ledger, other)]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join()
    assert failed == []
    union = {stored.id for one in (ledger, other) for stored in one.events()}
    made = Replica(fresh.url)
    assert {stored.id for stored in ReplicaLedger(ledger.root, made).events()} == union
    made.close()


def test_a_replica_that_is_down_is_a_note_and_is_caught_up(fresh: Postgres, tmp_path: Path) -> None:
    bench = Bench(tmp_path / "ws")
    hosts = bench.root / "hosts.toml"
    hosts.write_text(f'[ledger]\nreplica = "{fresh.url}"\n' + hosts.read_text())
    bench.set((KNOB, "512"))
    held = int(fresh.ask("SELECT count(*) FROM knobledger.event"))
    assert held == len(bench.kinds())
    fresh.kill()
    try:
        with bench.open() as workspace:
            workspace.note("written while it is down", None)
        assert any("the replica is behind" in text for text in workspace.notes)
        done = bench.set((KNOB, "768"))
        assert done.is_change
    finally:
        fresh.start()
    with bench.open() as workspace:
        workspace.note("it is back", None)
    assert not any("replica" in text for text in workspace.notes)
    assert int(fresh.ask("SELECT count(*) FROM knobledger.event")) == len(bench.kinds())


def test_killed_while_it_is_written(replica: Replica, fresh: Postgres, tmp_path: Path) -> None:
    ledger = Ledger(tmp_path / "ws")
    for n in range(400):
        ledger.add(_lone(n))
    done = threading.Event()
    errors: list[KnobError] = []

    def write() -> None:
        while not done.is_set():
            try:
                replica.catch_up(ledger, whole=True)
            except KnobError as error:
                errors.append(error)

    writer = threading.Thread(target=write)
    writer.start()
    try:
        for n in range(400, 420):
            ledger.add(_lone(n))
        fresh.kill()
        fresh.start()
    finally:
        done.set()
        writer.join()
    assert all(isinstance(error, Unreachable) for error in errors)
    replica.catch_up(ledger, whole=True)
    assert list(ReplicaLedger(ledger.root, replica).events()) == list(ledger.events())


def _lone(n: int) -> bytes:
    from knobledger.event import encode

    return encode(note(f"note {n}", n))


def test_a_false_row_is_never_believed(
    replica: Replica, fresh: Postgres, ledger: Ledger, tmp_path: Path
) -> None:
    replica.catch_up(ledger)
    fresh.ask("UPDATE knobledger.event SET body = replace(body, 'anna', 'mallory')")
    with pytest.raises(LedgerBroken):
        list(ReplicaLedger(ledger.root, replica).events())
    with pytest.raises(LedgerBroken):
        replica.rebuild_files(Ledger(tmp_path / "copy"))


def test_tables_of_a_newer_version_are_left_alone(replica: Replica, fresh: Postgres, ledger: Ledger) -> None:
    replica.catch_up(ledger)
    fresh.ask("UPDATE knobledger.alembic_version SET version_num = '0099'")
    with pytest.raises(Refused, match="0099"):
        replica.catch_up(ledger)


def test_the_commands_read_from_it(fresh: Postgres, tmp_path: Path) -> None:
    bench = Bench(tmp_path / "ws")
    hosts = bench.root / "hosts.toml"
    hosts.write_text(f'[ledger]\nreplica = "{fresh.url}"\n' + hosts.read_text())
    done = bench.set((KNOB, "512"), why="throughput")
    shutil.rmtree(bench.root / "ledger" / "events")
    with bench.open() as workspace:
        workspace.from_replica = True
        assert workspace.show(done.id).to_json()["why"] == "throughput"
        start = workspace.moment("1h")
        assert [item["change"] for item in workspace.since(start, None).to_json()["changes"]] == [done.id]
        state: State = workspace.state
        assert state.changes == [done.id]
    with bench.open() as workspace:
        workspace.from_replica = True
        workspace.index(rebuild=True)
    assert bench.kinds() == [event.kind for event in state.events.values()]


@pytest.mark.parametrize("url", ["nonsense", "sqlite:///x", "mysql://x/y"])
def test_other_urls_are_refused(url: str) -> None:
    with pytest.raises(Refused), Replica(url).connected():
        pass
