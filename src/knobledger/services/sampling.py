"""A metric looked at again and again, at even distances, until the time is over or somebody stops it."""

from __future__ import annotations

import time
from collections.abc import Callable
from typing import Literal

from msgspec import Struct, field

from knobledger.errors import KnobError, NoMetrics, Unknown, Usage
from knobledger.hosts.host import Host
from knobledger.services.scrape import Kind, Wanted, look
from knobledger.services.series import Sample, Seen, counter, gauge, total

MOST = 7200
"""the most samples of one observation: what is stored in an event stays small"""
SHORTEST_S = 0.1
"""the shortest distance between two samples"""
PATIENCE_S = 10.0
"""a server that has not answered for so long is gone"""


class Sampling(Struct):
    """What was sampled so far."""

    metric: str
    kind: Kind
    start: float
    """of the first sample; unix seconds by this machine's clock"""
    interval_s: float
    planned: int
    """samples that are to be taken in all"""
    samples: list[Sample] = field(default_factory=list)
    ended: Literal["", "complete", "interrupted", "gone"] = ""
    failure: KnobError | None = None
    """why the last samples are missing"""

    @property
    def values(self) -> tuple[float | None, ...]:
        """The sum over the series of each sample."""
        return tuple(total(sample) for sample in self.samples)

    @property
    def series(self) -> tuple[str, ...]:
        """The text of the labels of every series that was seen."""
        return tuple(dict.fromkeys(text for sample in self.samples for text in sample or ()))

    def seen(self) -> Seen:
        """What it did."""
        if self.kind == "counter":
            return counter(self.samples, self.interval_s)
        return gauge(self.values)


def planned(for_s: float, every_s: float) -> int:
    """How many samples such an observation has; both of its ends are sampled. Raises `Usage`."""
    if every_s < SHORTEST_S:
        raise Usage(f"--every {every_s:g}s is shorter than {SHORTEST_S:g} s")
    if for_s < every_s:
        raise Usage(f"--for {for_s:g}s is shorter than --every {every_s:g}s: that would be one sample")
    count = int(for_s / every_s + 1e-9) + 1
    if count > MOST:
        raise Usage(
            f"that would be {count} samples, more than {MOST}",
            hint=f"`--every {for_s / (MOST - 1) + 1:.0f}s`",
        )
    return count


def observe(
    host: Host,
    url: str,
    wanted: Wanted,
    *,
    for_s: float,
    every_s: float,
    tell: Callable[[Sampling], None],
) -> Sampling:
    """Samples a metric; `tell` is told after each sample.

    Ctrl-C ends it early, and what was sampled is kept. A server that does not answer leaves holes; if it has not come
    back by the end, or for `PATIENCE_S`, it is gone. Raises what the first look raises (`NoMetrics`, `Unknown`,
    `Unreachable`, `Refused`), and `Usage`.
    """
    count = planned(for_s, every_s)
    timeout_s = min(5.0, max(1.0, every_s))
    start, begun = time.time(), time.monotonic()
    found = look(host, url, wanted, timeout_s=timeout_s)
    sampling = Sampling(found.name, found.kind, start, every_s, count, [found.series])
    answered = begun
    try:
        tell(sampling)
        while len(sampling.samples) < count:
            due = begun + len(sampling.samples) * every_s
            time.sleep(max(0.0, due - time.monotonic()))
            try:
                sampling.samples.append(look(host, url, wanted, timeout_s=timeout_s).series)
                sampling.failure, answered = None, time.monotonic()
            except (NoMetrics, Unknown) as error:
                sampling.samples.append(None)
                sampling.failure = error
            except KnobError as error:
                sampling.failure = error
                break
            # A slow answer is not let shift the later ones.
            late = int((time.monotonic() - begun) / every_s) - len(sampling.samples)
            sampling.samples += [None] * max(0, min(late, count - len(sampling.samples)))
            tell(sampling)
            if sampling.failure and time.monotonic() - answered > max(PATIENCE_S, 3 * every_s):
                break
        sampling.ended = "gone" if sampling.failure else "complete"
    except KeyboardInterrupt:
        sampling.ended = "interrupted"
    return sampling
