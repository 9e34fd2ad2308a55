"""A host over a connection that another process carries, which hands us the ends of pipes."""

from __future__ import annotations

import contextlib
import socket
import threading
import time
from abc import abstractmethod
from collections.abc import Callable
from typing import TypeVar

from knobledger.errors import KnobError, Unreachable
from knobledger.hosts import mux, pipes, wire
from knobledger.hosts.reach import HostConfig, unreachable
from knobledger.hosts.scripted import ScriptedHost
from knobledger.hosts.way import Way

T = TypeVar("T")

_LATE_S = 0.2
"""how long stderr is waited for when the last frame is here"""


class CarriedHost(ScriptedHost):
    """One connection, made in the background, reused for every call, made anew if it died in between."""

    def __init__(self, config: HostConfig, begun: Way | None = None) -> None:
        self.name = config.name
        self.sudo = config.sudo
        self.command_timeout_s = config.command_timeout_s
        self._config = config
        self._lock = threading.Lock()
        self._way = begun
        if begun is None:
            # What is wrong already now is raised by the first use, like all that goes wrong with connecting.
            with contextlib.suppress(KnobError):
                self._way = self._start()

    @abstractmethod
    def _start(self) -> Way:
        """Begins to connect, and does not wait. Raises `Unreachable` for what is missing on this machine."""

    def _exec(self, request: wire.Request, timeout_s: float) -> wire.Exit:
        try:
            session = self._ask(lambda way: way.session(request.command, self._config.connect_timeout_s))
        except mux.Declined as error:
            hint = "sshd's MaxSessions and its log may say why"
            raise unreachable(self.name, f"no session: {error}", hint) from error
        with session:
            deadline = time.monotonic() + timeout_s
            said = pipes.talk(
                session.stdin, session.stdout, session.stderr, request, timeout_s, late_s=_LATE_S
            )
            over = said.complete or said.timed_out
            status = None if over else session.status(deadline - time.monotonic())
        return wire.Exit(status, said.stdout, said.stderr, said.timed_out)

    def dial(self, address: str, port: int, *, timeout_s: float) -> socket.socket:
        """See `Host.dial`."""
        try:
            return self._ask(lambda way: way.stream(address, port, timeout_s))
        except mux.Declined as error:
            if error.refused:
                raise ConnectionRefusedError(
                    f"{address}:{port} on {self.name!r} refused the connection: {error}"
                ) from error
            raise Unreachable(
                f"{self.name!r} does not let us open {address}:{port}: {error}",
                hint="sshd's AllowTcpForwarding must allow it",
            ) from error

    def close(self) -> None:
        """See `Host.close`."""
        with self._lock:
            way, self._way = self._way, None
        if way is not None:
            way.stop()

    def _ask(self, request: Callable[[Way], T]) -> T:
        """A request over a live connection. One that died since the last call is made anew: nothing was sent yet.

        Raises `mux.Declined`, `Unreachable`, `HostKeyChanged`.
        """
        for attempt in (1, 2):
            way = self._connected()
            try:
                return request(way)
            except OSError as error:
                self._drop(way)
                if attempt == 2:
                    raise unreachable(self.name, f"no session: {error}") from error
        raise AssertionError

    def _connected(self) -> Way:
        """The connection, logged in. Raises `Unreachable`, `HostKeyChanged`; the next use tries again then."""
        with self._lock:
            if self._way is None:
                self._way = self._start()
            way = self._way
        try:
            way.wait()
        except BaseException:
            self._drop(way)
            raise
        return way

    def _drop(self, way: Way) -> None:
        with self._lock:
            if self._way is way:
                self._way = None
        way.stop()
