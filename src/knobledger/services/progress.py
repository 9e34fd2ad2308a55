"""What a restart tells while it goes on: steps that were taken, and waits with their limits."""

from __future__ import annotations

from typing import Protocol


class Progress(Protocol):
    """Told from the thread that works; must not raise."""

    def took(self, service: str, step: str) -> None:
        """A step of a service was taken."""

    def waits(self, service: str, step: str, elapsed_s: float, limit_s: float) -> None:
        """It still waits for something; called several times a second."""


class Silent:
    """Tells nobody."""

    def took(self, service: str, step: str) -> None:
        """Nothing."""

    def waits(self, service: str, step: str, elapsed_s: float, limit_s: float) -> None:
        """Nothing."""
