"""A real SSH server in this process, on loopback: for the demo and the tests.

Real keys, real encryption, a real `/bin/sh` for each command, no root. Commands run as whoever runs this, with
a sandbox folder as working directory and HOME; that is a place, not a prison. Only the client key that was made
with it can log in, and TCP streams lead to loopback only.
"""

from __future__ import annotations

import contextlib
import logging
import os
import select
import signal
import socket
import subprocess
import threading
from collections.abc import Mapping, Sequence
from pathlib import Path
from types import TracebackType
from typing import Any, Self

import paramiko
from msgspec import Struct, field

_CHUNK = 32768
_LOOPBACK = {"127.0.0.1", "localhost", "::1"}


class SshdKeys(Struct, frozen=True):
    """The files that a client needs to be let in and to know the server."""

    identity_file: Path
    known_hosts: Path


class EmbeddedSshd(Struct):
    """A context manager: listening inside, everything that it started stopped after.

    `folder` gets `keys/` (client key, host key, known_hosts); `sandbox` is where commands run. `shell` is what
    runs them: `(*shell, "-c", COMMAND)`.
    """

    folder: Path
    sandbox: Path
    user: str = "demo"
    shell: Sequence[str] = ("/bin/sh",)
    environment: Mapping[str, str] | None = None
    """of the commands; None: ours"""
    port: int = 0
    """0: any free one; read it after the start"""
    before_exec: bytes = b""
    """printed before each command's own output, like a noisy start-up file"""
    address: str = "127.0.0.1"
    _listener: socket.socket | None = None
    _transports: list[paramiko.Transport] = field(default_factory=list)
    _processes: set[subprocess.Popen[bytes]] = field(default_factory=set)
    _host_key: Any = None
    _client_key: Any = None
    _stopping: threading.Event = field(default_factory=threading.Event)

    @property
    def keys(self) -> SshdKeys:
        """Where the client's files are."""
        folder = self.folder / "keys"
        return SshdKeys(folder / "id_ed25519", folder / "known_hosts")

    def start(self) -> Self:
        """Makes the keys that are missing, and listens. Returns itself."""
        logging.getLogger("paramiko").addHandler(logging.NullHandler())
        self.sandbox.mkdir(parents=True, exist_ok=True)
        keys = self.folder / "keys"
        keys.mkdir(parents=True, exist_ok=True, mode=0o700)
        self._host_key = _key(keys / "ssh_host_ed25519_key")
        self._client_key = _key(self.keys.identity_file)
        self._listener = socket.create_server((self.address, self.port))
        self.port = self._listener.getsockname()[1]
        line = f"[{self.address}]:{self.port} {self._host_key.get_name()} {self._host_key.get_base64()}\n"
        self.keys.known_hosts.write_text(line, "utf-8")
        self._stopping.clear()
        threading.Thread(target=self._accept, args=(self._listener,), name="sshd", daemon=True).start()
        return self

    def stop(self) -> None:
        """Closes every connection and ends the commands that still run. May be called twice."""
        self._stopping.set()
        if self._listener is not None:
            # A blocked accept does not notice close() alone.
            with contextlib.suppress(OSError):
                self._listener.shutdown(socket.SHUT_RDWR)
            self._listener.close()
            self._listener = None
        self.drop()
        for process in list(self._processes):
            with contextlib.suppress(ProcessLookupError):
                os.killpg(process.pid, signal.SIGTERM)

    def drop(self) -> None:
        """Cuts every connection, as a lost network does; goes on listening."""
        for transport in self._transports:
            transport.close()
        self._transports.clear()

    def __enter__(self) -> Self:
        return self.start()

    def __exit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        self.stop()

    def _accept(self, listener: socket.socket) -> None:
        while not self._stopping.is_set():
            try:
                connection, _ = listener.accept()
            except OSError:
                return
            threading.Thread(target=self._serve, args=(connection,), daemon=True).start()

    def _serve(self, connection: socket.socket) -> None:
        # As OpenSSH does for its sessions: else each small answer waits 40 ms for the client's acknowledgement.
        connection.setsockopt(socket.IPPROTO_TCP, socket.TCP_NODELAY, 1)
        transport = paramiko.Transport(connection)
        transport.add_server_key(self._host_key)
        self._transports.append(transport)
        # A client that goes away in the middle of the handshake is no concern of ours.
        with contextlib.suppress(paramiko.SSHException, EOFError, OSError):
            session = _Session(self)
            transport.start_server(server=session)
            session.serve_streams(transport)

    def run(self, channel: paramiko.Channel, command: bytes) -> None:
        """Runs one command to its end, its streams tied to the channel."""
        environment = dict(os.environ if self.environment is None else self.environment)
        environment |= {"HOME": str(self.sandbox), "USER": self.user, "LOGNAME": self.user}
        process = subprocess.Popen(
            [*self.shell, "-c", os.fsdecode(command)],
            cwd=self.sandbox,
            env=environment,
            stdin=subprocess.PIPE,
            stdout=subprocess.PIPE,
            stderr=subprocess.PIPE,
            start_new_session=True,
        )
        self._processes.add(process)
        assert process.stdin is not None
        assert process.stdout is not None
        assert process.stderr is not None
        if self.before_exec:
            channel.sendall(self.before_exec)
        ended = threading.Event()
        outputs = [
            threading.Thread(target=_pump_out, args=(process.stdout, channel.sendall, ended), daemon=True),
            threading.Thread(
                target=_pump_out, args=(process.stderr, channel.sendall_stderr, ended), daemon=True
            ),
        ]
        for thread in (*outputs, threading.Thread(target=_pump_in, args=(channel, process), daemon=True)):
            thread.start()
        status = process.wait()
        self._processes.discard(process)
        ended.set()
        for thread in outputs:
            thread.join()
        with contextlib.suppress(OSError, EOFError, paramiko.SSHException):
            channel.send_exit_status(status if status >= 0 else 128 - status)
            channel.close()


class _Session(paramiko.ServerInterface):  # type: ignore[misc]
    """What one connection may do."""

    def __init__(self, server: EmbeddedSshd) -> None:
        self._server = server
        self._streams: dict[int, socket.socket] = {}

    def get_allowed_auths(self, username: str) -> str:  # noqa: ARG002
        return "publickey"

    def check_auth_publickey(self, username: str, key: paramiko.PKey) -> int:
        known = username == self._server.user and key == self._server._client_key
        return int(paramiko.AUTH_SUCCESSFUL if known else paramiko.AUTH_FAILED)

    def check_channel_request(self, kind: str, chanid: int) -> int:  # noqa: ARG002
        allowed = kind == "session"
        return int(paramiko.OPEN_SUCCEEDED if allowed else paramiko.OPEN_FAILED_ADMINISTRATIVELY_PROHIBITED)

    def check_channel_exec_request(self, channel: paramiko.Channel, command: bytes) -> bool:
        threading.Thread(target=self._server.run, args=(channel, command), daemon=True).start()
        return True

    def check_channel_direct_tcpip_request(
        self,
        chanid: int,
        origin: tuple[str, int],  # noqa: ARG002
        destination: tuple[str, int],
    ) -> int:
        if destination[0] not in _LOOPBACK:
            return int(paramiko.OPEN_FAILED_ADMINISTRATIVELY_PROHIBITED)
        try:
            stream = socket.create_connection(destination, timeout=5)
        except OSError:
            return int(paramiko.OPEN_FAILED_CONNECT_FAILED)
        stream.settimeout(None)
        self._streams[chanid] = stream
        return int(paramiko.OPEN_SUCCEEDED)

    def serve_streams(self, transport: paramiko.Transport) -> None:
        """Ties each TCP stream to its channel, as the channels appear; ends with the connection."""
        sessions: list[paramiko.Channel] = []
        while transport.is_active():
            channel = transport.accept(1)
            if channel is None:
                continue
            stream = self._streams.pop(channel.get_id(), None)
            if stream is None:
                # A session. paramiko forgets a channel that nobody holds, even before its command has come.
                sessions = [*(open_ for open_ in sessions if not open_.closed), channel]
            else:
                threading.Thread(target=_tie, args=(channel, stream), daemon=True).start()


def _key(path: Path) -> paramiko.PKey:
    """The Ed25519 key in a file, made if it is missing (paramiko can't make one, cryptography can)."""
    if not path.exists():
        from cryptography.hazmat.primitives import serialization
        from cryptography.hazmat.primitives.asymmetric.ed25519 import Ed25519PrivateKey

        private = Ed25519PrivateKey.generate()
        text = private.private_bytes(
            serialization.Encoding.PEM, serialization.PrivateFormat.OpenSSH, serialization.NoEncryption()
        )
        descriptor = os.open(path, os.O_WRONLY | os.O_CREAT | os.O_EXCL, 0o600)
        with os.fdopen(descriptor, "wb") as file:
            file.write(text)
        public = private.public_key().public_bytes(
            serialization.Encoding.OpenSSH, serialization.PublicFormat.OpenSSH
        )
        path.with_name(path.name + ".pub").write_bytes(public + b" knobledger\n")
    return paramiko.Ed25519Key.from_private_key_file(str(path))


def _pump_out(pipe: Any, send: Any, ended: threading.Event) -> None:
    """From a pipe to the channel, to its end, or to the end of the command if a daemon holds the pipe open."""
    descriptor = pipe.fileno()
    with contextlib.suppress(OSError, EOFError, paramiko.SSHException):
        while True:
            # Asked first: what a command writes just before its end is there when it has ended.
            over = ended.is_set()
            readable, _, _ = select.select([descriptor], [], [], 0.02)
            if readable:
                data = os.read(descriptor, _CHUNK)
                if not data:
                    break
                send(data)
            elif over:
                break
    # A command whose client has gone finds out by SIGPIPE, as under OpenSSH.
    pipe.close()


def _pump_in(channel: paramiko.Channel, process: subprocess.Popen[bytes]) -> None:
    assert process.stdin is not None
    descriptor = process.stdin.fileno()
    _copy(channel.recv, lambda data: os.write(descriptor, data))
    with contextlib.suppress(OSError):
        process.stdin.close()


def _tie(channel: paramiko.Channel, stream: socket.socket) -> None:
    threading.Thread(target=_copy, args=(channel.recv, stream.sendall), daemon=True).start()
    _copy(stream.recv, channel.sendall)
    with contextlib.suppress(Exception):
        channel.close()
    stream.close()


def _copy(read: Any, write: Any) -> None:
    with contextlib.suppress(Exception):
        while data := read(_CHUNK):
            while data:
                written = write(data)
                data = data[written:] if isinstance(written, int) else b""
