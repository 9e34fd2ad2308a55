"""What a comparison says: cells, dips, and the runs that did not count."""

from __future__ import annotations

from typing import Literal

from msgspec import Struct

from knobledger.measured import Arm, Better, Number, Run

Call = Literal[
    "gain",
    "loss",
    "flat",
    "inconclusive",
    "not enough data",
    "suggestive gain",
    "suggestive loss",
    "invalid",
]


class Side(Struct, frozen=True):
    """One arm at one operating point."""

    value: float | None
    """geometric mean over the starts; None without a run"""
    starts: tuple[tuple[str, float], ...]
    """each start with the geometric mean of its runs"""
    runs: int
    """how many runs these are; more than `n` where runs share a start"""
    low: float | None = None
    """of the 95 % interval of the mean; None below 3 starts"""
    high: float | None = None

    @property
    def n(self) -> int:
        """Starts of the server."""
        return len(self.starts)


class Cell(Struct, frozen=True):
    """Both arms at one operating point, and what may be said of them."""

    label: str
    settings: str
    """what tells cells of one label apart, where a file mixes configurations; else empty"""
    load: Number
    baseline: Side
    variant: Side
    call: Call
    change_pct: float | None
    """of the metric's value, whichever way is better; None without both values"""
    interval_pct: tuple[float, float] | None
    """95 %, of the change; None where there are too few starts to have one"""
    reasons: tuple[str, ...]
    """why the call, the first in a sentence of its own"""
    confounds: tuple[str, ...] = ()
    """arguments that differ between the arms beside the knob"""
    needed: int | None = None
    """starts an arm that it would take, where the call is inconclusive or there is not enough data"""

    @property
    def name(self) -> str:
        """The label, with its settings where these are needed."""
        return f"{self.label} ({self.settings})" if self.settings else self.label


class Dip(Struct, frozen=True):
    """A curve that should only rise and falls from one operating point to the next."""

    arm: Arm
    start: str
    start_value: float
    end: str
    end_value: float
    other: str
    """what the other arm does, in words"""
    repaired: bool
    """the arm that falls is the baseline, and the variant does not fall there"""

    def __str__(self) -> str:
        return (
            f"{self.arm} falls from {self.start} {self.start_value:.1f} to {self.end} {self.end_value:.1f}; "
            f"{self.other}"
        )


class Aside(Struct, frozen=True):
    """A run that does not count, and why; never hidden."""

    run: Run
    why: str
    kind: Literal["discarded", "rejected", "repeated"]
    """by somebody; by the restart rule; imported more than once"""


class Comparison(Struct, frozen=True):
    """All operating points of one change, for one metric."""

    metric: str
    unit: str
    better: Better
    margin_pct: float
    cells: tuple[Cell, ...]
    """by load, then label"""
    dips: tuple[Dip, ...] = ()
    aside: tuple[Aside, ...] = ()
    warnings: tuple[str, ...] = ()
