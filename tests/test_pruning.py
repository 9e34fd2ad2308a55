"""Which backups may go: none that anything in the ledger could still want."""

from __future__ import annotations

from pathlib import Path

import pytest

from knobledger.errors import PlanMode
from workspaces import KNOB, SCRIPT, Bench


@pytest.fixture
def bench(tmp_path: Path) -> Bench:
    return Bench(tmp_path / "ws")


def names(bench: Bench) -> list[str]:
    return sorted(name for name in bench.host.files if name != SCRIPT)


def prune(bench: Bench, older_than_s: float = 0) -> tuple[set[str], dict[str, str]]:
    with bench.open() as workspace:
        report = workspace.prune("gpu1/decode", older_than_s)
    assert report.done
    assert report.exit_code == 0
    return {item.path for item in report.go}, {str(path): why for path, why in report.stay}


def test_what_is_in_effect_can_still_be_reverted(bench: Bench) -> None:
    """ansible#29639: backups pile up; a retention rule must not delete one that the ledger needs."""
    tuned = bench.set((KNOB, "512"))
    before = names(bench)
    gone, kept = prune(bench)
    assert gone == set()
    assert "is in effect" in kept[before[0]]
    assert bench.undo("revert", tuned.id)


def test_each_undo_still_works_afterwards(bench: Bench) -> None:
    for value in ("300", "400", "512"):
        last = bench.set((KNOB, value))
    bench.undo("revert", last.id)
    gone, kept = prune(bench)
    assert len(gone) == 3
    assert set(names(bench)) == set(kept)
    bench.undo("restore", last.id)
    assert f"{KNOB}=512".encode() in bench.live
    bench.undo("revert", "@")
    assert f"{KNOB}=400".encode() in bench.live


def test_the_entry_comes_first_and_the_list_says_so(bench: Bench) -> None:
    """A removal that is interrupted is in the ledger; what is still there is shown as there."""
    for value in ("300", "400", "512"):
        bench.set((KNOB, value))

    def die() -> None:
        raise KeyboardInterrupt

    bench.host.faults["prune"] = die
    with pytest.raises(KeyboardInterrupt), bench.open() as workspace:
        workspace.prune("gpu1/decode", 0)
    assert bench.kinds()[-1] == "pruned"
    del bench.host.faults["prune"]
    with bench.open() as workspace:
        assert {item.state for item in workspace.backups("gpu1/decode").backups} == {"ok"}
    gone, _ = prune(bench)
    with bench.open() as workspace:
        states = {str(item.path): item.state for item in workspace.backups("gpu1/decode").backups}
    assert {path for path, state in states.items() if state == "removed"} == gone


def test_young_ones_damaged_ones_and_those_of_others_stay(bench: Bench) -> None:
    for value in ("300", "400", "512"):
        bench.set((KNOB, value))
    assert prune(bench, 3600)[0] == set()
    with bench.open() as workspace:
        first, second, _ = (item.path for item in workspace.backups("gpu1/decode").backups)  # oldest first
    bench.host.put(first, b"something else")
    bench.host.put(first.rpartition("/")[0] + "/serve_dsv4_decode.sh.by_hand", b"x")
    gone, kept = prune(bench)
    assert gone == {second}
    assert "does not hold what was recorded" in kept[first]
    assert any("no entry of this ledger" in why for why in kept.values())


def test_bytes_without_a_snapshot_stay(bench: Bench) -> None:
    for value in ("300", "400", "512"):
        bench.set((KNOB, value))
    for path in (bench.root / ".knobledger" / "snapshots").rglob("*"):
        if path.is_file():
            path.unlink()
    assert prune(bench)[0] == set()


def test_plan_mode_removes_nothing(bench: Bench) -> None:
    bench.set((KNOB, "512"))
    with bench.open(KNOBLEDGER_MODE="plan") as workspace, pytest.raises(PlanMode):
        workspace.prune("gpu1/decode", 0)
