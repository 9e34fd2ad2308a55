"""Confirm within on a host with systemd: a timer that outlives the client and a reboot."""

from __future__ import annotations

import json
import time
from collections.abc import Callable
from pathlib import Path

import pytest

from knobledger.drafting import Options
from knobledger.knobs import Request
from knobledger.report.plans import PlanReport
from knobledger.workspace import Workspace
from lab import LabHost
from lab.fixtures import MARKS

pytestmark = MARKS
OLD = b"#!/bin/sh\nexport KNOB=256\n"
PATH = '/srv/odd $name "100%"/serve.sh'


@pytest.fixture
def open_(systemd_host: LabHost, tmp_path: Path) -> Callable[[], Workspace]:
    script = systemd_host.at(PATH)
    script.parent.mkdir(parents=True, exist_ok=True)
    script.write_bytes(OLD)
    script.chmod(0o700)
    section = f"[hosts.gpu2.services.decode]\nscript = {json.dumps(PATH)}\n"
    (tmp_path / "hosts.toml").write_text(systemd_host.toml(section))
    return lambda: Workspace.open(tmp_path, {"KNOBLEDGER_ACTOR": "anna", "TZ": "UTC"})


def make(open_: Callable[[], Workspace], within_s: int) -> PlanReport:
    with open_() as workspace:
        plan = workspace.set(["gpu2/decode"], [Request("KNOB", "512")], Options(confirm_within_s=within_s))
        assert isinstance(plan, PlanReport)
        workspace.approve(plan.id, "flag")
        return workspace.apply(plan.id)


def units(host: LabHost) -> list[str]:
    return sorted(path.name for path in host.at("/etc/systemd/system").glob("**/knob-confirm-*"))


def wait_for_old(host: LabHost, limit_s: float) -> None:
    end = time.monotonic() + limit_s
    while host.at(PATH).read_bytes() != OLD:
        assert time.monotonic() < end, "it was not put back"
        time.sleep(0.2)


def test_the_timer_fires(open_: Callable[[], Workspace], systemd_host: LabHost) -> None:
    report = make(open_, 4)
    [waits] = report.to_json()["armed"]
    assert (waits["scheduler"], waits["survives_reboot"]) == ("timer persistent", True)
    assert len(units(systemd_host)) == 3
    wait_for_old(systemd_host, 30)
    with open_() as workspace:
        [line] = workspace.pending().to_json()["pending"]
    assert line["state"] == "reverted"
    assert units(systemd_host) == []


def test_confirmed_nothing_is_left(open_: Callable[[], Workspace], systemd_host: LabHost) -> None:
    report = make(open_, 600)
    with open_() as workspace:
        [line] = workspace.confirm(report.id).to_json()["pending"]
    assert line["state"] == "confirmed"
    assert units(systemd_host) == []
    assert sorted(path.name for path in systemd_host.at(PATH).parent.glob(".knobledger/*.armed")) == []
    assert systemd_host.at(PATH).read_bytes() != OLD


@pytest.mark.parametrize(
    "within_s", [5, 25], ids=["the deadline passes while it is down", "and while it is up again"]
)
def test_it_survives_a_reboot(open_: Callable[[], Workspace], systemd_host: LabHost, within_s: int) -> None:
    make(open_, within_s)
    systemd_host.off()
    if within_s == 5:
        time.sleep(6)
    systemd_host.on()
    wait_for_old(systemd_host, 60)
    with open_() as workspace:
        [line] = workspace.pending().to_json()["pending"]
    assert line["state"] == "reverted"
    assert units(systemd_host) == []
