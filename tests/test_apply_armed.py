"""What an attempt does about armed changes: its own that fails is stood down, the one it takes back is disarmed."""

from __future__ import annotations

import json
from collections.abc import Iterator
from pathlib import Path

import pytest

from knobledger import apply
from knobledger.drafting import Options
from knobledger.errors import KnobError, NotWritten, Refused, StateUnknown
from knobledger.events.arming import Armed, Arming, Disarmed
from knobledger.hosts.local import LocalHost
from knobledger.knobs import Request
from knobledger.names import EventId
from knobledger.report.plans import PlanReport
from knobledger.workspace import Workspace

OLD = b"#!/bin/sh\nexport KNOB=256\n"


class Desk:
    """A workspace whose host is this machine."""

    def __init__(self, folder: Path) -> None:
        self.root, self.script = folder / "ws", folder / "host" / "serve.sh"
        self.script.parent.mkdir()
        self.script.write_bytes(OLD)
        self.root.mkdir()
        (self.root / "hosts.toml").write_text(
            f'[hosts.gpu1]\ntransport = "local"\n[hosts.gpu1.services.decode]\nscript = {json.dumps(str(self.script))}\n'
        )

    def open(self) -> Workspace:
        return Workspace.open(self.root, {"KNOBLEDGER_ACTOR": "anna", "TZ": "UTC"})

    def plan(self, **options: int) -> str:
        with self.open() as workspace:
            plan = workspace.set(["gpu1/decode"], [Request("KNOB", "512")], Options(**options))  # type: ignore[arg-type]
            assert isinstance(plan, PlanReport)
            workspace.approve(plan.id, "flag")
        return plan.id

    def apply(self, plan: str) -> None:
        with self.open() as workspace:
            workspace.apply(plan)

    def ended(self) -> list[tuple[str, str]]:
        """The plans that were disarmed, with the reason."""
        with self.open() as workspace:
            assert workspace.state.pending() == []
            return [(e.plan, e.reason) for e in workspace.state.events.values() if isinstance(e, Disarmed)]

    @property
    def left(self) -> list[str]:
        """What lies beside the file and its backups."""
        beside = {*self.script.parent.iterdir(), *self.script.parent.glob(".knobledger/*")}
        return sorted(
            path.name for path in beside if path.name != ".knobledger" and not path.name.endswith(".bak")
        )


@pytest.fixture
def desk(tmp_path: Path) -> Iterator[Desk]:
    yield Desk(tmp_path)
    for armed in tmp_path.rglob("state.armed"):
        armed.unlink()  # what waits there ends within a second


@pytest.mark.parametrize("error", [NotWritten("disk full"), StateUnknown("the connection was lost")])
def test_an_arming_is_taken_away_with_the_change_that_was_not_made(
    desk: Desk, error: KnobError, monkeypatch: pytest.MonkeyPatch
) -> None:
    def fail(*_: object) -> None:
        raise error

    plan = desk.plan(confirm_within_s=600)
    with monkeypatch.context() as patch:
        patch.setattr(LocalHost, "replace", fail)
        with pytest.raises(NotWritten):
            desk.apply(plan)
    assert desk.script.read_bytes() == OLD
    assert desk.ended() == [(plan, "the change was not made")]
    assert desk.left == ["serve.sh"]


def test_an_arming_that_can_not_be_taken_away_now_waits_for_recover(
    desk: Desk, monkeypatch: pytest.MonkeyPatch
) -> None:
    """The failure is told, not that of the clearing away; the host finds nothing to put back anyway."""

    def fail(*_: object) -> None:
        monkeypatch.setattr("knobledger.hosts.arming.cancel", gone)
        raise NotWritten("disk full")

    def gone(*_: object) -> None:
        raise StateUnknown("down")

    plan = desk.plan(confirm_within_s=600)
    with monkeypatch.context() as patch:
        patch.setattr(LocalHost, "replace", fail)
        with pytest.raises(NotWritten, match="disk full"):
            desk.apply(plan)
    monkeypatch.undo()
    with desk.open() as workspace:
        assert [pending.plan for pending in workspace.state.pending()] == [plan]
        workspace.recover()
    assert len(desk.ended()) == 1
    assert desk.left == ["serve.sh"]


def test_a_change_that_takes_an_armed_one_back_disarms_it(desk: Desk) -> None:
    armed = desk.plan(confirm_within_s=600)
    desk.apply(armed)
    with desk.open() as workspace:
        [arming] = [e for e in workspace.state.events.values() if isinstance(e, Arming)]
        assert (arming.plan, arming.window_s, arming.services) == (armed, 600, ())
        assert len([e for e in workspace.state.events.values() if isinstance(e, Armed)]) == 1
        back = workspace.revert(armed, Options())
        assert isinstance(back, PlanReport)
        workspace.approve(back.id, "flag")
    desk.apply(back.id)
    assert desk.script.read_bytes() == OLD
    assert desk.ended() == [(armed, f"taken back by {back.id[:8]}")]
    assert desk.left == ["serve.sh"]


def test_an_armed_change_is_recorded_with_what_its_end_restarts(desk: Desk) -> None:
    plan = EventId(desk.plan(confirm_within_s=600))
    with desk.open() as workspace:
        target, host = workspace.config.target("gpu1/decode"), workspace.host("gpu1")
        restarts = (("gpu1/decode", ("true",)),)
        apply.attempt(workspace.desk, workspace.state.plans[plan], target, host, lambda: host, restarts)
        [arming] = [e for e in workspace.state.events.values() if isinstance(e, Arming)]
    assert arming.services == ("gpu1/decode",)


def test_a_plain_change_beside_an_armed_one_is_refused_and_arms_nothing(desk: Desk) -> None:
    plain = desk.plan()
    armed = desk.plan(confirm_within_s=600)
    desk.apply(armed)
    with pytest.raises(Refused, match="waits for its confirmation"):
        desk.apply(plain)
    with desk.open() as workspace:
        assert [pending.plan for pending in workspace.state.pending()] == [armed]
        assert workspace.state.plans[EventId(plain)].attempts == []


def test_a_plain_change_is_not_armed(desk: Desk) -> None:
    desk.apply(desk.plan())
    with desk.open() as workspace:
        assert not any(isinstance(event, Arming) for event in workspace.state.events.values())
    assert desk.left == ["serve.sh"]
