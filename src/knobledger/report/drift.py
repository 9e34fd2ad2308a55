"""What hosts hold against what is recorded: the reports of `drift` and `adopt`."""

from __future__ import annotations

from typing import Any, Literal

from msgspec import Struct

from knobledger.events.changes import Observed
from knobledger.names import Digest, EventId, HostPath, TargetName
from knobledger.plan import Edit

DriftState = Literal["as recorded", "drifted", "never recorded", "not known"]


class TargetDrift(Struct, frozen=True):
    """One target: the live bytes against the last recorded ones."""

    target: TargetName
    path: HostPath
    state: DriftState
    """`not known`: it could not be read, see `error`"""
    recorded: Digest | None
    recorded_by: EventId | None
    recorded_at: str
    live: Digest | None = None
    found: Observed | None = None
    """the event that `adopt` would record; its `hints` are hints"""
    mtime: str = ""
    """of the live file, as a moment of this machine's clock"""
    error: str = ""
    hint: str = ""
    """what to type next, if it could not be read"""
    exit_code: int = 0

    @property
    def edits(self) -> tuple[Edit, ...]:
        """The knobs that differ."""
        return self.found.edits if self.found else ()

    @property
    def message(self) -> str:
        """The state in a phrase."""
        match self.state:
            case "not known":
                return self.error
            case "drifted":
                return "changed by hand, not recorded yet"
            case state:
                return state

    def to_json(self) -> dict[str, Any]:
        """One entry of `targets` (and of `drift` in `since --live`)."""
        found = self.found
        return {
            "target": self.target,
            "path": self.path,
            "state": self.state,
            "drift": None if self.state == "not known" else self.state == "drifted",
            "recorded": self.recorded,
            "recorded_by": self.recorded_by,
            "recorded_at": self.recorded_at or None,
            "live": self.live,
            "edits": [edit.plain() for edit in self.edits],
            "diff": found.diff if found else "",
            "not_before": (found.not_before if found else "") or None,
            "not_after": (found.not_after if found else "") or None,
            "mtime": self.mtime or None,
            "owner": found.manifest.owner if found else None,
            "hints": list(found.hints) if found else [],
            "message": self.message,
            "error": self.error,
            "hint": self.hint,
        }


class Drift(Struct, frozen=True):
    """All targets asked for, in that order."""

    targets: tuple[TargetDrift, ...]
    zone: str
    strict: bool = False
    """drift is an exit code of its own (`--exit-code`)"""

    @property
    def exit_code(self) -> int:
        """That of the first host that could not be asked; else 10 for drift where that was wished."""
        failed = next((item.exit_code for item in self.targets if item.exit_code), 0)
        drifted = any(item.state == "drifted" for item in self.targets)
        return failed or (10 if self.strict and drifted else 0)

    def to_json(self) -> dict[str, Any]:
        """The JSON of `drift`."""
        return {"targets": [item.to_json() for item in self.targets]}


class Adopted(Struct, frozen=True):
    """One target and the events that record what was there; `ids` are empty while nothing is written."""

    drift: TargetDrift
    past: tuple[Observed, ...] = ()
    """reconstructed, oldest first"""
    ids: tuple[EventId, ...] = ()
    """of the live bytes, if they were new, then of the past"""
    remarks: tuple[str, ...] = ()

    @property
    def new(self) -> int:
        """How many events there are to write."""
        return (self.drift.found is not None) + len(self.past)

    def to_json(self) -> dict[str, Any]:
        """One entry of `targets`."""
        return {
            **self.drift.to_json(),
            "events": list(self.ids),
            "past": [_past_json(event) for event in self.past],
            "remarks": list(self.remarks),
        }


def _past_json(event: Observed) -> dict[str, Any]:
    return {
        "digest": event.digest,
        "previous": event.previous,
        "not_before": event.not_before or None,
        "not_after": event.not_after or None,
        "source": event.source,
        "edits": [edit.plain() for edit in event.edits],
        "hints": list(event.hints),
    }


class Adoption(Struct, frozen=True):
    """What `adopt` would record, or has recorded."""

    targets: tuple[Adopted, ...]
    zone: str
    done: bool

    @property
    def new(self) -> int:
        """How many events there are to write."""
        return sum(item.new for item in self.targets)

    @property
    def unread(self) -> int:
        """How many targets could not be read: nothing is known of these."""
        return sum(item.drift.state == "not known" for item in self.targets)

    @property
    def exit_code(self) -> int:
        """That of the first target that could not be read."""
        return next((item.drift.exit_code for item in self.targets if item.drift.exit_code), 0)

    def to_json(self) -> dict[str, Any]:
        """The JSON of `adopt`."""
        return {"targets": [item.to_json() for item in self.targets], "adopted": self.done}
