"""Which entry brought each line and each knob: the report behind `blame`."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from difflib import SequenceMatcher
from operator import ne
from typing import Any

from msgspec import Struct

from knobledger.events.changes import Observed
from knobledger.folds.edits import Fate, KnobEdit
from knobledger.names import EventId, TargetName
from knobledger.plan import Edit
from knobledger.report.credit import doer, done_at
from knobledger.state import State


class Turn(Struct, frozen=True):
    """One recorded edit of a knob, and what became of it."""

    edit: Edit
    event: EventId
    at: str
    actor: str
    """empty: by hand"""
    why: str
    status: Fate
    by: EventId | None

    def to_json(self) -> dict[str, Any]:
        """One entry of `history`."""
        return {
            "before": self.edit.before,
            "after": self.edit.after,
            "change": self.event,
            "at": self.at,
            "actor": self.actor,
            "why": self.why,
            "status": self.status,
            "by": self.by,
        }


class KnobHistory(Struct, frozen=True):
    """One knob of a target: its value, and every recorded edit, oldest first."""

    name: str
    value: str | None
    """None: absent"""
    line: int | None
    turns: tuple[Turn, ...]
    live: bool = True
    """the host was asked; else the value is the last recorded one"""

    def to_json(self) -> dict[str, Any]:
        """One entry of `knobs`."""
        return {
            "name": self.name,
            "value": self.value,
            "line": self.line,
            "live": self.live,
            "history": [turn.to_json() for turn in self.turns],
        }


def knob_history(
    state: State, name: str, value: str | None, line: int | None, edits: Sequence[KnobEdit], *, live: bool
) -> KnobHistory:
    """The history of a knob from its edits in the state."""
    return KnobHistory(name, value, line, tuple(_turn(state, edit) for edit in edits), live)


def _turn(state: State, edit: KnobEdit) -> Turn:
    event = state.events[edit.event]
    actor = "" if edit.observed else doer(event)
    return Turn(edit.edit, edit.event, edit.at, actor, getattr(event, "why", ""), edit.fate, edit.by)


class BlameLine(Struct, frozen=True):
    """One line of a target with the entry that brought it."""

    line: int
    text: str
    knobs: tuple[str, ...]
    change: EventId | None
    """None: not recorded yet"""
    at: str
    actor: str
    why: str
    first_contact: bool
    """it was there when the file was first seen"""
    by_hand: bool
    """nobody knows who; the entry only tells that it was seen"""

    def to_json(self) -> dict[str, Any]:
        """One entry of `lines`."""
        return {
            "line": self.line,
            "text": self.text,
            "knobs": list(self.knobs),
            "change": self.change,
            "at": self.at,
            "actor": self.actor,
            "why": self.why,
            "first_contact": self.first_contact,
            "by_hand": self.by_hand,
        }


class Blame(Struct, frozen=True):
    """A target, line by line."""

    target: TargetName
    lines: tuple[BlameLine, ...]
    knobs: tuple[KnobHistory, ...] = ()
    remarks: tuple[str, ...] = ()
    by_knob: bool = False
    """certain knobs were asked for"""

    def to_json(self) -> dict[str, Any]:
        """The JSON of `blame`."""
        return {
            "target": self.target,
            "lines": [line.to_json() for line in self.lines],
            "knobs": [knob.to_json() for knob in self.knobs],
            "remarks": list(self.remarks),
        }


def blame_lines(
    state: State,
    versions: Sequence[tuple[EventId | None, bytes]],
    shown: Sequence[str],
    knobs: dict[int, list[str]],
) -> tuple[BlameLine, ...]:
    """Follows each line of the last version back to the first version that has it.

    `versions` are the recorded states with their bytes, oldest first, the live bytes last (with None as
    their entry, if not recorded); `shown` are the last version's lines with secrets masked; `knobs` the names by line.
    """
    owners: list[EventId | None] = []
    before: list[bytes] = []
    for entry, content in versions:
        lines = content.split(b"\n")
        fresh: list[EventId | None] = [entry] * len(lines)
        for old, new, size in _kept(before, lines):
            fresh[new : new + size] = owners[old : old + size]
        owners, before = fresh, lines
    return tuple(_blame_line(state, i, text, owners, knobs) for i, text in enumerate(shown))


def _kept(old: Sequence[bytes], new: Sequence[bytes]) -> Iterator[tuple[int, int, int]]:
    """Blocks of lines that stayed: where each begins in both, and its length. Most versions differ in one line."""
    most = min(len(old), len(new))
    differs = list(map(ne, old, new))
    from_end = differs[::-1] if len(old) == len(new) else list(map(ne, reversed(old), reversed(new)))
    head = differs.index(True) if True in differs else most
    tail = min(from_end.index(True) if True in from_end else most, most - head)
    yield 0, 0, head
    middle, fresh = old[head : len(old) - tail], new[head : len(new) - tail]
    if len(middle) > 1 or len(fresh) > 1:
        for a, b, size in SequenceMatcher(None, middle, fresh, autojunk=False).get_matching_blocks():
            yield head + a, head + b, size
    yield len(old) - tail, len(new) - tail, tail


def _blame_line(
    state: State, index: int, text: str, owners: Sequence[EventId | None], knobs: dict[int, list[str]]
) -> BlameLine:
    owner = owners[index] if index < len(owners) else None
    event = state.events.get(owner) if owner else None
    first = isinstance(event, Observed) and event.previous is None
    return BlameLine(
        line=index + 1,
        text=text,
        knobs=tuple(knobs.get(index + 1, ())),
        change=owner,
        at=done_at(event) if event else "",
        actor=doer(event) if event else "",
        why=getattr(event, "why", "") if event else "",
        first_contact=first,
        by_hand=event is None or isinstance(event, Observed),
    )
