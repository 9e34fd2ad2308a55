"""This machine as a host: the same transaction, without a connection."""

from __future__ import annotations

import contextlib
import os
import signal
import socket
import subprocess
from collections.abc import Mapping, Sequence

from knobledger.errors import Unreachable
from knobledger.hosts import pipes, wire
from knobledger.hosts.scripted import ScriptedHost


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
        assert process.stdin is not None
        assert process.stdout is not None
        assert process.stderr is not None
        said = pipes.talk(process.stdin, process.stdout, process.stderr, request, timeout_s)
        status = _finish(process, kill=said.timed_out, complete=said.complete)
        return wire.Exit(None if said.timed_out else status, said.stdout, said.stderr, said.timed_out)

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
