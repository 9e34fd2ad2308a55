"""Commits of the ledger beside an operator's own work, on a real git."""

from __future__ import annotations

import errno
import json
import os
import signal
import socket
import subprocess
import sys
import threading
import time
from collections.abc import Callable
from contextlib import suppress
from datetime import UTC, datetime
from functools import partial
from pathlib import Path

import pytest
from ledgers import at, change, git, note, overwrite, path_of
from msgspec.structs import replace

from knobledger.event import id_of, moment_of
from knobledger.ledger import days, history
from knobledger.ledger import repository as repositories
from knobledger.ledger.history import Committed, commit, look_ahead
from knobledger.ledger.store import Ledger
from knobledger.ledger.verify import verify
from knobledger.names import EventId

_run = repositories.run


@pytest.fixture
def ledger(tmp_path: Path) -> Ledger:
    """A workspace that is a repository, with one commit of the operator's."""
    root = tmp_path / "workspace"
    root.mkdir()
    git(root, "init", "-q")
    (root / "hosts.toml").write_text("# hosts\n")
    (root / "notes.txt").write_text("one\ntwo\nthree\n")
    git(root, "add", "-A")
    git(root, "commit", "-qm", "the operator's")
    return Ledger(root)


def act(ledger: Ledger, text: str = "a note", **options: float) -> tuple[EventId, Committed]:
    """One command: an event and its commit."""
    id_ = ledger.append(note(text, time.monotonic() / 60))
    return id_, commit(ledger.root, [id_], f"knob note: {text}", **options)


def committed(ledger: Ledger, rev: str = "HEAD") -> list[str]:
    """The paths that a commit adds or changes, with git's letter for how."""
    out = git(ledger.root, "diff-tree", "--root", "--no-commit-id", "-r", "--name-status", rev)
    return out.replace("\t", " ").splitlines()


def place(ledger: Ledger, id_: EventId) -> str:
    top = git(ledger.root, "rev-parse", "--show-toplevel").strip()
    return path_of(ledger, id_).resolve().relative_to(top).as_posix()


def status(ledger: Ledger) -> str:
    return git(ledger.root, "status", "--porcelain")


def test_one_commit_per_command_with_the_ledgers_files_only(ledger: Ledger) -> None:
    ids = change(ledger)
    done = commit(ledger.root, ids, "knob set gpu1/decode A=512\n\nwhy: faster")
    assert done.note == ""
    assert done.commit == git(ledger.root, "rev-parse", "HEAD").strip()
    assert committed(ledger) == sorted(f"A {place(ledger, id_)}" for id_ in ids)
    assert git(ledger.root, "log", "-1", "--format=%B").strip() == "knob set gpu1/decode A=512\n\nwhy: faster"
    assert git(ledger.root, "rev-list", "--count", "HEAD").strip() == "2"
    assert status(ledger) == ""
    assert git(ledger.root, "reflog", "-1", "--format=%gs").strip() == "commit: knob set gpu1/decode A=512"
    git(ledger.root, "fsck", "--strict", "--no-dangling")
    assert verify(ledger) == ()


def test_nothing_new_is_no_commit(ledger: Ledger) -> None:
    assert commit(ledger.root, [], "nothing") == Committed(None, "")
    id_, _ = act(ledger)
    head = git(ledger.root, "rev-parse", "HEAD")
    assert commit(ledger.root, [id_], "again") == Committed(None, "")
    assert git(ledger.root, "rev-parse", "HEAD") == head


def test_many_commits_make_sound_trees(ledger: Ledger) -> None:
    """Beside names that git sorts before or after a folder's, whose slash counts."""
    for name in ("ledger.md", "ledger0", "notes"):
        (ledger.root / name).touch()
    git(ledger.root, "add", "-A")
    git(ledger.root, "commit", "-qm", "neighbours")
    for n in range(6):
        id_ = ledger.append(note(str(n), n * 20_000))
        assert commit(ledger.root, [id_], str(n)).commit
    git(ledger.root, "gc", "-q")
    act(ledger, "after gc")
    git(ledger.root, "fsck", "--strict", "--no-dangling")
    assert status(ledger) == ""
    tracked = git(ledger.root, "ls-tree", "-r", "--name-only", "HEAD", "ledger").splitlines()
    assert tracked == sorted(place(ledger, stored.id) for stored in ledger.events())


def _staged_work(root: Path) -> None:
    """Every kind of thing that an operator may have in the index and the working tree."""
    for name in ("deleted", "edited", "partly", "moved", "gone"):
        (root / name).write_text("1\n2\n3\n4\n5\n6\n7\n8\n9\n")
    git(root, "add", "deleted", "edited", "partly", "moved", "gone")
    git(root, "commit", "-qm", "more")
    git(root, "rm", "-q", "deleted")
    git(root, "rm", "-q", "--cached", "gone")
    (root / "edited").write_text("not staged\n")
    (root / "partly").write_text("0\n1\n2\n3\n4\n5\n6\n7\n8\n9\n")
    git(root, "add", "partly")
    (root / "partly").write_text("0\n1\n2\n3\n4\n5\n6\n7\n8\n9\n10 not staged\n")
    git(root, "mv", "moved", "to here")
    (root / "staged").write_text("new\n")
    (root / "script").write_text("#!/bin/sh\n")
    (root / "script").chmod(0o755)
    (root / "link").symlink_to("script")
    git(root, "add", "staged", "script", "link")
    (root / "meant").write_text("intent to add\n")
    git(root, "add", "-N", "meant")
    (root / "untracked").write_text("untracked\n")


def _own(root: Path) -> list[str]:
    """The operator's index and working tree, without the ledger's part."""
    rest = ("--", ".", ":(exclude)ledger")
    return [
        git(root, "diff", "--cached", "--binary", *rest),
        git(root, "diff", "--binary", *rest),
        git(root, "ls-files", "-s", *rest),
        git(root, "ls-files", "-u", *rest),
        git(root, "status", "--porcelain=v2", *rest),
    ]


def test_staged_work_is_untouched(ledger: Ledger) -> None:
    _staged_work(ledger.root)
    before = _own(ledger.root)
    id_, done = act(ledger)
    assert done.commit
    assert _own(ledger.root) == before
    assert committed(ledger) == [f"A {place(ledger, id_)}"]
    assert "ledger" not in status(ledger)
    git(ledger.root, "commit", "-qm", "the operator's own")
    assert "ledger" not in "".join(committed(ledger))
    assert git(ledger.root, "ls-tree", "-r", "--name-only", "HEAD", "ledger").strip() == place(ledger, id_)


def test_a_file_edited_within_the_same_second_stays_seen_as_edited(ledger: Ledger) -> None:
    """git's racy entries: same size, same second; the rewritten index must not hide the edit."""
    (ledger.root / "racy").write_text("aaaa\n")
    git(ledger.root, "add", "racy")
    git(ledger.root, "commit", "-qm", "racy")
    (ledger.root / "racy").write_text("bbbb\n")
    act(ledger)
    assert status(ledger) == " M racy\n"


def test_events_that_the_operator_staged_himself(ledger: Ledger) -> None:
    first, second = ledger.append(note("first")), ledger.append(note("second", 1))
    git(ledger.root, "add", place(ledger, first))
    git(ledger.root, "add", "-N", place(ledger, second))
    done = commit(ledger.root, [first, second], "both")
    assert done.commit
    assert len(committed(ledger)) == 2
    assert status(ledger) == ""


def test_a_merge_in_progress_goes_on_afterwards(ledger: Ledger) -> None:
    root = ledger.root
    git(root, "switch", "-qc", "other")
    (root / "notes.txt").write_text("one\ntheirs\nthree\n")
    git(root, "commit", "-qam", "theirs")
    git(root, "switch", "-q", "main")
    (root / "notes.txt").write_text("one\nours\nthree\n")
    git(root, "commit", "-qam", "ours")
    git(root, "merge", "other", ok=False)
    before = _own(root)
    id_, done = act(ledger)
    assert done.commit
    assert _own(root) == before
    (root / "notes.txt").write_text("one\nboth\nthree\n")
    git(root, "add", "notes.txt")
    git(root, "commit", "-qm", "merged")
    assert git(root, "rev-list", "--parents", "-1", "HEAD").split()[1:] == [
        done.commit,
        git(root, "rev-parse", "other").strip(),
    ]
    assert place(ledger, id_) in git(root, "ls-tree", "-r", "--name-only", "HEAD")
    assert verify(ledger) == ()


def _rebase(root: Path) -> None:
    git(root, "switch", "-qc", "topic")
    (root / "notes.txt").write_text("topic\n")
    git(root, "commit", "-qam", "topic")
    git(root, "switch", "-q", "main")
    (root / "notes.txt").write_text("main\n")
    git(root, "commit", "-qam", "main")
    git(root, "switch", "-q", "topic")
    git(root, "rebase", "main", ok=False)


def _pick(root: Path) -> None:
    _rebase(root)
    git(root, "rebase", "--abort")
    git(root, "switch", "-q", "main")
    git(root, "cherry-pick", "topic", "topic~1", ok=False)


def _am(root: Path) -> None:
    (root / "mail").write_text(
        "From: a <a@b>\nSubject: s\n\n---\ndiff --git a/no b/no\n--- a/no\n+++ b/no\n@@ -1 +1 @@\n-a\n+b\n"
    )
    git(root, "am", "mail", ok=False)


def _bisect(root: Path) -> None:
    git(root, "commit", "-q", "--allow-empty", "-m", "another")
    git(root, "bisect", "start")


@pytest.mark.parametrize(
    ("begin", "said"),
    [
        (_rebase, "a rebase is in progress"),
        (_pick, "a cherry-pick"),
        (_am, "a rebase or `git am` is in progress"),
        (_bisect, "a bisect is in progress"),
        (lambda root: git(root, "checkout", "-q", "--detach"), "HEAD is detached"),
    ],
    ids=["rebase", "cherry-pick", "am", "bisect", "detached"],
)
def test_where_a_commit_would_be_lost_none_is_made(ledger: Ledger, begin: object, said: str) -> None:
    assert callable(begin)
    begin(ledger.root)
    before, head = _own(ledger.root), git(ledger.root, "rev-parse", "HEAD")
    id_, done = act(ledger)
    assert done.commit is None
    assert done.note.startswith(f"not committed to git ({said}")
    assert done.note.endswith("the events go into the next commit")
    assert _own(ledger.root) == before
    assert git(ledger.root, "rev-parse", "HEAD") == head
    for over in ("rebase --abort", "cherry-pick --abort", "am --abort", "bisect reset"):
        git(ledger.root, *over.split(), ok=False)
    git(ledger.root, "switch", "-q", "main")
    second, done = act(ledger, "second")
    assert done.note == "1 event of earlier commands went into this commit too"
    assert committed(ledger) == sorted(f"A {place(ledger, one)}" for one in (id_, second))


def test_an_unborn_branch(tmp_path: Path) -> None:
    git(tmp_path, "init", "-q")
    (tmp_path / "staged").write_text("staged\n")
    git(tmp_path, "add", "staged")
    ledger = Ledger(tmp_path)
    id_, done = act(ledger)
    assert done.commit == git(tmp_path, "rev-parse", "main").strip()
    assert committed(ledger) == [f"A {place(ledger, id_)}"]
    assert status(ledger) == "A  staged\n"


def test_an_unborn_branch_with_no_index(tmp_path: Path) -> None:
    git(tmp_path, "init", "-q")
    ledger = Ledger(tmp_path)
    assert act(ledger)[1].commit
    assert status(ledger) == ""


@pytest.mark.parametrize("folder", ["team/ws", 'odd "name" ü\\x', " spaces "])
def test_a_workspace_in_a_sub_folder_of_a_bigger_repository(ledger: Ledger, folder: str) -> None:
    inner = Ledger(ledger.root / folder)
    inner.root.mkdir(parents=True)
    (ledger.root / "outside").write_text("staged\n")
    git(ledger.root, "add", "outside")
    ids = [act(inner, str(n))[0] for n in range(2)]
    listed = git(ledger.root, "ls-tree", "-r", "-z", "--name-only", "HEAD", "--", folder).split("\0")[:-1]
    assert (
        listed == sorted(f"{folder}/ledger/events/2026/11/30/{id_}.json" for id_ in ids) or len(listed) == 2
    )
    assert status(ledger) == "A  outside\n"
    git(ledger.root, "fsck", "--strict", "--no-dangling")


def test_a_folder_that_git_can_not_be_asked_about(ledger: Ledger) -> None:
    inner = Ledger(ledger.root / "two\nlines")
    inner.root.mkdir()
    assert act(inner)[1].note == (
        "not committed to git (a folder's name has a line break in it): the events go into the next commit"
    )


def test_a_file_in_git_in_the_place_of_a_folder(ledger: Ledger) -> None:
    (ledger.root / "ledger").write_text("a file once")
    git(ledger.root, "add", "-A")
    git(ledger.root, "commit", "-qm", "a file")
    (ledger.root / "ledger").unlink()
    assert act(ledger)[1].note == (
        "not committed to git ('ledger' is not a folder in git): the events go into the next commit"
    )


def test_a_repository_that_a_group_shares(ledger: Ledger) -> None:
    objects = ledger.root / ".git" / "objects"
    known = set(objects.iterdir())
    objects.chmod(0o2775)
    assert act(ledger)[1].commit
    made = [folder for folder in set(objects.iterdir()) - known if len(folder.name) == 2]
    assert made
    assert {folder.stat().st_mode & 0o7777 for folder in made} == {0o2775}
    assert {path.stat().st_mode & 0o777 for folder in made for path in folder.iterdir()} == {0o444}


def test_a_ledger_that_is_a_repository_of_its_own(ledger: Ledger) -> None:
    inner = ledger.root / "ledger"
    inner.mkdir()
    git(inner, "init", "-q")
    id_, done = act(ledger)
    assert done.commit == git(inner, "rev-parse", "HEAD").strip()
    listed = git(inner, "ls-tree", "-r", "--name-only", "HEAD").strip()
    assert listed == path_of(ledger, id_).relative_to(inner).as_posix()
    assert git(ledger.root, "rev-list", "--count", "HEAD").strip() == "1"


def test_a_linked_worktree(ledger: Ledger, tmp_path: Path) -> None:
    git(ledger.root, "worktree", "add", "-q", "-b", "second", str(tmp_path / "second"))
    second = Ledger(tmp_path / "second")
    (second.root / "staged").write_text("x\n")
    git(second.root, "add", "staged")
    _, done = act(second)
    assert done.commit == git(second.root, "rev-parse", "second").strip()
    assert git(ledger.root, "rev-list", "--count", "main").strip() == "1"
    assert status(second) == "A  staged\n"
    assert status(ledger) == ""


@pytest.mark.parametrize(
    "settings",
    [
        {"core.autocrlf": "true", "core.safecrlf": "true"},
        {"core.autocrlf": "input", "core.eol": "crlf"},
        {"commit.gpgsign": "true", "user.signingkey": "0xNOBODY", "gpg.program": "/bin/false"},
        {"core.fileMode": "false", "core.symlinks": "false", "core.ignorecase": "true"},
        {"index.version": "4", "core.splitIndex": "true", "core.untrackedCache": "true"},
        {"core.logAllRefUpdates": "false", "core.compression": "0"},
        {"core.quotePath": "true", "status.showUntrackedFiles": "no", "color.ui": "always"},
    ],
    ids=lambda settings: next(iter(settings)),
)
def test_odd_settings(ledger: Ledger, settings: dict[str, str]) -> None:
    for name, value in settings.items():
        git(ledger.root, "config", name, value)
    git(ledger.root, "update-index", "--refresh")
    ids = [act(ledger, str(n))[0] for n in range(2)]
    for id_ in ids:
        stored = subprocess.run(
            ["git", "cat-file", "blob", f"HEAD:{place(ledger, id_)}"],
            cwd=ledger.root,
            capture_output=True,
            check=True,
        )
        assert stored.stdout == path_of(ledger, id_).read_bytes()
    assert status(ledger) == ""
    git(ledger.root, "fsck", "--strict", "--no-dangling")


def test_a_sparse_checkout(ledger: Ledger) -> None:
    root = ledger.root
    for folder in ("kept", "left out"):
        (root / folder).mkdir()
        (root / folder / "file").write_text("x\n")
    git(root, "add", "-A")
    git(root, "commit", "-qm", "folders")
    git(root, "sparse-checkout", "set", "--cone", "--sparse-index", "kept")
    act(ledger)
    act(ledger, "second")
    assert status(ledger) == ""
    assert "left out/file" in git(root, "ls-tree", "-r", "--name-only", "HEAD")


def test_a_sha256_repository(tmp_path: Path) -> None:
    git(tmp_path, "init", "-q", "--object-format=sha256")
    ledger = Ledger(tmp_path)
    _, first = act(ledger)
    _, second = act(ledger, "second")
    assert len(first.commit or "") == len(second.commit or "") == 64
    git(tmp_path, "fsck", "--strict", "--no-dangling")
    assert status(ledger) == ""


def test_hooks_that_fail_are_not_run(ledger: Ledger) -> None:
    hooks = ledger.root / ".git" / "hooks"
    hooks.mkdir(exist_ok=True)
    for name in ("pre-commit", "commit-msg", "post-commit", "reference-transaction", "post-index-change"):
        (hooks / name).write_text(f"#!/bin/sh\ntouch '{ledger.root}/ran'\nexit 1\n")
        (hooks / name).chmod(0o755)
    assert act(ledger)[1].commit
    assert not (ledger.root / "ran").exists()


def test_a_repository_that_ignores_everything(ledger: Ledger) -> None:
    (ledger.root / ".git" / "info" / "exclude").write_text("*\n")
    assert act(ledger)[1].commit
    assert status(ledger) == ""


@pytest.mark.parametrize(
    ("actor", "author"),
    [
        ("Anna <anna@example.org>", "Anna <anna@example.org>"),
        ("anna@example.org", "anna@example.org <anna@example.org>"),
        ("operator@example.org", "Operator <operator@example.org>"),
        ("agent 7", "Operator <operator@example.org>"),
        ("<x@y>", "x@y <x@y>"),
        ("nul\0 <a@b>", "Operator <operator@example.org>"),
        ("evil\nauthor <a@b>", "Operator <operator@example.org>"),
    ],
)
def test_the_author(ledger: Ledger, actor: str, author: str) -> None:
    id_ = ledger.append(note(actor=actor))
    assert commit(ledger.root, [id_], "m").commit
    assert git(ledger.root, "log", "-1", "--format=%an <%ae>|%cn <%ce>").strip("\n") == f"{author}|{author}"
    git(ledger.root, "fsck", "--strict", "--no-dangling")


def test_the_author_is_of_this_command_whatever_goes_along(ledger: Ledger) -> None:
    for n in range(5):
        ledger.append(note(str(n), n, actor="Bert <bert@example.org>"))
    id_ = ledger.append(note("last", 9, actor="Anna <anna@example.org>"))
    assert commit(ledger.root, [id_], "m").note == "5 events of earlier commands went into this commit too"
    assert git(ledger.root, "log", "-1", "--format=%an").strip() == "Anna"


def test_no_name_or_mail_is_configured(ledger: Ledger, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("GIT_CONFIG_GLOBAL", os.devnull)
    monkeypatch.setenv("HOME", "/nonexistent")
    id_ = ledger.append(note(actor="root"))
    assert commit(ledger.root, [id_], "m").commit
    author = git(ledger.root, "log", "-1", "--format=%an <%ae>").strip()
    assert author == "knobledger <knobledger@localhost>"


@pytest.mark.parametrize(
    ("settings", "author"),
    [
        ({"user.name": "Op <root>\n"}, "knobledger <knobledger@localhost>"),
        ({"user.email": "op@example.org"}, "knobledger <knobledger@localhost>"),
        ({"user.name": " Op <ro\not>", "user.email": "<op@example.org>"}, "Op root <op@example.org>"),
        ({"user.name": "Ren\udce9", "user.email": "op@example.org"}, "Ren? <op@example.org>"),
    ],
)
def test_odd_names_in_the_configuration(
    ledger: Ledger, settings: dict[str, str], author: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setenv("GIT_CONFIG_GLOBAL", os.devnull)
    for name, value in settings.items():
        git(ledger.root, "config", name, value)
    id_ = ledger.append(note(actor="agent 7"))
    assert commit(ledger.root, [id_], "m").commit
    assert git(ledger.root, "log", "-1", "--format=%an <%ae>").strip() == author
    git(ledger.root, "fsck", "--strict", "--no-dangling")


@pytest.mark.parametrize(
    ("message", "kept"), [("a\0b\udcff\n\n\nbody\n\n", "ab?\n\n\nbody\n"), ("", "\n"), ("\0", "\n")]
)
def test_odd_messages(ledger: Ledger, message: str, kept: str) -> None:
    id_ = ledger.append(note())
    assert commit(ledger.root, [id_], message).commit
    assert git(ledger.root, "cat-file", "commit", "HEAD").partition("\n\n")[2] == kept


def test_the_index_lock_is_held_by_somebody_else(ledger: Ledger) -> None:
    lock = ledger.root / ".git" / "index.lock"
    lock.write_bytes(b"")
    head = git(ledger.root, "rev-parse", "HEAD")
    id_, done = act(ledger, lock_wait_s=0.1)
    assert done == Committed(
        None,
        "not committed to git (another git command holds the index's lock): the events go into the next commit",
    )
    assert lock.exists()
    assert git(ledger.root, "rev-parse", "HEAD") == head
    lock.unlink()
    second, done = act(ledger, "second")
    assert committed(ledger) == sorted(f"A {place(ledger, one)}" for one in (id_, second))


def test_a_lock_that_a_killed_command_of_ours_left(ledger: Ledger) -> None:
    dead = subprocess.Popen(["true"])
    dead.wait()
    lock = ledger.root / ".git" / "index.lock"
    lock.write_text(f"knobledger {socket.gethostname()} {dead.pid}\n")
    os.utime(lock, (time.time() - 60, time.time() - 60))
    (ledger.root / ".git" / f"knobledger-index.{dead.pid}.new").write_bytes(b"")
    assert act(ledger, lock_wait_s=0.1)[1].commit
    assert not lock.exists()
    assert list((ledger.root / ".git").glob("knobledger-index*")) == []


@pytest.mark.parametrize(
    "holder", ["just now", "alive", "of another machine", "without a number", "of others", "no text"]
)
def test_a_lock_that_may_still_be_held_is_left_alone(ledger: Ledger, holder: str) -> None:
    dead = subprocess.Popen(["true"])
    dead.wait()
    here = socket.gethostname()
    words = {
        "just now": f"knobledger {here} {dead.pid}",
        "alive": f"knobledger {here} {os.getpid()}",
        "of another machine": f"knobledger {here}.example.org {dead.pid}",
        "without a number": f"knobledger {here} nobody",
        "of others": f"others {here} {dead.pid}",
        "no text": "\xff\xfe",
    }
    lock = ledger.root / ".git" / "index.lock"
    lock.write_text(words[holder], "latin-1")
    if holder != "just now":
        os.utime(lock, (time.time() - 60, time.time() - 60))
    assert "holds the index's lock" in act(ledger, lock_wait_s=0.0)[1].note
    assert lock.read_text("latin-1") == words[holder]


def test_the_branch_moves_meanwhile(ledger: Ledger, monkeypatch: pytest.MonkeyPatch) -> None:
    real = repositories.Repository.make_commit
    moved: list[str] = []

    def slow(self: repositories.Repository, *args: object) -> object:
        if not moved:
            git(ledger.root, "commit", "-q", "--allow-empty", "-m", "meanwhile")
            moved.append(git(ledger.root, "rev-parse", "HEAD").strip())
        return real(self, *args)  # type: ignore[arg-type]

    monkeypatch.setattr(repositories.Repository, "make_commit", slow)
    _, done = act(ledger)
    assert git(ledger.root, "rev-parse", f"{done.commit}^").strip() == moved[0]
    assert status(ledger) == ""


def test_a_branch_that_moves_each_time_is_given_up_after_three(
    ledger: Ledger, monkeypatch: pytest.MonkeyPatch
) -> None:
    real = repositories.Repository.make_commit
    moved: list[str] = []

    def slow(self: repositories.Repository, *args: object) -> object:
        moved.append(git(ledger.root, "commit", "-q", "--allow-empty", "-m", "meanwhile"))
        return real(self, *args)  # type: ignore[arg-type]

    with monkeypatch.context() as patch:
        patch.setattr(repositories.Repository, "make_commit", slow)
        first, done = act(ledger)
    assert len(moved) == 3
    assert done.commit is None
    assert "cannot lock ref" in done.note
    assert done.note.endswith("): the events go into the next commit")
    second, _ = act(ledger, "second")
    assert committed(ledger) == sorted(f"A {place(ledger, one)}" for one in (first, second))


@pytest.mark.parametrize("meanwhile", ["nothing", "a commit", "another branch", "no git"])
def test_git_was_asked_ahead(ledger: Ledger, meanwhile: str) -> None:
    root = ledger.root
    act(ledger, "before")
    first = ledger.append(note("asked ahead", _minutes_now()))
    looked = look_ahead(root)()
    assert looked is not None
    match meanwhile:
        case "a commit":
            git(root, "commit", "-q", "--allow-empty", "-m", "somebody else's")
        case "another branch":
            git(root, "checkout", "-q", "-b", "side")
            git(root, "commit", "-q", "--allow-empty", "-m", "on the side")
        case "no git":
            (root / ".git").rename(root / "was.git")
    head = "" if meanwhile == "no git" else git(root, "rev-parse", "HEAD").strip()
    branches = "" if meanwhile == "no git" else git(root, "branch", "--show-current")
    done = commit(root, [first], "asked ahead", looked=looked)
    if meanwhile == "no git":
        assert done.commit is None
        assert "the events are kept in ledger/ alone" in done.note
        return
    assert git(root, "rev-parse", "HEAD").strip() == done.commit
    assert git(root, "rev-parse", "HEAD^").strip() == head
    assert git(root, "branch", "--show-current") == branches
    assert committed(ledger) == [f"A {place(ledger, first)}"]
    assert status(ledger) == ""
    assert git(root, "fsck", "--strict", "--no-dangling") == ""


def test_what_git_said_ahead_is_not_asked_again(ledger: Ledger, monkeypatch: pytest.MonkeyPatch) -> None:
    # today too: another day's folder, fresh as it is, would be asked for
    before = ledger.append(note("before", _minutes_now()))
    commit(ledger.root, [before], "before")
    first = ledger.append(note("asked ahead", _minutes_now()))
    looked = look_ahead(ledger.root)()
    asked: list[str] = []
    for module in (repositories, history):
        monkeypatch.setattr(module, "run", _spy(asked))
    assert commit(ledger.root, [first], "asked ahead", looked=looked).commit
    assert set(asked) <= {"merge-base", "update-index", "update-ref"}
    assert commit(ledger.root, [ledger.append(note("not", _minutes_now()))], "asked now").commit
    assert {"rev-parse", "cat-file", "config"} <= set(asked)


def test_a_branch_that_is_kept_elsewhere_is_asked_for_again(ledger: Ledger) -> None:
    """Where refs are in a reftable, HEAD says this whatever is checked out; git 2.39 can't make one."""
    act(ledger)
    looked = look_ahead(ledger.root)()
    assert looked is not None
    assert looked.holds()
    elsewhere = b"ref: refs/heads/.invalid\n"
    (ledger.root / ".git" / "HEAD").write_bytes(elsewhere)
    assert not replace(looked, checked_out=elsewhere).holds()


@pytest.mark.parametrize("why", ["no repository", "a disk that fails"])
def test_what_git_does_not_say_ahead_is_asked_again(
    ledger: Ledger, monkeypatch: pytest.MonkeyPatch, why: str
) -> None:
    """And nobody hears of the first time. A failing disk can't be had: the call is the boundary."""
    act(ledger)
    assert look_ahead(ledger.root)() is not None
    uncaught: list[threading.ExceptHookArgs] = []
    monkeypatch.setattr(threading, "excepthook", uncaught.append)
    if why == "no repository":
        (ledger.root / ".git").rename(ledger.root / "was.git")
        assert look_ahead(ledger.root)() is None
    else:
        with monkeypatch.context() as disk:
            disk.setattr(Path, "read_bytes", _refuse)
            assert look_ahead(ledger.root)() is None
    assert uncaught == []


def _refuse(path: Path) -> bytes:
    raise OSError(errno.EIO, os.strerror(errno.EIO), str(path))


def _spy(asked: list[str]) -> Callable[..., bytes]:
    def run(folder: Path, *argv: str, **options: object) -> bytes:
        asked.append(argv[0])
        return _run(folder, *argv, **options)  # type: ignore[arg-type]

    return run


def test_folders_that_git_holds_completely_are_not_looked_into(
    ledger: Ledger, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(days, "SETTLED_NS", -(10**12))  # every stamp counts at once
    listed: list[str] = []
    monkeypatch.setattr(history, "ids_in", lambda events, day: listed.append(day) or days.ids_in(events, day))
    first, second = (ledger.append(note(str(n), n * 1440)) for n in range(2))
    assert commit(ledger.root, [first, second], "two days").commit
    assert listed == ["2026/11/30", "2026/12/01"]
    listed.clear()
    time.sleep(0.05)
    assert commit(ledger.root, [ledger.append(note("third", 1441))], "one day").commit
    assert commit(ledger.root, [], "nothing") == Committed(None, "")
    assert listed == ["2026/12/01"]


def _minutes_now() -> float:
    """The events' clock, on today's date, for which git was asked."""
    return (datetime.now(UTC) - moment_of(at())).total_seconds() / 60


def test_a_folder_that_can_not_be_listed_is_said(ledger: Ledger) -> None:
    id_ = ledger.append(note())
    (ledger.folder / "2027").symlink_to("2027")
    assert commit(ledger.root, [id_], "a note") == Committed(
        None,
        "not committed to git (too many levels of symbolic links): the events go into the next commit",
    )
    (ledger.folder / "2027").unlink()
    assert commit(ledger.root, [id_], "a note").commit


def test_a_command_without_events_commits_what_others_left(ledger: Ledger) -> None:
    ledger.append(note("left", actor="bela@example.org"))
    done = commit(ledger.root, [], "the rest")
    assert done.note == "1 event of earlier commands went into this commit too"
    assert git(ledger.root, "log", "-1", "--format=%H %ae") == f"{done.commit} bela@example.org\n"


def test_a_branch_that_can_not_be_moved_leaves_the_index_alone(ledger: Ledger) -> None:
    _staged_work(ledger.root)
    before = _own(ledger.root)
    (ledger.root / ".git" / "refs" / "heads" / "main.lock").write_bytes(b"")
    _, done = act(ledger)
    assert done.commit is None
    assert "cannot lock ref" in done.note
    assert _own(ledger.root) == before
    assert git(ledger.root, "ls-files", "ledger") == ""
    assert not (ledger.root / ".git" / "index.lock").exists()
    (ledger.root / ".git" / "refs" / "heads" / "main.lock").unlink()
    assert act(ledger, "second")[1].commit


def test_a_lock_that_a_dead_command_left_is_taken_away(ledger: Ledger) -> None:
    with subprocess.Popen(["true"]) as dead:
        pass
    lock, left = (ledger.root / ".git" / name for name in ("index.lock", f"knobledger-index.{dead.pid}.new"))
    left.touch()
    lock.write_text(f"knobledger {socket.gethostname()} {dead.pid}\n")
    os.utime(lock, (time.time() - 60, time.time() - 60))
    assert act(ledger)[1].commit
    assert not left.exists()
    assert not lock.exists()


def test_whose_lock_it_is_is_asked_without_harm(ledger: Ledger) -> None:
    # under nohup it would be deaf to the hang-up that it must not be sent
    hearing = partial(signal.signal, signal.SIGHUP, signal.SIG_DFL)
    with subprocess.Popen(["sleep", "60"], preexec_fn=hearing) as alive:
        lock = ledger.root / ".git" / "index.lock"
        lock.write_text(f"knobledger {socket.gethostname()} {alive.pid}\n")
        os.utime(lock, (time.time() - 60, time.time() - 60))
        assert act(ledger, lock_wait_s=0.1)[1].commit is None
        alive.terminate()
    assert alive.returncode == -signal.SIGTERM  # and by no signal before


def test_git_fails_with_odd_bytes_or_without_a_word(ledger: Ledger) -> None:
    with pytest.raises(repositories.GitFailed, match="no-such-\N{REPLACEMENT CHARACTER}"):
        _run(ledger.root, "no-such-\udcff")
    with pytest.raises(repositories.GitFailed, match="git config ended with status 1"):
        _run(ledger.root, "config", "no.such")


def test_a_commit_without_a_message(ledger: Ledger) -> None:
    assert commit(ledger.root, [ledger.append(note())], "").commit
    assert git(ledger.root, "reflog", "-1", "--format=%gs").strip() == "commit:"


_KILLED = """
import os, sys
from pathlib import Path
from knobledger.ledger import history, repository
def die(*_): os.kill(os.getpid(), 9)
setattr(repository.Repository, sys.argv[2], die)
history.commit(Path(sys.argv[1]), [], "killed")
"""


@pytest.mark.parametrize("step", ["make_commit", "move_branch"])
def test_a_command_killed_while_committing(ledger: Ledger, step: str) -> None:
    (ledger.root / "staged").write_text("x\n")
    git(ledger.root, "add", "staged")
    id_ = ledger.append(note())
    killed = subprocess.run([sys.executable, "-c", _KILLED, str(ledger.root), step], check=False)
    assert killed.returncode == -9
    lock = ledger.root / ".git" / "index.lock"
    if lock.exists():
        os.utime(lock, (time.time() - 60, time.time() - 60))
    second, done = act(ledger, "second")
    assert committed(ledger) == sorted(f"A {place(ledger, one)}" for one in (id_, second))
    assert done.note == "1 event of earlier commands went into this commit too"
    assert status(ledger) == "A  staged\n"
    assert list((ledger.root / ".git").glob("knobledger-index*")) == []


def test_two_commands_commit_at_once(ledger: Ledger) -> None:
    code = (
        "import sys; from pathlib import Path; from knobledger.events.notes import Noted;"
        "from knobledger.ledger.store import Ledger, now; from knobledger.ledger.history import commit;"
        "ledger = Ledger(Path(sys.argv[1]));"
        "[commit(ledger.root, [ledger.append(Noted(at=now(), actor='a', text=str(n)))], 'm')"
        " for n in range(6)]"
    )
    running = [subprocess.Popen([sys.executable, "-c", code, str(ledger.root)]) for _ in range(2)]
    assert [process.wait() for process in running] == [0, 0]
    commit(ledger.root, [], "rest")
    assert status(ledger) == ""
    assert len(git(ledger.root, "ls-tree", "-r", "--name-only", "HEAD", "ledger").splitlines()) == 12
    git(ledger.root, "fsck", "--strict", "--no-dangling")
    assert verify(ledger) == ()


def test_no_repository_is_said_once(tmp_path: Path) -> None:
    ledger = Ledger(tmp_path)
    said = "the workspace is not in a git repository: the events are kept in ledger/ alone"
    assert act(ledger)[1] == Committed(None, said)
    assert act(ledger, "second")[1] == Committed(None, "")
    git(tmp_path, "init", "-q")
    assert act(ledger, "third")[1].note == "2 events of earlier commands went into this commit too"


def test_a_bare_repository(tmp_path: Path) -> None:
    git(tmp_path, "init", "-q", "--bare")
    assert "no working tree" in act(Ledger(tmp_path))[1].note


def test_git_is_not_installed(ledger: Ledger, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    empty = tmp_path / "empty"
    empty.mkdir()
    with monkeypatch.context() as patch:
        patch.setenv("PATH", str(empty))
        _, done = act(ledger)
        assert done == Committed(None, "git is not installed: the events are kept in ledger/ alone")
        code = (
            "import sys; from pathlib import Path; from knobledger.ledger.history import commit;"
            "print(commit(Path(sys.argv[1]), [], 'm').commit)"
        )
        fresh = subprocess.run(
            [sys.executable, "-c", code, ledger.root], capture_output=True, text=True, check=True
        )
        assert (fresh.stdout, fresh.stderr) == ("None\n", "")
    assert act(ledger, "second")[1].note == "1 event of earlier commands went into this commit too"


def test_git_can_not_be_run(ledger: Ledger, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    (tmp_path / "bin").mkdir()
    (tmp_path / "bin" / "git").write_text("no program")
    with monkeypatch.context() as patch:
        patch.setenv("PATH", str(tmp_path / "bin"))
        assert act(ledger)[1].note == (
            "not committed to git (git can't be run: permission denied): the events go into the next commit"
        )


def test_a_repository_that_git_distrusts(ledger: Ledger, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("GIT_TEST_ASSUME_DIFFERENT_OWNER", "1")
    _, done = act(ledger)
    assert done.commit is None
    assert "dubious ownership" in done.note


def test_a_repository_that_can_not_be_written(ledger: Ledger) -> None:
    objects = ledger.root / ".git" / "objects"
    in_the_way = [objects / f"{n:02x}" for n in range(256) if not (objects / f"{n:02x}").exists()]
    for path in in_the_way:
        path.write_bytes(b"")
    head = git(ledger.root, "rev-parse", "HEAD")
    _, done = act(ledger)
    assert done.commit is None
    assert done.note.startswith("not committed to git (can't write to ")
    assert ".git/objects'" in done.note
    assert git(ledger.root, "rev-parse", "HEAD") == head
    for path in in_the_way:
        path.unlink()
    assert act(ledger, "second")[1].commit
    assert status(ledger) == ""


def test_a_damaged_event_is_not_committed(ledger: Ledger) -> None:
    bad, good = ledger.append(note("bad")), ledger.append(note("good", 1))
    overwrite(path_of(ledger, bad), b"damaged")
    path_of(ledger, good).with_name("stray.txt").write_text("stray")
    assert commit(ledger.root, [bad, good], "m").commit
    assert committed(ledger) == [f"A {place(ledger, good)}"]


@pytest.mark.parametrize("content", [b"no JSON", b"{}", b"[]"])
def test_bytes_that_are_no_event_do_not_break_the_commit(ledger: Ledger, content: bytes) -> None:
    good = ledger.append(note())
    path_of(ledger, good).with_name(f"{id_of(content)}.json").write_bytes(content)
    assert commit(ledger.root, [id_of(content)], "m").commit


def test_a_full_disk_on_the_workspaces_side_is_a_note(tmp_path: Path) -> None:
    mount = tmp_path / "small"
    mount.mkdir()
    if subprocess.run(["mount", "-t", "tmpfs", "-o", "size=512k", "tmpfs", mount], check=False).returncode:
        pytest.skip("needs root and tmpfs")
    try:
        git(mount, "init", "-q", "--template=")
        ledger = Ledger(mount)
        act(ledger)
        id_ = ledger.append(note("second"))
        filler = mount / "filler"
        with filler.open("wb", buffering=0) as out, suppress(OSError):
            while True:
                out.write(b"x" * 4096)
        done = commit(mount, [id_], "m", lock_wait_s=0.1)
        assert done.commit is None
        assert done.note.startswith("not committed to git (")
        filler.unlink()
        assert act(ledger, "third")[1].commit
        assert status(ledger) == ""
        git(mount, "fsck", "--strict", "--no-dangling")
    finally:
        subprocess.run(["umount", mount], check=True)


def test_a_soft_reset_makes_events_uncommitted_again(ledger: Ledger) -> None:
    ids = [act(ledger, str(n))[0] for n in range(3)]
    time.sleep(2.1)  # the folders' stamps are settled, so the cache would trust them
    act(ledger, "settling")
    git(ledger.root, "reset", "-q", "--soft", "HEAD~3")
    _, done = act(ledger, "last")
    assert done.note == "3 events of earlier commands went into this commit too"
    assert f"A {place(ledger, ids[2])}" in committed(ledger)
    assert status(ledger) == ""


def test_a_repository_that_was_begun_anew_gets_everything(
    ledger: Ledger, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(days, "SETTLED_NS", -1_000_000_000_000)  # every stamp counts at once
    id_, _ = act(ledger)
    (ledger.root / ".git").rename(ledger.root / "was.git")
    git(ledger.root, "init", "-q")
    assert commit(ledger.root, [], "again").commit
    assert committed(ledger) == [f"A {place(ledger, id_)}"]


def test_a_cache_of_commits_in_another_format_is_not_believed(
    ledger: Ledger, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(days, "SETTLED_NS", -1_000_000_000_000)  # every stamp counts at once
    act(ledger)
    cache = ledger.root / ".knobledger" / "committed.json"
    told = json.loads(cache.read_bytes())
    id_ = ledger.append(note("uncommitted"))
    told["days"] = days.stamps(ledger.folder)
    for known in (1, 2):
        cache.write_text(json.dumps({**told, "format": known}))
        assert (commit(ledger.root, [id_], "m").commit is None) == (known == 1)


def test_clones_merge_without_conflict(ledger: Ledger, tmp_path: Path) -> None:
    act(ledger, "base")
    git(tmp_path, "clone", "-q", str(ledger.root), "clone")
    clone = Ledger(tmp_path / "clone")
    act(ledger, "ours")
    act(clone, "theirs")
    git(clone.root, "pull", "-q", "--no-rebase", "--no-edit")
    assert len(clone.heads()) == 2
    assert verify(clone) == ()
    act(clone, "joined")
    assert len(clone.heads()) == 1
    assert status(clone) == ""
