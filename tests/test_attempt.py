"""The attempt: whatever dies, the file is old or new, the ledger knows or finds out."""

from __future__ import annotations

import os
import signal
import sys
from collections.abc import Callable, Sequence
from pathlib import Path

import pytest

from knobledger.errors import (
    Busy,
    Drifted,
    Interrupted,
    KnobError,
    NotApproved,
    NotWritten,
    PlanMode,
    PlanSpent,
    RolledBack,
    StateUnknown,
    Unreachable,
)
from knobledger.events.entry import Event
from knobledger.ledger.store import Ledger
from workspaces import KNOB, SCRIPT, SERVE, Bench

NEW = SERVE.replace(b"CTAS=256", b"CTAS=512")


@pytest.fixture
def bench(tmp_path: Path) -> Bench:
    return Bench(tmp_path / "ws")


def test_a_change_writes_its_events_in_order(bench: Bench) -> None:
    report = bench.set((KNOB, "512"), why="A/B")
    assert bench.live == NEW
    assert bench.kinds() == ["observed", "planned", "approved", "started", "applied"]
    assert report.to_json()["receipt"]["grep"] == [{"line": 5, "text": f"export {KNOB}=512"}]
    assert report.exit_code == 0


def test_the_second_run_changes_nothing(bench: Bench) -> None:
    bench.set((KNOB, "512"))
    before = (bench.kinds(), dict(bench.host.files))
    with bench.open() as workspace:
        from knobledger.drafting import Options
        from knobledger.knobs import Request

        report = workspace.set(["gpu1/decode"], [Request(KNOB, "512")], Options())
    assert report.to_json()["changed"] is False
    assert (bench.kinds(), bench.host.files) == before


@pytest.mark.parametrize("step", ["probe", "resolve", "lock", "compare", "backup", "stage", "swap", "verify"])
def test_an_error_at_any_step_leaves_the_old_file_and_a_recorded_outcome(bench: Bench, step: str) -> None:
    plan = bench.plan((KNOB, "512")).id
    bench.host.faults[step] = (
        NotWritten("disk full") if step not in ("swap", "verify") else KnobError("verify failed")
    )
    with pytest.raises(KnobError) as error:
        bench.apply(plan)
    assert bench.live == SERVE
    assert error.value.exit_code == 21
    assert bench.kinds()[-1] == ("rolled_back" if step in ("swap", "verify") else "failed")
    with bench.open() as workspace:
        assert workspace.state.in_doubt() == []


@pytest.mark.parametrize(
    ("error", "code"),
    [(Busy("held", holder="bert", since=1), 11), (Drifted("other bytes"), 10), (Unreachable("down"), 20)],
)
def test_an_error_before_the_swap_keeps_its_exit_code_and_the_plan(
    bench: Bench, error: KnobError, code: int
) -> None:
    plan = bench.plan((KNOB, "512")).id
    bench.host.faults["lock"] = error
    with pytest.raises(type(error)) as caught:
        bench.apply(plan)
    assert caught.value.exit_code == code
    bench.host.faults.clear()
    assert bench.apply(plan).is_change
    assert bench.live == NEW


def test_one_changed_byte_between_plan_and_apply_stops_it(bench: Bench) -> None:
    plan = bench.plan((KNOB, "512")).id
    other = SERVE + b"\n"
    bench.host.put(SCRIPT, other)
    with pytest.raises(Drifted):
        bench.apply(plan)
    assert bench.live == other


def test_a_plan_is_good_for_one_use(bench: Bench) -> None:
    plan = bench.set((KNOB, "512")).id
    with pytest.raises(PlanSpent, match="used already"):
        bench.apply(plan)


def test_a_plan_needs_a_go_ahead_and_can_be_rejected(bench: Bench) -> None:
    plan = bench.plan((KNOB, "512")).id
    with bench.open() as workspace, pytest.raises(NotApproved):
        workspace.apply(plan)
    with bench.open() as workspace:
        workspace.reject(plan, "no")
    with pytest.raises(PlanSpent, match="rejected by anna"):
        bench.apply(plan)
    assert bench.live == SERVE


def _lost_after(bench: Bench, step: str) -> None:
    def lose() -> None:
        bench.host.faults.clear()
        if step == "verify":
            bench.host.files[SCRIPT] = bench.host.files[SCRIPT]
        raise StateUnknown("the connection was lost")

    bench.host.faults[step] = lose


def test_a_lost_answer_is_settled_by_a_second_look(bench: Bench) -> None:
    plan = bench.plan((KNOB, "512")).id
    _lost_after(bench, "verify")
    report = bench.apply(plan)
    assert bench.live == NEW
    assert report.is_change
    assert report.to_json()["receipt"] is None
    assert "lost" in report.targets[0].message
    assert bench.kinds()[-1] == "settled"


def test_a_failed_proof_is_no_success_even_with_the_bytes_of_the_plan(bench: Bench) -> None:
    plan = bench.plan((KNOB, "512")).id

    def objects() -> None:
        bench.host.faults.clear()
        raise StateUnknown("the backup could not be put back", objection="mode is 700, not 755")

    bench.host.faults["verify"] = objects
    with pytest.raises(
        StateUnknown, match="mode is 700, not 755; a fresh look shows that the new content"
    ) as error:
        bench.apply(plan)
    assert error.value.exit_code == 22
    assert f"knob revert {plan[:8]}" in error.value.hint
    assert bench.live == NEW
    assert bench.kinds()[-1] == "settled"


def test_a_lost_answer_before_the_swap_is_a_failure_that_says_so(bench: Bench) -> None:
    plan = bench.plan((KNOB, "512")).id
    _lost_after(bench, "stage")
    with pytest.raises(NotWritten, match="as before"):
        bench.apply(plan)
    assert bench.live == SERVE


def test_unknown_stays_unknown_until_recover_can_look(bench: Bench) -> None:
    plan = bench.plan((KNOB, "512")).id

    def lose() -> None:
        bench.host.faults = {"read": Unreachable("down")}
        raise StateUnknown("the connection was lost")

    bench.host.faults["verify"] = lose
    with pytest.raises(StateUnknown) as error:
        bench.apply(plan)
    assert error.value.exit_code == 22
    assert error.value.values["commands"] == [f"sha256sum {SCRIPT}"]
    with bench.open() as workspace:
        assert workspace.recover().exit_code == 20
    bench.host.faults.clear()
    with bench.open() as workspace:
        assert workspace.recover().settled == ((plan, "gpu1/decode", "applied"),)
    with bench.open() as workspace:
        assert workspace.recover().settled == ()
        assert workspace.state.fate(plan) == ("in effect", None)


def test_ctrl_c_leaves_what_recover_settles(bench: Bench) -> None:
    plan = bench.plan((KNOB, "512")).id

    def interrupt() -> None:
        bench.host.faults.clear()
        raise KeyboardInterrupt

    bench.host.faults["verify"] = interrupt
    with pytest.raises(Interrupted, match="exactly the old or exactly the new") as error:
        bench.apply(plan)
    assert "knob recover" in error.value.hint
    with bench.open() as workspace:
        assert workspace.recover().settled == ((plan, "gpu1/decode", "applied"),)


def _in_child(work: Callable[[], object]) -> int:
    """Runs in a forked child, which may die; the signal that ended it, or 0."""
    child = os.fork()
    if child == 0:
        try:
            work()
        finally:
            os._exit(0)
    return os.WTERMSIG(os.waitpid(child, 0)[1])


POINTS = ["before started", "after started", "after swap", "before outcome", "after outcome"]


@pytest.mark.parametrize("point", POINTS)
def test_a_kill_at_any_point_of_the_attempt_is_found_and_settled(
    bench: Bench, point: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    """The host's file outlives the client, so it is a real file here; the client is a forked process that is killed."""
    disk = bench.root / "disk"
    disk.write_bytes(SERVE)
    plan = bench.plan((KNOB, "512")).id
    with bench.open() as workspace:
        workspace.approve(plan, "flag")
    append = Ledger.append_each
    replace = type(bench.host).replace

    def die(when: str) -> None:
        if when == point:
            os.kill(os.getpid(), signal.SIGKILL)

    def append_and_die(self: Ledger, events: Sequence[Event]) -> object:
        [kind] = (event.kind for event in events)
        die(f"before {kind}" if kind == "started" else "before outcome" if kind == "applied" else "")
        written = append(self, events)
        die(f"after {kind}" if kind == "started" else "after outcome" if kind == "applied" else "")
        return written

    def replace_and_die(self: object, transaction: object) -> object:
        receipt = replace(self, transaction)  # type: ignore[arg-type]
        disk.write_bytes(bench.live)
        die("after swap")
        return receipt

    monkeypatch.setattr(Ledger, "append_each", append_and_die)
    monkeypatch.setattr(type(bench.host), "replace", replace_and_die)

    def work() -> None:
        sys.stderr = open(os.devnull, "w")  # noqa: SIM115
        with bench.open() as workspace:
            workspace.apply(plan)

    assert _in_child(work) == signal.SIGKILL
    monkeypatch.undo()
    bench.host.put(SCRIPT, disk.read_bytes(), mode="0755")
    assert bench.live in (SERVE, NEW)
    with bench.open() as workspace:
        assert workspace.verify().findings == ()
        settled = workspace.recover().settled
    expected = {
        "before started": (),
        "after started": ((plan, "gpu1/decode", "unchanged"),),
        "after swap": ((plan, "gpu1/decode", "applied"),),
        "before outcome": ((plan, "gpu1/decode", "applied"),),
        "after outcome": (),
    }
    assert settled == expected[point]
    with bench.open() as workspace:
        assert workspace.state.in_doubt() == []
        assert (workspace.state.plans[plan].is_change) == (bench.live == NEW)


def test_a_roll_back_is_recorded_as_one(bench: Bench) -> None:
    plan = bench.plan((KNOB, "512")).id
    bench.host.faults["verify"] = KnobError("digest differs")
    with pytest.raises(RolledBack):
        bench.apply(plan)
    assert bench.live == SERVE
    with pytest.raises(PlanSpent):
        bench.apply(plan)


def test_plan_mode_looks_and_plans_and_does_nothing_else(bench: Bench) -> None:
    plan = bench.plan((KNOB, "512")).id
    bench.env["KNOBLEDGER_MODE"] = "plan"
    again = bench.plan((KNOB, "640"))
    assert again.status == "open"
    with bench.open() as workspace, pytest.raises(PlanMode):
        workspace.approve(plan, "flag")
    with bench.open() as workspace, pytest.raises(PlanMode):
        workspace.recover()
    del bench.env["KNOBLEDGER_MODE"]
    with bench.open() as workspace:
        workspace.approve(plan, "flag")
    bench.env["KNOBLEDGER_MODE"] = "plan"
    with bench.open() as workspace, pytest.raises(PlanMode):
        workspace.apply(plan)
    assert bench.live == SERVE


def test_drift_is_recorded_as_observed_and_the_plan_is_made_on_what_is_there(bench: Bench) -> None:
    bench.set((KNOB, "512"))
    bench.host.put(SCRIPT, NEW.replace(b"WARN", b"INFO"), mode="0755")
    report = bench.plan((KNOB, "640"))
    assert any("by hand" in remark for remark in report.remarks)
    assert bench.kinds().count("observed") == 2
    bench.apply(report.id)
    assert b"NCCL_DEBUG=INFO" in bench.live


def test_another_clone_rebuilds_the_bytes_from_the_plan(bench: Bench) -> None:
    import shutil

    plan = bench.plan((KNOB, "512")).id
    shutil.rmtree(bench.root / ".knobledger" / "snapshots")
    assert bench.apply(plan).is_change
    assert bench.live == NEW
