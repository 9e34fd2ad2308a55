"""What two clones take from each other and give, by a real git with a bare repository between them."""

from __future__ import annotations

import shutil
from collections.abc import Callable, Iterator
from pathlib import Path
from typing import NamedTuple

import pytest
from ledgers import files, git, note, overwrite, path_of, scratch

from knobledger.errors import Conflict, LedgerBroken, Refused, Unreachable
from knobledger.event import id_of
from knobledger.ledger import sharing
from knobledger.ledger.sharing import Exchange, exchange
from knobledger.ledger.store import Ledger
from knobledger.names import EventId

pytestmark = pytest.mark.tool("git")

_run = sharing.run


class Clones(NamedTuple):
    here: Path
    there: Path
    shared: Path
    """the bare repository"""


def _clones(folder: Path, where: str) -> Clones:
    """`where`: the workspace's folder in the repository, from its top."""
    top, shared = folder / "here", folder / "shared.git"
    git(folder, "init", "-q", "--bare", "shared.git")
    git(folder, "init", "-q", "here")
    (top / where).mkdir(parents=True, exist_ok=True)
    for name in ("hosts.toml", "notes.txt"):
        (top / where / name).write_text("1\n2\n3\n4\n5\n6\n7\n8\n9\n")
    git(top, "add", "-A")
    git(top, "commit", "-qm", "hosts")
    git(top, "remote", "add", "origin", "../shared.git")
    git(top, "push", "-q", "-u", "origin", "main")
    git(folder, "clone", "-q", "shared.git", "there")
    git(folder / "there", "remote", "set-url", "origin", "../shared.git")
    return Clones(top / where, folder / "there" / where, shared)


@pytest.fixture(scope="module")
def made() -> Iterator[Path]:
    """Clones of each form, made once."""
    with scratch() as folder:
        for name, where in (("top", ""), ("below", "team/ws ü")):
            place = Path(folder) / name
            place.mkdir()
            _clones(place, where)
        yield Path(folder)


def _copied(made: Path, tmp_path: Path, where: str) -> Clones:
    shutil.copytree(made / ("below" if where else "top"), tmp_path, dirs_exist_ok=True)
    return Clones(tmp_path / "here" / where, tmp_path / "there" / where, tmp_path / "shared.git")


@pytest.fixture
def clones(made: Path, tmp_path: Path) -> Clones:
    return _copied(made, tmp_path, "")


@pytest.fixture(params=["", "team/ws ü"], ids=["top", "below"])
def wherever(made: Path, tmp_path: Path, request: pytest.FixtureRequest) -> Clones:
    return _copied(made, tmp_path, request.param)


def say(root: Path, text: str, minute: float = 0) -> EventId:
    return Ledger(root).append(note(text, minute))


def head(root: Path, rev: str = "HEAD") -> str:
    return git(root, "rev-parse", rev).strip()


def subject(root: Path, rev: str = "HEAD") -> str:
    return git(root, "log", "-1", "--format=%s", rev).strip()


def push(root: Path, text: str = "by hand") -> None:
    """What somebody does with plain git."""
    git(root, "add", "-A")
    git(root, "commit", "-qm", text)
    git(root, "push", "-q", "origin", "HEAD:refs/heads/main")


def edit(root: Path, name: str, line: int, text: str) -> None:
    lines = (root / name).read_text().splitlines()
    lines[line - 1] = text
    (root / name).write_text("\n".join(lines) + "\n")


def texts(told: Exchange) -> list[str]:
    return [str(getattr(event, "text", event.kind)) for event in told.received]


# -- what comes and goes -------------------------------------------------------------


def test_what_is_sent_is_received(wherever: Clones) -> None:
    here, there, shared = wherever
    say(here, "one", 1)
    say(here, "two", 2)
    sent = exchange(here)
    assert sent == Exchange("origin", "main", (), 2, "2 events of earlier commands went into this commit too")
    assert subject(here) == "ledger: entries of earlier commands"
    assert head(here) == head(shared, "main") == head(here, "origin/main")
    came = exchange(there)
    assert (texts(came), came.sent, came.note) == (["one", "two"], 0, "")
    # nothing of its own: its branch goes on to the same commit
    assert head(there) == head(shared, "main")
    assert git(there, "reflog", "-1", "--format=%gs").strip() == "commit: sync with origin/main"
    assert files(Ledger(here)) == files(Ledger(there))
    assert git(there, "status", "--porcelain") == ""
    again = exchange(there)
    assert again == Exchange("origin", "main", (), 0, "")


def test_nothing_is_pushed_where_nothing_is_new(clones: Clones, monkeypatch: pytest.MonkeyPatch) -> None:
    asked: list[str] = []

    def spied(folder: Path, *argv: str) -> bytes:
        asked.append(argv[0])
        return _run(folder, *argv)

    monkeypatch.setattr(sharing, "run", spied)
    exchange(clones.here)
    assert {"push", "read-tree", "merge-tree"}.isdisjoint(asked)


def test_both_sides_are_merged(wherever: Clones) -> None:
    here, there, shared = wherever
    say(here, "here", 5)
    edit(here, "hosts.toml", 1, "here")
    git(here, "commit", "-qm", "hosts, here", "hosts.toml")
    exchange(here)
    say(there, "there late", 9)
    say(there, "there early", 1)
    edit(there, "hosts.toml", 9, "there")
    git(there, "commit", "-qm", "hosts, there", "hosts.toml")
    edit(there, "notes.txt", 1, "not committed")
    (there / "draft").write_text("staged\n")
    git(there, "add", "draft")
    theirs, ours = head(shared, "main"), head(there)
    came = exchange(there)
    assert (texts(came), came.sent) == (["here"], 2)
    merged = git(there, "log", "-1", "--format=%s %P").split()
    assert merged[:3] == ["ledger:", "merge", "origin/main"]
    assert merged[4:] == [theirs]
    assert head(there, f"{merged[3]}^") == ours, "our commit of the events is on top of our own work"
    assert (there / "hosts.toml").read_text().splitlines()[::8] == ["here", "there"]
    assert git(there, "diff", "--name-only", "--relative") == "notes.txt\n"
    assert git(there, "diff", "--name-only", "--relative", "--cached") == "draft\n"
    assert head(there) == head(shared, "main") == head(there, "origin/main")
    assert texts(exchange(here)) == ["there early", "there late"]
    assert files(Ledger(here)) == files(Ledger(there))


def test_what_came_in_is_told_in_the_order_of_the_events(clones: Clones) -> None:
    made = [say(clones.there, str(n), minute) for n, minute in enumerate((7, 3, 3, 1))]
    exchange(clones.there)
    expected = sorted(range(4), key=lambda n: ((7, 3, 3, 1)[n], made[n]))
    assert texts(exchange(clones.here)) == [str(n) for n in expected]


def test_an_event_that_is_here_already_is_not_told_again(clones: Clones) -> None:
    here, there, _ = clones
    id_ = say(there, "both")
    Ledger(here).add(Ledger(there).content(id_))
    say(there, "there", 1)
    say(here, "here", 2)
    exchange(there)
    came = exchange(here)
    assert (texts(came), came.sent) == (["there"], 1)


def test_other_files_in_the_ledger_are_merged_and_not_counted(clones: Clones) -> None:
    here, there, _ = clones
    exchange(here)
    (there / "ledger" / "events").mkdir(parents=True)
    for name in ("README", ".first"):
        (there / "ledger" / "events" / name).write_text("what this is\n")
    say(there, "between them")
    for root in (here, there):
        # no event of ours, as it lies elsewhere
        (root / f"{id_of(root.name.encode())}.json").write_text("{}")
    git(here, "add", "-A")
    git(here, "commit", "-qm", "a file of that form")
    push(there)
    (there / "ledger" / "events" / "README").write_text("changed\n")
    push(there)
    say(here, "one")
    came = exchange(here)
    assert (texts(came), came.sent) == (["between them"], 1)
    (there / "ledger" / "events" / "README").unlink()
    assert exchange(there).received
    git(there, "checkout", "-q", "--", "ledger")


def test_tags_are_not_taken_along(clones: Clones) -> None:
    git(clones.here, "config", "remote.origin.tagOpt", "--tags")
    say(clones.there, "one")
    exchange(clones.there)
    git(clones.there, "tag", "v1")
    git(clones.there, "push", "-q", "origin", "v1")
    exchange(clones.here)
    assert git(clones.here, "tag") == ""


# -- which remote ----------------------------------------------------------------------


def test_an_empty_remote_gets_everything(wherever: Clones) -> None:
    here, _, shared = wherever
    shutil.rmtree(shared)
    git(shared.parent, "init", "-q", "--bare", "shared.git")
    say(here, "one")
    say(here, "two", 1)
    told = exchange(here)
    assert (told.received, told.sent) == ((), 2)
    assert head(here) == head(shared, "main")


def test_a_branch_without_an_upstream_goes_to_that_of_its_name(clones: Clones) -> None:
    here, there, shared = clones
    main = head(there)
    for root in (here, there):
        git(root, "switch", "-q", "-c", "work/x")
    say(here, "one")
    told = exchange(here)
    assert (told.remote, told.branch, told.sent) == ("origin", "work/x", 1)
    assert head(here) == head(shared, "work/x") == head(here, "origin/work/x")
    assert head(shared, "main") == main
    say(there, "two", 1)
    told = exchange(there)
    assert (texts(told), told.sent) == (["one"], 1)
    assert texts(exchange(here)) == ["two"]
    assert head(shared, "main") == main


def test_the_upstream_may_be_called_otherwise(clones: Clones) -> None:
    here, there, shared = clones
    git(here, "remote", "add", "another", "../elsewhere.git")
    git(here, "switch", "-q", "-c", "mine", "--track", "origin/main")
    say(there, "there")
    exchange(there)
    say(here, "one", 1)
    told = exchange(here)
    assert (told.remote, told.branch, texts(told), told.sent) == ("origin", "main", ["there"], 1)
    assert subject(here) == "ledger: merge origin/main"
    assert head(here) == head(shared, "main")


def test_half_an_upstream_is_none(clones: Clones) -> None:
    here = clones.here
    git(here, "config", "branch.main.remote", "elsewhere")
    git(here, "config", "--unset", "branch.main.merge")
    told = exchange(here)
    assert (told.remote, told.branch) == ("origin", "main")


# -- refusals ----------------------------------------------------------------------------


def refused(root: Path, kind: type[Exception] = Refused) -> tuple[str, str]:
    with pytest.raises(kind) as error:
        exchange(root)
    assert type(error.value) is kind
    return error.value.message, error.value.hint  # type: ignore[attr-defined]


def test_without_a_repository_a_commit_or_a_remote(clones: Clones, tmp_path: Path) -> None:
    alone = tmp_path / "alone"
    alone.mkdir()
    assert refused(alone) == (
        "the workspace is not in a git repository: there is nothing to sync",
        "`git init`, then `git remote add`",
    )
    git(alone, "init", "-q")
    assert refused(alone) == ("there is no commit here yet", "`git commit` your hosts.toml first")
    here, _, _ = clones
    git(here, "switch", "-q", "-c", "mine")
    git(here, "remote", "add", "another", "../elsewhere.git")
    assert refused(here) == (
        "branch 'mine' has no upstream, and there are 2 remotes",
        "`git branch --set-upstream-to another/mine`",
    )
    git(here, "remote", "remove", "origin")
    git(here, "remote", "remove", "another")
    assert refused(here) == (
        "this repository has no remote: there is nobody to sync with",
        "`git remote add origin URL`, then `knob sync`; see docs/team.md",
    )
    git(here, "switch", "-q", "--detach")
    assert refused(here) == ("nothing is synced now: HEAD is detached", "end that first, then `knob sync`")


def test_a_remote_that_can_not_be_reached(clones: Clones) -> None:
    here, _, shared = clones
    say(here, "one")
    shutil.move(shared, shared.with_name("away.git"))
    message, hint = refused(here, Unreachable)
    assert message.startswith("'origin' can't be read: fatal: '../shared.git' does not appear")
    assert hint == "`git fetch origin` says more; nothing was changed"


def test_a_remote_that_takes_nothing(clones: Clones) -> None:
    here, there, shared = clones
    say(there, "there")
    exchange(there)
    git(shared, "config", "receive.hideRefs", "refs/heads/main")
    say(here, "one", 1)
    before = head(shared, "main")
    message, hint = refused(here, Unreachable)
    assert message == (
        f"what came in is here, but 'origin' took nothing: ! [remote rejected] {head(here)} -> main "
        "(deny updating a hidden ref)"
    )
    assert hint == "`git push origin` says more; `knob sync` again later"
    assert head(shared, "main") == before
    assert len(files(Ledger(here))) == 2
    git(shared, "config", "--unset", "receive.hideRefs")
    assert exchange(here).sent == 1


def test_repositories_that_have_nothing_in_common(clones: Clones, tmp_path: Path) -> None:
    other = tmp_path / "other"
    other.mkdir()
    git(other, "init", "-q")
    (other / "hosts.toml").touch()
    git(other, "add", "-A")
    git(other, "commit", "-qm", "another beginning")
    git(other, "remote", "add", "origin", "../shared.git")
    assert refused(other) == (
        "this repository and origin/main have no commit in common",
        "`git clone` the shared one, and work there; see docs/team.md",
    )


# -- events that are not what they should be -----------------------------------------------


def broken(root: Path) -> tuple[str, str, object]:
    with pytest.raises(LedgerBroken) as error:
        exchange(root)
    assert git(root, "rev-list", "--count", "HEAD..FETCH_HEAD").strip() != "0", "it is not merged"
    return error.value.message, error.value.hint, error.value.values.get("event")


@pytest.mark.parametrize("word", ["deleted", "changed"])
def test_an_event_that_they_deleted_or_changed(wherever: Clones, word: str) -> None:
    here, there, _ = wherever
    id_ = say(there, "there")
    exchange(there)
    exchange(here)
    path = path_of(Ledger(there), id_)
    if word == "deleted":
        path.unlink()
    else:
        overwrite(path, b"{}")
    push(there)
    say(here, "one", 1)
    assert broken(here) == (
        f"origin/main has {word} the event {id_[:8]}, which is never done; nothing was merged",
        "`knob verify` in a clone of it tells more",
        id_,
    )
    assert len(files(Ledger(here))) == 2


def test_an_event_that_they_moved(clones: Clones) -> None:
    here, there, _ = clones
    id_ = say(there, "there")
    exchange(there)
    exchange(here)
    path = path_of(Ledger(there), id_)
    path.rename(path.parent.parent / path.name)
    push(there)
    assert broken(here)[0].startswith(f"origin/main has deleted the event {id_[:8]}")


def test_an_event_that_is_not_what_its_name_says(clones: Clones) -> None:
    here, there, _ = clones
    say(there, "good", 1)
    id_ = say(there, "there")
    path = path_of(Ledger(there), id_)
    overwrite(path, path.read_bytes().replace(b"there", b"forged"))
    push(there)
    assert broken(here) == (
        f"origin/main holds the event {id_[:8]} with other bytes than it was written with; nothing was merged",
        "ask who pushed it",
        id_,
    )
    assert not (here / "ledger").exists()


def test_a_file_that_is_no_event_under_an_events_name(clones: Clones) -> None:
    here, there, _ = clones
    folder = there / "ledger" / "events" / "2026" / "11" / "30"
    folder.mkdir(parents=True)
    (folder / f"{id_of(b'no event')}.json").write_bytes(b"no event")
    push(there)
    assert broken(here)[0].startswith("not an event: ")


# -- what else lies in the repository ---------------------------------------------------------


def test_files_that_both_changed(wherever: Clones) -> None:
    """But not the event that both hold."""
    here, there, shared = wherever
    id_ = say(there, "both")
    Ledger(here).add(Ledger(there).content(id_))
    for root in (here, there):
        for name in ("notes.txt", "hosts.toml"):
            edit(root, name, 5, "here" if root is here else "there")
        git(root, "commit", "-qam", "both")
    say(there, "there", 1)
    exchange(there)
    say(here, "here", 2)
    before = head(shared, "main")
    prefix = git(here, "rev-parse", "--show-prefix").strip()
    assert refused(here, Conflict) == (
        f"the events of origin/main are in; but {prefix}hosts.toml, {prefix}notes.txt was changed here and there, "
        "and nothing was sent",
        "`git merge origin/main` and settle it, then `knob sync`",
    )
    assert len(files(Ledger(here))) == 3
    assert head(shared, "main") == before
    assert (here / "hosts.toml").read_text().splitlines()[4] == "here"
    assert subject(here) == "ledger: entries of earlier commands"


def test_a_file_in_the_place_of_a_folder(clones: Clones) -> None:
    here, there, _ = clones
    (there / "x").mkdir()
    (there / "x" / "y").touch()
    push(there)
    (here / "x").touch()
    git(here, "add", "x")
    git(here, "commit", "-qm", "x")
    message, _ = refused(here, Conflict)
    assert message == (
        "the events of origin/main are in; but git can't merge the rest (git merge-tree ended with status 1), "
        "and nothing was sent"
    )


def test_what_is_not_committed_is_not_overwritten(wherever: Clones) -> None:
    here, there, _ = wherever
    say(there, "there")
    edit(there, "hosts.toml", 1, "theirs")
    push(there)
    edit(here, "hosts.toml", 9, "not committed")
    (here / "staged").write_text("staged\n")
    git(here, "add", "staged")
    before = head(here), git(here, "status", "--porcelain"), (here / "hosts.toml").read_text()
    message, hint = refused(here, Conflict)
    assert message.startswith(
        "the events of origin/main are in; but what else it changed would overwrite your uncommitted work (error: Entry '"
    )
    assert message.endswith("hosts.toml' not uptodate. Cannot merge.), and nothing was sent")
    assert hint == "commit or stash that, then `knob sync`"
    now = (
        head(here),
        git(here, "status", "--porcelain", "--", ".", ":!ledger"),
        (here / "hosts.toml").read_text(),
    )
    assert now == before
    assert len(files(Ledger(here))) == 1
    git(here, "checkout", "-q", "--", "hosts.toml")
    assert exchange(here).received == ()
    assert (here / "hosts.toml").read_text().startswith("theirs\n")


def test_a_file_that_was_only_touched_is_no_uncommitted_work(clones: Clones) -> None:
    here, there, _ = clones
    edit(there, "hosts.toml", 1, "theirs")
    push(there)
    (here / "hosts.toml").rename(here / "kept")
    shutil.copyfile(here / "kept", here / "hosts.toml")
    (here / "kept").unlink()
    exchange(here)
    assert (here / "hosts.toml").read_text().startswith("theirs\n")


def test_a_branch_that_can_not_be_moved_leaves_everything_as_it_was(clones: Clones) -> None:
    here, there, _ = clones
    say(there, "there")
    edit(there, "hosts.toml", 1, "theirs")
    push(there)
    before = head(here), git(here, "ls-files", "-s"), (here / "hosts.toml").read_text()
    lock = here / ".git" / "refs" / "heads" / "main.lock"
    lock.touch()
    message, hint = refused(here)
    assert message.startswith("git could not do it: fatal: ")
    assert "cannot lock ref 'refs/heads/main'" in message
    assert hint == "nothing is lost; mend it and `knob sync`"
    lock.unlink()
    assert (head(here), git(here, "ls-files", "-s"), (here / "hosts.toml").read_text()) == before
    assert texts(exchange(here)) == ["there"]


# -- somebody else's push comes in between ------------------------------------------------------


def _pushes(monkeypatch: pytest.MonkeyPatch, before_each: Callable[[int], object]) -> list[int]:
    """Calls before each push; the list grows by one each time."""
    tried: list[int] = []

    def spied(folder: Path, *argv: str, **more: object) -> bytes:
        if argv[0] == "push":
            tried.append(len(tried))
            before_each(len(tried))
        return _run(folder, *argv, **more)  # type: ignore[arg-type]

    monkeypatch.setattr(sharing, "run", spied)
    return tried


def test_a_push_in_between_is_merged_as_well(clones: Clones, monkeypatch: pytest.MonkeyPatch) -> None:
    here, there, shared = clones

    def another(n: int) -> None:
        if n == 1:
            say(there, "in between", 1)
            push(there)

    say(here, "one")
    tried = _pushes(monkeypatch, another)
    told = exchange(here)
    assert (texts(told), told.sent, len(tried)) == (["in between"], 1, 2)
    assert told.note == "1 event of earlier commands went into this commit too"
    assert head(shared, "main") == head(here)


def test_a_remote_that_always_moves_on(clones: Clones, monkeypatch: pytest.MonkeyPatch) -> None:
    here, there, _ = clones

    def another(n: int) -> None:
        say(there, f"in between {n}", n)
        push(there)

    say(here, "one")
    tried = _pushes(monkeypatch, another)
    assert refused(here) == (
        "origin/main moves on faster than it can be merged; what came in is here, nothing was sent",
        "`knob sync` again",
    )
    assert len(tried) == 5
    assert len(files(Ledger(here))) == 5
