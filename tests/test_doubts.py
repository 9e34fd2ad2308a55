"""An attempt without an outcome is judged before anything is put down to somebody's hand, or written over it."""

from __future__ import annotations

from collections.abc import Sequence
from pathlib import Path

import pytest

from knobledger.drafting import Options
from knobledger.errors import KnobError, StateUnknown
from knobledger.events.changes import Applied, Observed, Settled
from knobledger.events.entry import Event
from knobledger.knobs import Request
from knobledger.ledger.store import Ledger
from workspaces import KNOB, SCRIPT, SERVE, Bench

NEW = SERVE.replace(b"CTAS=256", b"CTAS=512")


class Killed(BaseException):
    """Ends a command as `kill -9` does: nothing is written any more."""


@pytest.fixture
def bench(tmp_path: Path) -> Bench:
    return Bench(tmp_path / "ws")


def die(*_: object, **__: object) -> None:
    raise Killed


def no_outcome(patch: pytest.MonkeyPatch) -> None:
    """Whoever would record that a change was applied dies."""
    append_each = Ledger.append_each

    def dies(self: Ledger, events: Sequence[Event]) -> object:
        return die() if any(isinstance(event, Applied) for event in events) else append_each(self, events)

    patch.setattr(Ledger, "append_each", dies)


def killed(bench: Bench, where: str = "after the swap", value: str = "512") -> str:
    """A plan whose attempt began, and whose client died then."""
    plan = bench.plan((KNOB, value)).id
    with pytest.MonkeyPatch.context() as patch:
        if where == "after the swap":
            no_outcome(patch)
        else:
            patch.setattr(type(bench.host), "replace", die)
        with pytest.raises(Killed):
            bench.apply(plan)
    assert bench.live == (NEW if where == "after the swap" else SERVE)
    return plan


def by_hand(bench: Bench) -> list[Observed]:
    """What is recorded as changed by hand."""
    with bench.open() as workspace:
        return [e for e in workspace.state.events.values() if isinstance(e, Observed) and e.previous]


def outcome(bench: Bench, plan: str) -> str:
    with bench.open() as workspace:
        [attempt] = workspace.state.plans[plan].attempts  # type: ignore[index]
        assert isinstance(attempt.outcome, Settled)
        return attempt.outcome.outcome


def test_the_next_plan_finds_that_it_was_done(bench: Bench) -> None:
    mine = killed(bench)
    report = bench.plan(("NCCL_DEBUG", "INFO"))
    assert (outcome(bench, mine), by_hand(bench)) == ("applied", [])
    [remark] = report.remarks
    assert (
        f"{mine[:8]} on gpu1/decode had no outcome in the ledger: the file holds what it was to write"
        in remark
    )
    bench.apply(report.id)
    assert bench.live == NEW.replace(b"WARN", b"INFO")
    with bench.open() as workspace:
        assert workspace.state.fate(mine) == ("in effect", None)  # type: ignore[arg-type]
        assert workspace.recover().settled == ()
        assert workspace.verify().findings == ()


def test_the_next_plan_finds_that_it_was_not_done(bench: Bench) -> None:
    mine = killed(bench, "before the swap")
    report = bench.plan(("NCCL_DEBUG", "INFO"))
    assert (outcome(bench, mine), by_hand(bench)) == ("unchanged", [])
    assert "recorded as not done" in report.remarks[0]


def test_a_plan_from_before_it_settles_it_before_it_writes(bench: Bench) -> None:
    other = bench.plan(("NCCL_DEBUG", "INFO")).id
    mine = killed(bench, "before the swap")
    bench.apply(other)
    assert outcome(bench, mine) == "unchanged"
    with bench.open() as workspace:
        assert workspace.recover().exit_code == 0


@pytest.mark.parametrize("exact", [False, True])
def test_a_revert_of_an_earlier_change_settles_it(bench: Bench, exact: bool) -> None:
    earlier = bench.set(("NCCL_DEBUG", "INFO")).id
    base = bench.live
    plan = bench.plan((KNOB, "512")).id
    with pytest.MonkeyPatch.context() as patch:
        no_outcome(patch)
        with pytest.raises(Killed):
            bench.apply(plan)
    assert bench.live != base
    bench.undo("revert", earlier, exact=exact)
    assert (outcome(bench, plan), by_hand(bench)) == ("applied", [])
    assert bench.live == (SERVE if exact else NEW)


def test_bytes_that_are_neither_are_observed_with_a_word_of_the_attempt(bench: Bench) -> None:
    mine = killed(bench)
    bench.host.put(SCRIPT, NEW + b"# by hand\n", mode="0755")
    report = bench.plan(("NCCL_DEBUG", "INFO"))
    assert outcome(bench, mine) == "overwritten"
    [seen] = by_hand(bench)
    assert f"an attempt of {mine[:8]} was interrupted before: nobody knows how much" in seen.hints[0]
    assert not any("by hand" in remark for remark in report.remarks)
    assert any("holds neither what was before" in remark for remark in report.remarks)


def test_who_only_looks_records_nothing_and_says_why(bench: Bench) -> None:
    mine = killed(bench)
    before = bench.kinds()
    with bench.open() as workspace:
        [line] = workspace.drift([]).targets
        assert (line.state, line.exit_code) == ("not known", 22)
        assert f"may hold what {mine[:8]} has written" in line.message
        assert "knob recover" in line.message
        adoption = workspace.adopt(["gpu1/decode"])
        assert adoption.targets[0].drift.exit_code == 22
        [status] = workspace.status([]).targets
        assert (status.drift, status.in_doubt) == (None, mine)
        assert "`knob recover`" in workspace.blame("gpu1/decode", []).remarks[0]
    assert bench.kinds() == before


def test_who_may_not_act_is_told_to_have_it_settled(bench: Bench) -> None:
    killed(bench)
    bench.env["KNOBLEDGER_MODE"] = "plan"
    before = bench.kinds()
    with bench.open() as workspace, pytest.raises(StateUnknown, match="no outcome") as error:
        workspace.set(["gpu1/decode"], [Request("NCCL_DEBUG", "INFO")], Options())
    assert error.value.exit_code == 22
    assert "knob recover" in error.value.hint
    assert bench.kinds() == before


def test_its_own_proof_is_stronger_than_a_look_from_elsewhere(bench: Bench) -> None:
    """Somebody settles an attempt of a living client, before its transaction has begun."""
    plan = bench.plan((KNOB, "512")).id
    replace = type(bench.host).replace

    def after_a_look(self: object, transaction: object) -> object:
        with bench.open() as other:
            assert other.recover().settled == ((plan, "gpu1/decode", "unchanged"),)
        return replace(self, transaction)  # type: ignore[arg-type]

    with pytest.MonkeyPatch.context() as patch:
        patch.setattr(type(bench.host), "replace", after_a_look)
        bench.apply(plan)
    assert bench.live == NEW
    with bench.open() as workspace:
        assert workspace.state.plans[plan].is_change
        assert workspace.drift([]).targets[0].state == "as recorded"


def test_several_targets_are_settled_side_by_side(bench: Bench) -> None:
    with (bench.root / "hosts.toml").open("a") as file:
        file.write('[hosts.gpu1.services.prefill]\nscript = "/root/prefill.sh"\n')
    bench.host.put("/root/prefill.sh", SERVE, mode="0755")
    mine = killed(bench)
    with bench.open() as workspace:
        workspace.set(["gpu1/*"], [Request("NCCL_DEBUG", "INFO")], Options())
    assert (outcome(bench, mine), by_hand(bench)) == ("applied", [])


def test_the_guard_itself(bench: Bench) -> None:
    """Whatever way leads to an observation: it is refused while an attempt is in doubt."""
    from knobledger.observing import look

    killed(bench)
    with bench.open() as workspace, pytest.raises(KnobError) as error:
        look(workspace.desk, workspace.config.target("gpu1/decode"), bench.host)
    assert error.value.exit_code == 22
    assert by_hand(bench) == []


def test_its_own_second_look_is_as_strong(bench: Bench) -> None:
    """The same, and then its answer is lost on the way."""
    plan = bench.plan((KNOB, "512")).id
    replace = type(bench.host).replace

    def lost(self: object, transaction: object) -> object:
        with bench.open() as other:
            other.recover()
        replace(self, transaction)  # type: ignore[arg-type]
        raise StateUnknown("the connection was lost")

    with pytest.MonkeyPatch.context() as patch:
        patch.setattr(type(bench.host), "replace", lost)
        assert bench.apply(plan).is_change
    with bench.open() as workspace:
        assert workspace.state.plans[plan].is_change
        assert workspace.drift([]).targets[0].state == "as recorded"
