"""The process in which fabric's connections live, from its own side; see `carrier.py`.

Started with the number of its first socket; ends when that does.
"""

from __future__ import annotations

import contextlib
import gc
import json
import os
import signal
import socket
import sys
import threading
from typing import TYPE_CHECKING, Any

from knobledger.errors import Bug, KnobError
from knobledger.hosts.login import log_in
from knobledger.hosts.reach import HostConfig

if TYPE_CHECKING:
    import paramiko

_CHUNK = 65536
_MOST_ENDS = 4


def main() -> None:
    """Carries connections until nobody wants one any more."""
    signal.signal(signal.SIGINT, signal.SIG_IGN)
    gc.set_threshold(200_000, 50, 50)
    first = socket.socket(fileno=int(sys.argv[1]))
    while True:
        data, ends, _, _ = socket.recv_fds(first, 1, 1)
        if not data:
            # Connections end with their process; threads may be in the middle of anything.
            os._exit(0)
        line = socket.socket(fileno=ends[0])
        threading.Thread(target=_serve, args=(line,), daemon=True).start()


def _serve(line: socket.socket) -> None:
    """One connection, from its configuration to the end of its line."""
    with line, contextlib.suppress(OSError, EOFError):
        request, _ = _receive(line)
        try:
            connection = log_in(HostConfig.of(request["name"], request["table"]))
        except Exception as error:
            _send(line, {"failed": _failure(error)})
            return
        try:
            _send(line, {})
            while True:
                request, ends = _receive(line)
                if "exec" in request:
                    _execute(line, connection.transport, request, *ends)
                else:
                    _dial(line, connection.transport, request, *ends)
        finally:
            connection.close()


def _failure(error: Exception) -> dict[str, Any]:
    if not isinstance(error, KnobError):
        error = Bug(f"a bug in knobledger: {type(error).__name__}: {error}")
    return {
        "class": type(error).__name__,
        "message": error.message,
        "hint": error.hint,
        "values": error.values,
    }


def _execute(
    line: socket.socket,
    transport: paramiko.Transport,
    request: dict[str, Any],
    stdin: int,
    stdout: int,
    stderr: int,
    control: int,
) -> None:
    """One command: the answer is sent when it is started; returns when the other side has let go of it."""
    import paramiko

    with (
        open(stdin, "rb", 0) as source,
        open(stdout, "wb", 0) as out,
        open(stderr, "wb", 0) as err,
        socket.socket(fileno=control) as told,
    ):
        try:
            channel = transport.open_session(timeout=request["timeout_s"])
            channel.settimeout(request["timeout_s"])
            channel.exec_command(request["exec"])
        except (paramiko.SSHException, OSError, EOFError) as error:
            transport.close()
            _send(line, {"lost": str(error) or type(error).__name__})
            return
        channel.settimeout(None)
        _send(line, {})

        def answer() -> None:
            _copy(channel.recv, out.write)
            out.close()
            status = _status(channel)
            with contextlib.suppress(OSError):
                if status is not None:
                    told.sendall(b"%d\n" % status)
                told.shutdown(socket.SHUT_WR)

        def complain() -> None:
            _copy(channel.recv_stderr, err.write)
            err.close()

        def feed() -> None:
            _copy(source.read, channel.sendall)
            source.close()  # nobody takes more, which the other side may be waiting to know
            with contextlib.suppress(Exception):
                channel.shutdown_write()

        threads = [threading.Thread(target=work, daemon=True) for work in (answer, complain, feed)]
        for thread in threads:
            thread.start()
        with contextlib.suppress(OSError):
            told.recv(1)
        channel.close()
        for thread in threads:
            thread.join()


def _status(channel: paramiko.Channel) -> int | None:
    """Waits for the exit status, which may come a moment after the last output. None: there is none."""
    while not channel.status_event.wait(0.05):
        if channel.closed or not (channel.transport and channel.transport.is_active()):
            break
    return int(channel.exit_status) if channel.status_event.is_set() and channel.exit_status >= 0 else None


def _dial(line: socket.socket, transport: paramiko.Transport, request: dict[str, Any], end: int) -> None:
    """One stream, which lives on when this returns."""
    import paramiko

    near = socket.socket(fileno=end)
    address, port = request["dial"]
    try:
        channel = transport.open_channel(
            "direct-tcpip", (address, port), ("127.0.0.1", 0), timeout=request["timeout_s"]
        )
    except paramiko.ChannelException as error:
        near.close()
        _send(line, {"declined": error.text, "refused": error.code == 2})
        return
    except (paramiko.SSHException, OSError, EOFError) as error:
        near.close()
        if transport.is_active():
            _send(line, {"silent": f"{address}:{port} can't be reached: {error}"})
        else:
            _send(line, {"lost": str(error) or type(error).__name__})
        return
    _send(line, {})

    def outward() -> None:
        _copy(near.recv, channel.sendall)
        with contextlib.suppress(Exception):
            channel.shutdown_write()

    def inward() -> None:
        _copy(channel.recv, near.sendall)
        with contextlib.suppress(OSError):
            near.shutdown(socket.SHUT_WR)
        there.join()
        channel.close()
        near.close()

    there = threading.Thread(target=outward, daemon=True)
    there.start()
    threading.Thread(target=inward, daemon=True).start()


def _copy(read: Any, write: Any) -> None:
    """Until one side has ended."""
    with contextlib.suppress(Exception):
        while data := read(_CHUNK):
            rest = memoryview(data)
            while rest:
                # A pipe says how much it took; sockets and channels take everything.
                rest = rest[write(rest) or len(rest) :]


def _send(line: socket.socket, message: dict[str, Any]) -> None:
    line.sendall(json.dumps(message, default=str).encode() + b"\n")


def _receive(line: socket.socket) -> tuple[dict[str, Any], list[int]]:
    """One request with its ends of pipes. Raises `EOFError` when there will be none."""
    data, ends = b"", []
    while not data.endswith(b"\n"):
        chunk, more, _, _ = socket.recv_fds(line, _CHUNK, _MOST_ENDS)
        if not chunk:
            raise EOFError
        data += chunk
        ends += more
    return json.loads(data), ends
