"""One plan for many hosts: who is down is said, batches stop, all is taken back as one, a kill is settled."""

from __future__ import annotations

import os
import signal
import subprocess
import sys
import time
from collections.abc import Iterator
from pathlib import Path

import pytest
from fleets import HOSTS, Fleet, fleet, value_in

from knobledger.errors import Busy, Drifted, RolledBack, StateUnknown, Unreachable, Usage, together, worst
from knobledger.events.changes import Planned, Started
from knobledger.fleet import sizes
from knobledger.ledger.store import Ledger, now
from knobledger.names import TargetName
from workspaces import KNOB

pytestmark = pytest.mark.tool("sshd", "ssh-keygen")


@pytest.fixture
def sound(tmp_path: Path) -> Iterator[Fleet]:
    with fleet(tmp_path, broken=False) as made:
        yield made


@pytest.fixture
def broken(tmp_path: Path) -> Iterator[Fleet]:
    with fleet(tmp_path, broken=True) as made:
        yield made


@pytest.fixture
def small(tmp_path: Path) -> Iterator[Fleet]:
    with fleet(tmp_path, broken=False, hosts=4, slow=False) as made:
        yield made


def test_one_plan_for_all_and_one_revert(sound: Fleet) -> None:
    done = sound.knob("--json", "set", "decode", f"{KNOB}=512", "--go-ahead", "--why", "throughput")
    assert done.code == 0, done.err
    targets = done.json["targets"]
    assert [item["target"] for item in targets] == [f"{host}/decode" for host in sound.good]
    assert {item["outcome"] for item in targets} == {"applied"}
    assert len({item["receipt"]["backup"] for item in targets}) == HOSTS
    assert set(sound.values().values()) == {"512"}

    back = sound.knob("--json", "revert", "@", "--go-ahead")
    assert back.code == 0, back.err
    assert back.json["undoes"] == done.json["change"]
    assert all(item["clean"] and item["receipt"]["matches_backup"] for item in back.json["targets"])
    assert set(sound.values().values()) == {"256"}


def test_progress_is_said_of_the_slow_host_without_control_codes(sound: Fleet) -> None:
    done = sound.knob("set", "gpu*/decode", f"{KNOB}=512", "--plan")
    assert done.err.startswith(("reading: ", f"{sound.good[-1]}: reading, "))
    assert "at most 130 s" in done.err
    assert "\x1b" not in done.err


def test_hosts_that_are_down_are_all_named_and_nothing_is_planned(broken: Fleet) -> None:
    done = broken.knob("--json", "set", "decode", f"{KNOB}=512", "--go-ahead")
    assert done.code == 20
    error = done.json["error"]
    assert "--skip-unreachable" in error["hint"]
    assert {item["target"] for item in error["targets"]} == {
        f"{host}/decode" for host in (*broken.down, *broken.strange)
    }
    kinds = {item["target"]: item["kind"] for item in error["targets"]}
    assert kinds[f"{broken.strange[0]}/decode"] == "host_key"
    assert kinds[f"{broken.down[0]}/decode"] == "unreachable"
    assert set(broken.values().values()) == {"256"}
    assert broken.knob("plans", "--json").json["plans"] == []


def test_the_others_are_changed_where_that_was_chosen(broken: Fleet) -> None:
    done = broken.knob("--json", "set", "decode", f"{KNOB}=512", "--skip-unreachable", "--go-ahead")
    assert done.code == 0, done.err
    for host in (*broken.down, *broken.strange):
        assert any(text.startswith(f"{host}/decode is left out: ") for text in done.json["warnings"])
    values = broken.values()
    assert {values[host] for host in broken.good} == {"512"}
    assert {values[host] for host in (*broken.down, *broken.strange)} == {"256"}


def test_a_failed_batch_is_the_last(sound: Fleet) -> None:
    plan = sound.knob("--json", "set", "decode", f"{KNOB}=512", "--batch", "2,25%,100%", "--plan").json
    assert plan["batches"] == ["2", "25%", "100%"]
    # in the second batch one file drifts and one host goes down
    drifted, gone = sound.good[2], sound.good[3]
    sound.script(drifted).write_text(sound.script(drifted).read_text() + "# by hand\n")
    sound.away(gone)
    assert sound.knob("approve", plan["plan"]).code == 0
    done = sound.knob("--json", "apply", plan["plan"])
    assert done.code == 20, "unreachable ranks before drifted"
    outcomes = {item["target"].partition("/")[0]: item for item in done.json["targets"]}
    second = sound.good[2 : 2 + -(-HOSTS // 4)]
    assert outcomes[drifted]["exit"] == 10
    assert outcomes[gone]["exit"] == 20
    assert all(outcomes[host]["outcome"] == "applied" for host in (*sound.good[:2], *second[2:]))
    assert all(outcomes[host]["outcome"] == "not tried" for host in sound.good[2 + len(second) :])
    values = sound.values()
    assert {values[host] for host in (*sound.good[:2], *second[2:])} == {"512"}
    assert {values[host] for host in sound.good[2 + len(second) :]} == {"256"}

    back = sound.knob("--json", "revert", plan["plan"], "--go-ahead")
    assert back.code == 0, back.err
    assert len(back.json["targets"]) == 2 + len(second) - 2
    assert set(sound.values().values()) == {"256"}


def test_failures_are_said_last_and_hide_nothing(small: Fleet) -> None:
    plan = small.knob(
        "--json", "set", "decode", f"{KNOB}=512", "--batch", "1", "--max-failures", "1", "--plan"
    ).json
    small.script("gpu01").write_text("# somebody else's\n" + small.script("gpu01").read_text())
    small.knob("approve", plan["plan"])
    done = small.knob("apply", plan["plan"])
    assert done.code == 10
    lines = done.out.splitlines()
    assert "3 applied, 1 failed, 0 not tried" in lines
    [failed] = [line for line in lines if line.startswith("gpu01/decode: failed: ")]
    assert lines.index(failed) > max(n for n, line in enumerate(lines) if "backup " in line)


def test_what_a_knob_refuses_is_said_of_every_host(small: Fleet) -> None:
    for host in ("gpu02", "gpu04"):
        small.script(host).write_text("#!/bin/sh\nexec true\n")
    done = small.knob("--json", "set", "decode", f"{KNOB}=512", "--go-ahead")
    assert done.code == 1
    assert [item["target"] for item in done.json["error"]["targets"]] == ["gpu02/decode", "gpu04/decode"]
    assert value_in(small.script("gpu01")) == "256"


def test_several_targets_may_be_named_before_the_knobs(small: Fleet) -> None:
    done = small.knob("--json", "set", "gpu01/decode", "gpu0[34]/decode", f"{KNOB}=512", "--go-ahead")
    assert done.code == 0, done.err
    assert [item["target"] for item in done.json["targets"]] == [f"gpu{n:02}/decode" for n in (1, 3, 4)]
    assert list(small.values().values()) == ["512", "256", "512", "512"]
    taken = small.knob("--json", "unset", "gpu01/decode", "gpu03/decode", KNOB, "--go-ahead")
    assert [item["target"] for item in taken.json["targets"]] == ["gpu01/decode", "gpu03/decode"]
    found = small.knob("--json", "log", "--knob", KNOB).json["entries"]
    assert {item["target"] for item in found} == {f"gpu{n:02}/decode" for n in (1, 3, 4)}
    assert [item["kind"] for item in found].count("observed") == 3
    refused = small.knob("--json", "set", "gpu01/decode", KNOB, "--plan")
    assert (refused.code, refused.json["error"]["kind"]) == (2, "usage")
    assert refused.json["error"]["hint"].startswith(f"`{KNOB}=VALUE`")


def test_recover_settles_what_it_can_reach_and_names_the_rest(small: Fleet) -> None:
    plan = small.knob("--json", "set", "decode", f"{KNOB}=512", "--plan").json["plan"]
    small.knob("approve", plan)
    ledger = Ledger(small.root)
    for n in range(1, 5):
        target = TargetName(f"gpu{n:02}/decode")
        planned = ledger.get(plan).event
        assert isinstance(planned, Planned)
        file = next(one for one in planned.files if one.target == target)
        at = {"at": now(), "actor": "anna@example.org"}
        ledger.append(Started(**at, plan=plan, target=target, base=file.base, result=file.result))
    config = small.root / "hosts.toml"
    before = config.read_text()
    config.write_text(before.replace("[hosts.gpu03", "[hosts.renamed"))
    done = small.knob("--json", "recover").json
    assert [item["target"] for item in done["settled"]] == ["gpu01/decode", "gpu02/decode", "gpu04/decode"]
    assert {item["outcome"] for item in done["settled"]} == {"unchanged"}
    assert [item["target"] for item in done["unsettled"]] == ["gpu03/decode"]
    config.write_text(before)
    assert [item["target"] for item in small.knob("--json", "recover").json["settled"]] == ["gpu03/decode"]


def test_armed_changes_are_confirmed_on_every_host_that_answers(small: Fleet) -> None:
    """A host that is down keeps nobody else's deadline running."""
    armed = small.knob("--json", "set", "decode", f"{KNOB}=512", "--confirm-within", "10m", "--go-ahead")
    assert armed.code == 0, armed.err
    change = armed.json["plan"]
    small.away("gpu02")
    try:
        done = small.knob("confirm", change, "--json")
        assert done.code == 20
        states = {line["target"].partition("/")[0]: line["state"] for line in done.json["pending"]}
        assert states.pop("gpu02") == "armed"
        assert set(states.values()) == {"confirmed"}
        [failed] = [line for line in done.json["pending"] if line["error"]]
        assert failed["target"] == "gpu02/decode"
        looked = small.knob("pending", "--json")
        assert (looked.code, [line["target"] for line in looked.json["pending"]]) == (20, ["gpu02/decode"])
        settled = small.knob("--json", "recover").json
        assert [item["target"] for item in settled["unsettled"]] == ["gpu02/decode"]
    finally:
        for left in small.folder.rglob("state.armed"):
            left.unlink()  # what waits there ends within a second


def test_killed_in_the_middle_and_recovered(sound: Fleet) -> None:
    plan = sound.knob("--json", "set", "decode", f"{KNOB}=512", "--plan").json["plan"]
    sound.knob("approve", plan)
    command = [sys.executable, "-m", "knobledger", "-C", str(sound.root), "apply", plan]
    process = subprocess.Popen(
        command,
        stdout=subprocess.DEVNULL,
        stderr=subprocess.DEVNULL,
        env=dict(os.environ),
        start_new_session=True,
    )
    deadline = time.monotonic() + 60
    # the slow host's attempt has been announced, and can't have ended: it takes 1.5 s before it begins
    while not _started(sound, sound.good[-1]):
        assert time.monotonic() < deadline
        assert process.poll() is None
        time.sleep(0.005)
    process.send_signal(signal.SIGKILL)
    process.wait()
    settled = sound.knob("--json", "recover")
    deadline = time.monotonic() + 30
    while settled.json["unsettled"] and time.monotonic() < deadline:  # its host may still be at it
        time.sleep(0.5)
        settled = sound.knob("--json", "recover")
    assert settled.json["unsettled"] == []
    shown = sound.knob("--json", "show", plan).json
    values = sound.values()
    for item in shown["targets"]:
        host = item["target"].partition("/")[0]
        assert (item["outcome"] == "applied") == (values[host] == "512"), item
    assert sound.knob("--json", "verify").json["ok"]
    assert sound.knob("--json", "recover").json == {"settled": [], "unsettled": []}
    if any(value == "512" for value in values.values()):
        assert sound.knob("revert", plan, "--go-ahead").code == 0
    assert set(sound.values().values()) == {"256"}


def _started(sound: Fleet, host: str) -> bool:
    wanted = f'"target":"{host}/decode"'
    return any(
        '"kind":"started"' in text and wanted in text
        for path in (sound.root / "ledger" / "events").rglob("*.json")
        for text in [path.read_text()]
    )


def test_sizes_of_batches() -> None:
    assert sizes((), 50) == [50]
    assert sizes(("1", "10%", "100%"), 50) == [1, 5, 44]
    assert sizes(("20%",), 12) == [3, 3, 3, 3]
    assert sizes(("5",), 12) == [5, 5, 2]
    for wrong in ("0", "-1", "x", "101%", "1.5", ""):
        with pytest.raises(Usage):
            sizes((wrong,), 3)


def test_ranks() -> None:
    assert worst([0, 10, 20, 1]) == 20
    assert worst([22, 21]) == 22
    assert worst([0]) == 0
    assert worst([0, 70]) == 70, "a bug is no success"
    assert worst([70, 1]) == 1
    errors = {"a": Drifted("x"), "b": Unreachable("y"), "c": Busy("z")}
    assert together(errors, 3).exit_code == 20
    assert together({"a": errors["a"]}, 1) is errors["a"]
    assert together({"a": RolledBack("x"), "b": StateUnknown("y")}, 9).exit_code == 22
