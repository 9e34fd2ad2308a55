"""Commands that read a part of the ledger say and do what they would with all of it."""

from __future__ import annotations

import json
from collections.abc import Callable
from datetime import UTC, datetime, timedelta
from pathlib import Path
from typing import Any

import pytest

from knobledger.drafting import Options
from knobledger.errors import KnobError
from knobledger.event import stamp
from knobledger.events.changes import Applied
from knobledger.events.notes import Noted
from knobledger.knobs import Request
from knobledger.ledger import excerpt
from knobledger.moment import Resolved
from knobledger.workspace import Workspace
from workspaces import KNOB, SCRIPT, SERVE, Bench

OTHER = "/root/serve_prefill.sh"
TARGET = "gpu1/decode"


@pytest.fixture
def bench(tmp_path: Path) -> Bench:
    """Two targets with changes, a revert, an edit by hand, an open plan, a rejected one, and one that waits for nobody."""
    made = Bench(tmp_path / "ws")
    with (made.root / "hosts.toml").open("a") as config:
        config.write(
            f'[hosts.gpu1.services.prefill]\nscript = "{OTHER}"\n[groups.all]\nservices = ["gpu1/*"]\n'
        )
    made.host.put(OTHER, SERVE, mode="0755")
    made.set((KNOB, "512"), why="more")
    made.undo("revert", "@", why="slower")
    both = _planned(made, ["all"], ("NCCL_DEBUG", "INFO"))
    made.apply(both)
    made.host.put(SCRIPT, made.live.replace(b"NCCL_DEBUG=INFO", b"NCCL_DEBUG=TRACE"), mode="0755")
    made.plan((KNOB, "128"))
    with made.open() as workspace:
        workspace.reject(made.plan((KNOB, "64")).id, "no")
        workspace.note("said", "@")
    return made


@pytest.fixture
def parts(bench: Bench, monkeypatch: pytest.MonkeyPatch) -> list[int]:
    """Excerpts are always worthwhile; how many events each one held."""
    sizes: list[int] = []
    events = excerpt.Excerpt.events

    def counted(self: excerpt.Excerpt) -> Any:
        found = events(self)
        sizes.append(len(found))
        return found

    monkeypatch.setattr(excerpt, "worthwhile", lambda _: True)
    monkeypatch.setattr(excerpt.Excerpt, "events", counted)
    return sizes


def _planned(bench: Bench, targets: list[str], *edits: tuple[str, str | None]) -> str:
    with bench.open() as workspace:
        report = workspace.set(targets, [Request(*one) for one in edits], Options(add=True))
    return report.id  # type: ignore[union-attr]


def _changes(bench: Bench) -> list[str]:
    with bench.open() as workspace:
        return list(workspace.state.changes)


LOOKS: dict[str, Callable[[Workspace], Any]] = {
    "plans": lambda it: it.plans(),
    "plans --spent": lambda it: it.plans(spent=True),
    "plans --live": lambda it: it.plans(live=True),
    "show @": lambda it: it.show("@"),
    "show @-2": lambda it: it.show("@-2"),
    "status": lambda it: it.status([]),
    "status of one": lambda it: it.status([TARGET]),
    "drift": lambda it: it.drift([]),
    "diff": lambda it: it.diff(TARGET, None, None),
    "diff with another": lambda it: it.diff(TARGET, "gpu1/prefill", None),
    "diff from the newest": lambda it: it.diff(TARGET, "@", None),
    "backups": lambda it: it.backups(TARGET),
    "pending": lambda it: it.pending(),
    "since --live": lambda it: it.since(_noon(), None, live=True),
}


def _noon() -> Resolved:
    return Resolved(datetime.now(UTC) - timedelta(hours=1), "UTC", "an hour ago")


def _seen(bench: Bench, look: Callable[[Workspace], Any]) -> tuple[Any, list[str]]:
    with bench.open() as workspace:
        found = look(workspace).to_json()
    for moment in ("from", "until", "to"):
        found.pop(moment, None)  # of this very moment
    return json.loads(json.dumps(found, default=str)), workspace.notes


@pytest.mark.parametrize("name", LOOKS)
def test_looking_tells_the_same(bench: Bench, request: pytest.FixtureRequest, name: str) -> None:
    told = _seen(bench, LOOKS[name])
    sizes: list[int] = request.getfixturevalue("parts")
    assert _seen(bench, LOOKS[name]) == told
    assert bool(sizes) == (name != "plans --spent")


def test_what_can_not_be_excerpted_is_not_told_from_a_part(
    bench: Bench, request: pytest.FixtureRequest, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Drift was looked at for one target; what changed since is everybody's."""

    def look(workspace: Workspace) -> Any:
        workspace.decides_on_targets(["gpu1/prefill"])
        return workspace.since(_noon(), None)

    told = _seen(bench, look)
    request.getfixturevalue("parts")

    def fail(*_: object) -> None:
        raise excerpt.NoExcerpt

    monkeypatch.setattr(excerpt.Excerpt, "since", fail)
    assert _seen(bench, look) == told


def test_every_change_is_shown_as_by_the_whole_ledger(bench: Bench, request: pytest.FixtureRequest) -> None:
    changes = _changes(bench)
    told = [_seen(bench, lambda it, c=change: it.show(c)) for change in changes]  # type: ignore[misc]
    request.getfixturevalue("parts")
    assert [_seen(bench, lambda it, c=change: it.show(c)) for change in changes] == told  # type: ignore[misc]


def test_a_change_reads_its_own_target_and_not_the_others(bench: Bench, parts: list[int]) -> None:
    for n in range(20):
        bench.set((KNOB, str(1000 + n)))
    parts.clear()
    bench.apply(_planned(bench, ["gpu1/prefill"], (KNOB, "7")))
    assert max(parts) < 40  # and not the hundred that the ledger holds
    assert b"CTAS=7" in bench.host.files[OTHER].content


def test_the_whole_way_of_a_change_and_back(bench: Bench, parts: list[int]) -> None:
    before = bench.live
    changed = bench.set((KNOB, "4096"))
    undone = bench.undo("revert", "@")
    assert bench.live == before
    again = bench.undo("restore", changed.id[:8])
    assert b"CTAS=4096" in bench.live
    assert _changes(bench)[-3:] == [changed.id, undone.id, again.id]  # type: ignore[union-attr]
    assert parts


def test_one_workspace_keeps_what_it_has_written_itself(bench: Bench, parts: list[int]) -> None:
    with bench.open() as workspace:
        plan = workspace.set([TARGET], [Request(KNOB, "33")], Options())
        workspace.approve(plan.id, "flag")  # type: ignore[union-attr]
        assert workspace.apply(plan.id).status == "used"  # type: ignore[union-attr]
        assert workspace.show("@").id == plan.id  # type: ignore[union-attr]
    assert parts


def test_where_the_clock_was_set_back_the_newest_change_is_looked_up_in_all(
    bench: Bench, parts: list[int]
) -> None:
    newest = _changes(bench)[-1]
    ahead = stamp(datetime.now(UTC) + timedelta(days=1))
    with bench.open() as workspace:
        workspace.ledger.append(Noted(at=ahead, actor="anna", text="from a clock that is ahead"))
    bench.set((KNOB, "77"))
    parts.clear()
    with bench.open() as workspace:
        found = workspace.show("@")
        whole = {stored.id for stored in workspace.ledger.events()}
        assert set(workspace.state.events) == whole
    assert found.id == _changes(bench)[-1] != newest  # type: ignore[union-attr]


def test_too_far_back_is_said_with_the_true_number(bench: Bench, parts: list[int]) -> None:
    with pytest.raises(KnobError) as refused, bench.open() as workspace:
        workspace.show("@-9")
    assert refused.value.message == f"there is no change '@-9': the ledger has {len(_changes(bench))}"


def test_an_index_with_other_bytes_is_not_believed(bench: Bench, parts: list[int]) -> None:
    with bench.open() as workspace:
        index = workspace.ledger.index()
        applied = next(
            one.id
            for one in workspace.ledger.events()
            if isinstance(one.event, Applied) and one.event.target == TARGET
        )
        with index.reader() as connection:
            connection.execute(
                "UPDATE event SET body = replace(body, '\"uid\":0', '\"uid\":1') WHERE id = ?", (applied,)
            )
        assert connection.total_changes
        index.close()
    with bench.open() as workspace:
        workspace.decides_on_targets([TARGET])
        assert set(workspace.state.events) == {stored.id for stored in workspace.ledger.events()}
