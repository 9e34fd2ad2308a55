"""Who is told what is being waited for."""

from __future__ import annotations

from typing import Protocol


class Watch(Protocol):
    """Told by any thread, at once."""

    def begins(self, host: str, step: str) -> None:
        """A host is busy with a step, such as `reading`, from now on."""

    def ends(self, host: str) -> None:
        """It is no longer."""

    def counts(self, done: int, of: int) -> None:
        """So many targets are through with the step."""


class Unwatched:
    """Nobody looks."""

    def begins(self, host: str, step: str) -> None:
        """See `Watch`."""

    def ends(self, host: str) -> None:
        """See `Watch`."""

    def counts(self, done: int, of: int) -> None:
        """See `Watch`."""
