"""Events of restarts: a chain of services is about to be restarted, what came of each, how the chain ended."""

from __future__ import annotations

from typing import Literal

from knobledger.events.entry import Event
from knobledger.names import EventId
from knobledger.plan import RestartScope
from knobledger.receipt import Frozen

Cause = Literal["asked", "change", "roll back", "recover"]


class SeenRunning(Frozen):
    """One process of a service around its restart, as a look at the host found it."""

    pid: int
    parent: int
    started: float
    """unix seconds by the host's clock, to about 10 ms"""
    command: str
    """its command line, cut to 200 characters; secrets masked"""


class Before(Frozen):
    """A service as it was before a chain began."""

    service: str
    """`HOST/SERVICE`"""
    processes: tuple[SeenRunning, ...] = ()
    """the main process first; none: it was down"""


class GateSeen(Frozen):
    """What one health gate said in the end."""

    gate: Literal["http", "tcp", "command", "metric", "completion"]
    asked: str
    """the address, command or metric"""
    ok: bool
    detail: str = ""
    """what was seen, such as `status 503`; secrets masked"""
    after_s: float
    """from the order to start until this answer, in seconds"""


class RestartStarted(Event):
    """A chain of restarts, written before any service is touched. Its id names the chain."""

    kind: Literal["restart_started"] = "restart_started"
    cause: Cause
    scope: RestartScope
    services: tuple[Before, ...]
    """in the order of their start; they stop in the reverse order"""
    plan: EventId | None = None
    """the change that it belongs to"""
    resumes: EventId | None = None
    """the chain that was left in the middle, and that this one finishes or takes back"""
    machine: str = ""
    """the name of the machine that works on it"""
    process: int = 0
    """and its process there: `recover` leaves a chain alone that somebody still works on"""


class ServiceRestarted(Event):
    """What came of one service of a chain."""

    kind: Literal["service_restarted"] = "service_restarted"
    chain: EventId
    """its `restart_started` event"""
    plan: EventId | None = None
    service: str
    outcome: Literal["healthy", "unhealthy", "not stopped", "not started"]
    before: tuple[SeenRunning, ...] = ()
    after: tuple[SeenRunning, ...] = ()
    """processes that were not there before the stop, the main process first"""
    stopped_after_s: float | None = None
    """from the order to stop until its processes had gone, in seconds"""
    healthy_after_s: float | None = None
    """from the order to start until each gate was green, in seconds"""
    down_s: float | None = None
    """from the order to stop until it was healthy, in seconds"""
    restarts: int = 0
    """how often it came up again by itself, or by systemd, meanwhile"""
    gates: tuple[GateSeen, ...] = ()
    steps: tuple[str, ...] = ()
    """what was done, such as `SIGTERM to process 4711`; secrets masked"""
    reason: str = ""
    """why it is not healthy"""
    log: tuple[str, ...] = ()
    """the last lines of its log, where it is not healthy; secrets masked"""


class RestartEnded(Event):
    """The end of a chain."""

    kind: Literal["restart_ended"] = "restart_ended"
    chain: EventId
    """its `restart_started` event"""
    plan: EventId | None = None
    outcome: Literal["done", "failed"]
    reason: str = ""
    outage_s: float | None = None
    """from the first order to stop until the last service was healthy, in seconds"""
    touched: bool = True
    """a stop was ordered; else each process is the one that was there before"""


ServingEvent = RestartStarted | ServiceRestarted | RestartEnded
