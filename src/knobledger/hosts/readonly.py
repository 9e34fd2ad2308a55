"""Plan mode as a wrapper: a host that can only be looked at."""

from __future__ import annotations

import socket
from typing import NoReturn

from knobledger.errors import PlanMode
from knobledger.hosts import capabilities
from knobledger.hosts.environs import READ
from knobledger.hosts.host import BackupFile, Completed, Host, RemoteFile, Transaction
from knobledger.hosts.procfs import LOOK
from knobledger.names import HostPath

_LOOKING = {
    ("cat",),
    ("cmp",),
    ("diff",),
    ("getfacl",),
    ("getfattr",),
    ("grep",),
    ("last",),
    ("ls",),
    ("pgrep",),
    ("ps",),
    ("readlink",),
    ("sha256sum",),
    ("stat",),
    ("systemctl", "cat"),
    ("systemctl", "is-active"),
    ("systemctl", "show"),
    ("tail",),
}
"""programs, or programs with their verb, that no argument can make write"""


def _is_ours(argv: tuple[str, ...]) -> bool:
    """One of the programs of ours that only read; their further words are data to them."""
    return argv[:2] == ("/bin/sh", "-c") and argv[2:3] in ((LOOK,), (READ,), (capabilities.program(),))


class ReadOnly:
    """Has no way to reach the writing method of the host that it wraps, so that no `if` can be forgotten."""

    def __init__(self, host: Host) -> None:
        self.name = host.name
        self._read = host.read
        self._run = host.run
        self._backups = host.backups
        self._dial = host.dial
        self._close = host.close

    def read(self, path: HostPath, *, running: bool = False) -> RemoteFile:
        """See `Host.read`."""
        return self._read(path, running=running)

    def replace(self, transaction: Transaction) -> NoReturn:
        """Never writes. Raises `PlanMode`."""
        raise PlanMode(
            f"plan mode: {transaction.path!r} on {self.name!r} was not written",
            hint="leave plan mode (KNOBLEDGER_MODE, or mode in hosts.toml) to apply it",
        )

    def run(self, argv: tuple[str, ...], *, timeout_s: float, stdin: bytes = b"") -> Completed:
        """Runs the few programs that can only look, whatever their arguments. Raises `PlanMode` for any other."""
        if argv[:1] not in _LOOKING and argv[:2] not in _LOOKING and not _is_ours(argv):
            hint = "leave plan mode to run it"
            raise PlanMode(f"plan mode: {argv[0]!r} was not run on {self.name!r}", hint=hint)
        return self._run(argv, timeout_s=timeout_s, stdin=stdin)

    def dial(self, address: str, port: int, *, timeout_s: float) -> socket.socket:
        """See `Host.dial`."""
        return self._dial(address, port, timeout_s=timeout_s)

    def backups(self, path: HostPath, backup_dir: str) -> tuple[BackupFile, ...]:
        """See `Host.backups`."""
        return self._backups(path, backup_dir)

    def tidy(self, path: HostPath, backup_dir: str) -> NoReturn:  # noqa: ARG002
        """Refused: `PlanMode`."""
        raise PlanMode(
            f"plan mode: nothing is removed on {self.name!r}", hint="somebody who may act: `knob recover`"
        )

    def prune(self, path: HostPath, backup_dir: str, files: tuple[BackupFile, ...]) -> NoReturn:  # noqa: ARG002
        """Refused: `PlanMode`."""
        raise PlanMode(
            f"plan mode: no backup is removed on {self.name!r}",
            hint="somebody who may act: `knob backups prune`",
        )

    def close(self) -> None:
        """See `Host.close`."""
        self._close()
