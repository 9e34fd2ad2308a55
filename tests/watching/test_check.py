"""`knob check` against this machine, a real sshd, and hosts that lack something."""

from __future__ import annotations

import json
import shutil
from pathlib import Path
from typing import Any

import pytest
from watched import SCRIPT, Watched

from knobledger.hosts import capabilities
from knobledger.hosts.local import LocalHost
from knobledger.hosts.readonly import ReadOnly
from knobledger.report.watching import Folder, HostCheck
from servers import free_port, openssh

NEEDED = (
    "sh",
    "dd",
    "date",
    "readlink",
    "uname",
    "id",
    "stat",
    "df",
    "sed",
    "cat",
    "cp",
    "ln",
    "mv",
    "rm",
    "chmod",
)


def checked(watched: Watched, *argv: str) -> tuple[int, list[dict[str, Any]]]:
    code, out, err = watched.say("check", *argv, "--json")
    assert out, err
    return code, list(json.loads(out)["hosts"])


def test_this_machine_can(watched: Watched) -> None:
    watched.write(SCRIPT)
    before = sorted(watched.folder.rglob("*"))
    code, [host] = checked(watched)
    assert code == 0
    assert (host["host"], host["up"], host["able"], host["problems"]) == ("gpu1", True, True, [])
    assert host["digest_tool"] == "sha256sum"
    assert host["user"]
    assert abs(host["clock_offset_s"]) < 2
    [folder] = host["folders"]
    assert (folder["path"], folder["there"], folder["writable"]) == (str(watched.folder), True, True)
    assert folder["free"] > 0
    assert sorted(watched.folder.rglob("*")) == before


@pytest.mark.tool("sshd", "ssh-keygen")
def test_side_by_side_over_ssh_and_one_is_down(watched: Watched, tmp_path: Path) -> None:
    watched.write(SCRIPT)
    with openssh(tmp_path / "sshd") as sshd:
        down = f'[hosts.gpu3]\naddress = "127.0.0.1"\nport = {free_port()}\n'
        config = watched.root / "hosts.toml"
        config.write_text(config.read_text() + sshd.toml("gpu2") + down)
        code, hosts = checked(watched)
        assert checked(watched, "gpu2")[0] == 0
        _, text, _ = watched.say("check")
    assert code == 20
    assert [(host["host"], host["up"]) for host in hosts] == [
        ("gpu1", True),
        ("gpu2", True),
        ("gpu3", False),
    ]
    assert hosts[1]["transport"] == "fabric"
    assert "gpu3" in hosts[2]["error"]
    assert "down" in text


def test_folders_that_are_in_the_way(watched: Watched) -> None:
    watched.configure('files = { env = "/nowhere/at all/x.env" }\n')
    code, [host] = checked(watched)
    assert (code, host["able"]) == (1, False)
    assert host["problems"] == ["no folder '/nowhere/at all'"]


def test_plan_mode_may_check(watched: Watched, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("KNOBLEDGER_MODE", "plan")
    assert checked(watched)[0] == 0


def test_a_host_that_is_not_in_the_file(watched: Watched) -> None:
    code, out, _ = watched.say("check", "gpu7", "--json")
    assert code == 1
    assert json.loads(out)["error"]["kind"] == "unknown"


@pytest.mark.parametrize(("lacks", "tag", "says"), [("flock", "lock", "hard link"), ("sha256sum", "end", "")])
def test_what_a_host_lacks(tmp_path: Path, lacks: str, tag: str, says: str) -> None:
    tools = tmp_path / "bin"
    tools.mkdir()
    for name in {*NEEDED, "flock", "sha256sum"} - {lacks}:
        (tools / name).symlink_to(shutil.which(name) or "/nowhere")
    # The folders that are appended to PATH hold everything, so this host searches nothing but its own.
    program = capabilities.program().replace(capabilities.SEARCH, "")
    words, nonce = capabilities.words(())
    host = LocalHost(environment={"PATH": str(tools)}, search="")
    done = host.run((*words[:2], program, *words[3:]), timeout_s=20)
    reply = capabilities.reply(done.stdout, nonce)
    if says:
        assert reply.text(tag) == says
        assert reply.outcome()[0] == "ok"
    else:
        kind, message = reply.outcome()
        assert kind == "notwritten"
        assert "SHA-256" in message


def test_the_read_only_host_runs_no_other_program() -> None:
    from knobledger.errors import PlanMode

    words, _ = capabilities.words(())
    host = ReadOnly(LocalHost())
    assert host.run(words, timeout_s=20).status == 0
    with pytest.raises(PlanMode):
        host.run((*words[:2], words[2] + "\n:", *words[3:]), timeout_s=20)


def test_problems() -> None:
    host = HostCheck(
        "gpu1",
        "local",
        stat="GNU",
        user="svc",
        clock_offset_s=-90.0,
        folders=(Folder("/a", True, False, 10), Folder("/b", True, True, 10), Folder("/c", True, True, None)),
    )
    assert host.with_problems(2.0, 1000).problems == (
        "its clock is -90.0 s off",
        "svc may not write in '/a'",
        "'/b' has 10 bytes left",
    )
