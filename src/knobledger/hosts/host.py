"""The `Host` protocol: four methods with strong promises, kept by every transport.

One conformance suite (`tests/hosts/conformance.py`) runs against all implementations.
"""

from __future__ import annotations

import socket
from typing import Literal, Protocol

from msgspec import Struct, field

from knobledger.names import Digest, HostPath
from knobledger.receipt import Manifest, Receipt

Check = Literal["none", "bash", "sh", "unit"]
"""the syntax check of the staged file: nothing, `bash -n`, `sh -n`, `systemd-analyze verify`"""


class RemoteFile(Struct, frozen=True):
    """A file's bytes and attributes, from one exec; length and digest were proven on both sides."""

    content: bytes
    digest: Digest
    manifest: Manifest
    clock_offset_s: float = 0.0


class Transaction(Struct, frozen=True):
    """Everything that one compare-and-swap on a host needs to know."""

    path: HostPath
    content: bytes
    base: Digest
    """what the live file must hold, else nothing is written"""
    result: Digest
    """of `content`"""
    backup_dir: str
    """absolute, or relative to the target's folder"""
    backup_name: str
    """wanted name; if it is taken, `.2`, `.3` ... goes before the final `.bak`"""
    holder: str
    """who holds the lock meanwhile: shown to whoever finds it held"""
    check: Check = "none"
    grep: tuple[str, ...] = ()
    """fixed strings that the live file must hold afterwards, each looked for with `grep -n -F`"""
    gone: tuple[str, ...] = ()
    """fixed strings that it must no longer hold, looked for in the same way"""
    matches: HostPath | None = None
    """an earlier backup that the result must equal, proven with `diff -q`"""
    resolved: HostPath | None = None
    """the regular file that the path must lead to, else nothing is written; None: any"""
    in_place: bool = False
    """allowed to write into the file where a rename can't do it (bind mount, hard link)"""


class Completed(Struct, frozen=True):
    """A command that ran to its end on a host."""

    argv: tuple[str, ...]
    status: int
    stdout: bytes
    stderr: bytes


class BackupFile(Struct, frozen=True):
    """A file found in a backup directory."""

    path: HostPath
    digest: Digest
    size: int
    mtime: int
    extra: dict[str, str] = field(default_factory=dict)


class Host(Protocol):
    """One machine. Safe to use from one thread at a time; close it when done."""

    name: str

    def read(self, path: HostPath, *, running: bool = False) -> RemoteFile:
        """The file's bytes and manifest. Changes nothing; may be retried.

        Interpreters that have it open are looked for only if `running`: that asks every process of the host.
        Raises `Refused` if it is missing, no regular file or unreadable (naming it), `Unreachable`.
        """

    def replace(self, transaction: Transaction) -> Receipt:
        """Compare and swap: the live file is exactly the old or exactly the new content, at every moment.

        Never retried by itself. A second call with the same `base` fails with `Drifted`.
        Raises `Drifted`, `Busy`, `Refused`, `NotWritten` (nothing touched), `RolledBack` (put back and
        proven), `StateUnknown` (the answer was lost, or the roll-back failed), `Unreachable` (nothing
        was sent).
        """

    def run(self, argv: tuple[str, ...], *, timeout_s: float, stdin: bytes = b"") -> Completed:
        """One command, without a shell in between (the words arrive as given).

        A non-zero status is not an error. Raises `Unreachable`, `StateUnknown` (the exit status was lost or
        the time was over).
        """

    def dial(self, address: str, port: int, *, timeout_s: float) -> socket.socket:
        """A TCP stream opened from the host itself. Raises `Unreachable`, or `ConnectionRefusedError`."""

    def backups(self, path: HostPath, backup_dir: str) -> tuple[BackupFile, ...]:
        """The files in the backup directory whose names begin with the target's; none without a directory."""

    def tidy(self, path: HostPath, backup_dir: str) -> tuple[HostPath, ...]:
        """Removes what dead transactions left beside a target; the paths removed. May be called twice.

        Raises `Busy` while a transaction is under way.
        """

    def prune(self, path: HostPath, backup_dir: str, files: tuple[BackupFile, ...]) -> tuple[HostPath, ...]:
        """Removes backups of a target that still hold these very bytes; the paths removed. May be called twice.

        Raises `Busy` while a transaction is under way.
        """

    def close(self) -> None:
        """Lets the connection go. May be called twice."""
