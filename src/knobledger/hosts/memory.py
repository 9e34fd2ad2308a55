"""A host in memory, for tests: the same promises, and faults on demand."""

from __future__ import annotations

import posixpath
import socket
import time
from collections.abc import Callable

from msgspec import Struct, field
from msgspec.structs import replace

from knobledger.errors import Busy, Drifted, KnobError, NotWritten, Refused, RolledBack, StateUnknown
from knobledger.hosts.host import BackupFile, Completed, RemoteFile, Transaction
from knobledger.names import HostPath, digest_of, short
from knobledger.receipt import GrepLine, Manifest, Receipt, Step

STEPS = ("probe", "resolve", "lock", "compare", "backup", "stage", "swap", "verify", "rollback")


class MemoryFile(Struct, frozen=True):
    """A file, a link or something that is no regular file."""

    content: bytes = b""
    mode: str = "0644"
    uid: int = 0
    gid: int = 0
    mtime: int = 0
    links: int = 1
    mount: bool = False
    running: tuple[int, ...] = ()
    link: str | None = None
    """a symbolic link to this"""
    special: str = ""
    """what it is if it is not a regular file, such as `a folder, not a file`"""


class MemoryHost(Struct):
    """`files` is the disk. `faults` maps a step to what happens there instead.

    A `KnobError` is raised as it is; a callable is called (and may change `files`); `swap` and later steps
    that raise put the file back first, as a real host does, unless the error is `StateUnknown`.
    """

    name: str = "memory"
    files: dict[str, MemoryFile] = field(default_factory=dict)
    faults: dict[str, KnobError | Callable[[], None]] = field(default_factory=dict)
    holder: tuple[str, int] | None = None
    """who holds the lock, and since when"""
    ran: list[tuple[str, ...]] = field(default_factory=list)
    answers: dict[tuple[str, ...], Completed] = field(default_factory=dict)
    """what `run` gives for a command"""
    services: dict[tuple[str, int], Callable[[socket.socket], None]] = field(default_factory=dict)
    """who answers a `dial`, with the other end of the stream"""
    closed: bool = False

    def put(self, path: str, content: bytes, *, mode: str = "0644") -> None:
        """A file as if it had always been there."""
        self.files[path] = MemoryFile(content, mode=mode, mtime=int(time.time()))

    def read(self, path: HostPath, *, running: bool = False) -> RemoteFile:
        """See `Host.read`."""
        self._step("read")
        where, file = self._resolve(path)
        seen = file if running else replace(file, running=())
        return RemoteFile(file.content, digest_of(file.content), self._manifest(path, where, seen))

    def replace(self, transaction: Transaction) -> Receipt:
        """See `Host.replace`."""
        steps: list[Step] = []

        def passed(step: str, detail: str = "") -> None:
            self._step(step)
            steps.append(Step(step=step, ok=True, detail=detail))

        passed("probe")
        where, old = self._resolve(transaction.path)
        in_place = old.mount or old.links > 1
        told = f"{transaction.path!r} on {self.name!r}"
        if transaction.resolved not in (None, where):
            raise Drifted(f"{told} leads to {where!r} now, not to {transaction.resolved!r}; nothing written")
        if in_place and not transaction.in_place:
            raise Refused(f"{told}: writing in place was not allowed", hint="`--in-place` allows it")
        if in_place and old.running:
            raise Refused(f"{told}: can't be written in place while running interpreters read it")
        passed("resolve", where)
        if self.holder is not None:
            who, since = self.holder
            raise Busy(f"{told} is being changed by {who}; nothing was written", holder=who, since=since)
        passed("lock")
        live = digest_of(self.files[where].content)
        if live != transaction.base:
            message = f"{told} holds {short(live)}, not {short(transaction.base)}; nothing written"
            raise Drifted(message, base=transaction.base, live=live)
        passed("compare", f"digest {short(live)}, as planned")
        if digest_of(transaction.content) != transaction.result:
            raise NotWritten(f"{told} was not written: the content does not have the plan's digest")
        backup = self._free_name(self._directory(where, transaction.backup_dir), transaction.backup_name)
        passed("backup", f"`cp -p {where} {backup}`")
        self.files[backup] = replace(old, links=1, mount=False, running=())
        if transaction.matches is not None and not self._holds(transaction.matches, transaction.content):
            raise NotWritten(f"{told} was not written: the new content is not equal to {transaction.matches}")
        passed("stage", f"{len(transaction.content)} bytes")
        new = replace(old, content=transaction.content, mtime=int(time.time()))
        if not in_place:
            new = replace(new, links=1)
        try:
            self._step("swap")
            self.files[where] = new
            steps.append(Step(step="swap", ok=True, detail=f"`mv … {where}`"))
            grep = self._verify(where, transaction)
        except (StateUnknown, NotWritten, Drifted):
            raise
        except KnobError as error:
            self._step("rollback")
            self.files[where] = old
            message = f"{told}: {error.message}; the backup was put back, and that is proven"
            raise RolledBack(message, host=self.name) from error
        steps.append(Step(step="verify", ok=True, detail=f"digest {short(transaction.result)}"))
        return Receipt(
            backup=HostPath(backup),
            backup_digest=digest_of(self.files[backup].content),
            digest=digest_of(self.files[where].content),
            grep=grep,
            matches=transaction.matches,
            matches_backup=None if transaction.matches is None else True,
            steps=tuple(steps),
            manifest=self._manifest(transaction.path, where, self.files[where]),
            digest_tool="hashlib",
        )

    def run(
        self,
        argv: tuple[str, ...],
        *,
        timeout_s: float,  # noqa: ARG002
        stdin: bytes = b"",  # noqa: ARG002
    ) -> Completed:
        """See `Host.run`. What is not in `answers` ends with 0 and prints nothing."""
        self._step("run")
        self.ran.append(argv)
        return self.answers.get(argv, Completed(argv, 0, b"", b""))

    def dial(self, address: str, port: int, *, timeout_s: float) -> socket.socket:
        """See `Host.dial`."""
        service = self.services.get((address, port))
        if service is None:
            raise ConnectionRefusedError(f"{address}:{port} on {self.name!r} refused the connection")
        ours, theirs = socket.socketpair()
        ours.settimeout(timeout_s)
        service(theirs)
        return ours

    def backups(self, path: HostPath, backup_dir: str) -> tuple[BackupFile, ...]:
        """See `Host.backups`."""
        where, _ = self._resolve(path)
        begin = f"{self._directory(where, backup_dir)}/{posixpath.basename(where)}"
        return tuple(
            BackupFile(HostPath(name), digest_of(file.content), len(file.content), file.mtime)
            for name, file in sorted(self.files.items())
            if name.startswith(begin) and "/" not in name[len(begin) :] and name != where
        )

    def tidy(self, path: HostPath, backup_dir: str) -> tuple[HostPath, ...]:  # noqa: ARG002
        """See `Host.tidy`: transactions in memory leave nothing behind."""
        self._step("tidy")
        return ()

    def prune(self, path: HostPath, backup_dir: str, files: tuple[BackupFile, ...]) -> tuple[HostPath, ...]:
        """See `Host.prune`."""
        self._step("prune")
        there = {item.path: item.digest for item in self.backups(path, backup_dir)}
        gone = tuple(file.path for file in files if there.get(file.path) == file.digest)
        for name in gone:
            del self.files[name]
        return gone

    def close(self) -> None:
        """See `Host.close`."""
        self.closed = True

    def _step(self, step: str) -> None:
        match self.faults.get(step):
            case None:
                pass
            case KnobError() as error:
                raise error
            case act:
                act()

    def _resolve(self, path: str) -> tuple[str, MemoryFile]:
        told = f"{path!r} on {self.name!r}"
        where = path
        for _ in range(40):
            file = self.files.get(where)
            if file is None:
                raise Refused(
                    f"{told}: no such file"
                    if where == path
                    else f"{told}: a symbolic link that leads nowhere"
                )
            if file.link is None:
                break
            where = posixpath.normpath(posixpath.join(posixpath.dirname(where), file.link))
        else:
            raise Refused(f"{told}: the symbolic links go round in a circle")
        if file.special:
            raise Refused(f"{told}: {file.special}")
        return where, file

    def _directory(self, where: str, backup_dir: str) -> str:
        return posixpath.normpath(posixpath.join(posixpath.dirname(where), backup_dir))

    def _free_name(self, directory: str, name: str) -> str:
        stem, dot_bak = (name[:-4], ".bak") if name.endswith(".bak") else (name, "")
        path, number = f"{directory}/{name}", 1
        while path in self.files:
            number += 1
            path = f"{directory}/{stem}.{number}{dot_bak}"
        return path

    def _holds(self, path: str, content: bytes) -> bool:
        return path in self.files and self.files[path].content == content

    def _verify(self, where: str, transaction: Transaction) -> tuple[GrepLine, ...]:
        self._step("verify")
        live = self.files[where].content
        if digest_of(live) != transaction.result:
            raise NotWrittenAfterAll("the live file does not have the plan's digest")
        found: dict[GrepLine, None] = {}
        lines = live.decode("utf-8", "surrogateescape").split("\n")
        for text in transaction.grep:
            hits = [GrepLine(line=n, text=line) for n, line in enumerate(lines, 1) if text in line]
            if not hits:
                raise NotWrittenAfterAll("grep does not find one of the strings")
            found.update(dict.fromkeys(hits))
        if any(text in line for text in transaction.gone for line in lines):
            raise NotWrittenAfterAll("grep still finds a string that was to go")
        return tuple(found)

    def _manifest(self, path: str, where: str, file: MemoryFile) -> Manifest:
        return Manifest(
            path=HostPath(path),
            resolved=HostPath(where),
            uid=file.uid,
            gid=file.gid,
            mode=file.mode,
            size=len(file.content),
            mtime=file.mtime,
            links=file.links,
            mount=file.mount,
            running=file.running,
        )


class NotWrittenAfterAll(KnobError):
    """A proof failed after the swap; always turned into `RolledBack`."""
