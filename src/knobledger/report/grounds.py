"""What speaks for and against a plan: its hypotheses with their evidence, and what was measured of the value it moves."""

from __future__ import annotations

from typing import Any

from msgspec import Struct

from knobledger.comparison import Comparison
from knobledger.folds.asking import Hypothesis
from knobledger.folds.plans import Plan
from knobledger.inquiry import comparison_of, origin
from knobledger.names import EventId
from knobledger.report.asking import hypothesis_json
from knobledger.report.benches import gain_json
from knobledger.state import State


class Grounds(Struct, frozen=True):
    """What somebody who is to approve a plan wants to have read."""

    hypotheses: tuple[Hypothesis, ...]
    """those that it is made under, then those of the changes that it undoes"""
    measured: EventId | None
    """the change whose worth `comparison` is: the one that set the value which the plan takes away or brings back"""
    comparison: Comparison | None
    """None: nobody measured"""

    def to_json(self) -> dict[str, Any]:
        """The key `grounds` of a plan."""
        found = self.comparison
        return {
            "hypotheses": [hypothesis_json(one) for one in self.hypotheses],
            "measured": {
                "change": self.measured,
                "metric": found.metric,
                "unit": found.unit,
                "gains": [gain_json(found, cell) for cell in found.cells],
                "dips": [str(dip) for dip in found.dips],
            }
            if found
            else None,
        }


def grounds(state: State, plan: Plan) -> Grounds | None:
    """None where nobody asked why, and nobody measured."""
    if not plan.planned.hypotheses and not state.anything_asked:
        return None
    slugs = dict.fromkeys(plan.planned.hypotheses)
    undone = plan.planned.undoes
    while undone in state.plans:
        below = state.plans[undone].planned
        slugs.update(dict.fromkeys(below.hypotheses))
        undone = below.undoes
    known = state.asked.hypotheses
    worth = _worth(state, plan)
    found = comparison_of(state, worth) if worth and state.asked.measured else None
    return Grounds(
        tuple(known[slug] for slug in slugs if slug in known),
        worth,
        found if found and (found.cells or found.aside) else None,
    )


def _worth(state: State, plan: Plan) -> EventId | None:
    """The change at the bottom of what is undone; of any other plan its own, else the one that set what it replaces."""
    if plan.planned.undoes in state.plans:
        return origin(state, plan.planned.undoes)
    if plan.is_change:
        return plan.id
    owners = [state.owner(file.target, edit.name) for file in plan.planned.files for edit in file.edits]
    changes = [owner.event for owner in owners if owner and owner.event in state.plans]
    return origin(state, changes[0]) if changes else None
