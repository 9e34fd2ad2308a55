"""What is known of one edit of a knob, and of one file, from all that came later. Pure."""

from __future__ import annotations

from typing import Literal

from msgspec import Struct, field

from knobledger.names import Digest, EventId, HostPath, TargetName
from knobledger.plan import Edit

Fate = Literal["in effect", "reverted", "restored", "overwritten"]


class KnobEdit(Struct):
    """One knob's edit by one change or observation, and what became of it."""

    event: EventId
    """the change's or the observation's id"""
    target: TargetName
    edit: Edit
    at: str
    fate: Fate = "in effect"
    by: EventId | None = None
    undoes: KnobEdit | None = None
    observed: bool = False

    @property
    def depth(self) -> int:
        """How often it was turned: 0 is an edit of its own, 1 undoes such a one, 2 undoes that."""
        return 0 if self.undoes is None else 1 + self.undoes.depth


class File(Struct):
    """What is recorded of one target."""

    target: TargetName
    path: HostPath
    digest: Digest
    """the last recorded bytes"""
    event: EventId
    """the change or observation that recorded them"""
    at: str
    history: list[tuple[EventId, Digest]] = field(default_factory=list)
    """every recorded state, oldest first"""
