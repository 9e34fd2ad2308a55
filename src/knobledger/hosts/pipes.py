"""Three pipes to one running request: stdin is fed while both outputs are collected."""

from __future__ import annotations

import contextlib
import os
import selectors
import time
from collections.abc import Iterator
from typing import IO

from msgspec import Struct

from knobledger.hosts import wire

_CHUNK = 65536


class Said(Struct, frozen=True):
    """What came back until the last frame, the end of both outputs, or the time-out."""

    stdout: bytes
    stderr: bytes
    complete: bool
    """the last frame is among it"""
    timed_out: bool


def talk(
    stdin: IO[bytes],
    stdout: IO[bytes],
    stderr: IO[bytes],
    request: wire.Request,
    timeout_s: float,
    *,
    late_s: float = 0.0,
) -> Said:
    """Feeds stdin, which it closes at its end, and collects the output. Leaves closing the others to the caller.

    `late_s` is how long an stderr that belongs to the answer may come after the last frame: over a network the
    two are not in step.
    """
    out, err = bytearray(), bytearray()
    rest = memoryview(request.stdin)
    deadline = time.monotonic() + timeout_s
    os.set_blocking(stdin.fileno(), False)
    with selectors.DefaultSelector() as selector:
        selector.register(stdin, selectors.EVENT_WRITE)
        selector.register(stdout, selectors.EVENT_READ, out)
        selector.register(stderr, selectors.EVENT_READ, err)
        while selector.get_map() and not wire.is_complete(out, request.last):
            left = deadline - time.monotonic()
            if left <= 0:
                return Said(bytes(out), bytes(err), False, True)
            for key, _ in selector.select(left):
                if key.fileobj is stdin:
                    rest = _feed(stdin, rest)
                    if not rest:
                        selector.unregister(stdin)
                        stdin.close()
                elif chunk := os.read(key.fd, _CHUNK):
                    key.data.extend(chunk)
                else:
                    selector.unregister(key.fileobj)
    complete = wire.is_complete(out, request.last)
    if complete and request.stderr and late_s:
        for chunk in _rest_of(stderr, time.monotonic() + late_s):
            err += chunk
    return Said(bytes(out), bytes(err), complete, False)


def _feed(pipe: IO[bytes], rest: memoryview) -> memoryview:
    try:
        return rest[os.write(pipe.fileno(), rest[:_CHUNK]) :]
    except BlockingIOError:
        return rest
    except BrokenPipeError:
        # The program stopped listening; its answer says why.
        return rest[:0]


def _rest_of(pipe: IO[bytes], deadline: float) -> Iterator[bytes]:
    """To its end, or to the deadline: a daemon that was started may hold it open for ever."""
    with selectors.DefaultSelector() as selector, contextlib.suppress(OSError):
        selector.register(pipe, selectors.EVENT_READ)
        while selector.select(max(0.0, deadline - time.monotonic())):
            chunk = os.read(pipe.fileno(), _CHUNK)
            if not chunk:
                return
            yield chunk
