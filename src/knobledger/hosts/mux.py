"""OpenSSH's multiplexing protocol, version 4: sessions and streams over the connection of a running `ssh`.

The master hands our own pipes to the host, so a command costs no further process, none of ssh's start-up (some
10 ms), and there is no client that could open a connection of its own when the master is gone.
Format: PROTOCOL.mux of the OpenSSH sources. Numbers are big-endian 32 bit; strings and packets carry their length.
"""

from __future__ import annotations

import contextlib
import os
import socket
import struct
import threading
import time
from collections.abc import Callable
from types import TracebackType
from typing import IO

_VERSION = 4
_HELLO = 0x00000001
_NEW_SESSION = 0x10000002
_NEW_STREAM = 0x10000008
_DENIED = 0x80000002
_FAILURE = 0x80000003
_EXIT = 0x80000004
_OPENED = 0x80000006

_NO_ESCAPE = 0xFFFFFFFF
_LONGEST = 1 << 18
_CHUNK = 65536


class Declined(Exception):
    """The master, or the host, does not open this session or stream; the connection is as good as before."""

    def __init__(self, reason: str, *, refused: bool = False) -> None:
        super().__init__(reason)
        self.refused = refused
        """it is the stream's far end that said no"""


class Session:
    """A command on the host, started, with nothing on its stdin yet. Leaving the `with` lets it go."""

    def __init__(
        self, control: socket.socket, stdin: IO[bytes], stdout: IO[bytes], stderr: IO[bytes]
    ) -> None:
        self.stdin = stdin
        self.stdout = stdout
        self.stderr = stderr
        self._control = control

    def __enter__(self) -> Session:
        return self

    def __exit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        for end in (self._control, self.stdin, self.stdout, self.stderr):
            with contextlib.suppress(OSError):
                end.close()

    def status(self, timeout_s: float) -> int | None:
        """The exit status; None if the connection was lost, or a signal ended the command, or time is over."""
        deadline = time.monotonic() + timeout_s
        with contextlib.suppress(OSError):
            while True:
                self._control.settimeout(max(0.001, deadline - time.monotonic()))
                kind, rest = _receive(self._control)
                if kind == _EXIT:
                    return int(struct.unpack_from(">I", rest, 4)[0])
        return None


def session(path: str, command: str, timeout_s: float) -> Session:
    """Starts a command over the master that listens on `path`.

    Until this returns, nothing was sent to the command's stdin. Raises `Declined`; `OSError` when there is no
    master (any more), `TimeoutError` among them when the host does not answer.
    """
    (stdin_there, stdin), (stdout, stdout_there), (stderr, stderr_there) = os.pipe(), os.pipe(), os.pipe()
    ours = open(stdin, "wb", 0), open(stdout, "rb", 0), open(stderr, "rb", 0)  # noqa: PTH123, SIM115
    flags = (0, 0, 0, 0, _NO_ESCAPE)  # terminal, X11, agent, subsystem: none
    try:
        control = _ask(
            path,
            _packet(_NEW_SESSION, 0, b"", *flags, b"", command.encode("utf-8", "surrogateescape")),
            (stdin_there, stdout_there, stderr_there),
            timeout_s,
        )
    except BaseException:
        for end in ours:
            end.close()
        raise
    finally:
        for there in (stdin_there, stdout_there, stderr_there):
            os.close(there)
    return Session(control, *ours)


def stream(path: str, address: str, port: int, timeout_s: float) -> socket.socket:
    """A TCP stream opened from the host, as a socket of ours. Raises as `session` does."""
    ours, near = socket.socketpair()
    from_host, to_us = os.pipe()
    source = open(from_host, "rb", 0)  # noqa: PTH123, SIM115
    try:
        request = _packet(_NEW_STREAM, 0, b"", address.encode("utf-8", "surrogateescape"), port)
        control = _ask(path, request, (near.fileno(), to_us), timeout_s)
    except BaseException:
        for end in (ours, near, source):
            end.close()
        raise
    finally:
        os.close(to_us)
    # The master would never half-close the one socket for both ways; the end of a pipe can be passed on.
    threading.Thread(target=_inward, args=(control, source, near), daemon=True).start()
    ours.settimeout(timeout_s)
    return ours


def _inward(control: socket.socket, source: IO[bytes], near: socket.socket) -> None:
    with control, near:
        with source, contextlib.suppress(OSError):
            while data := source.read(_CHUNK):
                near.sendall(data)
        with contextlib.suppress(OSError):
            near.shutdown(socket.SHUT_WR)
            # The master lets the stream go when we let go of this, so not before both ways are at their end.
            control.settimeout(None)
            control.recv(1)


def _ask(path: str, request: bytes, ends: tuple[int, ...], timeout_s: float) -> socket.socket:
    """One request with its file descriptors on a connection of its own; returns when the host said yes."""
    control = socket.socket(socket.AF_UNIX)
    try:
        control.settimeout(timeout_s)
        control.connect(path)
        control.sendall(_packet(_HELLO, _VERSION) + request)
        for end in ends:
            socket.send_fds(control, [b"\0"], [end])
        _answered(lambda: _receive(control))
    except BaseException:
        control.close()
        raise
    return control


def _answered(receive: Callable[[], tuple[int, bytes]]) -> None:
    kind, rest = receive()
    if (kind, rest[:4]) != (_HELLO, struct.pack(">I", _VERSION)):
        raise Declined(f"this ssh does not speak version {_VERSION} of the multiplexing protocol")
    while True:
        kind, rest = receive()
        if kind == _OPENED:
            return
        if kind in (_DENIED, _FAILURE):
            (length,) = struct.unpack_from(">I", rest, 4)
            raise Declined(rest[8 : 8 + length].decode("utf-8", "replace"))


def _packet(*parts: int | bytes) -> bytes:
    body = b"".join(
        struct.pack(">I", part) if isinstance(part, int) else struct.pack(">I", len(part)) + part
        for part in parts
    )
    return struct.pack(">I", len(body)) + body


def _receive(control: socket.socket) -> tuple[int, bytes]:
    """The type and the rest of the next packet. Raises `ConnectionError` at the end, `TimeoutError`."""
    (length,) = struct.unpack(">I", _exactly(control, 4))
    if not 4 <= length <= _LONGEST:
        raise ConnectionError(f"a packet of {length} bytes is no multiplexing packet")
    packet = _exactly(control, length)
    return struct.unpack_from(">I", packet)[0], packet[4:]


def _exactly(control: socket.socket, size: int) -> bytes:
    got = b""
    while len(got) < size:
        chunk = control.recv(size - len(got))
        if not chunk:
            raise ConnectionError("the connection's ssh has ended")
        got += chunk
    return got
