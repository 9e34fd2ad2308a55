"""How hypotheses stand, each in a few words: the part of `since` that says why."""

from __future__ import annotations

from collections.abc import Iterable
from typing import Any

from msgspec import Struct

from knobledger.state import State


class HypothesisLine(Struct, frozen=True):
    """A hypothesis in a few words; `report.asking` has all of it."""

    slug: str
    claim: str
    standing: str
    timing_alone: bool
    supports: int
    contradicts: int

    def to_json(self) -> dict[str, Any]:
        """One entry of `hypotheses`."""
        return {
            "slug": self.slug,
            "claim": self.claim,
            "standing": self.standing,
            "timing_alone": self.timing_alone,
            "supports": self.supports,
            "contradicts": self.contradicts,
        }


def hypothesis_lines(state: State, start: str, end: str, named: Iterable[str]) -> list[HypothesisLine]:
    """The hypotheses that are named, or on which something was said from `start` (included) to `end` (excluded).

    One that nobody opened is open, and nothing is claimed.
    """
    missing = dict.fromkeys(named)
    if not missing and not state.anything_asked:
        return []
    found = []
    for one in state.asked.hypotheses.values():
        if one.slug in missing or any(start <= at < end for at in one.moments):
            missing.pop(one.slug, None)
            sides = len(one.on("supports")), len(one.on("contradicts"))
            found.append(HypothesisLine(one.slug, one.claim, one.standing, one.timing_alone, *sides))
    return [*found, *(HypothesisLine(slug, "", "open", False, 0, 0) for slug in missing)]
