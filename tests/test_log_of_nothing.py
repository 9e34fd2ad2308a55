"""`knob log` where nothing matches: a mistyped kind or knob is not the same as nothing having happened."""

from __future__ import annotations

from pathlib import Path

import pytest

from knobledger.errors import Unknown
from knobledger.looking import Query
from workspaces import KNOB, Bench


def test_a_mistyped_knob_is_answered_with_the_nearest(tmp_path: Path) -> None:
    bench = Bench(tmp_path / "ws")
    bench.set((KNOB, "300"))
    said = {}
    for query in (Query(knob=KNOB, kind="failed"), Query(knob="NCCL_DEBUG"), Query(knob="NCCL_DEBG")):
        with bench.open() as workspace:
            workspace.log(query)
            said[query.knob] = [note for note in workspace.notes if "no entry" in note]
    assert said[KNOB] == [], "it is known, and nothing of that kind was done with it"
    assert said["NCCL_DEBUG"] == []
    assert said["NCCL_DEBG"] == ["no entry of the ledger is about 'NCCL_DEBG'; did you mean 'NCCL_DEBUG'?"]


def test_a_kind_that_nothing_has_is_refused(tmp_path: Path) -> None:
    bench = Bench(tmp_path / "ws")
    bench.set((KNOB, "300"))
    with bench.open() as workspace:
        assert not workspace.log(Query(kind="verdict_given")).entries
        with pytest.raises(Unknown) as caught:
            workspace.log(Query(kind="aplied"))
    assert caught.value.message == "no entry can be of kind 'aplied'; did you mean 'applied'?"
    assert "planned" in caught.value.hint
