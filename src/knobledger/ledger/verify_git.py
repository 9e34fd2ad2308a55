"""What git's copy of the ledger says against the working tree, and against its own past."""

from __future__ import annotations

import os
from collections.abc import Collection, Iterator
from contextlib import suppress
from pathlib import Path

from knobledger.ledger.days import event_id
from knobledger.ledger.finding import Finding, FindingKind
from knobledger.ledger.history import last_commit
from knobledger.ledger.repository import GitFailed, NoRepository, Repository, run
from knobledger.names import short
from knobledger.quoting import quote


def git_findings(root: Path, places: Collection[str]) -> Iterator[Finding]:
    """What is wrong between git and the files at `places` (paths below `ledger/events/`).

    Nothing at all where there is no git.
    """
    if not (root / "ledger").is_dir():
        return
    try:
        repository = Repository.around(root / "ledger")
        if repository.head is None:
            return
        yield from _against_tree(repository, root / "ledger" / "events", places)
        yield from _against_past(repository)
        last = last_commit(root)
        if last is not None and not repository.holds(last):
            yield Finding(
                "warning_history",
                last,
                f"HEAD does not descend from {short(last)}, the last commit made here: another branch is "
                "checked out, or the history was rewritten",
            )
    except NoRepository:
        return
    except GitFailed as e:
        yield Finding("warning_history", "git", f"git's copy could not be compared: {e}")


def _against_tree(repository: Repository, events: Path, places: Collection[str]) -> Iterator[Finding]:
    """Events in HEAD's tree that the working tree lacks, or holds with other bytes."""
    top = f"{repository.prefix}events/"
    listed = run(repository.folder, "ls-tree", "-r", "-z", "--full-tree", "HEAD", "--", top)
    for line in listed.split(b"\0")[:-1]:
        meta, name = line.split(b"\t", 1)
        path = os.fsdecode(name)
        place = path.removeprefix(top)
        id_ = event_id(place.rpartition("/")[2])
        if id_ is None:
            continue
        mend = f"`git checkout HEAD -- {quote(':/' + path)}` brings git's copy back"
        if place not in places:
            yield Finding(
                "missing", id_, f"{place} is committed in git, and gone from the working tree; {mend}"
            )
            continue
        with suppress(OSError):
            here = repository.objects.id_of("blob", (events / place).read_bytes())
            if here.hex() != meta.split()[2].decode():
                yield Finding("edited", id_, f"{place} differs from what git has; {mend}")


def _against_past(repository: Repository) -> Iterator[Finding]:
    """Event files that some commit deleted or changed. A merge counts against each of its parents."""
    top = f"{repository.prefix}events/"
    out = run(
        repository.folder,
        *("log", "-m", "-z", "--no-renames", "--no-ext-diff", "--diff-filter=DMT", "--name-status"),
        *("--format=%x01%H", "HEAD", "--", f":(top,literal){top}"),
    )
    for commit in os.fsdecode(out).split("\x01")[1:]:
        id_of_commit, *words = (word.strip("\n") for word in commit.split("\0"))
        words = [word for word in words if word]
        for status, path in zip(words[::2], words[1::2], strict=False):
            event = event_id(path.rpartition("/")[2])
            if event is None:
                continue
            did = "deleted" if status == "D" else "changed"
            kind: FindingKind = "deleted_in_git" if status == "D" else "rewritten_in_git"
            yield Finding(kind, event, f"the commit {short(id_of_commit)} {did} the event {short(event)}")
