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
    """the edit that it turned: by name (a revert, a restore), or only by its value (see `State`)"""
    takes: bool = False
    """it took the knob out, or back to what it was: not so if what it turned had itself taken something"""
    observed: bool = False

    @property
    def leads_back(self) -> bool:
        """The knob has exactly the value from before the edit that this one turned."""
        return self.undoes is not None and self.edit.after == self.undoes.edit.before


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
