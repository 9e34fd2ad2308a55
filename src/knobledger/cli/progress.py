"""Progress on stderr, for whoever waits longer than a second: which host, which step, how long, and how long at most.

On a terminal a table that is drawn anew; elsewhere whole lines, ever more seldom, without control codes.
"""

from __future__ import annotations

import os
import sys
import threading
import time
from collections.abc import Callable
from typing import TYPE_CHECKING

if TYPE_CHECKING:
    from rich.console import RenderableType

_PATIENCE_S = 1.0
_TICK_S = 0.25
_ROWS = 12


class Progress:
    """A `Watch` that talks. Nothing is printed, and nothing loaded, before a step has taken a second."""

    def __init__(self, limit_s: Callable[[str], float]) -> None:
        """`limit_s`: how long a host's step may take at most, in seconds."""
        self._limit_s = limit_s
        self._busy: dict[str, tuple[str, float]] = {}
        self._several = False
        self._counted = (0, 0)
        self._lock = threading.Lock()
        self._ticker: threading.Thread | None = None
        self._idle = threading.Event()

    def begins(self, host: str, step: str) -> None:
        """See `Watch`."""
        with self._lock:
            self._busy[host] = step, time.monotonic()
            self._several = self._several or len(self._busy) > 1
            if self._ticker is None:
                self._counted = (0, 0)
                self._idle = threading.Event()
                self._ticker = threading.Thread(target=self._tick, args=(self._idle,), daemon=True)
                self._ticker.start()

    def ends(self, host: str) -> None:
        """See `Watch`."""
        with self._lock:
            self._busy.pop(host, None)
            idle = not self._busy
        if idle:
            self.stop()

    def hears(self, text: str) -> None:
        """What one host says of its own waiting; with several at once the table has it."""
        if not self._several:
            print(text, file=sys.stderr, flush=True)

    def counts(self, done: int, of: int) -> None:
        """See `Watch`."""
        with self._lock:
            self._counted = done, of

    def stop(self) -> None:
        """Nobody waits any more; nothing is drawn after this returns."""
        with self._lock:
            ticker, self._ticker = self._ticker, None
            self._idle.set()
        if ticker is not None:
            ticker.join()

    def _tick(self, idle: threading.Event) -> None:
        if idle.wait(_PATIENCE_S) or not self._several:
            return
        if sys.stderr.isatty() and os.environ.get("TERM", "") not in ("", "dumb"):
            self._draw(idle)
        else:
            pause = _PATIENCE_S
            while not idle.is_set():
                for text in self._lines():
                    print(text, file=sys.stderr, flush=True)
                pause *= 2
                idle.wait(pause)

    def _draw(self, idle: threading.Event) -> None:
        from rich.console import Console
        from rich.live import Live

        console = Console(file=sys.stderr)
        with Live(console=console, auto_refresh=False, transient=True) as live:
            while not idle.wait(_TICK_S):
                live.update(self._table(), refresh=True)

    def _table(self) -> RenderableType:
        from rich.table import Table
        from rich.text import Text

        table = Table.grid(padding=(0, 2))
        rows = self._rows()
        for host, step, elapsed, limit in rows[:_ROWS]:
            table.add_row(Text(host), Text(step), f"{elapsed:.0f} s", _at_most(limit))
        if len(rows) > _ROWS:
            table.add_row(f"and {len(rows) - _ROWS} more")
        if self._counted[1]:
            table.add_row("{} of {} targets".format(*self._counted))
        return table

    def _lines(self) -> list[str]:
        rows = self._rows()
        if not rows:
            return []
        if len(rows) == 1:
            host, step, elapsed, limit = rows[0]
            return [f"{host}: {step}, {elapsed:.0f} s {_at_most(limit)}".rstrip()]
        step = rows[0][1]
        slow = ", ".join(f"{host} {elapsed:.0f} s" for host, _, elapsed, _ in rows[:3])
        done, of = self._counted
        through = f"{done} of {of} targets done, " if of else ""
        return [f"{step}: {through}{len(rows)} hosts under way, the slowest: {slow} {_at_most(rows[0][3])}"]

    def _rows(self) -> list[tuple[str, str, float, float]]:
        """The busy hosts, the one that is busy longest first."""
        with self._lock:
            busy = dict(self._busy)
        now = time.monotonic()
        rows = [(host, step, now - since, self._limit_s(host)) for host, (step, since) in busy.items()]
        return sorted(rows, key=lambda row: -row[2])


def _at_most(limit_s: float) -> str:
    return f"(at most {limit_s:.0f} s)" if limit_s else ""
