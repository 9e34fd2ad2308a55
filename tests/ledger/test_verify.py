"""Each way to tamper with a ledger, and the finding that names it."""

from __future__ import annotations

import errno
import json
import os
import stat
from collections.abc import Callable
from pathlib import Path
from typing import get_args

import pytest
import rfc8785
from hypothesis import given
from hypothesis import strategies as st
from ledgers import at, change, git, note, overwrite, path_of

from knobledger.event import encode, id_of
from knobledger.events.asking import HypothesisOpened
from knobledger.events.changes import Applied, Approved, Planned, Started
from knobledger.events.notes import Noted
from knobledger.ledger.days import day_of
from knobledger.ledger.finding import Finding, FindingKind
from knobledger.ledger.history import commit
from knobledger.ledger.snapshots import Snapshots
from knobledger.ledger.store import Ledger
from knobledger.ledger.verify import _ODD_NUMBER, TAIL_NOTE, canonical, verify
from knobledger.names import EventId


@pytest.fixture
def ledger(tmp_path: Path) -> Ledger:
    """Three notes in one line, without git."""
    ledger = Ledger(tmp_path / "workspace")
    for n in range(3):
        ledger.append(note(str(n), n))
    return ledger


@pytest.fixture
def kept(ledger: Ledger) -> Ledger:
    """The same in git, each note with a commit of its own."""
    git(ledger.root, "init", "-q")
    again = Ledger(ledger.root)
    commit(ledger.root, ledger.written, "begin")
    for n in range(3):
        commit(ledger.root, [again.append(note(f"in git {n}", 10 + n))], str(n))
    return again


def ids(ledger: Ledger) -> list[EventId]:
    return [stored.id for stored in ledger.events()]


def kinds(findings: tuple[Finding, ...]) -> list[tuple[str, str]]:
    return [(finding.kind, finding.event) for finding in findings]


def test_an_untouched_ledger_is_clean(kept: Ledger) -> None:
    change(kept, 100)
    Snapshots(kept.root).put(b"content")
    assert verify(kept) == ()
    assert verify(Ledger(kept.root / "nowhere")) == ()


@pytest.mark.parametrize("which", [0, 1, 2])
def test_edited(ledger: Ledger, which: int) -> None:
    id_ = ids(ledger)[which]
    path = path_of(ledger, id_)
    overwrite(path, path.read_bytes().replace(b"anna", b"emma"))
    [finding] = verify(ledger)
    assert (finding.kind, finding.event) == ("edited", id_)
    assert id_[:8] in finding.message
    assert not finding.warning


@pytest.mark.parametrize("left", [0, 1, 50, -1])
def test_cut_short(ledger: Ledger, left: int) -> None:
    id_ = ids(ledger)[1]
    overwrite(path_of(ledger, id_), path_of(ledger, id_).read_bytes()[:left])
    found = verify(ledger)
    assert ("edited", id_) in kinds(found)
    assert "cut short" in found[0].message


def test_deleted(ledger: Ledger) -> None:
    id_ = ids(ledger)[1]
    path_of(ledger, id_).unlink()
    [finding] = verify(ledger)
    assert (finding.kind, finding.event) == ("missing", id_)
    assert ids(ledger)[-1][:8] in finding.message


def test_a_deleted_tail_can_not_be_seen_without_git(ledger: Ledger) -> None:
    path_of(ledger, ids(ledger)[-1]).unlink()
    assert verify(ledger) == ()
    assert "cut-off tail" in TAIL_NOTE


def test_renamed_to_another_id(ledger: Ledger) -> None:
    id_ = ids(ledger)[0]
    path = path_of(ledger, id_)
    path.rename(path.with_name("0" * 64 + ".json"))
    found = verify(ledger)
    assert ("misnamed", id_) in kinds(found)
    assert ("missing", id_) in kinds(found)


@pytest.mark.parametrize(
    "name", ["event.json", "x" * 64 + ".json", "{id}.JSON", "{id}.json~", "{short}.json"]
)
def test_renamed_to_something_else(ledger: Ledger, name: str) -> None:
    id_ = ids(ledger)[0]
    path = path_of(ledger, id_)
    path.rename(path.with_name(name.format(id=id_, short=id_[:8])))
    assert ("misnamed", id_) in kinds(verify(ledger))


@pytest.mark.parametrize("folder", ["2026/12/01", "2026/11", "", "2026/11/30/deeper"])
def test_in_the_wrong_folder(ledger: Ledger, folder: str) -> None:
    id_ = ids(ledger)[1]
    path = path_of(ledger, id_)
    (ledger.folder / folder).mkdir(parents=True, exist_ok=True)
    path.rename(ledger.folder / folder / path.name)
    [finding] = verify(ledger)
    assert (finding.kind, finding.event) == ("misplaced", id_)
    assert "2026/11/30" in finding.message


@pytest.mark.parametrize(
    "spell",
    [
        lambda raw: json.dumps(raw),
        lambda raw: json.dumps(raw, sort_keys=True, separators=(",", ":")) + "\n",
        lambda raw: json.dumps(dict(reversed(raw.items())), separators=(",", ":")),
        lambda raw: json.dumps({**raw, "big": 2**60}, sort_keys=True, separators=(",", ":")),
        lambda raw: json.dumps({**raw, "one": 1.0}, sort_keys=True, separators=(",", ":")),
        lambda raw: json.dumps({**raw, "text": "é"}, sort_keys=True, separators=(",", ":")),
        lambda raw: json.dumps(raw, sort_keys=True, separators=(",", ":"))[:-1] + ',"zone":"UTC"}',
    ],
    ids=["spaces", "newline", "order", "big", "float", "escaped", "twice"],
)
def test_not_canonical(ledger: Ledger, spell: Callable[[object], str]) -> None:
    raw = json.loads(encode(note("odd", 10).but(parents=ledger.heads())))
    content = spell(raw).encode()
    ledger.path(id_of(content), day_of(at())).write_bytes(content)
    assert kinds(verify(ledger)) == [("not_canonical", id_of(content))]


def test_a_number_that_json_does_not_know(ledger: Ledger) -> None:
    raw = json.loads(encode(note("odd", 10).but(parents=ledger.heads())))
    content = json.dumps({**raw, "z": float("nan")}, sort_keys=True, separators=(",", ":")).encode()
    ledger.path(id_of(content), day_of(at())).write_bytes(content)
    assert kinds(verify(ledger)) == [("unreadable", id_of(content))]


@pytest.mark.parametrize(
    "content", [b"{}", b"hello", b"[" * 100_000, b'{"kind":"noted","at":"x","actor":"a","text":"t"}']
)
def test_right_bytes_that_are_no_event(ledger: Ledger, content: bytes) -> None:
    (ledger.folder / "2026/11/30" / f"{id_of(content)}.json").write_bytes(content)
    assert kinds(verify(ledger)) == [("unreadable", id_of(content))]


def test_a_file_that_the_disk_does_not_give(ledger: Ledger, monkeypatch: pytest.MonkeyPatch) -> None:
    """Root may read anything, and a failing disk can't be had; the call is the boundary."""
    last = path_of(ledger, ids(ledger)[-1])
    odd = last.with_name("odd")
    odd.touch()
    read = Path.read_bytes

    def refuse(self: Path) -> bytes:
        if self in (last, odd):
            raise OSError(errno.EIO, os.strerror(errno.EIO))
        return read(self)

    monkeypatch.setattr(Path, "read_bytes", refuse)
    assert {(one.kind, one.event, one.message) for one in verify(ledger)} == {
        ("unreadable", last.stem, f"2026/11/30/{last.name} can't be read: input/output error"),
        ("unreadable", "2026/11/30/odd", "2026/11/30/odd can't be read: input/output error"),
    }


def test_damage_comes_before_what_is_only_odd(ledger: Ledger) -> None:
    ledger.append(note("the clock went back", -60))
    (ledger.folder / "2026/11/30/README").touch()
    overwrite(path_of(ledger, ids(ledger)[2]), b"{}")
    listed = [kind for kind, _ in kinds(verify(ledger))]
    assert listed == sorted(listed, key=get_args(FindingKind).index)
    assert len(set(listed)) == 3


def test_what_every_event_holds_is_no_odd_number(ledger: Ledger) -> None:
    """The seconds of its moment are none, so the quick way is taken."""
    assert not any(_ODD_NUMBER.search(ledger.content(id_)) for id_ in ids(ledger))
    assert all(_ODD_NUMBER.search(text) for text in (b'{"a":1.0}', b'{"a":[1e5]}', b'{"a":[1,-2.5]}'))


def test_keys_are_in_the_order_of_utf16() -> None:
    """As RFC 8785 has it, and not in that of code points."""
    raw = {"\U0001f600": 1, "\uffff": 2}
    content = '{"\U0001f600":1,"\uffff":2}'.encode()
    assert canonical(raw, content)
    assert not canonical(raw, '{"\uffff":2,"\U0001f600":1}'.encode())


def test_strays(ledger: Ledger, tmp_path: Path) -> None:
    (ledger.folder / "README").write_text("hello")
    (ledger.folder / "2026/11/30/.hidden").write_text("hello")
    (ledger.folder / "2026/link.json").symlink_to(tmp_path)
    (ledger.folder / "2026/dangling").symlink_to("nowhere")
    os.mknod(ledger.folder / "2026/socket", stat.S_IFSOCK | 0o600)
    assert kinds(verify(ledger)) == [
        ("stray", "2026/11/30/.hidden"),
        ("stray", "2026/dangling"),
        ("stray", "2026/link.json"),
        ("stray", "2026/socket"),
        ("stray", "README"),
    ]


def test_references(ledger: Ledger) -> None:
    nobody = EventId("0" * 64)
    first = ids(ledger)[0]
    plan = ledger.append(Approved(at=at(10), actor="a", plan=nobody, source="flag"))
    wrong = ledger.append(Approved(at=at(11), actor="a", plan=first, source="flag"))
    about = ledger.append(Noted(at=at(12), actor="a", text="t", about=EventId("1" * 64)))
    many = HypothesisOpened(at=at(13), actor="a", slug="s", claim="c", about=(EventId("2" * 64),))
    ledger.append(many)
    found = verify(ledger)
    assert kinds(found) == [
        *(("missing", id_) for id_ in (nobody, "1" * 64, "2" * 64)),
        ("wrong_reference", wrong),
    ]
    assert plan[:8] in found[0].message
    assert about[:8] in found[1].message


@pytest.mark.parametrize(("names", "more"), [(3, ""), (4, " and 1 more"), (6, " and 3 more")])
def test_an_event_that_is_gone_is_named_with_three_that_know_it(
    ledger: Ledger, names: int, more: str
) -> None:
    gone = ids(ledger)[-1]
    knowing = {ledger.append(note("next", 10)): "parents"}
    for n in range(names - 1):
        knowing[ledger.append(Noted(at=at(11 + n), actor="a", text="t", about=gone))] = "about"
    path_of(ledger, gone).unlink()
    [finding] = verify(ledger)
    assert (finding.kind, finding.event) == ("missing", gone)
    named = ", ".join(f"{id_[:8]} ({knowing[id_]})" for id_ in sorted(knowing)[:3])
    assert finding.message == f"the event {gone[:8]} is gone: named by {named}{more}"


def test_all_that_is_missing_is_named(ledger: Ledger) -> None:
    """Three in one: a parent, a plan and what a note is about."""
    first = ids(ledger)[0]
    ledger.append(Approved(at=at(10), actor="a", plan=EventId("0" * 64), source="flag"))
    wrong = ledger.append(Approved(at=at(11), actor="a", plan=first, source="flag"))
    path_of(ledger, ids(ledger)[1]).unlink()
    assert [kind for kind, _ in kinds(verify(ledger))] == ["missing", "missing", "wrong_reference"]
    assert ("wrong_reference", wrong) in kinds(verify(ledger))


@pytest.mark.parametrize("apart", [0.5, 1, 30])
def test_heads_of_two_clones_that_nobody_joined(ledger: Ledger, apart: float) -> None:
    """Two commands at the same moment are no sign of tampering; half an hour without a word of the other is."""
    other = encode(note("of another clone", 10).but(parents=ledger.heads()))
    ledger.append(note("here", 10 + apart))
    ledger.add(other)
    assert kinds(verify(ledger)) == ([] if apart <= 1 else [("warning_inserted", id_of(other))])


def test_a_deleted_plan_or_attempt(ledger: Ledger) -> None:
    made = change(ledger, 10)
    for id_, field in ((made[0], "plan"), (made[2], "attempt")):
        content = ledger.content(id_)
        path = path_of(ledger, id_)
        path.unlink()
        [finding] = verify(ledger)
        assert (finding.kind, finding.event) == ("missing", id_)
        assert field in finding.message
        path.write_bytes(content)
    assert isinstance(ledger.get(made[0]).event, Planned)
    assert isinstance(ledger.get(made[2]).event, Started)
    assert isinstance(ledger.get(made[3]).event, Applied)


def test_a_parent_later_than_its_child_is_a_warning(ledger: Ledger) -> None:
    # the newest is of minute 2; seconds may cross between two commands at once
    ledger.append(note("a minute earlier", 1))
    early = ledger.append(note("the clock went back", -60))
    [finding] = verify(ledger)
    assert (finding.kind, finding.event) == ("warning_clock", early)
    assert finding.warning


def test_a_snapshot(ledger: Ledger) -> None:
    snapshots = Snapshots(ledger.root)
    digest = snapshots.put(b"content")
    (snapshots.folder / digest[:2] / digest).write_bytes(b"tampered")
    assert kinds(verify(ledger)) == [("snapshot", digest)]


def test_committed_and_gone_or_different(kept: Ledger) -> None:
    first, *_, last = ids(kept)
    path_of(kept, last).unlink()
    overwrite(path_of(kept, first), b"{}")
    found = verify(kept)
    assert {("missing", last), ("edited", first)} == set(kinds(found))
    mend = next(finding.message for finding in found if finding.kind == "missing")
    argv = mend.partition("`git ")[2].partition("`")[0]
    git(kept.root, *argv.split())
    assert ("missing", last) not in kinds(verify(kept))


def test_git_is_asked_with_a_detached_head_too(kept: Ledger) -> None:
    git(kept.root, "checkout", "-q", "--detach")
    assert verify(kept) == ()
    tail = ids(kept)[-1]
    path_of(kept, tail).unlink()
    assert kinds(verify(kept)) == [("missing", tail)]


def test_a_repository_without_any_commit_says_nothing(ledger: Ledger) -> None:
    git(ledger.root, "init", "-q")
    assert verify(ledger) == ()


def test_what_differs_from_what_git_has_is_named(kept: Ledger) -> None:
    path = path_of(kept, ids(kept)[0])
    overwrite(path, b"{}")
    place = path.relative_to(kept.folder).as_posix()
    assert (
        f"{place} differs from what git has; `git checkout HEAD -- :/ledger/events/{place}` brings git's copy back"
    ) in {finding.message for finding in verify(kept)}


def test_a_repository_that_git_does_not_open_is_said(kept: Ledger, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("GIT_TEST_ASSUME_DIFFERENT_OWNER", "1")
    [finding] = verify(kept)
    assert (finding.kind, finding.event) == ("warning_history", "git")
    assert finding.message.startswith("git's copy could not be compared: fatal: detected dubious ownership")


def test_a_commit_that_deletes_an_event(kept: Ledger) -> None:
    last = ids(kept)[-1]
    git(kept.root, "rm", "-q", path_of(kept, last).relative_to(kept.root).as_posix())
    git(kept.root, "commit", "-qm", "tidy up")
    [finding] = verify(kept)
    assert (finding.kind, finding.event) == ("deleted_in_git", last)
    assert git(kept.root, "rev-parse", "--short=8", "HEAD").strip() in finding.message


def test_a_commit_that_edits_an_event_and_one_that_puts_it_back(kept: Ledger) -> None:
    id_ = ids(kept)[1]
    path = path_of(kept, id_)
    content = path.read_bytes()
    overwrite(path, content.replace(b"anna", b"emma"))
    git(kept.root, "commit", "-qam", "edit")
    assert ("rewritten_in_git", id_) in kinds(verify(kept))
    overwrite(path, content)
    git(kept.root, "commit", "-qam", "and back")
    assert kinds(verify(kept)) == [("rewritten_in_git", id_)] * 2


def test_all_that_git_holds_and_the_folder_lacks_is_named(kept: Ledger) -> None:
    """Beside a file that is no event and comes before them."""
    (kept.folder / "2026/11/30/.notes").write_text("no event")
    git(kept.root, "add", "-A")
    git(kept.root, "commit", "-qm", "notes")
    gone = ids(kept)
    places = [path_of(kept, id_).relative_to(kept.folder).as_posix() for id_ in gone]
    for place in places:
        (kept.folder / place).unlink()
    said = {finding.message for finding in verify(kept) if finding.kind == "missing"}
    assert {
        f"{place} is committed in git, and gone from the working tree; `git checkout HEAD -- :/ledger/events/{place}` "
        "brings git's copy back"
        for place in places
    } <= said


def test_all_that_one_commit_did_to_events_is_named(kept: Ledger) -> None:
    notes = kept.folder / "2026/11/30/.notes"
    notes.write_text("no event")
    git(kept.root, "add", "-A")
    git(kept.root, "commit", "-qm", "notes")
    notes.unlink()
    first, second, third, *_ = ids(kept)
    for id_ in (first, second):
        path_of(kept, id_).unlink()
    overwrite(path_of(kept, third), b"{}")
    git(kept.root, "commit", "-qam", "several at once")
    by = git(kept.root, "rev-parse", "HEAD")[:8]
    found = [finding for finding in verify(kept) if finding.kind.endswith("_in_git")]
    assert {finding.message for finding in found} == {
        f"the commit {by} deleted the event {first[:8]}",
        f"the commit {by} deleted the event {second[:8]}",
        f"the commit {by} changed the event {third[:8]}",
    }


def test_a_merge_that_drops_an_event(kept: Ledger) -> None:
    root = kept.root
    git(root, "switch", "-qc", "other")
    dropped = kept.append(note("on the other branch", 50))
    commit(root, [dropped], "other")
    git(root, "switch", "-q", "main")
    ours = kept.append(note("ours", 51))
    commit(root, [ours], "ours")
    git(root, "merge", "-q", "-s", "ours", "-m", "drop theirs", "other")
    assert ("deleted_in_git", dropped) in kinds(verify(kept))


def test_a_plain_merge_is_clean(kept: Ledger) -> None:
    root = kept.root
    git(root, "switch", "-qc", "other")
    commit(root, [kept.append(note("on the other branch", 50))], "other")
    git(root, "switch", "-q", "main")
    commit(root, [Ledger(root).append(note("ours", 51))], "ours")
    git(root, "merge", "-q", "-m", "both", "other")
    assert verify(kept) == ()


def test_a_history_that_no_longer_holds_the_last_commit(kept: Ledger) -> None:
    git(kept.root, "commit", "-q", "--amend", "-m", "another text")
    [finding] = verify(kept)
    assert finding.kind == "warning_history"
    assert finding.warning


def test_git_is_asked_about_the_workspaces_own_folder_only(kept: Ledger) -> None:
    inner = Ledger(kept.root / "-team [x]" / "a\tb" / "*")
    inner.root.mkdir(parents=True)
    commit(inner.root, [inner.append(note("inner"))], "inner")
    path_of(kept, ids(kept)[-1]).unlink()
    git(kept.root, "commit", "-qam", "delete outside")
    assert verify(inner) == ()
    assert [kind for kind, _ in kinds(verify(kept))] == ["deleted_in_git"]


_JSON = st.recursive(
    st.none() | st.booleans() | st.integers() | st.floats() | st.text(),
    lambda inner: st.lists(inner, max_size=3) | st.dictionaries(st.text(max_size=5), inner, max_size=3),
    max_leaves=8,
)


@given(st.dictionaries(st.text(max_size=5), _JSON, max_size=4), st.booleans())
def test_the_quick_test_of_canonical_form_agrees_with_rfc8785(
    raw: dict[str, object], ascii_only: bool
) -> None:
    written = json.dumps(raw, sort_keys=True, separators=(",", ":"), ensure_ascii=ascii_only)
    content = written.encode("utf-8", "replace")
    read = json.loads(content)
    try:
        expected = rfc8785.dumps(read) == content
    except (rfc8785.CanonicalizationError, UnicodeEncodeError):
        expected = False
    assert canonical(read, content) == expected


def test_an_event_put_in_afterwards_under_an_old_date(ledger: Ledger) -> None:
    """Well formed, well named, and known to nobody who wrote later."""
    assert verify(ledger) == ()
    late = note("it was always so", 1)
    content = encode(late.but(at=at(1), parents=()))
    path = ledger.folder / day_of(at(1)) / f"{id_of(content)}.json"
    path.parent.mkdir(parents=True, exist_ok=True)
    path.write_bytes(content)
    ledger.append(note("much later", 600))
    other = encode(note("and one more", 2).but(at=at(2), parents=()))
    (path.parent / f"{id_of(other)}.json").write_bytes(other)
    [finding] = verify(ledger)
    assert (finding.kind, finding.event) == ("warning_inserted", id_of(other))
    assert finding.message == (
        f"{id_of(other)[:8]} is dated {at(2)}, and none of the 1 later events knows of it: it came from another clone, "
        "or was put in afterwards"
    )
    third = encode(note("a third", 3).but(at=at(3), parents=()))
    (path.parent / f"{id_of(third)}.json").write_bytes(third)
    assert set(kinds(verify(ledger))) == {("warning_inserted", id_of(one)) for one in (other, third)}
