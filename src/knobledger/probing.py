"""A reproducer, run on this machine again and again: each round's exit code, time, and the end of its output."""

from __future__ import annotations

import os
import signal
import subprocess
import threading
import time
from collections.abc import Callable, Mapping, Sequence
from contextlib import suppress

from msgspec import Struct

from knobledger.errors import Refused

KEPT = 2000
"""of each round's output, its last bytes"""


class Round(Struct, frozen=True):
    """One round."""

    exit: int | None
    """128 and the signal's number for a signal; None: stopped because its time was up"""
    seconds: float
    output: bytes
    """the last `KEPT` bytes, both streams as they came"""

    @property
    def passed(self) -> bool:
        """Exit code 0."""
        return self.exit == 0


def rounds(
    command: Sequence[str],
    times: int,
    *,
    env: Mapping[str, str],
    limit_s: float | None = None,
    told: Callable[[int, Round], None] = lambda _number, _round: None,
) -> tuple[Round, ...]:
    """Runs a command `times` times, one after the other; after Ctrl-C, the rounds that were finished by then.

    Each round has its own process group, which is ended as a whole when `limit_s` is over or at Ctrl-C. Raises
    `Refused` if the command can't be started.
    """
    done: list[Round] = []
    for number in range(1, times + 1):
        try:
            done.append(_round(command, env, limit_s))
            told(number, done[-1])
        except KeyboardInterrupt:
            break
    return tuple(done)


def _round(command: Sequence[str], env: Mapping[str, str], limit_s: float | None) -> Round:
    begun = time.monotonic()
    try:
        process = subprocess.Popen(
            command,
            env=dict(env),
            stdin=subprocess.DEVNULL,
            stdout=subprocess.PIPE,
            stderr=subprocess.STDOUT,
            start_new_session=True,
        )
    except OSError as error:
        raise Refused(
            f"{command[0]!r} can't be started: {(error.strerror or str(error)).lower()}",
            hint="`knob probe SLUG --contradicts-if pass -- COMMAND`",
        ) from error
    tail = _Tail(process)
    try:
        code: int | None = process.wait(limit_s)
    except subprocess.TimeoutExpired:
        code = None
    finally:
        seconds = time.monotonic() - begun
        _end(process)
    exit_code = code if code is None or code >= 0 else 128 - code
    return Round(exit_code, round(seconds, 3), tail.end())


class _Tail:
    """Reads a process's output as it comes, and keeps the end; a reader of its own, so that no pipe fills up."""

    def __init__(self, process: subprocess.Popen[bytes]) -> None:
        assert process.stdout is not None
        self._stream = process.stdout
        self._kept = b""
        self._reader = threading.Thread(target=self._read, daemon=True)
        self._reader.start()

    def _read(self) -> None:
        while chunk := os.read(self._stream.fileno(), 65536):
            self._kept = (self._kept + chunk)[-KEPT:]

    def end(self) -> bytes:
        """What was kept; a child that left the group and still holds the pipe is not waited for."""
        self._reader.join(1)
        if not self._reader.is_alive():
            self._stream.close()
        return self._kept


def _end(process: subprocess.Popen[bytes]) -> None:
    """Ends what the round left running: its whole process group."""
    if process.returncode is None:
        with suppress(ProcessLookupError):
            os.killpg(process.pid, signal.SIGTERM)
        with suppress(subprocess.TimeoutExpired):
            process.wait(2)
    with suppress(ProcessLookupError):  # children that outlived it keep the group's number in use
        os.killpg(process.pid, signal.SIGKILL)
    process.wait()
