"""The process in which fabric's connections live, from our side: one for all hosts of a command.

Importing fabric and paramiko takes as long as importing all the rest, and Python runs one thread at a time: in a
process of its own it takes another core. The other side is `carrying.py`. They talk over socket pairs, which
nobody else can reach: a first one on which we hand over one more for each connection, and on each of these one
line of JSON there and one back, at a time, with the ends of pipes for what a command reads and writes. The process
ends when its first socket does: so it goes when this process goes, however that dies.
"""

from __future__ import annotations

import contextlib
import json
import os
import socket
import subprocess
import sys
import threading
import time
from typing import Any

from knobledger import errors
from knobledger.hosts import mux
from knobledger.hosts.reach import HostConfig, unreachable

_STOP_S = 2.0
_CHUNK = 65536
_PROGRAM = "from knobledger.hosts.carrying import main; main()"


class Carrier:
    """The running process."""

    def __init__(self) -> None:
        """Starts it. Raises `OSError`."""
        self._base, theirs = socket.socketpair()
        self.lines = 0
        """how many connections it has for us"""
        with theirs:
            self._process = subprocess.Popen(
                # -P: a module in the folder where the operator happens to be is none of ours.
                (sys.executable, "-P", "-c", _PROGRAM, str(theirs.fileno())),
                pass_fds=(theirs.fileno(),),
                stdin=subprocess.DEVNULL,
                stdout=subprocess.DEVNULL,
                stderr=subprocess.DEVNULL,
                # Ctrl-C is for us.
                start_new_session=True,
            )

    @property
    def alive(self) -> bool:
        """Does it still run?"""
        return self._process.poll() is None

    def open(self) -> socket.socket:
        """A socket for one more connection. Raises `OSError`."""
        ours, theirs = socket.socketpair()
        with theirs:
            socket.send_fds(self._base, [b"\0"], [theirs.fileno()])
        self.lines += 1
        return ours

    def end(self) -> None:
        """Lets it go."""
        self._base.close()
        try:
            self._process.wait(_STOP_S)
        except subprocess.TimeoutExpired:
            self._process.kill()
            self._process.wait()


_lock = threading.Lock()
_carrier: Carrier | None = None


def _open() -> tuple[Carrier, socket.socket]:
    """A line of the one carrier, which is started if there is none (any more)."""
    global _carrier
    with _lock:
        if _carrier is not None and not _carrier.alive:
            _carrier.end()
            _carrier = None
        if _carrier is None:
            _carrier = Carrier()
        return _carrier, _carrier.open()


def _release(carrier: Carrier) -> None:
    """The carrier goes with its last line."""
    global _carrier
    with _lock:
        carrier.lines -= 1
        if carrier.lines == 0 and carrier is _carrier:
            _carrier = None
            carrier.end()


class Line:
    """One connection of the carrier's: a `Way`."""

    def __init__(self, config: HostConfig) -> None:
        """Has the connection begun, and does not wait. Raises `Unreachable`."""
        self._config = config
        self._lock = threading.Lock()
        self._failed: errors.KnobError | None = None
        self._ready = False
        try:
            self._carrier, self._socket = _open()
        except OSError as error:
            raise unreachable(config.name, f"can't start a process for it: {error}") from error
        # If it has ended by now, waiting for its answer says so.
        with contextlib.suppress(OSError):
            _send(self._socket, {"name": config.name, "table": config.table()})

    def wait(self) -> None:
        """See `Way.wait`."""
        with self._lock:
            if not self._ready and self._failed is None:
                try:
                    reply = _receive(self._socket)
                except OSError as error:
                    raise unreachable(self._config.name, str(error)) from error
                if failure := reply.get("failed"):
                    kind = getattr(errors, failure["class"])
                    self._failed = kind(failure["message"], hint=failure["hint"], **failure["values"])
                self._ready = self._failed is None
        if self._failed is not None:
            raise self._failed

    def session(self, command: str, timeout_s: float) -> mux.Session:
        """See `Way.session`."""
        (stdin_there, stdin), (stdout, stdout_there), (stderr, stderr_there) = os.pipe(), os.pipe(), os.pipe()
        ours = open(stdin, "wb", 0), open(stdout, "rb", 0), open(stderr, "rb", 0)  # noqa: PTH123, SIM115
        control, control_there = socket.socketpair()
        theirs = (stdin_there, stdout_there, stderr_there, control_there.fileno())
        try:
            self._ask({"exec": command, "timeout_s": timeout_s}, theirs)
        except BaseException:
            for end in (*ours, control):
                end.close()
            raise
        finally:
            for there in theirs[:3]:
                os.close(there)
            control_there.close()
        return Session(control, *ours)

    def stream(self, address: str, port: int, timeout_s: float) -> socket.socket:
        """See `Way.stream`."""
        ours, theirs = socket.socketpair()
        try:
            with theirs:
                self._ask({"dial": [address, port], "timeout_s": timeout_s}, (theirs.fileno(),))
        except BaseException:
            ours.close()
            raise
        ours.settimeout(timeout_s)
        return ours

    def _ask(self, request: dict[str, Any], ends: tuple[int, ...]) -> None:
        with self._lock:
            _send(self._socket, request, ends)
            reply = _receive(self._socket)
        if "lost" in reply:
            raise ConnectionError(reply["lost"])
        if "silent" in reply:
            raise errors.Unreachable(reply["silent"])
        if "declined" in reply:
            raise mux.Declined(reply["declined"], refused=reply["refused"])

    def stop(self) -> None:
        """See `Way.stop`."""
        if self._socket.fileno() >= 0:
            self._socket.close()
            _release(self._carrier)


class Session(mux.Session):
    """A command that runs over the carrier."""

    def status(self, timeout_s: float) -> int | None:
        """See `mux.Session.status`."""
        deadline = time.monotonic() + timeout_s
        said = b""
        with contextlib.suppress(OSError):
            while not said.endswith(b"\n"):
                self._control.settimeout(max(0.001, deadline - time.monotonic()))
                chunk = self._control.recv(16)
                if not chunk:
                    return None
                said += chunk
            return int(said)
        return None


def _send(line: socket.socket, message: dict[str, Any], ends: tuple[int, ...] = ()) -> None:
    data = json.dumps(message).encode() + b"\n"
    sent = socket.send_fds(line, [data], ends)
    line.sendall(data[sent:])


def _receive(line: socket.socket) -> dict[str, Any]:
    data = b""
    while not data.endswith(b"\n"):
        chunk = line.recv(_CHUNK)
        if not chunk:
            raise ConnectionError("the process that carries the connection has ended")
        data += chunk
    message: dict[str, Any] = json.loads(data)
    return message
