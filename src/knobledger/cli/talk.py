"""Progress on stderr: a line for each step; of a wait, its elapsed time and limit once it is longer than a second."""

from __future__ import annotations

from typing import TextIO

QUIET_S = 1.0
"""a wait is not mentioned before"""
EVERY_S = 10.0
"""and where lines can't be overwritten, only so often"""


class Talk:
    """On a terminal a wait overwrites its own line; elsewhere it is a new one now and then."""

    def __init__(self, stream: TextIO) -> None:
        self._stream = stream
        self._terminal = stream.isatty()
        self._waiting: tuple[str, float] | None = None
        """the wait that was mentioned last, and its elapsed time then"""

    def took(self, service: str, step: str) -> None:
        """See `Progress.took`."""
        self._clear()
        print(f"{service}: {_plain(step)}", file=self._stream, flush=True)

    def waits(self, service: str, step: str, elapsed_s: float, limit_s: float) -> None:
        """See `Progress.waits`."""
        if elapsed_s < QUIET_S:
            return
        text = f"{service}: waits for {_plain(step)} ({elapsed_s:.0f} of {limit_s:.0f} s)"
        if self._terminal:
            self._stream.write(f"\r\033[K{text[:160]}")
            self._stream.flush()
            self._waiting = (service, elapsed_s)
            return
        before = self._waiting
        if (
            before is None
            or before[0] != service
            or elapsed_s - before[1] >= EVERY_S
            or elapsed_s < before[1]
        ):
            self._waiting = (service, elapsed_s)
            print(text, file=self._stream, flush=True)

    def _clear(self) -> None:
        if self._terminal and self._waiting:
            self._stream.write("\r\033[K")
        self._waiting = None


def _plain(text: str) -> str:
    """Text of a service, with what would move the cursor made visible."""
    return "".join(c if c.isprintable() else c.encode("unicode_escape").decode() for c in text)
