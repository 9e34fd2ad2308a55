"""Sharing a ledger by git: what the other clones have is taken in, what they lack is sent.

Event files never conflict: equal names mean equal bytes, so merging is plain union. What else lies in the
repository is merged as git does it, without its merge command, which would refuse beside staged work.
"""

from __future__ import annotations

import os
from collections.abc import Sequence
from contextlib import suppress
from pathlib import Path

from msgspec import Struct

from knobledger.errors import Conflict, LedgerBroken, Refused, Unreachable
from knobledger.event import decode, id_of
from knobledger.events.entry import Event
from knobledger.ledger.days import event_id
from knobledger.ledger.history import commit
from knobledger.ledger.repository import GitFailed, NoRepository, Repository, run
from knobledger.ledger.store import Ledger

_EVENTS = "ledger/events"
_ATTEMPTS = 5
"""So often it is begun anew because somebody else's push came in between."""


class Exchange(Struct, frozen=True):
    """What one sync did."""

    remote: str
    branch: str
    """as the remote calls it"""
    received: tuple[Event, ...]
    """new here, in order of (at, id)"""
    sent: int
    """events that the remote lacked"""
    note: str
    """empty, or a sentence for the command's footer"""


def exchange(root: Path) -> Exchange:
    """Commits what is not committed yet, merges what the remote has, and pushes.

    The operator's index and files stay as they are, but for files that came in and that nobody has touched here.
    Raises `Refused` (no remote, a rebase under way, ...), `Unreachable`, `Conflict` (in a file that is no event;
    the events have come in then), `LedgerBroken` (the remote holds false events or has deleted some).
    """
    note = commit(root, (), "ledger: entries of earlier commands").note
    try:
        for _ in range(_ATTEMPTS):
            repository = _repository(root)
            remote, branch = _remote(repository)
            theirs = _fetch(repository, remote, branch)
            received = _merge(root, repository, theirs, f"{remote}/{branch}") if theirs else ()
            sent = _lacking(_repository(root), theirs)
            if _push(_repository(root), remote, branch, theirs):
                return Exchange(remote, branch, received, sent, note)
    except NoRepository as error:
        raise Refused(
            f"{error}: there is nothing to sync", hint="`git init`, then `git remote add`"
        ) from error
    except GitFailed as error:
        raise Refused(
            f"git could not do it: {error}", hint="nothing is lost; mend it and `knob sync`"
        ) from error
    raise Refused(
        f"{remote}/{branch} moves on faster than it can be merged; what came in is here, nothing was sent",
        hint="`knob sync` again",
    )


def _repository(root: Path) -> Repository:
    repository = Repository.around(root)
    if why := repository.busy():
        raise Refused(f"nothing is synced now: {why}", hint="end that first, then `knob sync`")
    if repository.head is None:
        raise Refused("there is no commit here yet", hint="`git commit` your hosts.toml first")
    return repository


def _remote(repository: Repository) -> tuple[str, str]:
    """The remote and its branch: the upstream that is configured, else the only remote's branch of the same name."""
    assert repository.branch is not None
    own = repository.branch.removeprefix("refs/heads/")
    with suppress(GitFailed):
        remote = os.fsdecode(run(repository.folder, "config", f"branch.{own}.remote")).strip()
        merge = os.fsdecode(run(repository.folder, "config", f"branch.{own}.merge")).strip()
        return remote, merge.removeprefix("refs/heads/")
    remotes = os.fsdecode(run(repository.folder, "remote")).split()
    match remotes:
        case []:
            raise Refused(
                "this repository has no remote: there is nobody to sync with",
                hint="`git remote add origin URL`, then `knob sync`; see docs/team.md",
            )
        case [only]:
            return only, own
        case _:
            raise Refused(
                f"branch {own!r} has no upstream, and there are {len(remotes)} remotes",
                hint=f"`git branch --set-upstream-to {remotes[0]}/{own}`",
            )


def _fetch(repository: Repository, remote: str, branch: str) -> str | None:
    """The remote's commit; None where it has no such branch yet."""
    try:
        heads = os.fsdecode(run(repository.folder, "ls-remote", remote, f"refs/heads/{branch}")).split()
        if not heads:
            return None
        run(repository.folder, "fetch", "--quiet", "--no-tags", remote, f"refs/heads/{branch}")
        return os.fsdecode(run(repository.folder, "rev-parse", "FETCH_HEAD")).strip()
    except GitFailed as error:
        raise Unreachable(
            f"{remote!r} can't be read: {error}", hint=f"`git fetch {remote}` says more; nothing was changed"
        ) from error


def _merge(root: Path, repository: Repository, theirs: str, name: str) -> tuple[Event, ...]:
    ours = repository.head
    assert ours is not None
    if repository.holds(theirs):
        return ()
    folder = repository.folder
    try:
        base = os.fsdecode(run(folder, "merge-base", ours, theirs)).strip()
    except GitFailed as error:
        raise Refused(
            f"this repository and {name} have no commit in common",
            hint="`git clone` the shared one, and work there; see docs/team.md",
        ) from error
    contents = _incoming(repository, base, theirs, name)
    new = {}
    ledger = Ledger(root)
    for content in contents:
        id_, event = id_of(content), decode(content)
        if not ledger.has(id_, event.at):
            new[id_] = event
    if base == ours:
        made = theirs
    else:
        try:
            made = _merge_commit(repository, ours, theirs, name)
        except _Clash as clash:
            _union(root, contents)
            raise Conflict(
                f"the events of {name} are in; but {clash}, and nothing was sent",
                hint=f"`git merge {name}` and settle it, then `knob sync`",
            ) from clash
    _move(repository, ours, made, name, root, contents)
    return tuple(event for _, event in sorted(new.items(), key=lambda item: (item[1].at, item[0])))


def _incoming(repository: Repository, base: str, theirs: str, name: str) -> list[bytes]:
    """The event files that they have added since we parted, each proven. Raises `LedgerBroken`."""
    # pathspecs of git commands are relative to its folder, the names in its answers to the top
    out = run(
        repository.folder,
        *("diff-tree", "-r", "-z", "--no-renames", "--raw", "--no-abbrev", base, theirs, "--", _EVENTS),
    )
    words = os.fsdecode(out).split("\0")
    blobs: dict[str, str] = {}
    for facts, path in zip(words[::2], words[1::2], strict=False):
        _, _, _, blob, letter = facts.split(" ")
        if event_id(Path(path).name) is None:
            continue
        if letter != "A":
            raise LedgerBroken(
                f"{name} has {'deleted' if letter == 'D' else 'changed'} the event {Path(path).stem[:8]}, "
                "which is never done; nothing was merged",
                hint="`knob verify` in a clone of it tells more",
                event=Path(path).stem,
            )
        blobs[path] = blob
    return [_proven(repository, path, blob, name) for path, blob in blobs.items()]


def _proven(repository: Repository, path: str, blob: str, name: str) -> bytes:
    content = run(repository.folder, "cat-file", "blob", blob)
    if id_of(content) != Path(path).stem:
        raise LedgerBroken(
            f"{name} holds the event {Path(path).stem[:8]} with other bytes than it was written with; "
            "nothing was merged",
            hint="ask who pushed it",
            event=Path(path).stem,
        )
    decode(content)
    return content


class _Clash(Exception):
    """Files that can't be merged; the message names them, or says why git does not merge."""


def _merge_commit(repository: Repository, ours: str, theirs: str, name: str) -> str:
    """A commit of both, made beside the index and the working tree. Raises `_Clash`."""
    folder = repository.folder
    try:
        tree = os.fsdecode(
            run(folder, "merge-tree", "--write-tree", "--name-only", "--no-messages", ours, theirs)
        )
    except GitFailed as error:
        both = _clashing(repository, ours, theirs)
        why = f"{both} was changed here and there" if both else f"git can't merge the rest ({error})"
        raise _Clash(why) from error
    made = run(folder, "commit-tree", tree.strip(), "-p", ours, "-p", theirs, "-m", f"ledger: merge {name}")
    return os.fsdecode(made).strip()


def _clashing(repository: Repository, ours: str, theirs: str) -> str:
    """The names of files that both sides changed differently."""
    base = os.fsdecode(run(repository.folder, "merge-base", ours, theirs)).strip()
    sides = [
        set(os.fsdecode(run(repository.folder, "diff", "--name-only", "-z", base, side)).split("\0"))
        for side in (ours, theirs)
    ]
    return ", ".join(
        sorted(name for name in sides[0] & sides[1] if name and event_id(Path(name).name) is None)
    )


def _move(
    repository: Repository, ours: str, made: str, name: str, root: Path, contents: Sequence[bytes]
) -> None:
    """Index, files and branch from one commit to another, keeping what the operator has in hand."""
    try:
        _two_trees(repository, ours, made)
    except GitFailed as error:
        _union(root, contents)
        raise Conflict(
            f"the events of {name} are in; but what else it changed would overwrite your uncommitted work "
            f"({error}), and nothing was sent",
            hint="commit or stash that, then `knob sync`",
        ) from error
    try:
        repository.move_branch(made, f"sync with {name}")
    except GitFailed:
        _two_trees(repository, made, ours)
        raise


def _two_trees(repository: Repository, before: str, after: str) -> None:
    """As `git switch` does it: refuses where something uncommitted would be lost, changes nothing then."""
    top = Path(os.fsdecode(run(repository.folder, "rev-parse", "--show-toplevel")).removesuffix("\n"))
    with suppress(GitFailed):
        run(top, "update-index", "-q", "--refresh")
    run(top, "read-tree", "-m", "-u", before, after)


def _union(root: Path, contents: Sequence[bytes]) -> None:
    ledger = Ledger(root)
    for content in contents:
        ledger.add(content)


def _lacking(repository: Repository, theirs: str | None) -> int:
    """How many events of ours the remote does not have."""
    empty = os.fsdecode(run(repository.folder, "hash-object", "-t", "tree", os.devnull)).strip()
    assert repository.head is not None
    out = run(
        repository.folder,
        *("diff-tree", "-r", "-z", "--name-only", "--diff-filter=A", theirs or empty, repository.head),
        *("--", _EVENTS),
    )
    return sum(event_id(Path(name).name) is not None for name in os.fsdecode(out).split("\0"))


def _push(repository: Repository, remote: str, branch: str, theirs: str | None) -> bool:
    """Whether the remote has our commit now; False: somebody was faster. Raises `Unreachable`."""
    if repository.head == theirs:
        return True
    try:
        run(repository.folder, "push", "--quiet", remote, f"{repository.head}:refs/heads/{branch}")
    except GitFailed as error:
        if _fetch(repository, remote, branch) != theirs:
            return False
        raise Unreachable(
            f"what came in is here, but {remote!r} took nothing: {error}",
            hint=f"`git push {remote}` says more; `knob sync` again later",
        ) from error
    return True
