"""What was seen of running services: the reports behind `live`, `observe` and `check`."""

from __future__ import annotations

from datetime import timedelta
from typing import Any

from msgspec import Struct
from msgspec.structs import replace

from knobledger.event import moment_of, stamp
from knobledger.events.watching import ObservedMetric
from knobledger.names import EventId, HostPath, TargetName
from knobledger.proving import moment
from knobledger.services.live import Live, LiveKnob, Written
from knobledger.services.series import Seen
from knobledger.services.started import Proc, Told


class NotSeen(Struct, frozen=True):
    """A target whose processes could not be looked at, and why."""

    target: TargetName
    service: str
    path: HostPath
    message: str
    exit_code: int


class LiveReport(Struct, frozen=True):
    """Targets in the order asked for; hosts that are down do not hide the others."""

    targets: tuple[Live | NotSeen, ...]

    @property
    def exit_code(self) -> int:
        """0 if every target was seen, else that of the first that was not."""
        return next((t.exit_code for t in self.targets if isinstance(t, NotSeen)), 0)

    def to_json(self) -> dict[str, Any]:
        """The JSON of `live`."""
        return {"targets": [live_json(target) for target in self.targets]}


def live_json(live: Live | NotSeen) -> dict[str, Any]:
    """One entry of `targets`."""
    if isinstance(live, NotSeen):
        return {
            "target": live.target,
            "service": live.service,
            "path": live.path,
            "digest": None,
            "written": None,
            "unit": None,
            "processes": [],
            "knobs": [],
            "remarks": [],
            "error": live.message,
        }
    facts = live.running.unit
    return {
        "target": live.target.name,
        "service": live.service.full_name,
        "path": live.target.path,
        "digest": live.remote.digest,
        "written": None if live.written is None else moment(live.written),
        "unit": facts and {"name": live.service.unit, "active": facts.active, "restarts": facts.restarts},
        "processes": [_process(proc) for proc in live.procs],
        "knobs": [_knob(knob) for knob in live.knobs],
        "remarks": list(live.remarks),
        "error": "",
    }


def _process(proc: Proc) -> dict[str, Any]:
    return {
        "pid": proc.pid,
        "parent": proc.process.parent,
        "started": moment(proc.process.started),
        "command": " ".join(proc.process.command),
        "after_write": proc.after_write,
        "runs_script": proc.launcher,
    }


def _knob(knob: LiveKnob) -> dict[str, Any]:
    return {
        "name": knob.name,
        "kind": knob.kind,
        "file": _written(knob.file),
        "unit": knob.unit and _written(knob.unit),
        "state": knob.state,
        "value": knob.value,
        "agrees": knob.agrees,
        "unknown_to_program": knob.unknown or None,
        "processes": [_told(told) for told in knob.told],
    }


def _written(written: Written) -> dict[str, Any]:
    return {"state": written.state, "value": written.value, "place": written.place}


def _told(told: Told) -> dict[str, Any]:
    return {
        "pid": told.pid,
        "state": told.state,
        "value": told.value,
        "reason": told.reason,
        "relatives": [
            {"relation": relation, "pid": other.pid, "state": other.state, "value": other.value}
            for relation, other in told.relatives
        ],
    }


class Observation(Struct, frozen=True):
    """What a metric was seen to do."""

    id: EventId
    event: ObservedMetric
    seen: Seen
    series: tuple[str, ...]
    """the labels of each series that was seen, as `engine="0",tp_rank="1"`"""
    message: str
    """why it ended early; empty if it did not"""
    exit_code: int

    def at(self, index: int) -> str:
        """When a sample was due, as events write a moment."""
        start = moment_of(self.event.start)
        return stamp(start + timedelta(seconds=index * self.event.interval_s))

    def to_json(self) -> dict[str, Any]:
        """The JSON of `observe`."""
        event, seen = self.event, self.seen
        return {
            "id": self.id,
            "target": event.target,
            "service": event.service,
            "metric": event.metric,
            "type": event.type,
            "labels": list(event.labels),
            "series": list(self.series),
            "source": event.source,
            "change": event.plan,
            "start": event.start,
            "interval_s": event.interval_s,
            "samples": [{"at": self.at(i), "value": value} for i, value in enumerate(event.values)],
            "class": event.shape,
            "floor": seen.floor,
            "peak": seen.peak,
            "median": seen.median,
            "last": seen.last,
            "returns": seen.returns,
            "increase": seen.increase,
            "rate": seen.rate,
            "resets": [self.at(i) for i in seen.reset_at],
            "missing": len(event.values) - seen.samples,
            "ended": event.ended,
            "message": self.message,
        }


class Folder(Struct, frozen=True):
    """A folder in which changes write."""

    path: str
    there: bool
    writable: bool
    free: int | None
    """bytes; None: its file system does not say"""


class HostCheck(Struct, frozen=True):
    """What one host has; empty text: it has it not, or does not say."""

    name: str
    transport: str
    error: str = ""
    """why it could not be asked"""
    hint: str = ""
    """what to type next, if it could not"""
    exit_code: int = 0
    connect_s: float | None = None
    system: str = ""
    shell: str = ""
    """the program behind /bin/sh"""
    digest_tool: str = ""
    lock: str = ""
    """`flock`, or `hard link` where there is no flock"""
    stat: str = ""
    """`GNU` (busybox too) or `BSD`"""
    user: str = ""
    root: bool = False
    sudo: bool = False
    """hosts.toml says `sudo = true`"""
    systemd: str = ""
    """what `systemctl is-system-running` says"""
    clock_offset_s: float | None = None
    """the host's clock minus this machine's; no better than the round trip"""
    folders: tuple[Folder, ...] = ()
    problems: tuple[str, ...] = ()

    def with_problems(self, clock_slack_s: float, least_room: int) -> HostCheck:
        """The same with what stands in the way of a change."""
        found = list(self.problems)
        if not self.stat:
            found.append("no stat command that works")
        if self.clock_offset_s is not None and abs(self.clock_offset_s) > clock_slack_s:
            found.append(f"its clock is {self.clock_offset_s:+.1f} s off")
        for folder in self.folders:
            if not folder.there:
                found.append(f"no folder {folder.path!r}")
            elif not folder.writable:
                found.append(f"{self.user} may not write in {folder.path!r}")
            elif folder.free is not None and folder.free < least_room:
                found.append(f"{folder.path!r} has {folder.free} bytes left")
        return replace(self, problems=tuple(found))

    def to_json(self) -> dict[str, Any]:
        """One entry of `hosts`."""
        return {
            "host": self.name,
            "up": not self.error,
            "able": not self.error and not self.problems,
            "transport": self.transport,
            "connect_s": self.connect_s,
            "system": self.system,
            "shell": self.shell,
            "digest_tool": self.digest_tool,
            "lock": self.lock,
            "stat": self.stat,
            "user": self.user,
            "root": self.root,
            "sudo": self.sudo,
            "systemd": self.systemd,
            "clock_offset_s": self.clock_offset_s,
            "folders": [
                {"path": f.path, "there": f.there, "writable": f.writable, "free": f.free}
                for f in self.folders
            ],
            "problems": list(self.problems),
            "error": self.error,
            "hint": self.hint,
        }


class Checked(Struct, frozen=True):
    """Hosts in the order asked for."""

    hosts: tuple[HostCheck, ...]

    @property
    def exit_code(self) -> int:
        """20 if a host is down (or the code of what else kept it from answering), 1 if one can't do it, else 0."""
        down = next((host.exit_code for host in self.hosts if host.error), 0)
        return down or int(any(host.problems for host in self.hosts))

    def to_json(self) -> dict[str, Any]:
        """The JSON of `check`."""
        return {"hosts": [host.to_json() for host in self.hosts]}
