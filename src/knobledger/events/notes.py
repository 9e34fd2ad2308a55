"""Events that change no knob: free text, and the keeping of backups."""

from __future__ import annotations

from typing import Literal

from knobledger.events.entry import Event
from knobledger.names import Digest, EventId, HostPath, TargetName
from knobledger.receipt import Frozen


class Noted(Event):
    """Free text, where nothing else fits."""

    kind: Literal["noted"] = "noted"
    text: str
    about: EventId | None = None


class PrunedFile(Frozen):
    """A backup that nothing needs any more."""

    path: HostPath
    digest: Digest
    size: int
    """bytes"""
    change: EventId
    """the change that made it"""


class Pruned(Event):
    """Backups that are removed from a host, written before they are."""

    kind: Literal["pruned"] = "pruned"
    target: TargetName
    files: tuple[PrunedFile, ...]
