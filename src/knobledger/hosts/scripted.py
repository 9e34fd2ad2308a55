"""The part of every real transport that is the same: calls of `transaction.sh` over one exec each."""

from __future__ import annotations

import socket
import time
from abc import ABC, abstractmethod

from knobledger.errors import Refused, StateUnknown
from knobledger.hosts import answers, wire
from knobledger.hosts.host import BackupFile, Completed, RemoteFile, Transaction
from knobledger.hosts.waiting import Tell, waiting
from knobledger.names import HostPath
from knobledger.receipt import Receipt

_DOING = {
    "read": "reading",
    "replace": "changing",
    "list": "looking for the backups of",
    "tidy": "tidying up beside",
    "prune": "removing backups of",
}


class ScriptedHost(ABC):
    """A `Host` over an exec primitive. A transport supplies `_exec`, `dial` and `close`."""

    name: str
    sudo: bool = False
    command_timeout_s: float = 120.0
    search: str = wire.SEARCH
    """appended to PATH on the host"""
    wait_s: float = 2.0
    """how long a held lock is waited for"""
    tell: Tell | None = None
    """hears what is waited for, once it takes longer than a second"""

    @abstractmethod
    def _exec(self, request: wire.Request, timeout_s: float) -> wire.Exit:
        """One command with stdin, to its end or until its last frame has arrived.

        Never retried once anything was sent; a lost answer is an `Exit` with status None.
        Raises `Unreachable` if nothing was sent.
        """

    @abstractmethod
    def dial(self, address: str, port: int, *, timeout_s: float) -> socket.socket:
        """See `Host.dial`."""

    @abstractmethod
    def close(self) -> None:
        """See `Host.close`."""

    def read(self, path: HostPath, *, running: bool = False) -> RemoteFile:
        """See `Host.read`."""
        asked = answers.Asked(self.name, path)
        for _ in range(2):
            reply, offset = self._call(asked, "read", {"who": "yes" if running else "no"})
            found = answers.file_of(reply, asked, offset)
            if found is not None:
                return found
        raise Refused(
            f"{asked} changes while it is being read", hint="wait until its writer is done, then try again"
        )

    def replace(self, transaction: Transaction) -> Receipt:
        """See `Host.replace`."""
        asked = answers.Asked(self.name, transaction.path)
        reply, offset = self._call(
            asked,
            "replace",
            {
                "size": str(len(transaction.content)),
                "base": transaction.base,
                "result": transaction.result,
                "bdir": transaction.backup_dir,
                "bname": transaction.backup_name,
                "holder": transaction.holder,
                "check": transaction.check,
                "matches": transaction.matches or "",
                "leads": transaction.resolved or "",
                "inplace": "yes" if transaction.in_place else "no",
            },
            transaction=transaction,
        )
        return answers.receipt_of(reply, transaction, offset)

    def backups(self, path: HostPath, backup_dir: str) -> tuple[BackupFile, ...]:
        """See `Host.backups`."""
        asked = answers.Asked(self.name, path)
        reply, _ = self._call(asked, "list", {"bdir": backup_dir})
        return answers.backups_of(reply)

    def tidy(self, path: HostPath, backup_dir: str) -> tuple[HostPath, ...]:
        """Removes what dead transactions have left beside a target, and says what it removed. Idempotent.

        Raises `Busy` while a transaction is under way.
        """
        asked = answers.Asked(self.name, path)
        reply, _ = self._call(asked, "tidy", {"bdir": backup_dir, "holder": "knobledger"})
        return tuple(HostPath(left) for left in reply.all("swept"))

    def prune(self, path: HostPath, backup_dir: str, files: tuple[BackupFile, ...]) -> tuple[HostPath, ...]:
        """See `Host.prune`."""
        asked = answers.Asked(self.name, path)
        words = tuple(word for file in files for word in (file.digest, file.path))
        reply, _ = self._call(asked, "prune", {"bdir": backup_dir, "holder": "knobledger"}, words=words)
        return tuple(HostPath(gone) for gone in reply.all("pruned"))

    def run(self, argv: tuple[str, ...], *, timeout_s: float, stdin: bytes = b"") -> Completed:
        """See `Host.run`."""
        request = wire.command(argv, stdin, sudo=self.sudo)
        with waiting(self.tell, self.name, f"running {argv[0]!r}", timeout_s):
            done = self._exec(request, timeout_s)
        reply = wire.parse(done.stdout, request.nonce)
        shown = " ".join(argv[:2])
        if reply.complete:
            mark = f"{request.nonce} err -\n".encode()
            return Completed(
                argv,
                int(reply.text("end")),
                reply.raw("out"),
                done.stderr.rpartition(mark)[2] if mark in done.stderr else done.stderr,
            )
        if done.timed_out:
            raise StateUnknown(
                f"{shown!r} on {self.name!r} did not end within its time-out of {timeout_s:g} s",
                hint=f"process {reply.text('pid') or '?'} on the host may still be running",
                commands=[f"ps -fp {reply.text('pid')}"] if reply.has("pid") else [],
            )
        if reply.begun or done.status is None:
            raise StateUnknown(f"the exit status of {shown!r} on {self.name!r} was lost", commands=[])
        raise answers.incomplete(reply, done, answers.Asked(self.name, HostPath("")), None, timeout_s)

    def _call(
        self,
        asked: answers.Asked,
        mode: str,
        values: dict[str, str] | None = None,
        *,
        transaction: Transaction | None = None,
        words: tuple[str, ...] = (),
    ) -> tuple[wire.Reply, float]:
        """The frames of one call that ended with `ok`, and the host's clock minus ours in seconds."""
        header = {
            "mode": mode,
            "path": asked.path,
            "search": self.search,
            "wait": str(round(self.wait_s * 10)),
            **(values or {}),
        }
        if transaction is not None:
            words = (*(f"+{text}" for text in transaction.grep), *(f"-{text}" for text in transaction.gone))
        content = b"" if transaction is None else transaction.content
        request = wire.request(header, words, content, sudo=self.sudo)
        begun = time.time()
        with waiting(self.tell, self.name, f"{_DOING[mode]} {asked.path!r}", self.command_timeout_s):
            done = self._exec(request, self.command_timeout_s)
        reply = wire.parse(done.stdout, request.nonce)
        if not reply.complete:
            raise answers.incomplete(reply, done, asked, transaction, self.command_timeout_s)
        if reply.outcome()[0] != "ok":
            answers.refuse(reply, asked, transaction)
        # Taken at the script's start: off by one way of the round trip, and by the time to start a shell.
        return reply, float(reply.text("clock") or begun) - begun
