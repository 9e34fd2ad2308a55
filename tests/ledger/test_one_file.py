"""A commit of one file of the operator's, by a real git."""

from __future__ import annotations

from pathlib import Path

import pytest
from ledgers import git

from knobledger.ledger.history import Committed
from knobledger.ledger.one_file import commit_file, in_git

pytestmark = pytest.mark.tool("git")

BEFORE, AFTER = b"what happened\n", b"what happened\n\nIt was not so.\n"
ANNA = "Anna <anna@example.org>"


@pytest.fixture
def top(tmp_path: Path) -> Path:
    git(tmp_path, "init", "-q")
    return tmp_path


def held(top: Path, name: str = "note.md", content: bytes = BEFORE) -> Path:
    """A file that is committed, with another one beside it and in each folder above."""
    path = top / name
    path.parent.mkdir(parents=True, exist_ok=True)
    path.write_bytes(content)
    for folder in Path(name).parents:
        (top / folder / "another").touch()
    git(top, "add", "-A")
    git(top, "commit", "-qm", "the operator's")
    return path


def correct(path: Path, message: str = "docs: it was not so") -> Committed:
    path.write_bytes(AFTER)
    return commit_file(path, BEFORE, AFTER, ANNA, message, lock_wait_s=0)


def left(path: Path, why: str) -> None:
    """It is not committed, and the note says why; empty: there is nothing to say."""
    head = git(path.parent, "rev-parse", "HEAD")
    assert correct(path) == Committed(None, f"{path.name} is not committed: {why}" if why else "")
    assert git(path.parent, "rev-parse", "HEAD") == head


OWN = "it holds edits of your own beside the addendum"


@pytest.mark.parametrize(
    "name",
    [
        "note.md",
        "docs/note.md",
        "docs/a b/ü/note.md",
        "docs/x[1].md",
        "docs/:(top)x",
        "docs/-x.md",
        "docs/BOX/note.md",
    ],
)
def test_one_file_and_nothing_else(top: Path, name: str) -> None:
    held(top, "docs/x1.md", b"would be meant by x[1].md, and sorts before it")
    path = held(top, name)
    (top / "another").write_text("not staged\n")
    (top / "staged").write_text("staged\n")
    git(top, "add", "staged")
    done = correct(path)
    assert done == Committed(git(top, "rev-parse", "HEAD").strip(), "")
    assert git(top, "show", "-z", "--format=", "--name-only", "HEAD").strip("\0") == name
    assert git(top, "log", "-1", "--format=%an <%ae> %s") == f"{ANNA} docs: it was not so\n"
    assert git(top, "reflog", "-1", "--format=%gs") == "commit: docs: it was not so\n"
    assert git(top, "cat-file", "blob", f"HEAD:{name}").encode() == AFTER
    assert git(top, "status", "--porcelain", "-z") == " M another\0A  staged\0"
    git(top, "fsck", "--strict", "--no-dangling")


def test_who_holds_it(top: Path) -> None:
    assert in_git(held(top, "top.md")) is True
    assert in_git(held(top, "docs/BOX/note.md")) is True
    path = held(top, "docs/note.md")
    (top / "docs" / "new.md").touch()
    (top / "drafts").mkdir()
    (top / "drafts" / "new.md").touch()
    assert in_git(path) is True
    assert in_git(top / "docs" / "new.md") is False
    assert in_git(top / "drafts" / "new.md") is False
    assert in_git(top / "gone" / "new.md") is False
    for name in ("docs/new.md", "drafts/new.md"):
        assert commit_file(top / name, b"", AFTER, ANNA, "") == Committed(None, "")


def test_without_a_repository(tmp_path: Path) -> None:
    assert in_git(tmp_path / "note.md") is False
    assert commit_file(tmp_path / "note.md", BEFORE, AFTER, ANNA, "") == Committed(None, "")


def test_before_the_first_commit(top: Path) -> None:
    (top / "note.md").write_bytes(BEFORE)
    git(top, "add", "note.md")
    assert in_git(top / "note.md") is False
    assert correct(top / "note.md") == Committed(None, "")


def test_edits_that_are_not_committed(top: Path) -> None:
    left(held(top, content=b"another text\n"), OWN)


def test_edits_that_are_staged(top: Path) -> None:
    path = held(top)
    path.write_bytes(b"another text\n")
    git(top, "add", "note.md")
    left(path, OWN)
    git(top, "rm", "-qf", "--cached", "note.md")
    left(path, OWN)


def test_a_program_is_left_to_its_author(top: Path) -> None:
    path = held(top)
    path.chmod(0o755)
    git(top, "commit", "-qam", "a program")
    left(path, OWN)


def test_where_a_commit_would_be_lost(top: Path) -> None:
    path = held(top)
    git(top, "switch", "-q", "--detach")
    left(path, "HEAD is detached")


def test_where_git_can_not(top: Path) -> None:
    path = held(top)
    lock = top / ".git" / "index.lock"
    lock.touch()
    left(path, "another git command holds the index's lock")
    lock.unlink()
    lock = top / ".git" / "refs" / "heads" / "main.lock"
    lock.touch()
    path.write_bytes(AFTER)
    done = commit_file(path, BEFORE, AFTER, ANNA, "x")
    assert done.commit is None
    assert "note.md is not committed: " in done.note
    assert "cannot lock ref 'refs/heads/main'" in done.note
    assert git(top, "diff", "--cached", "--name-only") == ""


def test_the_lock_is_waited_for_as_long_as_is_said(top: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    path = held(top)
    (top / ".git" / "index.lock").touch()
    waited: list[float] = []
    monkeypatch.setattr("knobledger.ledger.repository.time.sleep", waited.append)
    assert correct(path).commit is None
    assert waited == []
