"""A git commit of one file that was changed by us, and of nothing else; staged work stays as it is."""

from __future__ import annotations

import os
from pathlib import Path

from knobledger.ledger.history import Committed, person
from knobledger.ledger.objects import FILE_MODE
from knobledger.ledger.repository import GitFailed, NoRepository, Repository, run


def in_git(path: Path) -> bool:
    """Whether git holds this file."""
    try:
        repository = Repository.around(path.parent)
        folder = repository.prefix.rstrip("/")
        return os.fsencode(path.name) in repository.trees([folder]).get(folder, {})
    except (GitFailed, OSError):
        return False


def commit_file(
    path: Path, before: bytes, after: bytes, actor: str, message: str, *, lock_wait_s: float = 2.0
) -> Committed:
    """Commits `path` as `after`, if HEAD and the index hold `before`: the author's own edits are left to the author.

    Never raises for git's sake: where no commit is made, the note says why (empty: git does not hold the file).
    """
    try:
        repository = Repository.around(path.parent)
        if held_back := repository.busy():
            return Committed(None, f"{path.name} is not committed: {held_back}")
        folder = repository.prefix.rstrip("/")
        way = [folder.rsplit("/", n)[0] for n in range(folder.count("/") + 1)] if folder else []
        trees = repository.trees(["", *way])
        held = trees.get(folder, {}).get(os.fsencode(path.name))
        if held is None:
            return Committed(None, "")
        place = f"{folder}/{path.name}" if folder else path.name
        mine = (FILE_MODE, repository.objects.id_of("blob", before))
        asked = ("--literal-pathspecs", "ls-files", "-s", "-z", "--", path.name)
        staged = run(path.parent, *asked)
        if held != mine or staged.split(b" ")[1:2] != [mine[1].hex().encode()]:
            return Committed(
                None, f"{path.name} is not committed: it holds edits of your own beside the addendum"
            )
        made, blobs = repository.make_commit(trees, {place: after}, person(repository, actor), message)
        with repository.index_with(blobs, wait_s=lock_wait_s):
            repository.move_branch(made, message)
        return Committed(made, "")
    except NoRepository:
        return Committed(None, "")
    except (GitFailed, OSError) as error:
        return Committed(None, f"{path.name} is not committed: {error}")
