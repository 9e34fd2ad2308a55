"""What is set where, by whom and why, and what is out of order: the report behind `status`."""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence
from typing import Any

from msgspec import Struct

from knobledger.events.changes import Planned
from knobledger.knobs import Masker, Occurrence
from knobledger.names import Digest, EventId, HostPath, TargetName
from knobledger.report.credit import doer
from knobledger.state import State


class KnobLine(Struct, frozen=True):
    """One occurrence of a knob, and the entry that set it."""

    occurrence: dict[str, Any]
    """the OCCURRENCE of docs/cli.md, secrets masked"""
    change: EventId | None
    actor: str
    at: str
    why: str

    def to_json(self) -> dict[str, Any]:
        """OCCURRENCE and who set it."""
        return {**self.occurrence, "change": self.change, "actor": self.actor, "at": self.at, "why": self.why}


class TargetStatus(Struct, frozen=True):
    """One target; `digest` and `knobs` are the live ones unless only the ledger was asked."""

    target: TargetName
    path: HostPath
    digest: Digest | None
    drift: bool | None
    """None: could not be asked, or see `in_doubt`"""
    recorded: bool
    """the ledger knows the target"""
    restart_owed: bool | None
    """None: not known, since nobody has looked at the process"""
    knobs: tuple[KnobLine, ...]
    error: str = ""
    hint: str = ""
    """what to type next, if it could not be asked"""
    owed_by: tuple[EventId, ...] = ()
    """the changes that no process has been seen to have started after"""
    owed_since: str = ""
    seen: str = ""
    """what a new process was seen to lack"""
    unhealthy: str = ""
    """why its service was not healthy after its last restart"""
    in_doubt: EventId | None = None
    """the change that may have written what differs from the last entry: its attempt has no outcome"""

    def to_json(self) -> dict[str, Any]:
        """One entry of `targets`."""
        return {
            "target": self.target,
            "path": self.path,
            "digest": self.digest,
            "drift": self.drift,
            "recorded": self.recorded,
            "restart_owed": self.restart_owed,
            "owed_by": list(self.owed_by),
            "owed_since": self.owed_since,
            "seen": self.seen,
            "unhealthy": self.unhealthy,
            "in_doubt": self.in_doubt,
            "knobs": [knob.to_json() for knob in self.knobs],
            "error": self.error,
            "hint": self.hint,
        }


class Differs(Struct, frozen=True):
    """A knob whose value is not the same in all services of a group that set it."""

    group: str
    name: str
    values: tuple[tuple[TargetName, str], ...]

    def to_json(self) -> dict[str, Any]:
        """One entry of `differs`."""
        return {"group": self.group, "name": self.name, "values": dict(self.values)}


class Status(Struct, frozen=True):
    """All targets asked for, then what is left open in the workspace."""

    targets: tuple[TargetStatus, ...]
    documents: tuple[tuple[str, int], ...]
    """documents that contradict the record, with the number of their lines that do"""
    in_doubt: tuple[str, ...]
    open_plans: tuple[str, ...]
    live: bool
    differs: tuple[Differs, ...] = ()
    exit_code: int = 0
    unreviewed: tuple[str, ...] = ()
    """changes made by breaking the glass, that nobody else has signed for"""

    def to_json(self) -> dict[str, Any]:
        """The JSON of `status`."""
        return {
            "targets": [target.to_json() for target in self.targets],
            "live": self.live,
            "in_doubt": list(self.in_doubt),
            "open_plans": list(self.open_plans),
            "unreviewed": list(self.unreviewed),
            "documents": [{"document": name, "stale": count} for name, count in self.documents],
            "differs": [item.to_json() for item in self.differs],
        }


def differences_in(
    groups: Mapping[str, Sequence[TargetName]], targets: Sequence[TargetStatus]
) -> Iterator[Differs]:
    """Knobs that several targets of a group set, and not to the same value; by the masked values."""
    shown = {item.target: item for item in targets}
    for group, members in groups.items():
        values: dict[str, dict[TargetName, str]] = {}
        for member in members:
            for knob in shown[member].knobs if member in shown else ():
                found = knob.occurrence
                if found["wins"]:
                    text = found["raw"] if found["value"] is None else found["value"]
                    values.setdefault(found["name"], {}).setdefault(member, text)
        for name, by_target in values.items():
            if len(set(by_target.values())) > 1:
                yield Differs(group, name, tuple(by_target.items()))


def occurrence_json(item: Occurrence, masker: Masker) -> dict[str, Any]:
    """The OCCURRENCE of docs/cli.md; a secret's value and raw text are masked."""
    secret = item.value is not None and masker.is_secret(item.name, item.value)
    return {
        "name": item.name,
        "kind": item.kind,
        "value": masker.value(item.name, item.value) if secret else item.value,
        "raw": masker.mask(item.raw) if secret else masker.text(item.raw),
        "line": item.line,
        "column": item.column,
        "span": list(item.span),
        "active": item.active,
        "wins": item.wins,
        "wins_for": list(item.wins_for),
        "scope": item.scope.value,
        "form": item.form,
        "dynamic": item.dynamic,
        "bare": item.bare,
        "overridable": item.overridable,
        "depends": item.depends,
        "file": item.file,
        "secret": secret,
    }


def knob_line(state: State, target: TargetName, item: Occurrence, masker: Masker) -> KnobLine:
    """An occurrence with its newest recorded edit; only the occurrence that wins has one."""
    edit = state.owner(target, item.name) if item.wins or item.active else None
    event = state.events.get(edit.event) if edit else None
    if edit is None or event is None or masker.value(item.name, item.value) != edit.edit.after:
        return KnobLine(occurrence_json(item, masker), None, "", "", "")
    by_hand = edit.observed
    return KnobLine(
        occurrence_json(item, masker),
        edit.event,
        "" if by_hand else doer(event),
        edit.at,
        "changed by hand" if by_hand else (event.why if isinstance(event, Planned) else ""),
    )
