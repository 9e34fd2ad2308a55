"""One function over many items, on all cores: results in order, and a worker that dies costs its own item only."""

from __future__ import annotations

import os
import signal
from collections.abc import Callable, Sequence
from concurrent.futures import Future, ProcessPoolExecutor
from concurrent.futures.process import BrokenProcessPool
from typing import TypeVar

Item = TypeVar("Item")
Result = TypeVar("Result")

FEW = 64
"""With fewer items, starting processes costs more than it saves."""
CHUNK = 16
"""Items that a worker is given at once."""


def over(
    items: Sequence[Item], work: Callable[[Item], Result], lost: Callable[[Item], Result]
) -> list[Result]:
    """`work` of each item, in order; `lost` of an item at which a worker died. `work` is pickled.

    Raises what `work` raises, for the first item that does.
    """
    if len(items) < FEW:
        return [work(item) for item in items]
    chunks = [items[at : at + CHUNK] for at in range(0, len(items), CHUNK)]
    pool = _pool(os.cpu_count() or 1)
    try:
        futures = [pool.submit(_each, work, chunk) for chunk in chunks]
        return [
            result
            for chunk, future in zip(chunks, futures, strict=True)
            for result in _result(chunk, future, work, lost)
        ]
    finally:
        # After an error or Ctrl-C nothing more is begun; after the last result there is nothing to cancel.
        pool.shutdown(cancel_futures=True)


def _pool(workers: int) -> ProcessPoolExecutor:
    # Ctrl-C is this process's to answer; workers would each print a traceback.
    return ProcessPoolExecutor(workers, initializer=signal.signal, initargs=(signal.SIGINT, signal.SIG_IGN))


def _each(work: Callable[[Item], Result], items: Sequence[Item]) -> list[Result]:
    return [work(item) for item in items]


def _result(
    chunk: Sequence[Item],
    future: Future[list[Result]],
    work: Callable[[Item], Result],
    lost: Callable[[Item], Result],
) -> list[Result]:
    try:
        return future.result()
    except BrokenProcessPool:
        # The death of one worker ends the whole pool: each item that has no result gets a process of its own.
        return [_alone(item, work, lost) for item in chunk]


def _alone(item: Item, work: Callable[[Item], Result], lost: Callable[[Item], Result]) -> Result:
    with _pool(1) as pool:
        try:
            return pool.submit(work, item).result()
        except BrokenProcessPool:
            return lost(item)
