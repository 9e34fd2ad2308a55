"""Plans that a change has overtaken: they wait in vain, and the command that plans again is one to type."""

from __future__ import annotations

import shlex
from pathlib import Path
from typing import Any

import pytest

from knobledger.again import again
from knobledger.cli.main import run
from knobledger.errors import Drifted, PlanSpent
from knobledger.events.changes import Planned
from knobledger.names import EventId
from workspaces import KNOB, SCRIPT, SERVE, Bench


@pytest.fixture
def bench(tmp_path: Path) -> Bench:
    return Bench(tmp_path / "ws")


def waiting(bench: Bench) -> tuple[list[str], list[str]]:
    """As `plans` and as `status` tell it."""
    with bench.open() as workspace:
        plans = workspace.plans()
        listed = [plan.id for plan in plans.plans]
        assert plans.over == len(workspace.state.plans) - len(listed)
        short = workspace.status([], recorded=True).open_plans
        return listed, list(short)


def test_it_does_not_wait_and_gets_no_go_ahead(bench: Bench) -> None:
    old = bench.plan((KNOB, "300"), why="it's for A/B", add=True)
    assert waiting(bench) == ([old.id], [old.id[:8]])
    new = bench.set(("NCCL_DEBUG", "INFO"))
    assert waiting(bench) == ([], [])
    with bench.open() as workspace:
        [shown] = [plan for plan in workspace.plans(spent=True).plans if plan.id == old.id]
        assert (shown.word, shown.stale_because) == ("stale", f"{new.id[:8]} was applied since")
        with pytest.raises(PlanSpent) as caught:
            workspace.approve(old.id, "flag")
    assert new.id[:8] in caught.value.message
    line = f"knob set gpu1/decode {KNOB}=300 --add --why 'it'\\''s for A/B'"
    assert caught.value.hint == f"plan again: `{line}`"


def test_it_waits_again_once_its_bytes_are_back(bench: Bench) -> None:
    old = bench.plan((KNOB, "300"))
    new = bench.set(("NCCL_DEBUG", "INFO"))
    bench.undo("revert", new.id)
    assert waiting(bench)[0] == [old.id]
    bench.apply(old.id)
    assert f"{KNOB}=300".encode() in bench.live


def test_a_plan_that_drifted_names_the_command(bench: Bench) -> None:
    old = bench.plan((KNOB, "300"))
    with bench.open() as workspace:
        workspace.approve(old.id, "flag")
    bench.host.put(SCRIPT, SERVE + b"# by hand\n", mode="0755")
    with bench.open() as workspace, pytest.raises(Drifted) as caught:
        workspace.apply(old.id)
    assert caught.value.hint.endswith(f": `knob set gpu1/decode {KNOB}=300`")


ID = "ab" * 32


@pytest.mark.parametrize(
    ("facts", "line"),
    [
        (
            {"verb": "set", "asks": (("A", "x y"), ("--p", "1"), ("--bare", ""), ("B", None), ("--c", None))},
            "knob set T 'A=x y' --unset=B --unset=--c -- --p=1 --bare",
        ),
        ({"verb": "unset", "asks": (("A", None), ("--p", None))}, "knob unset T A -- --p"),
        ({"verb": "edit"}, "knob edit T"),
        ({"verb": "revert", "undoes": EventId(ID), "exact": True}, "knob revert abababab --exact"),
        ({"verb": "restore", "undoes": EventId(ID), "label": "w"}, "knob restore abababab --label w"),
        (
            {
                "verb": "unset",
                "asks": (("A", None),),
                "restart": "service",
                "roll_back_on_failure": True,
                "confirm_within_s": 600,
                "batches": ("1", "100%"),
                "max_failures": 2,
                "hypotheses": ("h", "k"),
                "purpose": "mitigation",
                "line": 5,
                "force": True,
            },
            "knob unset T A --force --roll-back-on-failure --restart service --confirm-within 600s "
            "--batch 1,100% --max-failures 2 --kind mitigation --for h --for k",
        ),
    ],
)
def test_the_command_has_the_same_wishes(
    bench: Bench, facts: dict[str, Any], line: str, tmp_path: Path
) -> None:
    plan = bench.plan((KNOB, "300")).id
    with bench.open() as workspace:
        planned = workspace.state.plans[EventId(plan)].planned
    asks = tuple({"name": name, "value": value} for name, value in facts.pop("asks", ()))
    where = planned.files[0].but(target="T")
    planned = Planned.of({**planned.plain(), "files": (where.plain(),), **facts, "asks": asks})
    assert again(planned) == line
    # The command line understands it: what is missing is only the workspace (a mistake in the line would be 2).
    assert run(["-C", str(tmp_path / "none"), *shlex.split(line)[1:]]) == 1


def test_a_secret_is_not_in_the_command(bench: Bench) -> None:
    plan = bench.plan(("API_KEY", "hunter2-hunter2"), add=True)
    with bench.open() as workspace:
        assert again(workspace.state.plans[EventId(plan.id)].planned) == (
            "knob set gpu1/decode API_KEY=VALUE --add"
        )
