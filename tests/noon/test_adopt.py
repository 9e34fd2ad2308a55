"""History that existed before: copies by hand, by Ansible, by pyinfra, and git, read into the ledger."""

from __future__ import annotations

import shlex
import shutil
import subprocess
import sys
from pathlib import Path

import pytest
from handmade import KNOB, Folder, set_to, without, write

from knobledger.events.changes import Observed
from workspaces import SERVE

NAME = KNOB.decode()
WATCHDOG = SERVE.replace(b"export NCCL", b"# pinned requests\nexport WATCHDOG=60\nexport NCCL")


@pytest.fixture
def folder(tmp_path: Path) -> Folder:
    """The incident's: raised at 14:14, saved at 20:20, taken out at 20:25."""
    made = Folder(tmp_path)
    script = made.script
    write(script.with_name(f"{script.name}.orig"), SERVE, "2026-11-27 09:00 UTC")
    write(script.with_name(f"{script.name}.pretgt_revert_2025.bak"), set_to("512"), "2026-11-28 20:20 UTC")
    write(script, without(), "2026-11-28 20:25:12 UTC")
    script.with_name(f"{script.name}.log").write_bytes(b"not a copy\n")
    return made


def edits(folder: Folder, when: str = "2026-11-27") -> list[tuple[str | None, ...]]:
    return [
        (line["not_before"], line["not_after"], edit["before"], edit["after"], line["status"])
        for line in folder.since(when)["observed"]
        for edit in line["edits"]
        if edit["name"] == NAME
    ]


def test_the_past_is_told_with_its_uncertainty(folder: Folder) -> None:
    folder.knob("adopt", "gpu1/decode", "--backups", "--go-ahead")
    saved, gone = "2026-11-28T20:20:00.000000Z", "2026-11-28T20:25:12.000000Z"
    assert edits(folder) == [
        ("2026-11-27T09:00:00.000000Z", saved, "256", "512", "reverted"),
        (saved, gone, "512", None, "in effect"),
    ]
    # what may have happened in the interval is in it, what can't have is not
    assert len(edits(folder, "2026-11-28 20:22")) == 1
    assert edits(folder, "2026-11-28 20:26") == []
    assert edits(folder, "1h") == []  # to adopt is no change
    blamed = folder.json("blame", "gpu1/decode")["lines"]
    assert {line["at"] for line in blamed} == {"2026-11-27T09:00:00.000000Z"}
    assert {line["actor"] for line in blamed} == {""}
    (knob,) = folder.json("blame", "gpu1/decode", NAME)["knobs"]
    assert [(t["before"], t["after"], t["status"]) for t in knob["history"]] == [
        ("256", "512", "reverted"),
        ("512", None, "in effect"),
    ]
    # the two edits, and the oldest copy, which has it already
    assert [e["kind"] for e in folder.json("log", "--knob", NAME)["entries"]] == ["observed"] * 3
    folder.knob("verify")


def test_the_second_time_adds_nothing(folder: Folder) -> None:
    folder.knob("adopt", "gpu1/decode", "--backups", "--go-ahead")
    before = edits(folder)
    write(folder.script.with_name(f"{folder.script.name}.bak"), set_to("300"), "2026-11-28 10:00 UTC")
    (again,) = folder.json("adopt", "gpu1/decode", "--backups", "--go-ahead")["targets"]
    assert again["events"] == []
    assert any("left out" in text for text in again["remarks"])
    assert edits(folder) == before


def test_the_order_of_adopting_does_not_matter(folder: Folder) -> None:
    """The first contact may be recorded long before anybody looks at the copies, and changes in between as well."""
    folder.knob("adopt", "gpu1/decode", "--go-ahead")
    folder.knob("set", "gpu1/decode", f"{NAME}=384", "--add", "--go-ahead")
    folder.knob("adopt", "gpu1/decode", "--backups", "--go-ahead")
    assert [line[2:] for line in edits(folder)] == [("256", "512", "reverted"), ("512", None, "overwritten")]
    with folder.open() as workspace:
        state = workspace.state
        assert state.files[workspace.config.target("gpu1/decode").name].event == state.changes[-1]
        assert state.refolded().edits == state.edits


@pytest.mark.parametrize("name", ["copy", "the revert", "the tune"])
def test_restore_brings_back_what_was_taken_out(folder: Folder, name: str) -> None:
    folder.knob("adopt", "gpu1/decode", "--backups", "--go-ahead")
    tune, revert = (line["change"] for line in folder.since("2026-11-27")["observed"])
    copy = f"{folder.script.name}.pretgt_revert_2025.bak"
    what = {"copy": copy, "the revert": revert, "the tune": tune}[name]
    done = folder.json("restore", what, "--go-ahead")
    assert folder.script.read_bytes() == set_to("512")
    assert done["clean"]
    assert done["receipt"]["matches_backup"]
    assert done["receipt"]["matches"].endswith(copy)
    assert [line[4] for line in edits(folder)] == ["restored", "reverted"]
    folder.knob("revert", done["change"], "--go-ahead")
    assert folder.script.read_bytes() == without()
    assert [line[4] for line in edits(folder)] == ["reverted", "restored"]
    folder.knob("verify")


def test_what_was_off_by_hand_before_is_owed_when_a_hypothesis_took_it(tmp_path: Path) -> None:
    """Off and on by hand, as the copies tell; then off under a hypothesis that falls."""
    folder = Folder(tmp_path)
    script = folder.script
    write(script.with_name(f"{script.name}.orig"), SERVE, "2026-11-27 09:00 UTC")
    write(script.with_name(f"{script.name}.off.bak"), without(), "2026-11-28 20:20 UTC")
    write(script, SERVE, "2026-11-28 20:25 UTC")
    folder.knob("adopt", "gpu1/decode", "--backups", "--go-ahead")
    folder.knob("hypothesis", "open", "hang", "it hangs")
    wrong = folder.json("unset", "gpu1/decode", NAME, "--for", "hang", "--go-ahead")["change"]
    folder.knob("verdict", "hang", "refuted", "--because", "it hangs without it")
    (item,) = folder.json("clawback")["items"]
    assert (item["change"], item["restorable"]) == (wrong, "clean")
    assert "Nothing was taken away wrongly" not in folder.knob("report", "postmortem")
    folder.knob("restore", wrong, "--go-ahead")
    assert script.read_bytes() == SERVE


def test_a_copy_whose_edit_is_undone_already_says_in_what_it_differs(tmp_path: Path) -> None:
    """By hand 256 became 512 and a knob was lost; later 512 was taken out, and the lost knob was put back."""
    folder = Folder(tmp_path)
    script = folder.script
    line = b"export NCCL_DEBUG=WARN\n"
    copy = script.with_name(f"{script.name}.orig")
    write(copy, SERVE, "2026-11-27 09:00 UTC")
    write(script, set_to("512").replace(line, b""), "2026-11-28 20:25 UTC")
    folder.knob("adopt", "gpu1/decode", "--backups", "--go-ahead")
    (hand,) = [item["change"] for item in folder.since("2026-11-27")["observed"]]
    out = folder.json("unset", "gpu1/decode", NAME, "--go-ahead")["change"]
    put = folder.json("set", "gpu1/decode", "NCCL_DEBUG=WARN", "--add", "--go-ahead")["change"]
    error = folder.json("restore", copy.name, code=1)["error"]
    assert f"{NAME} is absent, in the copy '256'" in error["message"]
    assert "NCCL_DEBUG" not in error["message"]
    parts = folder.json("revert", hand, code=1)["error"]
    assert f"{NAME} by {out[:8]}" in parts["message"]
    assert f"NCCL_DEBUG by {put[:8]}" in parts["message"]
    assert folder.json("restore", hand, code=1)["error"]["message"]
    (command,) = error["hint"].split("`")[1::2]
    folder.knob(*shlex.split(command)[1:], "--go-ahead")
    with folder.open() as workspace:
        target = workspace.config.target("gpu1/decode").name
        owner = workspace.state.owner(target, NAME)
        assert owner
        assert owner.edit.after == "256"
    assert "no knob differs" in folder.knob("restore", copy.name)


def test_of_two_copies_of_one_name_none_is_guessed(folder: Folder) -> None:
    """One was made by hand beside the file, the other by a change with the same label."""
    copy = folder.script.with_name(f"{folder.script.name}.pretgt_revert_2025.bak")
    folder.knob("adopt", "gpu1/decode", "--backups", "--go-ahead")
    folder.knob("set", "gpu1/decode", f"{NAME}=7", "--add", "--go-ahead")
    done = folder.json("unset", "gpu1/decode", NAME, "--label", "pretgt_revert_2025", "--go-ahead")
    ours = done["receipt"]["backup"]
    assert Path(ours).name == copy.name
    error = folder.json("restore", copy.name, code=1)["error"]
    assert f"`knob restore {copy}` or `knob restore {ours}`" in error["hint"].replace(
        f"`knob restore {ours}` or `knob restore {copy}`", f"`knob restore {copy}` or `knob restore {ours}`"
    )
    folder.knob("restore", ours, "--go-ahead")
    assert KNOB + b"=7" in folder.script.read_bytes()


def test_restore_keeps_what_others_put_in_between_the_same_two_copies(
    folder: Folder, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Nothing was copied between the revert and the fix, so one entry holds both: the fix must stay."""
    write(folder.script, without(WATCHDOG), "2026-11-28 20:40 UTC")
    folder.knob("adopt", "gpu1/decode", "--backups", "--go-ahead")
    done = folder.json("restore", f"{folder.script.name}.pretgt_revert_2025.bak", "--go-ahead")
    assert folder.script.read_bytes() == set_to("512", WATCHDOG)
    assert not done["clean"]
    assert [item["text"] for item in done["later_edits"]] == ["# pinned requests", "export WATCHDOG=60"]
    told = folder.since("2026-11-28")["observed"][-1]
    assert (told["status"], told["apart"]) == ("in effect", [NAME])
    monkeypatch.setenv("COLUMNS", "200")
    assert f"but not {NAME}" in " ".join(folder.knob("since", "2026-11-28").split())


def test_a_copy_that_was_overwritten_since_is_not_trusted(folder: Folder) -> None:
    folder.knob("adopt", "gpu1/decode", "--backups", "--go-ahead")
    copy = folder.script.with_name(f"{folder.script.name}.pretgt_revert_2025.bak")
    copy.write_bytes(b"something else\n")
    folder.knob("restore", copy.name, "--go-ahead")
    assert folder.script.read_bytes() == set_to("512")


def test_names_and_times_as_tools_make_them(tmp_path: Path) -> None:
    """Ansible copies with the old mtime and tells the moment in the name, pyinfra's sed renames: seen of both."""
    folder = Folder(tmp_path)
    script = folder.script
    write(script.with_name(f"{script.name}.15697.2026-11-28@07:55:09~"), SERVE, "2026-11-27 05:54 UTC")
    write(script.with_name(f"{script.name}.2611281205"), set_to("512"), "2026-11-28 07:55:09 UTC")
    write(script, set_to("300"), "2026-11-28 12:05:56 UTC")
    folder.knob("adopt", "gpu1/decode", "--backups", "--go-ahead")
    assert [line[:4] for line in edits(folder)] == [
        ("2026-11-28T07:55:09.000000Z", "2026-11-28T07:55:09.000000Z", "256", "512"),
        ("2026-11-28T12:05:00.000000Z", "2026-11-28T12:05:56.000000Z", "512", "300"),
    ]


def test_folders_made_by_ansible_and_pyinfra_themselves(tmp_path: Path) -> None:
    beside = Path(sys.executable).parent
    ansible, pyinfra = beside / "ansible", beside / "pyinfra"
    if not (ansible.exists() and pyinfra.exists()):
        pytest.skip("needs Ansible and pyinfra: pip install -e .[bench]")
    folder = Folder(tmp_path)
    script = folder.script
    write(script, SERVE, "2026-11-27 05:54 UTC")
    for argv in (
        (
            *(str(ansible), "localhost", "-c", "local", "-m", "lineinfile", "-a"),
            f"path={script} regexp=^export.{NAME}= line='export {NAME}=512' backup=yes",
        ),
        (
            *(str(pyinfra), "-y", "@local", "files.line", f"path={script}", f"line=export {NAME}=.*"),
            *(f"replace=export {NAME}=300", "backup=True"),
        ),
    ):
        subprocess.run(argv, check=True, capture_output=True, cwd=tmp_path)
    folder.knob("adopt", "gpu1/decode", "--backups", "--go-ahead")
    assert [line[2:4] for line in edits(folder)] == [("256", "512"), ("512", "300")]
    folder.knob("revert", folder.since("2026-11-27")["observed"][-1]["change"], "--go-ahead")
    assert script.read_bytes() == set_to("512")


@pytest.mark.tool("git")
def test_the_git_history_of_the_folder(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """As etckeeper keeps it."""
    folder = Folder(tmp_path)
    git = ("git", "-C", str(folder.host))
    subprocess.run((*git, "init", "-q"), check=True)
    for value, day in (("256", "27"), ("512", "28")):
        folder.script.write_bytes(set_to(value))
        when = f"2026-11-{day}T12:00:00+00:00"
        monkeypatch.setenv("GIT_COMMITTER_DATE", when)
        subprocess.run((*git, "add", "-A"), check=True)
        author = "Ada <ada@example.org>"
        subprocess.run(
            (*git, "commit", "-qm", f"ctas {value}", "--author", author, "--date", when), check=True
        )
    write(folder.script, without(), "2026-11-29 20:25 UTC")
    folder.knob("adopt", "gpu1/decode", "--backups", "--go-ahead")
    assert [line[1:4] for line in edits(folder)] == [
        ("2026-11-28T12:00:00.000000Z", "256", "512"),
        ("2026-11-29T20:25:00.000000Z", "512", None),
    ]
    first, second = folder.since("2026-11-27")["observed"]
    assert first["hints"][0].endswith("by Ada <ada@example.org>: ctas 512")
    folder.knob("restore", second["change"], "--go-ahead")
    assert folder.script.read_bytes() == set_to("512")


def test_secrets_in_copies_stay_in_snapshots(folder: Folder) -> None:
    secret = b"export API_KEY=hunter2hunter2\n"
    write(folder.script.with_name(f"{folder.script.name}.old"), SERVE + secret, "2026-11-26 09:00 UTC")
    out = folder.knob("adopt", "gpu1/decode", "--backups", "--go-ahead")
    out += folder.knob("since", "2026-11-20") + folder.knob("log", "--json")
    assert "hunter2" not in out
    events = [path.read_text() for path in (folder.root / "ledger").rglob("*.json")]
    assert any("API_KEY" in text for text in events)
    assert not any("hunter2" in text for text in events)


def test_copies_younger_than_the_first_entry_are_left_out_and_that_is_said(folder: Folder) -> None:
    folder.knob("adopt", "gpu1/decode", "--go-ahead")
    subprocess.run(("touch", "-d", "1 hour", f"{folder.script}.pretgt_revert_2025.bak"), check=True)
    (found,) = folder.json("adopt", "gpu1/decode", "--backups", "--go-ahead")["targets"]
    assert any("younger" in text for text in found["remarks"])
    assert [line[2:4] for line in edits(folder)] == [("256", None)]


def test_the_events_are_observed_and_name_what_proves_them(folder: Folder) -> None:
    folder.knob("adopt", "gpu1/decode", "--backups", "--go-ahead")
    with folder.open() as workspace:
        events = [event for event in workspace.state.events.values() if isinstance(event, Observed)]
    assert [event.source.rpartition("/")[2] for event in events] == [
        f"{folder.script.name}.orig",
        f"{folder.script.name}.pretgt_revert_2025.bak",
        folder.script.name,
        "",
    ]
    assert [bool(event.kept) for event in events] == [False, True, True, False]


def test_several_targets_at_different_times(tmp_path: Path) -> None:
    """The past of one target is told after another's, which reaches further towards today."""
    folder = Folder(tmp_path, "decode", "prefill")
    prefill = folder.script_of("prefill")
    folder.knob("adopt", "gpu1/prefill", "--go-ahead")
    write(folder.script.with_name(f"{folder.script.name}.bak"), set_to("512"), "2026-11-28 20:20 UTC")
    write(prefill.with_name(f"{prefill.name}.bak"), without(), "2026-11-20 20:20 UTC")
    folder.knob("adopt", "gpu1/decode", "gpu1/prefill", "--backups", "--go-ahead")
    with folder.open() as workspace:
        for file in workspace.state.files.values():
            assert [bool(workspace.state.events[id_].source) for id_, _ in file.history] == [
                True,
                True,
                False,
            ]  # type: ignore[attr-defined]


def test_two_clones_that_tell_the_same_past_tell_it_once(folder: Folder, tmp_path: Path) -> None:
    other = tmp_path / "other"
    shutil.copytree(folder.root, other)
    folder.knob("adopt", "gpu1/decode", "--backups", "--go-ahead")
    wanted = edits(folder)
    here = folder.root
    folder.root = other
    folder.knob("adopt", "gpu1/decode", "--backups", "--go-ahead")
    folder.root = here
    shutil.copytree(other / "ledger" / "events", here / "ledger" / "events", dirs_exist_ok=True)
    assert edits(folder) == wanted
    with folder.open() as workspace:
        assert len(workspace.state.repeated) == 3
        assert workspace.state.refolded().edits == workspace.state.edits
