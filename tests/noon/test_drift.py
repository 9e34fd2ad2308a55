"""Drift, by the means that people use: `sed -i`, an editor's new inode, `cp -p`, `touch -d`."""

from __future__ import annotations

import os
import subprocess
from collections.abc import Callable
from datetime import UTC, datetime
from pathlib import Path

import pytest
from handmade import KNOB, Folder, set_to, write

from knobledger.event import moment_of
from knobledger.hosts.host import Completed
from workspaces import SCRIPT, Bench


@pytest.fixture
def folder(tmp_path: Path) -> Folder:
    made = Folder(tmp_path, "decode", "prefill")
    with made.open() as workspace:
        workspace.adopt(["*"])
    return made


def _sed(script: Path) -> None:
    subprocess.run(("sed", "-i", "s/=256/=512/", str(script)), check=True)


def _editor(script: Path) -> None:
    new = script.with_name(".serve.sh.new")
    new.write_bytes(set_to("512"))
    new.rename(script)


def _copied_with_times(script: Path) -> None:
    old = script.with_name("elsewhere.sh")
    write(old, set_to("512"), "2020-01-01 00:00 UTC")
    subprocess.run(("cp", "-p", str(old), str(script)), check=True)


def _touched(script: Path) -> None:
    write(script, set_to("512"), "2020-01-01 00:00 UTC")


@pytest.mark.parametrize(
    ("edit", "trusted"), [(_sed, True), (_editor, True), (_copied_with_times, False), (_touched, False)]
)
def test_drift_is_shown_as_knobs_and_lines_with_its_time(
    folder: Folder, edit: Callable[[Path], None], trusted: bool
) -> None:
    edit(folder.script)
    with folder.open() as workspace:
        report = workspace.drift([])
        kinds = [event.kind for event in workspace.state.events.values()]
    assert kinds == ["observed", "observed"]  # looking records nothing
    assert report.exit_code == 0
    found, other = (item.to_json() for item in report.targets)
    assert (other["target"], other["state"], other["drift"]) == ("gpu1/prefill", "as recorded", False)
    assert (found["target"], found["drift"]) == ("gpu1/decode", True)
    assert [(e["name"], e["before"], e["after"]) for e in found["edits"]] == [(KNOB.decode(), "256", "512")]
    assert f"+export {KNOB.decode()}=512" in found["diff"]
    assert found["not_before"] == found["recorded_at"]
    changed = moment_of(found["not_after"]).timestamp()
    if trusted:
        assert changed <= int(os.stat(folder.script).st_mtime) + 1
    else:
        # the file's own time is from before the last proof, so it is worth nothing: any time until now
        assert found["mtime"].startswith("2020-01-01T00:00:00")
        assert changed > moment_of(found["not_before"]).timestamp()
    assert any("belongs to" in hint for hint in found["hints"])


def test_touch_alone_is_no_drift(folder: Folder) -> None:
    subprocess.run(("touch", "-d", "2020-01-01", str(folder.script)), check=True)
    assert [item["state"] for item in folder.json("drift")["targets"]] == ["as recorded", "as recorded"]


def test_exit_codes_and_hosts_that_are_down(folder: Folder) -> None:
    folder.knob("drift", "--exit-code")
    _sed(folder.script)
    folder.knob("drift")
    folder.knob("drift", "gpu1/decode", "--exit-code", code=10)
    hosts = folder.root / "hosts.toml"
    hosts.write_text(
        hosts.read_text()
        + '[hosts.down]\naddress = "127.0.0.1"\nport = 1\n[hosts.down.services.a]\nscript = "/a.sh"\n'
    )
    found = folder.json("drift", "--exit-code", code=20)["targets"]
    assert [item["state"] for item in found] == ["drifted", "as recorded", "not known"]
    assert found[2]["drift"] is None
    assert found[2]["error"]
    text = folder.knob("since", "1h", "--live", code=20)
    assert "256 → 512" in text
    assert "down/a" in text
    folder.knob("adopt", "*", "--go-ahead", code=20)
    folder.knob("drift", "gpu1/*", "--exit-code")


def test_the_hosts_records_are_hints(tmp_path: Path) -> None:
    bench = Bench(tmp_path / "ws")
    with bench.open() as workspace:
        workspace.adopt(["gpu1/decode"])
    bench.host.put(SCRIPT, set_to("512"))
    with bench.open() as workspace:
        at = datetime.fromtimestamp(bench.host.files[SCRIPT].mtime, UTC).isoformat()
        argv = ("tail", "-c", "4000000", "/var/log/auth.log")
        log = f"{at} gpu1 sudo: ada : USER=root ; COMMAND=/bin/sed -i API_KEY=hunter2hunter2 {SCRIPT}\n"
        bench.host.answers[argv] = Completed(argv, 0, log.encode(), b"")
        found = workspace.drift([]).targets[0].to_json()
    (hint,) = [hint for hint in found["hints"] if hint.startswith("ada ran")]
    assert "hunter2" not in hint


def test_adopt_records_it_and_credits_nobody(folder: Folder) -> None:
    _sed(folder.script)
    refused = folder.json("adopt", "gpu1/decode", code=1)["error"]
    assert refused["hint"] == "`knob adopt gpu1/decode --go-ahead`"
    assert folder.json("drift")["targets"][0]["drift"] is True
    (done,) = folder.json("adopt", "gpu1/decode", "--go-ahead")["targets"]
    assert len(done["events"]) == 1
    assert folder.script.read_bytes() == set_to("512")  # nothing on the host is changed
    (line,) = folder.since("1h")["observed"]
    assert (line["actor"], line["on_behalf_of"], line["recorded_by"]) == ("", "", "anna")
    (knob,) = [
        k for k in folder.json("status", "gpu1/decode")["targets"][0]["knobs"] if k["name"] == KNOB.decode()
    ]
    assert knob["actor"] == ""
    blamed = [item for item in folder.json("blame", "gpu1/decode")["lines"] if KNOB.decode() in item["text"]]
    assert [(item["actor"], item["by_hand"]) for item in blamed] == [("", True)]
    # the second time there is nothing to do
    again = folder.json("adopt", "gpu1/decode", "--go-ahead")["targets"]
    assert again[0]["events"] == []


def test_drift_that_is_adopted_can_be_taken_back(folder: Folder) -> None:
    _sed(folder.script)
    folder.knob("adopt", "gpu1/decode", "--go-ahead")
    seen = folder.since("1h")["observed"][0]["change"]
    refused = folder.json("restore", seen, code=1)["error"]
    assert "nothing to restore" in refused["message"]
    folder.knob("revert", seen[:8], "--go-ahead")
    assert folder.script.read_bytes() == set_to("256")
    assert folder.since("1h")["observed"][0]["status"] == "reverted"
    folder.knob("verify")


def test_a_first_contact_can_not_be_taken_back(folder: Folder) -> None:
    with folder.open() as workspace:
        first = next(iter(workspace.state.events))
    assert "nothing is known" in folder.json("revert", first, code=1)["error"]["message"]


def test_plan_mode_may_look_and_adopt(folder: Folder, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("KNOBLEDGER_MODE", "plan")
    _sed(folder.script)
    assert "256 → 512" in folder.knob("drift")
    folder.knob("adopt", "gpu1/decode", "--backups", "--go-ahead")


def test_what_was_just_recorded_is_not_headed_as_unrecorded(tmp_path: Path) -> None:
    made = Folder(tmp_path, "decode")
    told = made.knob("adopt", "gpu1/decode", "--go-ahead")
    assert "recorded now" in told
    assert "never recorded" not in told
