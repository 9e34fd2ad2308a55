"""Two clones and a bare repository between them, by a real git."""

from __future__ import annotations

import shutil
from collections.abc import Iterator
from pathlib import Path
from random import Random

import pytest
from fleets import Answer, Fleet, fleet, value_in
from hypothesis import given
from hypothesis import strategies as st
from ledgers import change, files, git, observed, planned, scratch

from knobledger.event import decode, encode, id_of
from knobledger.events.notes import Noted
from knobledger.ledger.store import Ledger
from knobledger.state import State
from workspaces import KNOB

pytestmark = pytest.mark.tool("git", "sshd", "ssh-keygen")


@pytest.fixture
def pair(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Iterator[tuple[Fleet, Fleet]]:
    """Two engineers' clones of one workspace with one host."""
    with fleet(tmp_path, broken=False, hosts=1, slow=False) as one:
        git(tmp_path, "init", "-q", "--bare", "shared.git")
        git(one.root, "add", "-A")
        git(one.root, "commit", "-qm", "hosts")
        git(one.root, "remote", "add", "origin", str(tmp_path / "shared.git"))
        assert as_actor(monkeypatch, "anna@example.org", one, "sync").code == 0
        git(tmp_path, "clone", "-q", str(tmp_path / "shared.git"), "colleague")
        two = Fleet(tmp_path / "colleague", one.folder, one.good, [], [])
        yield one, two


def as_actor(patch: pytest.MonkeyPatch, actor: str, where: Fleet, *words: str) -> Answer:
    patch.setenv("KNOBLEDGER_ACTOR", actor)
    return where.knob("--json", *words)


def test_what_one_did_the_other_knows_and_can_take_back(
    pair: tuple[Fleet, Fleet], monkeypatch: pytest.MonkeyPatch
) -> None:
    one, two = pair
    done = as_actor(monkeypatch, "anna@example.org", one, "set", "decode", f"{KNOB}=512", "--go-ahead")
    assert done.code == 0
    assert as_actor(monkeypatch, "anna@example.org", one, "sync").json["sent"] == 5
    came = as_actor(monkeypatch, "ben@example.org", two, "sync").json
    assert {"kind": "applied", "actor": "anna@example.org", "count": 1} in came["received"]
    assert came["sent"] == 0
    back = as_actor(monkeypatch, "ben@example.org", two, "revert", done.json["change"][:8], "--go-ahead")
    assert back.code == 0, back.out
    assert value_in(one.script("gpu01")) == "256"
    assert as_actor(monkeypatch, "ben@example.org", two, "sync").json["sent"] == 4
    assert as_actor(monkeypatch, "anna@example.org", one, "sync").code == 0
    assert as_actor(monkeypatch, "anna@example.org", one, "show", "@-1").json["fate"] == "reverted"


def test_both_at_work_merge_without_conflict_and_staged_work_stays(
    pair: tuple[Fleet, Fleet], monkeypatch: pytest.MonkeyPatch
) -> None:
    one, two = pair
    for where, actor in ((one, "anna"), (two, "ben")):
        for n in range(3):
            assert as_actor(monkeypatch, actor, where, "note", f"{actor} {n}").code == 0
    (two.root / "draft.txt").write_text("staged\n")
    (two.root / "README").write_text("not even added\n")
    git(two.root, "add", "draft.txt")
    before = git(two.root, "status", "--porcelain")
    assert as_actor(monkeypatch, "anna", one, "sync").code == 0
    merged = as_actor(monkeypatch, "ben", two, "sync")
    assert merged.code == 0, merged.out
    assert merged.json == {
        "remote": "origin",
        "branch": "main",
        "received": [{"kind": "noted", "actor": "anna", "count": 3}],
        "sent": 3,
        "heads": 2,
    }
    assert git(two.root, "status", "--porcelain") == before
    assert "draft.txt" not in git(two.root, "ls-tree", "-r", "--name-only", "HEAD")
    assert as_actor(monkeypatch, "anna", one, "sync").code == 0
    assert files(Ledger(one.root)) == files(Ledger(two.root))
    assert as_actor(monkeypatch, "anna", one, "verify").json["ok"]
    assert git(one.root, "rev-parse", "HEAD") == git(two.root, "rev-parse", "HEAD")


def test_two_undos_of_one_change_meet_at_the_host(
    pair: tuple[Fleet, Fleet], monkeypatch: pytest.MonkeyPatch
) -> None:
    one, two = pair
    done = as_actor(monkeypatch, "anna", one, "set", "decode", f"{KNOB}=512", "--go-ahead").json["change"]
    as_actor(monkeypatch, "anna", one, "sync")
    as_actor(monkeypatch, "ben", two, "sync")
    plans = [
        as_actor(monkeypatch, who, where, "revert", done, "--plan").json["plan"]
        for who, where in (("anna", one), ("ben", two))
    ]
    for who, where, plan in (("anna", one, plans[0]), ("ben", two, plans[1])):
        as_actor(monkeypatch, who, where, "approve", plan)
    assert as_actor(monkeypatch, "anna", one, "apply", plans[0]).code == 0
    second = as_actor(monkeypatch, "ben", two, "apply", plans[1])
    assert second.code == 10
    assert second.json["error"]["kind"] == "drifted"
    assert value_in(one.script("gpu01")) == "256"
    as_actor(monkeypatch, "ben", two, "sync")
    as_actor(monkeypatch, "anna", one, "sync")
    assert as_actor(monkeypatch, "anna", one, "show", done).json["by"] == plans[0]


def test_other_files_are_merged_or_their_conflict_is_said(
    pair: tuple[Fleet, Fleet], monkeypatch: pytest.MonkeyPatch
) -> None:
    one, two = pair
    hosts = (one.root / "hosts.toml").read_text()
    (one.root / "hosts.toml").write_text("# anna's\n" + hosts)
    git(one.root, "commit", "-qam", "anna's")
    as_actor(monkeypatch, "anna", one, "note", "one")
    as_actor(monkeypatch, "anna", one, "sync")
    as_actor(monkeypatch, "ben", two, "note", "two")
    assert as_actor(monkeypatch, "ben", two, "sync").code == 0
    assert (two.root / "hosts.toml").read_text().startswith("# anna's\n")

    (one.root / "hosts.toml").write_text("# anna's again\n" + hosts)
    git(one.root, "commit", "-qam", "anna's again")
    as_actor(monkeypatch, "anna", one, "note", "three")
    as_actor(monkeypatch, "anna", one, "sync")
    (two.root / "hosts.toml").write_text("# ben's\n" + hosts)
    assert as_actor(monkeypatch, "ben", two, "sync").code == 10, "his work is not committed"
    assert (two.root / "hosts.toml").read_text().startswith("# ben's\n")
    git(two.root, "commit", "-qam", "ben's")
    clash = as_actor(monkeypatch, "ben", two, "sync")
    assert clash.code == 10
    assert "hosts.toml" in clash.json["error"]["message"]
    assert set(files(Ledger(one.root))) <= set(files(Ledger(two.root))), "the events are in all the same"
    assert "<<<<" not in (two.root / "hosts.toml").read_text()


def test_no_remote_and_no_way_to_it(
    tmp_path: Path, pair: tuple[Fleet, Fleet], monkeypatch: pytest.MonkeyPatch
) -> None:
    one, two = pair
    shutil.move(tmp_path / "shared.git", tmp_path / "away.git")
    gone = as_actor(monkeypatch, "ben", two, "sync")
    assert (gone.code, gone.json["error"]["kind"]) == (20, "unreachable")
    git(one.root, "remote", "remove", "origin")
    alone = as_actor(monkeypatch, "anna", one, "sync")
    assert alone.code == 1
    assert "no remote" in alone.json["error"]["message"]


def test_a_remote_that_lost_or_forged_events_is_refused(
    pair: tuple[Fleet, Fleet], monkeypatch: pytest.MonkeyPatch
) -> None:
    one, two = pair
    as_actor(monkeypatch, "anna", one, "note", "one")
    as_actor(monkeypatch, "anna", one, "sync")
    as_actor(monkeypatch, "ben", two, "sync")
    [path] = (one.root / "ledger").rglob("*.json")
    path.unlink()
    git(one.root, "commit", "-qam", "gone")
    git(one.root, "push", "-q", "origin", "HEAD:main")
    lost = as_actor(monkeypatch, "ben", two, "sync")
    assert lost.code == 30
    assert list((two.root / "ledger").rglob("*.json"))


# -- union: whatever the order, the ledger and its state are the same -------------------


def _some_ledger(seed: int) -> list[bytes]:
    """Events of clones that fork: changes, observations, notes, with the parents that each writer knew."""
    draw = Random(seed)
    with scratch() as folder:
        ledger = Ledger(Path(folder))
        for _ in range(draw.randrange(1, 4)):
            match draw.randrange(3):
                case 0:
                    change(ledger, draw.randrange(600), planned(draw.randrange(600), actor=f"a{seed % 5}"))
                case 1:
                    ledger.append(observed(draw.randrange(600)))
                case _:
                    ledger.append(Noted(at="2026-11-30T12:00:00.000000Z", actor="a", text=str(draw.random())))
        return list(files(ledger).values())


def _union(*parts: list[bytes]) -> dict[str, bytes]:
    with scratch() as folder:
        ledger = Ledger(Path(folder))
        for part in parts:
            for content in part:
                ledger.add(content)
        return files(ledger)


def _state(contents: list[bytes]) -> State:
    return State.of((id_of(content), decode(content)) for content in contents)


_LEDGERS = st.integers(0, 10_000).map(_some_ledger)


@given(_LEDGERS, _LEDGERS, _LEDGERS)
def test_union_is_commutative_associative_and_idempotent(
    a: list[bytes], b: list[bytes], c: list[bytes]
) -> None:
    whole = _union(a, b, c)
    assert whole == _union(c, b, a)
    assert whole == _union(list(_union(a, b).values()), c) == _union(a, list(_union(b, c).values()))
    assert whole == _union(list(whole.values()), a, b, c)


@given(_LEDGERS, _LEDGERS, st.randoms(use_true_random=False))
def test_the_state_does_not_depend_on_the_order_of_arrival(
    a: list[bytes], b: list[bytes], draw: Random
) -> None:
    merged = [*a, *b]
    shuffled = [*merged, *a]
    draw.shuffle(shuffled)
    one, two = _state(merged), _state(shuffled)
    assert list(one.events) == list(two.events)
    assert one == two
    assert all(encode(event) for event in one.events.values())
