"""A git repository, reached through plumbing commands only.

A commit is made from the old head's trees, so neither the index nor the working tree takes part in
it, no hook runs, nothing asks for a signature, and the cost hardly grows with the number of files.
What a ledger is, is known to `history.py` alone.
"""

from __future__ import annotations

import hashlib
import os
import shutil
import socket
import subprocess
import time
from collections.abc import Iterable, Iterator, Mapping
from contextlib import contextmanager, suppress
from pathlib import Path

from msgspec import Struct

from knobledger.ledger.objects import Objects, Tree

_STALE_LOCK_S = 5.0
"""A lock of ours is held for some 20 ms; one of this age whose process is gone was left by a crash."""

_WHY = ("fatal: ", "error: ", " ! ")
"""what git begins the line with that says why it failed"""


class GitFailed(Exception):
    """A git command failed, or there is no git. The message is git's own, one line, or ours."""


class NoRepository(GitFailed):
    """There is no git here to commit to: no program, no repository, or one without a working tree."""


class Repository(Struct, frozen=True):
    """One look at the repository around a folder."""

    folder: Path
    """inside the working tree"""
    git_dir: Path
    """of this working tree; linked worktrees have their own, with their own HEAD and index"""
    prefix: str
    """the folder's path from the top of the working tree, with a slash at its end unless empty"""
    objects: Objects
    head: str | None
    """the commit; None where there is none yet"""
    branch: str | None
    """the full name of the checked-out branch; None: HEAD is detached"""

    @classmethod
    def around(cls, folder: Path) -> Repository:
        """The repository whose working tree holds `folder`. Raises `NoRepository`, `GitFailed`."""
        if "\n" in os.fspath(folder.resolve()):
            raise GitFailed("a folder's name has a line break in it")  # git's answers below are lines
        asked = ("--is-inside-work-tree", "--absolute-git-dir", "--show-object-format")
        places = ("--git-path", "objects", "--show-prefix")
        try:
            out = run(
                folder, "rev-parse", "--revs-only", *asked, *places, "HEAD", "--symbolic-full-name", "HEAD"
            )
        except GitFailed as e:
            if "not a git repository" in str(e):
                raise NoRepository("the workspace is not in a git repository") from e
            raise
        inside, git_dir, hash_name, objects, prefix, *head = os.fsdecode(out).split("\n")
        if inside != "true":
            raise NoRepository("the git repository here has no working tree")
        at: str | None = None
        branch: str | None = None
        match [line for line in head if line]:
            case [commit, "HEAD"]:
                at = commit
            case [commit, name]:
                at, branch = commit, name
            case _:
                branch = os.fsdecode(run(folder, "symbolic-ref", "HEAD")).strip()
        return cls(folder, Path(git_dir), prefix, Objects(folder / objects, hash_name), at, branch)

    def busy(self) -> str:
        """What is under way here that may move HEAD back later; empty if nothing is."""
        under_way = {
            "rebase-merge": "a rebase is in progress",
            "rebase-apply": "a rebase or `git am` is in progress",
            "sequencer": "a cherry-pick or revert of several commits is in progress",
            "BISECT_LOG": "a bisect is in progress",
        }
        found = next((what for name, what in under_way.items() if (self.git_dir / name).exists()), "")
        return found or ("HEAD is detached" if self.branch is None else "")

    def trees(self, folders: Iterable[str]) -> dict[str, Tree]:
        """Those of these folders (paths from the top, "" is the top) that HEAD holds, by path.

        Raises `GitFailed`, also where a file or another repository stands in a folder's place.
        """
        if self.head is None:
            return {}
        asked = list(dict.fromkeys(folders))
        lines = "".join(f"{self.head}:{folder}\n" for folder in asked)
        out = run(self.folder, "cat-file", "--batch", stdin=os.fsencode(lines))
        found: dict[str, Tree] = {}
        at = 0
        for folder in asked:
            end = out.index(b"\n", at)
            match out[at:end].split(b" "):
                case [_, b"tree", size]:
                    found[folder] = self.objects.tree(out[end + 1 : end + 1 + int(size)])
                    at = end + 1 + int(size) + 1
                case [*_, b"missing"]:
                    at = end + 1
                case _:
                    raise GitFailed(f"{folder!r} is not a folder in git")
        return found

    def holds(self, commit: str) -> bool:
        """Whether HEAD's history holds this commit."""
        if self.head is None:
            return False
        if self.head == commit:
            return True
        with suppress(GitFailed):
            run(self.folder, "merge-base", "--is-ancestor", commit, self.head)
            return True
        return False

    def make_commit(
        self, trees: Mapping[str, Tree], files: Mapping[str, bytes], author: str, message: str
    ) -> tuple[str, dict[str, str]]:
        """Write a commit on top of HEAD that adds these files (paths from the top); no ref moves.

        `trees` are HEAD's folders on the way to the files, `author` is `Name <mail>`. Returns the
        commit and the files' blob ids. Raises `GitFailed`.
        """
        now = time.time()
        when = f"{int(now)} {time.strftime('%z', time.localtime(now))}"
        try:
            blobs = {path: self.objects.store("blob", content) for path, content in files.items()}
            lines = [
                f"tree {self.objects.graft(trees, blobs).hex()}",
                *([f"parent {self.head}"] if self.head else []),
                f"author {author} {when}",
                f"committer {author} {when}",
                "",
                _plain(message),
                "",
            ]
            made = self.objects.store("commit", "\n".join(lines).encode("utf-8", "replace"))
        except OSError as e:
            raise GitFailed(f"can't write to {str(self.objects.folder)!r}: {_reason(e)}") from e
        return made.hex(), {path: raw.hex() for path, raw in blobs.items()}

    def move_branch(self, commit: str, message: str) -> None:
        """Move the checked-out branch from HEAD to `commit`. Raises `GitFailed` if it has moved."""
        assert self.branch is not None
        before = self.head or "0" * self._digits
        subject = next(iter(_plain(message).splitlines()), "")
        run(self.folder, "update-ref", "-m", f"commit: {subject}", self.branch, commit, before)

    @contextmanager
    def index_with(self, entries: Mapping[str, str], *, wait_s: float) -> Iterator[None]:
        """Hold the index's lock, with these files (path, blob id) added to the index meanwhile and after.

        Nothing else in it changes. A `GitFailed` inside puts the old index back. A process killed
        inside leaves files that are staged and not committed, never the reverse: the next commit by
        anybody would then delete events. Raises `GitFailed` if the lock is not free within `wait_s`.
        """
        index = self.git_dir / "index"
        made, old = self._scratch("new"), self._scratch("old")
        with self._index_lock(wait_s):
            try:
                with suppress(FileNotFoundError):
                    # with its times: git compares them with those of the files (its "racy" entries)
                    shutil.copy2(index, made)
                    shutil.copy2(index, old)
                lines = (f"100644 {blob} 0\t{path}\0" for path, blob in entries.items())
                run(
                    self.folder,
                    *("update-index", "-z", "--index-info"),
                    stdin=os.fsencode("".join(lines)),
                    env={"GIT_INDEX_FILE": str(made)},
                )
                made.replace(index)
                try:
                    yield
                except GitFailed:
                    if old.exists():
                        old.replace(index)
                    else:
                        index.unlink()
                    raise
            except OSError as e:
                raise GitFailed(f"can't write the index: {_reason(e)}") from e
            finally:
                for path in (made, old):
                    path.unlink(missing_ok=True)

    @contextmanager
    def _index_lock(self, wait_s: float) -> Iterator[None]:
        lock = self.git_dir / "index.lock"
        deadline = time.monotonic() + wait_s
        while True:
            try:
                fd = os.open(lock, os.O_WRONLY | os.O_CREAT | os.O_EXCL | os.O_CLOEXEC, 0o644)
                break
            except FileExistsError as e:
                if self._forsaken(lock):
                    continue
                if time.monotonic() >= deadline:
                    raise GitFailed("another git command holds the index's lock") from e
                time.sleep(0.05)
            except OSError as e:
                raise GitFailed(f"can't lock the index: {_reason(e)}") from e
        try:
            try:
                os.write(fd, f"knobledger {socket.gethostname()} {os.getpid()}\n".encode())
            finally:
                os.close(fd)
            yield
        finally:
            lock.unlink(missing_ok=True)

    def _forsaken(self, lock: Path) -> bool:
        """Whether the lock was ours and its process was killed; if so it is gone now."""
        try:
            old = time.time() - lock.stat().st_mtime > _STALE_LOCK_S
            words = lock.read_bytes()[:200].decode("ascii", "replace").split()
        except OSError:
            return False
        match words:
            case ["knobledger", machine, pid] if old and machine == socket.gethostname() and _gone(pid):
                lock.unlink(missing_ok=True)
                for path in self.git_dir.glob(f"knobledger-index.{pid}.*"):
                    path.unlink(missing_ok=True)
                return True
            case _:
                return False

    def _scratch(self, word: str) -> Path:
        return self.git_dir / f"knobledger-index.{os.getpid()}.{word}"

    @property
    def _digits(self) -> int:
        return hashlib.new(self.objects.hash_name).digest_size * 2


def run(folder: Path, *argv: str, stdin: bytes = b"", env: Mapping[str, str] | None = None) -> bytes:
    """The stdout of one git command in a folder, without hooks. Raises `GitFailed`, `NoRepository` without git.

    Not by GitPython: importing it takes longer than the whole commit.
    """
    # What git says is read here, so it must be said in English.
    said_in = {"LC_ALL": "C", "LANGUAGE": "C", "GIT_TERMINAL_PROMPT": "0"}
    try:
        done = subprocess.run(
            ["git", "-C", os.fspath(folder), "-c", f"core.hooksPath={os.devnull}", *argv],
            input=stdin,
            capture_output=True,
            check=False,
            env={**os.environ, **said_in, **(env or {})},
        )
    except FileNotFoundError as e:
        raise NoRepository("git is not installed") from e
    except OSError as e:
        raise GitFailed(f"git can't be run: {_reason(e)}") from e
    if done.returncode != 0:
        said = done.stderr.decode("utf-8", "replace").strip().splitlines()
        # a push begins with where it goes to, and others with a warning or a hint
        why = next((line.strip() for line in said if line.startswith(_WHY)), said[0] if said else "")
        raise GitFailed(why or f"git {argv[0]} ended with status {done.returncode}")
    return done.stdout


def _plain(message: str) -> str:
    """A message as git can hold it, in a commit and as an argument."""
    return message.replace("\0", "").encode("utf-8", "replace").decode().strip()


def _reason(e: OSError) -> str:
    return (e.strerror or str(e)).lower()


def _gone(pid: str) -> bool:
    try:
        os.kill(int(pid), 0)
    except ProcessLookupError:
        return True
    except (OSError, ValueError, OverflowError):
        return False
    return False
