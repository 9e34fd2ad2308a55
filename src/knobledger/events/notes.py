"""Free text in the ledger."""

from __future__ import annotations

from typing import Literal

from knobledger.events.entry import Event
from knobledger.names import EventId


class Noted(Event):
    """Free text, where nothing else fits."""

    kind: Literal["noted"] = "noted"
    text: str
    about: EventId | None = None
