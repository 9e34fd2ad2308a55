"""A change that the host takes back by itself: with the real scripts on this machine, as separate commands."""

from __future__ import annotations

import json
import os
import signal
import stat
import subprocess
import sys
import time
from collections.abc import Callable, Iterator
from pathlib import Path
from typing import Any

import pytest

from knobledger.drafting import Options
from knobledger.errors import NotWritten, Refused
from knobledger.events.arming import Expired
from knobledger.hosts import arming
from knobledger.knobs import Request
from knobledger.report.plans import PlanReport
from knobledger.workspace import Workspace

OLD = b"#!/bin/sh\nexport KNOB=256\nexport OTHER=1\nexec sleep 1\n"
NEW = OLD.replace(b"256", b"512")


class Desk:
    """A workspace with a host that is this machine, opened anew for each command."""

    def __init__(self, folder: Path) -> None:
        self.root = folder / "ws"
        self.script = folder / "host" / "se rve.sh"
        self.script.parent.mkdir()
        self.script.write_bytes(OLD)
        self.script.chmod(0o751)
        self.root.mkdir()
        (self.root / "hosts.toml").write_text(
            f'[hosts.gpu1]\ntransport = "local"\n[hosts.gpu1.services.decode]\nscript = {json.dumps(str(self.script))}\n'
        )

    def open(self, **env: str) -> Workspace:
        return Workspace.open(self.root, {"KNOBLEDGER_ACTOR": "anna", "TZ": "UTC", **env})

    def set(self, value: str = "512", within_s: int = 30, knob: str = "KNOB") -> PlanReport:
        with self.open() as workspace:
            plan = workspace.set(["gpu1/decode"], [Request(knob, value)], Options(confirm_within_s=within_s))
            assert isinstance(plan, PlanReport)
            workspace.approve(plan.id, "flag")
            return workspace.apply(plan.id)

    def revert(self, change: str) -> PlanReport:
        with self.open() as workspace:
            plan = workspace.revert(change, Options())
            assert isinstance(plan, PlanReport)
            workspace.approve(plan.id, "flag")
            return workspace.apply(plan.id)

    def knob(self, *words: str) -> subprocess.CompletedProcess[str]:
        return subprocess.run(
            (sys.executable, "-m", "knobledger", *words),
            cwd=self.root,
            env={**os.environ, "KNOBLEDGER_ACTOR": "anna", "TZ": "UTC"},
            capture_output=True,
            text=True,
            stdin=subprocess.DEVNULL,
            check=False,
        )

    def pending(self) -> list[dict[str, Any]]:
        done = self.knob("pending", "--json")
        found: list[dict[str, Any]] = json.loads(done.stdout)["pending"]
        return found

    @property
    def left(self) -> list[str]:
        """What lies beside the file and its backups."""
        beside = {*self.script.parent.iterdir(), *self.script.parent.glob(".knobledger/*")}
        return sorted(
            path.name for path in beside if path.name != ".knobledger" and not path.name.endswith(".bak")
        )


@pytest.fixture
def desk(tmp_path: Path) -> Iterator[Desk]:
    yield Desk(tmp_path)
    for armed in tmp_path.rglob("state.armed"):
        armed.unlink()  # what waits there ends within a second


def wait_for(true: Callable[[], bool], limit_s: float = 30) -> None:
    end = time.monotonic() + limit_s
    while not true():
        assert time.monotonic() < end, "it did not happen"
        time.sleep(0.1)


def test_a_confirmed_change_stays(desk: Desk) -> None:
    report = desk.set(within_s=60)
    [waits] = report.to_json()["armed"]
    assert (waits["state"], waits["target"], waits["scheduler"]) == ("armed", "gpu1/decode", "process")
    assert waits["survives_reboot"] is False
    assert 50 < waits["remaining_s"] <= 60
    done = desk.knob("confirm", report.id[:8])
    assert done.returncode == 0, done.stderr
    assert "confirmed by anna" in done.stdout
    assert desk.script.read_bytes() == NEW
    assert desk.left == ["se rve.sh"]
    assert desk.pending() == []
    again = desk.knob("confirm", "@")
    assert again.returncode == 1
    assert "confirmed by anna" in again.stderr


def test_nobody_confirms(desk: Desk) -> None:
    """netplan#548: what is put back has its owner and mode, and is looked at as strictly as the change was."""
    before = desk.script.stat()
    report = desk.set(within_s=2)
    assert desk.script.read_bytes() == NEW
    wait_for(lambda: desk.script.read_bytes() == OLD)
    after = desk.script.stat()
    assert [(s.st_mode, s.st_uid, s.st_gid) for s in (before, after)] == [
        (before.st_mode, before.st_uid, before.st_gid)
    ] * 2
    wait_for(lambda: (desk.script.parent / ".knobledger" / "se rve.sh.armed" / "outcome").exists())
    # deploy-rs#214, #246: rolled back, and exit 0.
    late = desk.knob("confirm", report.id[:8])
    assert late.returncode == 1
    assert "the host put the file back at" in late.stderr
    assert desk.left == ["se rve.sh"]
    [change] = json.loads(desk.knob("since", "1h", "--json").stdout)["changes"]
    assert change["status"] == "reverted"
    with desk.open() as workspace:
        assert isinstance(workspace.state.events[change["by"]], Expired)
        assert workspace.state.files["gpu1/decode"].digest == report.planned.files[0].base  # type: ignore[index]
        assert workspace.verify().ok
    assert "KNOB" in desk.knob("set", "gpu1/decode", "KNOB=512", "--go-ahead").stdout


def test_the_client_is_killed(desk: Desk) -> None:
    """ansible#40626: the window died with the session."""
    code = (
        "import sys; sys.path.insert(0, sys.argv[2]); from test_confirming import Desk; from pathlib import Path;"
        "desk = Desk.__new__(Desk); desk.root = Path(sys.argv[1]); desk.set(within_s=3);"
        "print('made', flush=True); import time; time.sleep(60)"
    )
    client = subprocess.Popen(
        (sys.executable, "-c", code, str(desk.root), str(Path(__file__).parent)),
        stdout=subprocess.PIPE,
        start_new_session=True,
    )
    assert client.stdout is not None
    assert client.stdout.readline() == b"made\n"
    os.killpg(client.pid, signal.SIGKILL)
    client.wait()
    client.stdout.close()
    begun = time.monotonic()
    wait_for(lambda: desk.script.read_bytes() == OLD)
    assert time.monotonic() - begun < 20  # within 5 s of its deadline on a machine that is not overloaded


def test_what_waits_is_said_under_every_command(desk: Desk) -> None:
    """nornir_napalm#69: nobody called confirm."""
    report = desk.set(within_s=600)
    for words in (
        ("log",),
        ("status", "--recorded"),
        ("since", "1h"),
        ("plans",),
        ("verify",),
        ("show", "@"),
    ):
        said = desk.knob(*words).stderr
        assert (
            f"{report.id[:8]} on gpu1/decode puts itself back unless `knob confirm {report.id[:8]}`" in said
        ), words
    [waits] = desk.pending()
    assert waits["watched"] is True
    assert waits["command"] == f"knob confirm {report.id[:8]}"


def test_one_at_a_time(desk: Desk) -> None:
    """network-role#154: a second one is told whose it is and until when; an ended one blocks nobody."""
    first = desk.set(within_s=600)
    with pytest.raises(Refused, match=f"{first.id[:8]} by anna"):
        desk.set("1024", within_s=600)
    with pytest.raises(Refused, match="waits for its confirmation"):
        desk.set("2", within_s=0, knob="OTHER")
    other = Desk.__new__(Desk)
    other.root, other.script = desk.root.parent / "other", desk.script
    other.root.mkdir()
    (other.root / "hosts.toml").write_bytes((desk.root / "hosts.toml").read_bytes())
    with pytest.raises(Refused, match=rf"anna \(plan {first.id[:8]}\)"):
        other.set("1024", within_s=600)
    with other.open() as workspace:
        assert workspace.state.pending() == []
    assert desk.script.read_bytes() == NEW
    assert desk.knob("confirm", "@").returncode == 0


def test_an_ended_one_of_another_workspace_makes_room_and_is_still_found(desk: Desk) -> None:
    first = desk.set(within_s=1)
    wait_for(lambda: (desk.script.parent / ".knobledger" / "se rve.sh.armed" / "outcome").exists())
    other = Desk.__new__(Desk)
    other.root, other.script = desk.root.parent / "other", desk.script
    other.root.mkdir()
    (other.root / "hosts.toml").write_bytes((desk.root / "hosts.toml").read_bytes())
    other.set("1024", within_s=600)
    [ended] = desk.pending()
    assert (ended["change"], ended["state"]) == (first.id, "reverted")
    assert other.knob("confirm", "@").returncode == 0
    assert desk.left == ["se rve.sh"]


def test_taken_back_by_hand_it_does_not_fire(desk: Desk) -> None:
    first = desk.set(within_s=600)
    desk.revert(first.id)
    assert desk.script.read_bytes() == OLD
    assert desk.pending() == []
    assert desk.left == ["se rve.sh"]
    with desk.open() as workspace:
        assert workspace.state.armings.of(first.id)[0].end.kind == "disarmed"  # type: ignore[union-attr]


def test_somebody_edits_the_file_meanwhile(desk: Desk) -> None:
    """napalm#1701: a roll-back that can't be done is a state of its own, with the commands to mend it."""
    report = desk.set(within_s=2)
    theirs = desk.script.read_bytes() + b"# by hand\n"
    desk.script.write_bytes(theirs)
    wait_for(lambda: (desk.script.parent / ".knobledger" / "se rve.sh.armed" / "outcome").exists(), 60)
    done = desk.knob("pending")
    assert done.returncode == 22, done.stderr
    assert "was to be put back by its host at" in done.stdout
    assert f"$ knob revert {report.id[:8]}" in done.stdout
    assert desk.script.read_bytes() == theirs
    with desk.open() as workspace:
        assert workspace.state.fate(report.id)[0] == "in effect"


def test_the_way_back_is_rehearsed(desk: Desk) -> None:
    """deploy-rs#86: the roll-back called something that was not there."""
    from knobledger.hosts.local import LocalHost
    from knobledger.names import HostPath, digest_of

    wanted = arming.Arming(
        path=HostPath(str(desk.script)),
        backup_dir=".knobledger",
        base=digest_of(OLD),
        result=digest_of(NEW),
        token=arming.token_of("secret"),
        window_s=60,
        id="0123",
        holder="anna",
        backup_name="x.bak",
        restart=("no-such-program restart decode",),
    )
    with pytest.raises(NotWritten, match="no-such-program, which is not here"):
        arming.arm(LocalHost("gpu1"), wanted)
    assert desk.left == ["se rve.sh"]


def test_a_folder_that_can_not_be_written_stops_it_before_the_change(desk: Desk) -> None:
    if os.geteuid() == 0:
        subprocess.run(("chattr", "+i", desk.script), check=False)
        if (
            "i"
            not in subprocess.run(
                ("lsattr", desk.script), capture_output=True, text=True, check=False
            ).stdout[:20]
        ):
            pytest.skip("no immutable files on this file system")
    else:
        desk.script.parent.chmod(stat.S_IRUSR | stat.S_IXUSR)
    try:
        with pytest.raises(NotWritten):
            desk.set(within_s=60)
        assert desk.script.read_bytes() == OLD
        with desk.open() as workspace:
            assert workspace.state.pending() == []
    finally:
        if os.geteuid() == 0:
            subprocess.run(("chattr", "-i", desk.script), check=True)
        desk.script.parent.chmod(0o755)
    assert desk.left == ["se rve.sh"]


@pytest.mark.parametrize("where", ["before the arming", "after the arming"])
def test_killed_between_arming_and_change(desk: Desk, where: str, monkeypatch: pytest.MonkeyPatch) -> None:
    """`recover` finds an arming whose change was never made, and takes it away."""

    class Killed(BaseException):
        pass

    def die(*_: object, **__: object) -> None:
        raise Killed

    if where == "before the arming":
        monkeypatch.setattr(arming, "arm", die)
    else:
        monkeypatch.setattr("knobledger.hosts.local.LocalHost.replace", die)
    with pytest.raises(Killed):
        desk.set(within_s=600)
    monkeypatch.undo()
    with desk.open() as workspace:
        assert len(workspace.state.pending()) == 1
        recovered = workspace.recover()
        assert recovered.exit_code == 0
        assert workspace.state.pending() == []
    assert desk.script.read_bytes() == OLD
    assert desk.left == ["se rve.sh"]


def test_a_secret_that_is_not_this_ones(desk: Desk) -> None:
    desk.set(within_s=600)
    key = desk.root / ".knobledger" / "key"
    right = key.read_bytes()
    key.write_bytes(b"00" * 32 + b"\n")
    done = desk.knob("confirm", "@")
    assert done.returncode == 1
    assert "token does not fit" in done.stderr
    key.write_bytes(right)
    assert desk.knob("confirm", "@").returncode == 0


def test_plan_mode_can_not_confirm(desk: Desk) -> None:
    desk.set(within_s=600)
    done = subprocess.run(
        (sys.executable, "-m", "knobledger", "confirm", "@"),
        cwd=desk.root,
        env={**os.environ, "KNOBLEDGER_MODE": "plan"},
        capture_output=True,
        text=True,
        check=False,
    )
    assert done.returncode == 1
    assert "plan mode" in done.stderr
    assert desk.knob("confirm", "@").returncode == 0


@pytest.mark.parametrize("window", ["9s", "0s", "soon", "-1m"])
def test_windows_that_are_none(desk: Desk, window: str) -> None:
    done = desk.knob("set", "gpu1/decode", "KNOB=512", f"--confirm-within={window}", "--go-ahead")
    assert done.returncode == 2
    assert window in done.stderr
    assert desk.script.read_bytes() == OLD
