"""Logging in by fabric (for the operator's ssh_config) on paramiko.

Host keys are verified always; fabric's own default, to believe any host, is never used.
"""

from __future__ import annotations

import contextlib
import socket
import threading
import time
from collections.abc import Sequence
from functools import lru_cache
from pathlib import Path
from typing import TYPE_CHECKING, Any, NamedTuple

from knobledger.errors import HostKeyChanged, KnobError
from knobledger.hosts.reach import HostConfig, no_file, unreachable

if TYPE_CHECKING:
    import paramiko

_KEEPALIVE_S = 15


def log_in(config: HostConfig) -> Any:
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
        "transport_factory": _transport,
    }
    if config.identity_file is not None:
        if not config.identity_file.exists():
            raise no_file(config.name, "identity_file", config.identity_file)
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


def _transport(*arguments: Any, **more: Any) -> paramiko.Transport:
    """Paramiko's, which would rather have a counter mode with a MAC that it compares byte by byte in Python."""
    import paramiko

    transport = paramiko.Transport(*arguments, **more)
    options = transport.get_security_options()
    options.ciphers = sorted(options.ciphers, key=lambda name: "-gcm@" not in name)
    return transport


def _identity(file: Path) -> dict[str, Any]:
    """The one key to log in with: the file itself, or its twin in ssh-agent if the file needs a passphrase."""
    import paramiko

    if file.suffix != ".pub":
        try:
            return {"pkey": _key(file, file.stat().st_mtime_ns)}
        except (paramiko.PasswordRequiredException, TypeError):
            pass
        except (paramiko.SSHException, ValueError, OSError):
            # Whatever is wrong with it is said better by the login.
            return {"key_filename": str(file)}
    public = file if file.suffix == ".pub" else file.with_name(f"{file.name}.pub")
    wanted = public.read_text("utf-8").split()[1:2] if public.is_file() else []
    for key in paramiko.Agent().get_keys():
        if key.get_base64() in wanted:
            return {"pkey": key}
    return {"key_filename": str(file)}


@lru_cache(16)
def _key(file: Path, _written: int) -> paramiko.PKey:
    """With its certificate, if there is one beside it; read once for the many hosts that it is for."""
    import paramiko

    return paramiko.PKey.from_path(file)


def _trust(connection: Any, config: HostConfig) -> None:
    """Known hosts and our policy, for the connection and for every jump host on the way."""
    hop = connection
    while hop is not None and not isinstance(hop, str):
        files = _known_hosts_files(hop, config)
        alias = hop.ssh_config.get("hostkeyalias")
        revoked = _load_known(hop.client, files, [_known_name(hop.host, hop.port), alias])
        if alias:
            keys = hop.client.get_host_keys()
            for kind, key in (keys.lookup(alias) or {}).items():
                keys.add(_known_name(hop.host, hop.port), kind, key)
        hop.client.set_missing_host_key_policy(_Policy(config, hop, files[0], revoked))
        hop = hop.gateway or None


def _load_known(client: paramiko.SSHClient, files: list[Path], names: Sequence[str | None]) -> frozenset[str]:
    """Fills in the keys that are known by these names, and returns the revoked ones (base64)."""
    from paramiko.hostkeys import HostKeyEntry

    texts = tuple(file.read_text("utf-8", "replace") for file in files if file.is_file())
    # Many hosts log in side by side, with one file that names them all.
    with _reading:
        known = _known(texts)
    places = sorted({place for name in (*names, None) for place in known.places.get(name, ())})
    # Entries of its own: paramiko puts other keys into them.
    client.get_host_keys()._entries.extend(
        HostKeyEntry(list(named), key) for named, key in map(known.keys.__getitem__, places)
    )
    return known.revoked


_reading = threading.Lock()


class _Known(NamedTuple):
    """What known_hosts files say."""

    keys: list[tuple[tuple[str, ...], paramiko.PKey]]
    """names, each with its key, in the order of the files"""
    places: dict[str | None, list[int]]
    """where a name is among them; None: where one is hashed, and may be any"""
    revoked: frozenset[str]
    """in base64"""


@lru_cache(4)
def _known(texts: tuple[str, ...]) -> _Known:
    """The known and the revoked keys in the texts of known_hosts files.

    Line by line, because paramiko's own loading stops at lines that it can't read, and knows no markers: a key
    with `@revoked` must not be believed because of another line. `@cert-authority` needs the openssh transport.
    """
    from paramiko import SSHException
    from paramiko.hostkeys import HostKeyEntry, InvalidHostKey

    lines = [
        line.split()
        for text in texts
        for line in text.splitlines()
        if line.strip() and not line.lstrip().startswith("#")
    ]
    revoked = frozenset(fields[3] for fields in lines if fields[0] == "@revoked" and len(fields) >= 4)
    known = _Known([], {}, revoked)
    for fields in lines:
        if not fields[0].startswith("@") and len(fields) >= 3 and fields[2] not in revoked:
            with contextlib.suppress(InvalidHostKey, SSHException, ValueError):
                entry = HostKeyEntry.from_line(" ".join(fields[:3]))
                if entry is not None and entry.key is not None:
                    for name in entry.hostnames:
                        place = None if name.startswith("|") else name
                        known.places.setdefault(place, []).append(len(known.keys))
                    known.keys.append((tuple(entry.hostnames), entry.key))
    return known


def _known_hosts_files(hop: Any, config: HostConfig) -> list[Path]:
    if config.known_hosts is not None:
        return [config.known_hosts]
    named = hop.ssh_config.get("userknownhostsfile", "~/.ssh/known_hosts ~/.ssh/known_hosts2").split()
    return [*(Path(name).expanduser() for name in named), Path("/etc/ssh/ssh_known_hosts")]


def _known_name(host: str, port: int) -> str:
    return host if port == 22 else f"[{host}]:{port}"


class _Policy:
    """What to do with a key that is not in known_hosts: refuse it, or (accept-new) believe it this once."""

    def __init__(self, config: HostConfig, hop: Any, file: Path, revoked: frozenset[str]) -> None:
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
