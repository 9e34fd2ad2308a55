"""A running `ssh -M -N`: the system's ssh as the one connection to a host.

A master is started at once, and asked for sessions and streams over its socket (`mux.py`). A small shell stands
between us and it, and ends it when its stdin does: so the master goes when this process goes, however that dies,
and leaves no file behind.
"""

from __future__ import annotations

import contextlib
import math
import os
import re
import select
import shutil
import signal
import subprocess
import time
from pathlib import Path
from typing import TYPE_CHECKING

from knobledger.errors import Unreachable
from knobledger.hosts.reach import HostConfig, no_file, unreachable

if TYPE_CHECKING:
    import socket

    from knobledger.hosts import mux

# Each import here comes before ssh is started, so what is needed only then is imported by its functions.

_STOP_S = 2.0
_KEEPALIVE_S = 15
_LOOK_S = (0.002, 0.05)
"""how often it is looked whether the login is through: at first, and at last, since many of them look side by side"""
_PART = 50
"""in between, after so many parts of the time that it has taken by then"""

_PLAIN = re.compile(r"/[A-Za-z0-9/_.-]{1,65}")
"""Folders for the socket: ssh puts the name of its configuration unquoted into the command for a jump host, and
a socket's path has room for 104 bytes on BSD, of which ssh wants 17 for a suffix."""

# The group is this shell, its ssh, and the ssh of a jump host. A number could be somebody else's by then.
_SUPERVISOR = """folder=$1; shift
"$@" </dev/null &
exec >&-
read -r _
trap '' TERM; kill 0; wait
[ ! -d "$folder" ] || rm -rf -- "$folder"
"""


class Master:
    """A running `ssh -M -N`, connecting or connected."""

    def __init__(self, config: HostConfig) -> None:
        """Starts it, and does not wait. Raises `Unreachable` for what is missing on this machine."""
        self._config = config
        for what, file in (("identity_file", config.identity_file), ("ssh_config", config.ssh_config)):
            if file is not None and not file.exists():
                raise no_file(config.name, what, file)
        ssh = shutil.which("ssh")
        if ssh is None:
            raise unreachable(
                config.name, "there is no `ssh` on this machine", 'install it, or use transport = "fabric"'
            )
        self._begun = time.monotonic()
        self._folder = ""
        self._ready = False
        try:
            self._folder = _private_folder()
            self.socket = f"{self._folder}/s"
            Path(self._folder, "config").write_text(_settings(config), "utf-8", "surrogateescape")
            with Path(self._folder, "log").open("ab") as log:
                self._shell = subprocess.Popen(
                    ("/bin/sh", "-c", _SUPERVISOR, "knob-ssh", self._folder, ssh, *self._words()),
                    stdin=subprocess.PIPE,
                    stdout=subprocess.PIPE,
                    stderr=log,
                    # No terminal to ask on, and Ctrl-C is for us.
                    start_new_session=True,
                )
        except OSError as error:
            if self._folder:
                shutil.rmtree(self._folder, ignore_errors=True)
            raise unreachable(config.name, f"can't start ssh: {error}") from error
        assert self._shell.stdin is not None
        assert self._shell.stdout is not None
        self._hold = self._shell.stdin
        self._end = self._shell.stdout

    def _words(self) -> tuple[str, ...]:
        """What is for the host alone; the rest, `_settings`, is for jump hosts too."""
        config = self._config
        words = ["-F", f"{self._folder}/config", "-v", "-M", "-N", "-T", "-S", self.socket]
        words += ["-o", "ControlPersist=no", "-o", "ClearAllForwardings=yes"]
        if config.user is not None:
            words += ["-l", config.user]
        if config.port is not None:
            words += ["-p", str(config.port)]
        if config.identity_file is not None:
            # Only this key: servers count every key that is tried against MaxAuthTries.
            words += ["-o", f"IdentityFile={_word(config.identity_file)}", "-o", "IdentitiesOnly=yes"]
        return (*words, "--", config.address)

    def wait(self) -> None:
        """Returns when it is logged in and its socket is there. Raises what went wrong; may be called again."""
        from knobledger.hosts import sshlog

        # The socket comes by link(2) when it can be connected to. Stdout ends with ssh; some versions close it
        # after that (-N needs none), so the end alone says only that there is no more to wait for.
        ended = False
        while not self._ready and not os.path.exists(self.socket):  # noqa: PTH110 - every 2 ms at first, while the rest is loading
            if ended:
                raise sshlog.failure(self._config, self.log())
            taken = time.monotonic() - self._begun
            left = self._config.connect_timeout_s - taken
            if left <= 0:
                raise sshlog.too_slow(self._config, self.log())
            soon, late = _LOOK_S
            readable = select.select([self._end], [], [], min(left, max(soon, min(taken / _PART, late))))[0]
            ended = bool(readable) and not os.read(self._end.fileno(), 4096)
        # If it has died since, its socket says so.
        self._ready = True

    def session(self, command: str, timeout_s: float) -> mux.Session:
        """See `Way.session`."""
        from knobledger.hosts import mux

        return mux.session(self.socket, command, timeout_s)

    def stream(self, address: str, port: int, timeout_s: float) -> socket.socket:
        """See `Way.stream`."""
        from knobledger.hosts import mux, sshlog

        before = len(self.log())
        try:
            return mux.stream(self.socket, address, port, timeout_s)
        except TimeoutError as error:
            # The far end's silence, not the host's.
            raise Unreachable(
                f"{address}:{port} did not answer {self._config.name!r} within {timeout_s:g} s"
            ) from error
        except mux.Declined as error:
            # The reason is written before the answer is.
            reason = sshlog.refused_stream(self.log()[before:]) or str(error)
            raise mux.Declined(reason, refused=reason.startswith("connect failed")) from error

    def log(self) -> str:
        """What ssh, also that of a jump host, has written so far."""
        try:
            return Path(self._folder, "log").read_text("utf-8", "replace")
        except OSError:
            return ""

    def stop(self) -> None:
        """Ends it, and takes its folder away. May be called twice."""
        if self._hold.closed:
            return
        with contextlib.suppress(OSError):
            for file in Path(self._folder).iterdir():
                file.unlink(missing_ok=True)
            Path(self._folder).rmdir()
        self._hold.close()
        self._end.close()
        try:
            self._shell.wait(_STOP_S)
        except subprocess.TimeoutExpired:
            with contextlib.suppress(ProcessLookupError):
                os.killpg(self._shell.pid, signal.SIGKILL)
            self._shell.wait()
            shutil.rmtree(self._folder, ignore_errors=True)


def _private_folder() -> str:
    """A new folder for us alone, with a short name. Raises `OSError`."""
    for base in (os.environ.get("XDG_RUNTIME_DIR", ""), os.environ.get("TMPDIR", ""), "/tmp"):
        if _PLAIN.fullmatch(base):
            folder = f"{base}/knob-{os.urandom(6).hex()}"
            with contextlib.suppress(OSError):
                os.mkdir(folder, 0o700)  # noqa: PTH102
                return folder
    raise OSError(
        "no folder for its socket: XDG_RUNTIME_DIR, TMPDIR and /tmp are too long or can't be written"
    )


def _settings(config: HostConfig) -> str:
    """Our own ssh_config: what no host on the way may have otherwise, then the operator's own.

    A file, because ssh hands it to the ssh of a jump host, which it does with no option. First come, first served.
    """
    lines = [
        "BatchMode yes",
        f"StrictHostKeyChecking {'accept-new' if config.host_keys == 'accept-new' else 'yes'}",
        "NoHostAuthenticationForLocalhost no",
        f"ConnectTimeout {max(1, math.ceil(config.connect_timeout_s))}",
        f"ServerAliveInterval {_KEEPALIVE_S}",
        "ServerAliveCountMax 3",
        "ForwardAgent no",
        "ForwardX11 no",
    ]
    if config.known_hosts is not None:
        lines += [f"UserKnownHostsFile {_word(config.known_hosts)}", "GlobalKnownHostsFile /dev/null"]
    if config.ssh_config is None:
        return "\n".join([*lines, "Include ~/.ssh/config", "Include /etc/ssh/ssh_config", ""])
    # Its text, not an Include, which would want the file to be writable for nobody else; -F does not.
    return "\n".join([*lines, config.ssh_config.read_text("utf-8", "surrogateescape")])


def _word(path: Path) -> str:
    """A path as one word of ssh_config, where `%` begins a token."""
    return '"' + re.sub(r'(["\\])', r"\\\1", str(path)).replace("%", "%%") + '"'
