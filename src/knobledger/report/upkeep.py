"""Smaller reports: plans that wait, backups, differences, what `verify` and `recover` found."""

from __future__ import annotations

from typing import Any, Literal, Protocol

from msgspec import Struct

from knobledger.names import Digest, EventId, HostPath, TargetName
from knobledger.plan import Edit
from knobledger.report.plans import PlanReport


class Finding(Protocol):
    """Something that does not verify."""

    @property
    def kind(self) -> str:
        """what is wrong, in a word"""

    @property
    def event(self) -> str:
        """the event's id or file"""

    @property
    def message(self) -> str:
        """in a sentence"""


class Plans(Struct, frozen=True):
    """Plans that wait for somebody, newest first."""

    plans: tuple[PlanReport, ...]
    over: int = 0
    """others, that are used, rejected, expired or overtaken by a change"""

    def to_json(self) -> dict[str, Any]:
        """The JSON of `plans`."""
        return {"plans": [plan.to_json() for plan in self.plans], "over": self.over}


class Backup(Struct, frozen=True):
    """A backup on a host, or one that ought to be there."""

    path: HostPath
    digest: Digest
    """recorded, else as found"""
    size: int | None
    state: str
    """`ok`, `damaged` (other bytes than recorded), `missing`, `removed` (by `backups prune`), `not recorded`"""
    change: EventId | None
    at: str
    label: str

    def to_json(self) -> dict[str, Any]:
        """One entry of `backups`."""
        return {
            "name": self.path.rpartition("/")[2],
            "path": self.path,
            "digest": self.digest,
            "size": self.size,
            "state": self.state,
            "change": self.change,
            "at": self.at,
            "label": self.label,
        }


class Backups(Struct, frozen=True):
    """The backups of one target, oldest first."""

    target: TargetName
    backups: tuple[Backup, ...]

    def to_json(self) -> dict[str, Any]:
        """The JSON of `backups`."""
        return {"target": self.target, "backups": [backup.to_json() for backup in self.backups]}


class Prunable(Struct, frozen=True):
    """What `backups prune` would remove, or removed."""

    target: TargetName
    go: tuple[Backup, ...]
    stay: tuple[tuple[HostPath, str], ...]
    """(path, why)"""
    done: bool
    left: tuple[HostPath, ...] = ()
    """those that were to go and are still there: changed meanwhile, or not removable"""

    @property
    def exit_code(self) -> int:
        """1 where something could not be removed."""
        return 1 if self.left else 0

    def to_json(self) -> dict[str, Any]:
        """The JSON of `backups prune`."""
        return {
            "target": self.target,
            "pruned": self.done,
            "remove": [backup.to_json() for backup in self.go],
            "keep": [{"path": path, "why": why} for path, why in self.stay],
            "left": list(self.left),
        }


class Difference(Struct, frozen=True):
    """Two states, as knobs and as lines."""

    a: str
    b: str
    edits: tuple[Edit, ...]
    diff: str

    def to_json(self) -> dict[str, Any]:
        """The JSON of `diff`."""
        return {
            "a": self.a,
            "b": self.b,
            "edits": [edit.plain() for edit in self.edits],
            "diff": self.diff,
        }


class RecoveredRestart(Struct, frozen=True):
    """A restart that was left in the middle, or that never began."""

    restart: EventId | None
    change: EventId | None
    services: tuple[tuple[str, str], ...]
    """each with what was found: `up: pid 4711, started ...`, `down`"""
    outcome: Literal["in the middle", "going on", "finished", "rolled back", "failed"]
    message: str = ""
    exit: int = 0

    def to_json(self) -> dict[str, Any]:
        """One entry of `restarts`."""
        return {
            "restart": self.restart,
            "change": self.change,
            "services": [{"service": name, "state": state} for name, state in self.services],
            "outcome": self.outcome,
            "message": self.message,
        }


class TornFile(Struct, frozen=True):
    """A file that was found with neither the bytes before an attempt nor those planned."""

    change: EventId
    target: TargetName
    backup: HostPath | None
    command: str
    """brings back what was there before; a `knob` command"""
    in_place: bool = False
    """it was written in place, so what it holds is most likely a part of the new bytes, and nobody's work"""


class Recovered(Struct, frozen=True):
    """What `recover` settled: (change, target, outcome), and what it could not: (.., message, exit code)."""

    settled: tuple[tuple[EventId, TargetName, str], ...]
    unsettled: tuple[tuple[EventId, TargetName, str, int], ...]
    restarts: tuple[RecoveredRestart, ...] = ()
    torn: tuple[TornFile, ...] = ()
    """those that nobody has written since, whether settled now or before"""

    @property
    def exit_code(self) -> int:
        """0 if nothing is left in doubt or in the middle, else that of the first that is; 22 for a torn file."""
        codes = [item[3] for item in self.unsettled]
        codes += [22 for one in self.torn if one.in_place]
        codes += [one.exit for one in self.restarts if one.exit]
        return codes[0] if codes else 0

    def to_json(self) -> dict[str, Any]:
        """The JSON of `recover`."""
        out: dict[str, Any] = {
            "settled": [
                {"change": change, "target": target, "outcome": outcome}
                for change, target, outcome in self.settled
            ],
            "unsettled": [
                {"change": change, "target": target, "message": message}
                for change, target, message, _ in self.unsettled
            ],
        }
        if self.torn:
            out["torn"] = [
                {
                    "change": one.change,
                    "target": one.target,
                    "backup": one.backup,
                    "command": one.command.strip("`"),
                }
                for one in self.torn
            ]
        if self.restarts:
            out["restarts"] = [one.to_json() for one in self.restarts]
        return out


class Verified(Struct, frozen=True):
    """What does not verify, and what can't be seen."""

    findings: tuple[Finding, ...]
    note: str

    @property
    def ok(self) -> bool:
        """Nothing is wrong; warnings do not count."""
        return not [finding for finding in self.findings if not finding.kind.startswith("warning")]

    @property
    def exit_code(self) -> int:
        """30 if the ledger does not verify."""
        return 0 if self.ok else 30

    def to_json(self) -> dict[str, Any]:
        """The JSON of `verify`."""
        return {
            "ok": self.ok,
            "findings": [{"kind": f.kind, "event": f.event, "message": f.message} for f in self.findings],
            "note": self.note,
        }


class Indexed(Struct, frozen=True):
    """The SQL index after it was looked after."""

    events: int
    """all of them after a rebuild, else those that it lacked"""
    rebuilt: bool

    def to_json(self) -> dict[str, Any]:
        """The JSON of `index`."""
        return {"events": self.events, "rebuilt": self.rebuilt}


class Founded(Struct, frozen=True):
    """A workspace that `init` made, or completed."""

    directory: str
    made: tuple[str, ...]
    """the files that were not there before"""
    git: str
    """what was done about git, in a phrase"""

    def to_json(self) -> dict[str, Any]:
        """The JSON of `init`."""
        return {"directory": self.directory, "made": list(self.made), "git": self.git}
