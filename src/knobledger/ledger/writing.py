"""How the workspace's files come to be: whole, durable, and never half seen.

A file is written under a temporary name in its own folder, forced to disk, and only then given its
name, so a crash at any point leaves either nothing or the whole file. A temporary name begins with
`.` and ends with `.tmp`; `sweep` removes those that a crash left behind.
"""

from __future__ import annotations

import os
import secrets
import threading
import time
from collections.abc import Sequence
from contextlib import suppress
from pathlib import Path

from knobledger.errors import LedgerUnwritable

STALE_S = 3600.0
"""Age in seconds after which a temporary file belongs to nobody any more."""
_AT_ONCE = 8
"""So many files are forced to disk side by side."""


def write_once(path: Path, content: bytes, *, mode: int = 0o444, folder_mode: int = 0o777) -> bool:
    """Give `content` the name `path`, unless that name is taken; durable when this returns.

    Returns False if the name was taken, whoever took it; the file there is left alone. Both modes
    are subject to the umask. Raises `LedgerUnwritable`, having left nothing behind.
    """
    fresh, failure = write_in_order([(path, content)], mode=mode, folder_mode=folder_mode)
    if failure is not None:
        raise failure
    return fresh[0]


def write_in_order(
    files: Sequence[tuple[Path, bytes]], *, mode: int = 0o444, folder_mode: int = 0o777
) -> tuple[list[bool], LedgerUnwritable | None]:
    """`write_once` for several files: no name is given before those in front of it, and a folder is forced to disk once.

    Returns whether the names were free, up to the first file that can't be written, and the error of that one; it and
    those after it have left nothing behind.
    """
    fresh: list[bool] = []
    failure = None
    temporaries = _each_beside(files, mode, folder_mode)
    try:
        for (path, _), temporary in zip(files, temporaries, strict=True):
            try:
                fresh.append(_link(_made(temporary), path))
            except OSError as e:
                failure = unwritable(path, e)
                failure.__cause__ = e
                break
        for folder in dict.fromkeys(path.parent for path, _ in files[: len(fresh)]):
            try:
                sync_folder(folder)
            except OSError as e:
                raise unwritable(folder, e) from e
    finally:
        for temporary in temporaries:
            if isinstance(temporary, Path):
                with suppress(FileNotFoundError):
                    temporary.unlink()
    return fresh, failure


def write_over(path: Path, content: bytes, *, mode: int = 0o600, durable: bool = True) -> None:
    """Give `content` the name `path`, in place of whatever had it. For caches and for mending.

    Raises `LedgerUnwritable`, having left the old file as it was.
    """
    try:
        make_folder(path.parent, 0o700)
        temporary = _write_beside(path, content, mode, durable=durable)
        try:
            temporary.replace(path)
        except OSError:
            temporary.unlink()
            raise
        if durable:
            sync_folder(path.parent)
    except OSError as e:
        raise unwritable(path, e) from e


def private_folder(root: Path) -> Path:
    """`.knobledger/` of the workspace, made on first use: 0700, and ignoring itself in git.

    Its own `.gitignore` keeps it out of `git add -A` even where the workspace's ignores nothing.
    Raises `LedgerUnwritable`.
    """
    folder = root / ".knobledger"
    ignore = folder / ".gitignore"
    if not ignore.exists():
        write_once(ignore, b"*\n", mode=0o600, folder_mode=0o700)
    return folder


def make_folder(folder: Path, mode: int) -> None:
    """Make `folder` and its missing parents, each durable in its own parent. Raises `OSError`."""
    if folder.is_dir():
        return
    make_folder(folder.parent, mode)
    with suppress(FileExistsError):
        folder.mkdir(mode)
    sync_folder(folder.parent)


def sync_folder(folder: Path) -> None:
    """Force a folder's entries to disk. Raises `OSError`."""
    fd = os.open(folder, os.O_RDONLY | os.O_DIRECTORY)
    try:
        os.fsync(fd)
    finally:
        os.close(fd)


def sweep(folder: Path) -> int:
    """Remove the temporary files below `folder` that are older than `STALE_S`; returns how many."""
    gone = 0
    if not folder.is_dir():
        return gone
    oldest = time.time() - STALE_S
    for path in folder.rglob(".*.tmp"):
        with suppress(OSError):
            if path.lstat().st_mtime < oldest:
                path.unlink()
                gone += 1
    return gone


def unwritable(path: Path, cause: OSError) -> LedgerUnwritable:
    """The error to raise when `path` can't be written."""
    reason = (cause.strerror or str(cause)).lower()
    return LedgerUnwritable(
        f"can't write {str(path)!r}: {reason}",
        hint="free the space or mend the permissions, then `knob recover`",
        path=str(path),
    )


def _write_beside(path: Path, content: bytes, mode: int, *, durable: bool = True) -> Path:
    temporary = path.with_name(f".{path.name[:16]}.{os.getpid()}.{secrets.token_hex(4)}.tmp")
    fd = os.open(temporary, os.O_WRONLY | os.O_CREAT | os.O_EXCL | os.O_CLOEXEC, mode)
    try:
        try:
            view = memoryview(content)
            while view:
                view = view[os.write(fd, view) :]
            if durable:
                os.fsync(fd)
        finally:
            os.close(fd)
    except BaseException:
        # Ctrl-C too: what was begun here is nobody else's to clear away
        with suppress(OSError):
            temporary.unlink()
        raise
    return temporary


def _each_beside(files: Sequence[tuple[Path, bytes]], mode: int, folder_mode: int) -> list[Path | OSError]:
    """A temporary file for each, forced to disk, or why there is none. Side by side: disks take many flushes as one."""
    made: list[Path | OSError] = [OSError("not begun")] * len(files)
    waiting = iter(range(len(files)))
    taking = threading.Lock()

    def work() -> None:
        while True:
            with taking:
                at = next(waiting, None)
            if at is None:
                return
            path, content = files[at]
            try:
                make_folder(path.parent, folder_mode)
                made[at] = _write_beside(path, content, mode)
            except OSError as e:
                made[at] = e

    threads = [threading.Thread(target=work) for _ in range(min(len(files), _AT_ONCE) - 1)]
    for thread in threads:
        thread.start()
    work()
    for thread in threads:
        thread.join()
    return made


def _made(temporary: Path | OSError) -> Path:
    if isinstance(temporary, OSError):
        raise temporary
    return temporary


def _link(temporary: Path, path: Path) -> bool:
    try:
        path.hardlink_to(temporary)
    except FileExistsError:
        return False
    except OSError:
        # vfat, exfat, some FUSE and 9p mounts have no hard links. A rename would replace a file that
        # appears in between, which does no harm here: names are digests, or the loser re-reads.
        if path.exists():
            return False
        temporary.rename(path)
    return True
