"""The default transport: fabric (for the operator's ssh_config) on paramiko.

Everything heavy is imported by the connecting thread: `FabricHost` itself is made at once, and the first use
waits for the connection. Host keys are verified always; fabric's own default, to believe any host, is never
used.
"""

from __future__ import annotations

import contextlib
import socket
import threading
import time
from concurrent.futures import Future
from pathlib import Path
from typing import TYPE_CHECKING, Any

from knobledger.errors import HostKeyChanged, KnobError, Unreachable
from knobledger.hosts import wire
from knobledger.hosts.config import HostConfig
from knobledger.hosts.scripted import ScriptedHost, unreachable

if TYPE_CHECKING:
    import paramiko

_CHUNK = 65536
_PIECE = 1 << 18
_KEEPALIVE_S = 15


class FabricHost(ScriptedHost):
    """One SSH connection, made in the background, reused for every call, made anew if it died in between."""

    def __init__(self, config: HostConfig) -> None:
        self.name = config.name
        self.sudo = config.sudo
        self.command_timeout_s = config.command_timeout_s
        self._config = config
        self._connection: Future[Any] | None = None
        self._lock = threading.Lock()
        self._start()

    def _start(self) -> Future[Any]:
        future: Future[Any] = Future()

        def work() -> None:
            try:
                future.set_result(_connect(self._config))
            except BaseException as error:
                future.set_exception(error)

        self._connection = future
        threading.Thread(target=work, name=f"connect {self.name}", daemon=True).start()
        return future

    def _transport(self) -> paramiko.Transport:
        """The live transport. Raises `Unreachable`, `HostKeyChanged`."""
        with self._lock:
            future = self._connection
            if future is None or (
                future.done()
                and (future.exception() is not None or not future.result().transport.is_active())
            ):
                future = self._start()
        return future.result().transport

    def _channel(self) -> paramiko.Channel:
        """A new session. A connection that died since the last call is made anew: nothing was sent yet."""
        self._transport()
        import paramiko  # only now: the thread that connects must have imported it whole

        for attempt in (1, 2):
            transport = self._transport()
            try:
                return transport.open_session(timeout=self._config.connect_timeout_s)
            except (paramiko.SSHException, OSError, EOFError) as error:
                transport.close()
                if attempt == 2:
                    raise unreachable(self.name, f"no session: {error}") from error
        raise AssertionError

    def _exec(self, request: wire.Request, timeout_s: float) -> wire.Exit:
        channel = self._channel()
        import paramiko

        stdout, stderr = bytearray(), bytearray()
        deadline = time.monotonic() + timeout_s
        status: int | None = None
        timed_out = False
        channel.settimeout(timeout_s)
        try:
            channel.exec_command(request.command)
            threading.Thread(target=_feed, args=(channel, request.stdin), daemon=True).start()
            drain = threading.Thread(target=_drain, args=(channel, stderr), daemon=True)
            drain.start()
            while not wire.is_complete(stdout, request.last):
                channel.settimeout(max(0.001, deadline - time.monotonic()))
                chunk = channel.recv(_CHUNK)
                if not chunk:
                    break
                stdout += chunk
            if not wire.is_complete(stdout, request.last) and _status_came(channel, deadline):
                status = channel.recv_exit_status()
            if request.stderr or status is not None:
                drain.join(0.2 if status is None else 2)
        except TimeoutError:
            timed_out = True
        except (paramiko.SSHException, OSError, EOFError):
            status = None
        finally:
            channel.close()
        return wire.Exit(status, bytes(stdout), bytes(stderr), timed_out)

    def dial(self, address: str, port: int, *, timeout_s: float) -> socket.socket:
        """See `Host.dial`."""
        transport = self._transport()
        import paramiko

        try:
            channel = transport.open_channel(
                "direct-tcpip", (address, port), ("127.0.0.1", 0), timeout=timeout_s
            )
        except paramiko.ChannelException as error:
            if error.code == 2:
                raise ConnectionRefusedError(
                    f"{address}:{port} on {self.name!r} refused the connection"
                ) from error
            raise Unreachable(
                f"{self.name!r} does not let us open {address}:{port}: {error.text}",
                hint="sshd's AllowTcpForwarding must allow it",
            ) from error
        except (paramiko.SSHException, OSError, EOFError) as error:
            raise Unreachable(f"{address}:{port} can't be reached from {self.name!r}: {error}") from error
        return _as_socket(channel, timeout_s)

    def close(self) -> None:
        """See `Host.close`."""
        with self._lock:
            future, self._connection = self._connection, None
        if future is None:
            return
        if future.done():
            if future.exception() is None:
                future.result().close()
        else:
            future.add_done_callback(lambda done: done.exception() or done.result().close())


def _status_came(channel: paramiko.Channel, deadline: float) -> bool:
    """Waits for the exit status, which may come a moment after the last output. False: there is none."""
    while time.monotonic() < deadline:
        if channel.status_event.wait(0.05):
            return bool(channel.exit_status >= 0)
        if channel.closed or not (channel.transport and channel.transport.is_active()):
            return bool(channel.status_event.is_set() and channel.exit_status >= 0)
    return False


def _feed(channel: paramiko.Channel, data: bytes) -> None:
    # The program may stop listening, or the connection end: its answer, or the lack of one, says so.
    with contextlib.suppress(Exception):
        # In pieces: paramiko's sendall copies all that is left for every packet.
        for begin in range(0, len(data), _PIECE):
            channel.sendall(data[begin : begin + _PIECE])
        channel.shutdown_write()


def _drain(channel: paramiko.Channel, into: bytearray) -> None:
    with contextlib.suppress(Exception):
        while chunk := channel.recv_stderr(_CHUNK):
            into += chunk


def _as_socket(channel: paramiko.Channel, timeout_s: float) -> socket.socket:
    """A real socket over a channel, so that TLS, select and http.client work on it."""
    ours, theirs = socket.socketpair()
    theirs.settimeout(timeout_s)
    channel.settimeout(None)

    def outward() -> None:
        with contextlib.suppress(Exception):
            while data := ours.recv(_CHUNK):
                channel.sendall(data)
            channel.shutdown_write()

    def inward() -> None:
        with contextlib.suppress(Exception):
            while data := channel.recv(_CHUNK):
                ours.sendall(data)
        with contextlib.suppress(OSError):
            ours.shutdown(socket.SHUT_WR)
        channel.close()

    threading.Thread(target=outward, daemon=True).start()
    threading.Thread(target=inward, daemon=True).start()
    return theirs


def _connect(config: HostConfig) -> Any:
    """An open fabric `Connection` with verified host keys."""
    import logging

    import fabric
    import paramiko

    # Without a handler of its own, paramiko's warnings would go to the operator's terminal; errors carry them.
    logging.getLogger("paramiko").addHandler(logging.NullHandler())
    options: dict[str, Any] = {
        "compress": False,
        "banner_timeout": config.connect_timeout_s,
        "auth_timeout": config.connect_timeout_s,
        "channel_timeout": config.connect_timeout_s,
    }
    if config.identity_file is not None:
        if not config.identity_file.exists():
            raise unreachable(config.name, f"there is no identity file {str(config.identity_file)!r}")
        # Only this key: servers count every key that is tried against MaxAuthTries.
        options |= {"allow_agent": False, "look_for_keys": False, **_identity(config.identity_file)}
    slow = f"the connect time-out of {config.connect_timeout_s:g} s was over"
    begun = time.monotonic()
    try:
        # Lazy: without ~/.fabric.yaml and FABRIC_ variables, which are about fabric's own command.
        settings = fabric.Config(
            lazy=True, runtime_ssh_path=None if config.ssh_config is None else str(config.ssh_config)
        )
        settings.load_ssh_config()
        connection = fabric.Connection(
            config.address,
            user=config.user,
            port=config.port,
            config=settings,
            connect_timeout=max(1, round(config.connect_timeout_s)),
            connect_kwargs=options,
        )
        _trust(connection, config)
        connection.open()
    except KnobError:
        raise
    except paramiko.BadHostKeyException as error:
        raise _key_changed(config, connection, error.key) from error
    except paramiko.AuthenticationException as error:
        raise unreachable(
            config.name,
            f"the login as {connection.user!r} was refused: {error}",
            "`ssh -v` with the same user and key shows which keys are tried; is the key in authorized_keys?",
        ) from error
    except TimeoutError as error:
        raise unreachable(config.name, slow) from error
    except (paramiko.SSHException, OSError, EOFError, ValueError) as error:
        # paramiko words a handshake that took too long as "No existing session".
        late = time.monotonic() - begun >= config.connect_timeout_s
        raise unreachable(config.name, slow if late else str(error) or type(error).__name__) from error
    connection.transport.set_keepalive(_KEEPALIVE_S)
    # As OpenSSH's client does: else a small packet waits for the server's acknowledgement, up to 40 ms.
    with contextlib.suppress(OSError, AttributeError):  # a proxy command's pipes have no such setting
        connection.transport.sock.setsockopt(socket.IPPROTO_TCP, socket.TCP_NODELAY, 1)
    return connection


def _identity(file: Path) -> dict[str, Any]:
    """The one key to log in with: the file itself, or its twin in ssh-agent if the file needs a passphrase."""
    import paramiko

    if file.suffix != ".pub":
        try:
            paramiko.PKey.from_path(file)
        except (paramiko.PasswordRequiredException, TypeError):
            pass
        except (paramiko.SSHException, ValueError, OSError):
            # Whatever is wrong with it is said better by the login.
            return {"key_filename": str(file)}
        else:
            return {"key_filename": str(file)}
    public = file if file.suffix == ".pub" else file.with_name(f"{file.name}.pub")
    wanted = public.read_text("utf-8").split()[1:2] if public.is_file() else []
    for key in paramiko.Agent().get_keys():
        if key.get_base64() in wanted:
            return {"pkey": key}
    return {"key_filename": str(file)}


def _trust(connection: Any, config: HostConfig) -> None:
    """Known hosts and our policy, for the connection and for every jump host on the way."""
    hop = connection
    while hop is not None and not isinstance(hop, str):
        files = _known_hosts_files(hop, config)
        revoked = _load_known(hop.client, files)
        alias = hop.ssh_config.get("hostkeyalias")
        if alias:
            keys = hop.client.get_host_keys()
            for kind, key in (keys.lookup(alias) or {}).items():
                keys.add(_known_name(hop.host, hop.port), kind, key)
        hop.client.set_missing_host_key_policy(_Policy(config, hop, files[0], revoked))
        hop = hop.gateway or None


def _load_known(client: paramiko.SSHClient, files: list[Path]) -> set[str]:
    """Fills in the known keys, and returns the revoked ones (base64).

    Line by line, because paramiko's own loading stops at lines that it can't read, and knows no markers: a key
    with `@revoked` must not be believed because of another line. `@cert-authority` needs the openssh transport.
    """
    from paramiko import SSHException
    from paramiko.hostkeys import HostKeyEntry, InvalidHostKey

    lines = [
        line.split()
        for file in files
        if file.is_file()
        for line in file.read_text("utf-8", "replace").splitlines()
        if line.strip() and not line.lstrip().startswith("#")
    ]
    revoked = {fields[3] for fields in lines if fields[0] == "@revoked" and len(fields) >= 4}
    entries = client.get_host_keys()._entries
    for fields in lines:
        if not fields[0].startswith("@") and len(fields) >= 3 and fields[2] not in revoked:
            with contextlib.suppress(InvalidHostKey, SSHException, ValueError):
                entry = HostKeyEntry.from_line(" ".join(fields[:3]))
                if entry is not None and entry.key is not None:
                    entries.append(entry)
    return revoked


def _known_hosts_files(hop: Any, config: HostConfig) -> list[Path]:
    if config.known_hosts is not None:
        return [config.known_hosts]
    named = hop.ssh_config.get("userknownhostsfile", "~/.ssh/known_hosts ~/.ssh/known_hosts2").split()
    return [*(Path(name).expanduser() for name in named), Path("/etc/ssh/ssh_known_hosts")]


def _known_name(host: str, port: int) -> str:
    return host if port == 22 else f"[{host}]:{port}"


class _Policy:
    """What to do with a key that is not in known_hosts: refuse it, or (accept-new) believe it this once."""

    def __init__(self, config: HostConfig, hop: Any, file: Path, revoked: set[str]) -> None:
        self._config = config
        self._hop = hop
        self._file = file
        self._revoked = revoked

    def missing_host_key(self, _client: paramiko.SSHClient, hostname: str, key: paramiko.PKey) -> None:
        """Called by paramiko before any login."""
        if self._config.host_keys != "accept-new" or key.get_base64() in self._revoked:
            raise _key_unknown(self._config, self._hop, self._file, key)
        self._file.parent.mkdir(parents=True, exist_ok=True, mode=0o700)
        with self._file.open("a", encoding="utf-8") as file:
            file.write(f"{hostname} {key.get_name()} {key.get_base64()}\n")


def _fingerprint(key: paramiko.PKey) -> str:
    import base64
    import hashlib

    digest = hashlib.sha256(key.asbytes()).digest()
    return f"{key.get_name()} SHA256:{base64.b64encode(digest).decode().rstrip('=')}"


def _key_changed(config: HostConfig, hop: Any, key: paramiko.PKey) -> HostKeyChanged:
    name = _known_name(hop.host, hop.port)
    file = _known_hosts_files(hop, config)[0]
    return HostKeyChanged(
        f"the key of {config.name!r} ({name}) is not the known one: it shows {_fingerprint(key)}; "
        "no connection was made",
        hint=f"`ssh-keygen -F '{name}' -f {file}` shows the known key; if the host was truly set up anew, "
        f"`ssh-keygen -R '{name}' -f {file}` forgets it",
        host=config.name,
        fingerprint=_fingerprint(key),
    )


def _key_unknown(config: HostConfig, hop: Any, file: Path, key: paramiko.PKey) -> HostKeyChanged:
    name = _known_name(hop.host, hop.port)
    return HostKeyChanged(
        f"the key of {config.name!r} ({name}) is unknown: it shows {_fingerprint(key)}; "
        "no connection was made",
        hint=f"compare it with `ssh-keygen -lf /etc/ssh/ssh_host_ed25519_key.pub` on the host itself, then "
        f'`ssh-keyscan -p {hop.port} {hop.host} >> {file}`; or host_keys = "accept-new" in hosts.toml',
        host=config.name,
        fingerprint=_fingerprint(key),
    )
