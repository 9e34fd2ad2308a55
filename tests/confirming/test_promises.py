"""A change that was to be put back and was not: said until somebody reverts or confirms it, and never mended by a copy."""

from __future__ import annotations

import json
from collections.abc import Iterator
from pathlib import Path

import pytest
from test_confirming import NEW, OLD, Desk, wait_for

from knobledger.drafting import Options
from knobledger.event import moment_of
from knobledger.events.arming import Expired
from knobledger.events.changes import Observed
from knobledger.ledger import excerpt
from knobledger.looking import Query
from knobledger.report.plans import PlanReport

LATER = b"# by a colleague\n"


@pytest.fixture
def desk(tmp_path: Path) -> Iterator[Desk]:
    yield Desk(tmp_path)
    for armed in tmp_path.rglob("state.armed"):
        armed.unlink()  # what waits there ends within a second


def ended(desk: Desk) -> bool:
    return (desk.script.parent / ".knobledger" / "se rve.sh.armed" / "outcome").exists()


def broken(desk: Desk) -> str:
    """A change whose deadline came after somebody had added a line; its short id."""
    name = desk.set(within_s=2).id[:8]
    desk.script.write_bytes(NEW + LATER)
    wait_for(lambda: ended(desk), 60)
    return name


def test_the_way_back_keeps_what_a_colleague_wrote(desk: Desk) -> None:
    name = broken(desk)
    told = desk.knob("pending")
    assert told.returncode == 22
    assert f"$ knob revert {name}\n" in told.stdout
    assert "cp -p" not in told.stdout
    desk.knob("revert", name, "--go-ahead")
    assert desk.script.read_bytes() == OLD + LATER
    done = desk.knob("pending")
    assert (done.returncode, done.stdout) == (0, "nothing waits for a confirmation\n")
    assert "NOT" not in desk.knob("status").stderr


def test_it_is_said_until_it_is_confirmed_on_purpose(desk: Desk) -> None:
    name = broken(desk)
    late = desk.knob("confirm", name)
    assert late.returncode == 1
    assert f"the change is still in the file: `knob revert {name}` takes it back" in late.stderr
    assert "make the change again" not in late.stderr
    said = f"{name} on gpu1/decode was to be put back by its host at "
    for words in (
        ("status",),
        ("since", "1h"),
        ("log",),
        ("show", "@"),
        ("pending",),
        ("pending", "--recorded"),
    ):
        told = desk.knob(*words)
        assert said in told.stdout + told.stderr, words
        assert f"`knob revert {name}` takes it back and keeps later edits" in told.stdout + told.stderr
    assert f"{name} was to be put back, and was NOT" in desk.knob("since", "1h").stdout
    [line] = desk.pending()
    assert (line["state"], line["commands"]) == ("failed", [f"knob revert {name}"])
    kept = desk.knob("confirm", name)
    assert (kept.returncode, "confirmed by anna" in kept.stdout) == (0, True), kept.stderr
    for words in (("status",), ("since", "1h"), ("pending",)):
        told = desk.knob(*words)
        assert said not in told.stdout + told.stderr, words
    assert desk.pending() == []
    assert desk.script.read_bytes() == NEW + LATER
    assert desk.knob("verify").returncode == 0


def test_a_part_of_the_ledger_tells_it_too(desk: Desk, monkeypatch: pytest.MonkeyPatch) -> None:
    """Of a large ledger a command reads what it hangs on: the index keeps such a change open, until it is reverted."""
    monkeypatch.setattr(excerpt, "worthwhile", lambda _: True)
    name = broken(desk)
    with desk.open() as workspace:
        assert workspace.pending().exit_code == 22

    def said() -> list[str]:
        notes = []
        for ask in (
            lambda w: w.log(Query()),
            lambda w: w.status([], recorded=True),
            lambda w: w.pending(recorded=True),
        ):
            with desk.open() as workspace:
                ask(workspace)
            notes += [note for note in workspace.notes if f"{name} on gpu1/decode was to be put back" in note]
        return notes

    assert len(said()) == 3
    with desk.open() as workspace:
        plan = workspace.revert(name, Options())
        assert isinstance(plan, PlanReport)
        workspace.approve(plan.id, "flag")
        workspace.apply(plan.id)
    assert said() == []
    with desk.open() as workspace:
        assert workspace.pending().lines == ()


def test_a_deadline_is_the_hosts_at_its_own_time(desk: Desk) -> None:
    name = desk.set(within_s=2).id[:8]
    wait_for(lambda: ended(desk), 60)
    told = desk.knob("set", "gpu1/decode", "OTHER=2", "--plan")
    assert "by hand" not in told.stdout + told.stderr
    with desk.open() as workspace:
        [(id_, event)] = [(i, e) for i, e in workspace.state.events.items() if isinstance(e, Expired)]
        assert not [e for e in workspace.state.events.values() if isinstance(e, Observed) and e.previous]
    at = moment_of(event.ended_at)
    assert moment_of(event.at) > at
    since = json.loads(desk.knob("since", "1h", "--json").stdout)
    [item] = since["between"]
    assert (item["at"], item["actor"], item["recorded_by"]) == (event.ended_at, "the host gpu1", "anna")
    assert since["changes"][0]["by"] == id_
    page = desk.knob("since", "1h").stdout
    assert f"reverted by {id_[:8]}" in page
    assert "by the host gpu1" in page
    blame = desk.knob("blame", "gpu1/decode", "KNOB").stdout
    assert f"{id_[:8]}  {at:%Y-%m-%d %H:%M:%S}Z  the host gpu1" in blame
    log = desk.knob("log", "--kind", "expired").stdout
    assert f"{at:%Y-%m-%d %H:%M:%S} UTC" in log
    assert "by the host gpu1, recorded by anna" in log
    assert f"{name}" in log
