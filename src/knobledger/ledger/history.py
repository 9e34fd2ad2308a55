"""The ledger's history in git: one commit per command, holding event files and nothing else.

The operator's index keeps every entry it had, staged or not; hooks and signing stay out. Where
a commit would be lost later (detached HEAD, rebase, bisect) or can't be made, the events stay
uncommitted, go into the next command's commit, and the note says so.
"""

from __future__ import annotations

import json
import os
import re
import threading
from collections.abc import Callable, Mapping, Sequence
from contextlib import suppress
from datetime import UTC, datetime
from pathlib import Path
from typing import Any

from msgspec import Struct

from knobledger.errors import KnobError
from knobledger.event import id_of, stamp
from knobledger.ledger.days import Day, Stamp, day_of, ids_in, stamps
from knobledger.ledger.objects import Tree
from knobledger.ledger.repository import GitFailed, NoRepository, Repository, run
from knobledger.ledger.writing import private_folder, write_once, write_over
from knobledger.names import EventId

_FORMAT = 1
_ATTEMPTS = 3
"""So often a commit is begun anew because the branch has moved meanwhile."""
_PERSON = re.compile(r"([^<>\n\0]*?)\s*<([^<>\s\0]+)>")
_MAIL = re.compile(r"[^\s\0<>@]+@[^\s\0<>@]+")


class Committed(Struct, frozen=True):
    """What became of a command's events in git."""

    commit: str | None
    """the new commit; None: none was made"""
    note: str
    """empty, or a sentence for the command's footer"""


class Looked(Struct, frozen=True):
    """What git says about the repository before the commit is made."""

    repository: Repository
    user: tuple[str, str]
    """name and mail, as git knows them; may be empty"""
    trees: dict[str, Tree]
    """HEAD's folders on the way to the events of `day`"""
    day: Day
    checked_out: bytes
    """the file HEAD: which branch; that a branch has moved, git says when it is to be moved again"""

    def holds(self) -> bool:
        """Whether the same branch is checked out. Repositories that keep this elsewhere (reftable) are asked again."""
        said = b""
        with suppress(OSError):
            said = (self.repository.git_dir / "HEAD").read_bytes()
        return said == self.checked_out and b".invalid" not in said


def look_ahead(root: Path) -> Callable[[], Looked | None]:
    """Asks git while something else is waited for; call the result for what it said. None: ask again, and hear why."""
    found: list[Looked] = []

    def look() -> None:
        with suppress(GitFailed, OSError):
            repository = Repository.around(root / "ledger")
            day = day_of(stamp(datetime.now(UTC)))
            trees = repository.trees(_way(f"{repository.prefix}events/{day}"))
            checked_out = (repository.git_dir / "HEAD").read_bytes()
            found.append(Looked(repository, _git_user(repository), trees, day, checked_out))

    thread = threading.Thread(target=look, daemon=True)
    thread.start()

    def result() -> Looked | None:
        thread.join()
        return found[0] if found else None

    return result


def commit(
    root: Path,
    ids: Sequence[EventId],
    message: str,
    *,
    looked: Looked | None = None,
    lock_wait_s: float = 2.0,
) -> Committed:
    """Commit every event file of the workspace `root` that HEAD doesn't hold yet.

    `ids` are this command's events; the first one's actor becomes the author. Waits up to
    `lock_wait_s` for git's index lock. `looked` saves asking git again, unless the branch has moved since. Never
    raises for git's sake: a failure is a note.
    """
    if not (root / "ledger" / "events").is_dir():
        return Committed(None, "")
    for attempt in range(_ATTEMPTS):
        try:
            looked = looked if looked and looked.holds() else None
            repository = looked.repository if looked else Repository.around(root / "ledger")
            if held_back := repository.busy():
                return Committed(
                    None, f"not committed to git ({held_back}): the events go into the next commit"
                )
            return _commit(root, repository, ids, message, looked, lock_wait_s)
        except NoRepository as e:
            return Committed(None, _once(root, f"{e}: the events are kept in ledger/ alone"))
        except GitFailed as e:
            moved = attempt + 1 < _ATTEMPTS and "cannot lock ref" in str(e)
            looked = None
            if not moved:
                return Committed(None, f"not committed to git ({e}): the events go into the next commit")
        except OSError as e:
            why = (e.strerror or str(e)).lower()
            return Committed(None, f"not committed to git ({why}): the events go into the next commit")
    raise AssertionError("unreachable")


def last_commit(root: Path) -> str | None:
    """The last commit that a command made or found complete in this clone; None: not known."""
    return _load(root)[0]


def _commit(
    root: Path,
    repository: Repository,
    ids: Sequence[EventId],
    message: str,
    looked: Looked | None,
    lock_wait_s: float,
) -> Committed:
    events, prefix = root / "ledger" / "events", f"{repository.prefix}events"
    seen, known = _load(root)
    if seen is None or not repository.holds(seen):
        known = {}
    now = stamps(events)
    open_days = [day for day, stamp in now.items() if stamp is None or known.get(day) != stamp]
    if looked and open_days == [looked.day]:
        trees = looked.trees
    else:
        trees = repository.trees(place for day in open_days for place in _way(f"{prefix}/{day}"))
    fresh = _fresh(events, prefix, open_days, trees)
    if not fresh:
        if repository.head is not None:
            _save(root, repository.head, now)
        return Committed(None, "")
    by_id = {EventId(path[-69:-5]): content for path, content in fresh.items()}
    first = next((by_id[id_] for id_ in ids if id_ in by_id), next(iter(by_id.values())))
    made, blobs = repository.make_commit(trees, fresh, _author(repository, first, looked), message)
    with repository.index_with(blobs, wait_s=lock_wait_s):
        repository.move_branch(made, message)
    _save(root, made, now)
    others = len(by_id.keys() - set(ids))
    along = f"{others} event{'s' if others != 1 else ''} of earlier commands went into this commit too"
    return Committed(made, along if others else "")


def _way(folder: str) -> list[str]:
    """The folder and all above it, from the top ("") down."""
    parts = folder.split("/")
    return ["/".join(parts[:n]) for n in range(len(parts) + 1)]


def _fresh(events: Path, prefix: str, days: Sequence[Day], trees: Mapping[str, Tree]) -> dict[str, bytes]:
    """The intact event files that git doesn't hold, by path from the top, in a fixed order."""
    found: dict[str, bytes] = {}
    for day in days:
        inside = trees.get(f"{prefix}/{day}", {})
        for id_ in sorted(ids_in(events, day)):
            if f"{id_}.json".encode() in inside:
                continue
            with suppress(OSError):
                content = (events / day / f"{id_}.json").read_bytes()
                if id_of(content) == id_:
                    found[f"{prefix}/{day}/{id_}.json"] = content
    return found


def _author(repository: Repository, content: bytes, looked: Looked | None) -> str:
    """`Name <mail>`: the event's actor if it says so much, else git's own user, else a fixed one."""
    actor = ""
    with suppress(ValueError, KeyError, TypeError):
        actor = str(json.loads(content)["actor"])
    return person(repository, actor, looked.user if looked else None)


def person(repository: Repository, actor: str, user: tuple[str, str] | None = None) -> str:
    """`Name <mail>` of an actor, as `_author` says. `user`: what git calls the user, where it was asked before."""
    if named := _PERSON.fullmatch(actor):
        return f"{named[1].strip() or named[2]} <{named[2]}>"
    name, mail = user or _git_user(repository)
    if _MAIL.fullmatch(actor):
        return f"{name if name and mail == actor else actor} <{actor}>"
    return f"{name} <{mail}>" if name and mail else "knobledger <knobledger@localhost>"


def _git_user(repository: Repository) -> tuple[str, str]:
    """git's user.name and user.email, without what would break a commit's header; may be empty."""
    with suppress(GitFailed):
        said = os.fsdecode(run(repository.folder, "config", "-z", "--get-regexp", r"^user\.(name|email)$"))
        values = dict(item.partition("\n")[::2] for item in said.split("\0"))
        name, mail = (
            re.sub(r"[<>\n\0]", "", values.get(f"user.{key}", "")).strip() for key in ("name", "email")
        )
        return name, mail
    return "", ""


def _once(root: Path, sentence: str) -> str:
    """The sentence the first time that this workspace has reason to say it, empty afterwards."""
    with suppress(KnobError):
        said = private_folder(root) / "without-git"
        return sentence if write_once(said, sentence.encode() + b"\n", mode=0o600) else ""
    return sentence


def _load(root: Path) -> tuple[str | None, dict[Day, Stamp]]:
    """The last commit, and the folders that it holds completely. A cache: odd content is no content."""
    try:
        raw: dict[str, Any] = json.loads((root / ".knobledger" / "committed.json").read_bytes())
        if raw["format"] != _FORMAT:
            return None, {}
        return str(raw["commit"]), {Day(day): Stamp(stamp) for day, stamp in raw["days"].items()}
    except (OSError, ValueError, KeyError, TypeError, AttributeError):
        return None, {}


def _save(root: Path, commit_id: str, days: Mapping[Day, Stamp | None]) -> None:
    body = {
        "format": _FORMAT,
        "commit": commit_id,
        "days": {day: stamp for day, stamp in days.items() if stamp is not None},
    }
    with suppress(KnobError):
        private_folder(root)
        write_over(root / ".knobledger" / "committed.json", json.dumps(body).encode(), durable=False)
