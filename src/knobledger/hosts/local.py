"""This machine as a host: the same transaction, without a connection."""

from __future__ import annotations

import contextlib
import os
import selectors
import signal
import socket
import subprocess
import time
from collections.abc import Mapping, Sequence
from typing import IO

from knobledger.errors import Unreachable
from knobledger.hosts import wire
from knobledger.hosts.scripted import ScriptedHost

_CHUNK = 65536


class LocalHost(ScriptedHost):
    """Runs `transaction.sh` here. `shell`, `environment` and `search` are for tests."""

    def __init__(
        self,
        name: str = "local",
        *,
        sudo: bool = False,
        command_timeout_s: float = 120.0,
        shell: Sequence[str] = ("/bin/sh",),
        environment: Mapping[str, str] | None = None,
        search: str = wire.SEARCH,
    ) -> None:
        self.name = name
        self.sudo = sudo
        self.command_timeout_s = command_timeout_s
        self.search = search
        self._shell = tuple(shell)
        self._environment = None if environment is None else dict(environment)

    def _exec(self, request: wire.Request, timeout_s: float) -> wire.Exit:
        before = ("sudo", "-n", "--") if request.sudo else ()
        try:
            process = subprocess.Popen(
                (*before, *self._shell, "-c", request.inner, "knobledger"),
                stdin=subprocess.PIPE,
                stdout=subprocess.PIPE,
                stderr=subprocess.PIPE,
                env=self._environment,
                # Ctrl-C is for us: the transaction decides for itself when it may stop.
                start_new_session=True,
            )
        except OSError as error:
            raise Unreachable(f"can't run {self._shell[0]!r} here: {error}") from error
        return _talk(process, request, timeout_s)

    def dial(self, address: str, port: int, *, timeout_s: float) -> socket.socket:
        """See `Host.dial`."""
        try:
            return socket.create_connection((address, port), timeout=timeout_s)
        except ConnectionRefusedError:
            raise
        except OSError as error:
            raise Unreachable(f"{address}:{port} can't be reached from {self.name!r}: {error}") from error

    def close(self) -> None:
        """See `Host.close`."""


def _talk(process: subprocess.Popen[bytes], request: wire.Request, timeout_s: float) -> wire.Exit:
    """Feeds stdin and collects the output, to the last frame or the end; on time-out the group dies."""
    assert process.stdin is not None
    assert process.stdout is not None
    assert process.stderr is not None
    stdout, stderr = bytearray(), bytearray()
    rest = memoryview(request.stdin)
    deadline = time.monotonic() + timeout_s
    timed_out = False
    os.set_blocking(process.stdin.fileno(), False)
    with selectors.DefaultSelector() as selector:
        selector.register(process.stdin, selectors.EVENT_WRITE)
        selector.register(process.stdout, selectors.EVENT_READ, stdout)
        selector.register(process.stderr, selectors.EVENT_READ, stderr)
        while selector.get_map() and not wire.is_complete(stdout, request.last):
            left = deadline - time.monotonic()
            if left <= 0:
                timed_out = True
                break
            for key, _ in selector.select(left):
                if key.fileobj is process.stdin:
                    rest = _feed(process.stdin, rest)
                    if not rest:
                        selector.unregister(process.stdin)
                        process.stdin.close()
                elif chunk := os.read(key.fd, _CHUNK):
                    key.data.extend(chunk)
                else:
                    selector.unregister(key.fileobj)
    complete = wire.is_complete(stdout, request.last)
    status = _finish(process, kill=timed_out and not complete, complete=complete)
    return wire.Exit(None if timed_out else status, bytes(stdout), bytes(stderr), timed_out)


def _feed(pipe: IO[bytes], rest: memoryview) -> memoryview:
    try:
        return rest[os.write(pipe.fileno(), rest[:_CHUNK]) :]
    except BlockingIOError:
        return rest
    except BrokenPipeError:
        # The program stopped listening; its answer says why.
        return rest[:0]


def _finish(process: subprocess.Popen[bytes], *, kill: bool, complete: bool) -> int | None:
    if kill:
        with contextlib.suppress(ProcessLookupError):
            os.killpg(process.pid, signal.SIGTERM)
    for stream in (process.stdin, process.stdout, process.stderr):
        if stream is not None:
            with contextlib.suppress(OSError):
                stream.close()
    try:
        return process.wait(2 if kill or complete else None)
    except subprocess.TimeoutExpired:
        # Never by force: a transaction that does not end on SIGTERM is past its swap, and has to finish.
        return None
