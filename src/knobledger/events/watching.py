"""Events of watching: what running processes were seen with, and how a metric went."""

from __future__ import annotations

from typing import Literal

from knobledger.events.entry import Event
from knobledger.names import Digest, EventId, HostPath, TargetName
from knobledger.receipt import Frozen

Presence = Literal["present", "absent", "unreadable"]
"""of a knob in a process; `unreadable`: its environment was overwritten or may not be read, so nobody knows"""
Shape = Literal["idle", "rotating", "pinned", "growing", "varying", "counting", "still", "unknown"]
"""what a metric was seen to do: docs/watching.md"""


class SeenProcess(Frozen):
    """One process of a service, as one look at its host found it."""

    pid: int
    parent: int
    started: str
    """UTC with microseconds, by the host's clock"""
    command: str
    """its command line, cut to 200 characters; secrets masked"""
    after_write: bool | None = None
    """started after the file was last written; None: not known"""


class SeenValue(Frozen):
    """Processes that agree on a knob."""

    state: Presence
    value: str | None = None
    """None unless present; an empty string is an empty value or a bare flag; secrets masked"""
    pids: tuple[int, ...]


class SeenKnob(Frozen):
    """One knob in the processes of a service."""

    name: str
    kind: Literal["env", "flag"]
    written: str | None = None
    """what the file says, secrets masked; None: nothing, or nothing that can be told without running it"""
    state: Presence
    """`present` in any process; `absent` from all that could be read; else `unreadable`"""
    value: str | None = None
    """in the processes that have it; None where they differ, or none has it"""
    values: tuple[SeenValue, ...] = ()


class SeenLive(Event):
    """The processes of a service were looked at for the knobs of one of its targets."""

    kind: Literal["seen_live"] = "seen_live"
    target: TargetName
    service: str
    path: HostPath
    digest: Digest | None = None
    """of the file at that moment; None: it could not be read"""
    written: str | None = None
    """when the file was last written, by the host's clock; UTC with microseconds"""
    clock_offset_s: float = 0.0
    """the host's clock minus this machine's, in seconds"""
    processes: tuple[SeenProcess, ...] = ()
    knobs: tuple[SeenKnob, ...] = ()

    @property
    def summary(self) -> str:
        """What was seen, in a phrase."""
        shown = [
            f"{knob.name} {knob.state if knob.state != 'present' else 'differs' if knob.value is None else knob.value}"
            for knob in self.knobs[:3]
        ]
        more = f", {len(self.knobs) - 3} more" if len(self.knobs) > 3 else ""
        count = len(self.processes)
        return f"{', '.join(shown)}{more} in {count} process{'' if count == 1 else 'es'}"


class ObservedMetric(Event):
    """A metric of a service, sampled for a while."""

    kind: Literal["observed_metric"] = "observed_metric"
    target: TargetName
    service: str
    metric: str
    labels: tuple[str, ...] = ()
    """the labels that were asked for, as `name=value`"""
    source: str
    """the address of the metrics page, as the host sees it"""
    type: Literal["gauge", "counter"]
    series: int
    """how many series (ranks, labels) each value is the sum of, at most"""
    start: str
    """of the first sample, by this machine's clock; UTC with microseconds"""
    interval_s: float
    values: tuple[float | None, ...]
    """the first at `start`, each next one an interval later; None: that sample is missing"""
    ended: Literal["complete", "interrupted", "gone"]
    """`gone`: the server no longer answered"""
    shape: Shape
    peak: float | None = None
    median: float | None = None
    last: float | None = None
    rate: float | None = None
    """of a counter: by how much it rose per second"""
    resets: int = 0
    """of a counter: how often it fell back, which a restart does"""
    plan: EventId | None = None
    """the change after whose restart this was seen"""

    @property
    def summary(self) -> str:
        """What was seen, in a phrase."""
        peak = "" if self.peak is None else f", peak {self.peak:g}"
        return f"{self.metric} {self.shape}{peak}, {len(self.values)} samples"
