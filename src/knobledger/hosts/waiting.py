"""What is said while a host takes its time."""

from __future__ import annotations

import threading
import time
from collections.abc import Callable, Iterator
from contextlib import contextmanager

Tell = Callable[[str], None]
"""takes one line for the operator; called from a thread of its own"""

_AFTER_S = (1, 5, 15, 30)
_THEN_EVERY_S = 30


@contextmanager
def waiting(tell: Tell | None, host: str, doing: str, limit_s: float) -> Iterator[None]:
    """Says after a second, and then at growing intervals, what is still waited for, how long, and how long at most."""
    if tell is None:
        yield
        return
    over = threading.Event()
    threading.Thread(target=_watch, args=(tell, f"{host}: {doing}", limit_s, over), daemon=True).start()
    try:
        yield
    finally:
        over.set()


def _watch(tell: Tell, what: str, limit_s: float, over: threading.Event) -> None:
    begun = time.monotonic()
    for at in _moments():
        if over.wait(begun + at - time.monotonic()):
            return
        tell(f"{what}: {at} s so far; the command time-out is {limit_s:g} s")


def _moments() -> Iterator[int]:
    yield from _AFTER_S
    at = _AFTER_S[-1]
    while True:
        at += _THEN_EVERY_S
        yield at
