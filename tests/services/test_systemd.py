"""Restarts of real units under a real systemd, as process 1 of a host of the lab."""

from __future__ import annotations

import json
import os
import re
import signal
import subprocess
import sys
import time
from collections.abc import Iterator
from dataclasses import dataclass
from pathlib import Path

import pytest
from stand import ENGINE, NAMES, Said, Stand, outcomes, workspace

from knobledger.hosts.config import Config
from knobledger.services.control import restart_lines
from lab import LabHost
from lab.fixtures import MARKS

pytestmark = MARKS

PORTS = dict(zip(NAMES, (30000, 30001, 8000), strict=True))
UNIT = """\
[Unit]
Description={name}
[Service]
ExecStart=/bin/bash /srv/serve_{name}.sh
Environment=CTAS=256
EnvironmentFile=-/etc/pd/{name}.env
Environment=ORDER=/srv/order
StandardOutput=append:/srv/{name}.log
StandardError=inherit
Restart=always
RestartSec=100ms
TimeoutStopSec=20
"""
SERVE = """\
#!/bin/bash
export NCCL_IB_DISABLE=1
exec /usr/bin/python3 -u /srv/engine.py {name} {port}{upstream}
"""
AFTER = {"prefill": "", "decode": 'after = ["prefill"]', "router": 'after = ["prefill", "decode"]'}


@dataclass
class Pd(Stand):
    """Prefill, decode and router as units."""

    lab: LabHost

    def configure(self, **more: str) -> None:
        """hosts.toml; `more` are lines for one service each."""
        services = "".join(
            f"[hosts.{self.host}.services.{name}]\n"
            f'script = "/srv/serve_{name}.sh"\nunit = "pd-{name}.service"\nlog = "/srv/{name}.log"\n{AFTER[name]}\n'
            f'files = {{ env = "/etc/pd/{name}.env", unit = "/etc/systemd/system/pd-{name}.service"{extra} }}\n'
            f"{rest or self.health(name)}\n"
            for name in NAMES
            for extra, _, rest in [more.get(name, "").partition("\n")]
        )
        groups = f'[groups.pd]\nservices = ["{self.host}/*"]\n'
        workspace(self.root, self.lab.toml(services) + groups)

    def health(self, name: str, within: str = "100s") -> str:
        return f'health = [{{ http = "http://127.0.0.1:{PORTS[name]}/health", within = "{within}" }}]'

    def put(self, path: str, text: str) -> None:
        file = self.lab.at(path)
        file.parent.mkdir(parents=True, exist_ok=True)
        file.write_text(text)

    def systemctl(self, *words: str) -> str:
        return self.lab.run("systemctl", *words, check=False).stdout.decode().strip()

    def pid(self, name: str) -> int:
        return int(self.systemctl("show", "-P", "MainPID", f"pd-{name}.service"))

    def page(self, name: str) -> dict[str, str]:
        url = f"http://127.0.0.1:{PORTS[name]}/"
        code = f"import urllib.request as u; print(u.urlopen({url!r}).read().decode())"
        found: dict[str, str] = json.loads(self.lab.run("/usr/bin/python3", "-c", code).stdout)
        return found

    def order(self) -> list[str]:
        return self.lab.at("/srv/order").read_text().splitlines()


@pytest.fixture
def pd(systemd_host: LabHost, tmp_path: Path) -> Iterator[Pd]:
    pd = Pd(tmp_path / "ws", systemd_host.name, systemd_host)
    pd.put("/srv/engine.py", ENGINE.read_text())
    for name in NAMES:
        upstream = " 30000 30001" if name == "router" else ""
        pd.put(f"/etc/systemd/system/pd-{name}.service", UNIT.format(name=name))
        pd.put(f"/srv/serve_{name}.sh", SERVE.format(name=name, port=PORTS[name], upstream=upstream))
        pd.put(f"/etc/pd/{name}.env", "NCCL_DEBUG=WARN\n")
    pd.configure()
    units = [f"pd-{name}.service" for name in NAMES]
    pd.systemctl("daemon-reload")
    pd.put("/srv/order", "")
    pd.systemctl("start", *units)
    while len(pd.order()) < len(NAMES):
        time.sleep(0.05)
    pd.put("/srv/order", "")
    yield pd
    pd.systemctl("kill", "--signal=SIGKILL", *units)
    pd.systemctl("stop", *units)
    pd.systemctl("reset-failed", *units)
    systemd_host.run("sh", "-c", "rm -rf /etc/systemd/system/pd-* /etc/pd /srv/*")
    pd.systemctl("daemon-reload")


def test_services_stop_in_reverse_order_and_start_in_order(pd: Pd) -> None:
    before = {name: pd.pid(name) for name in NAMES}
    preview = pd.knob("restart", "pd", code=1).json["error"]["report"]
    assert [one["service"] for one in preview["services"]] == [f"gpu2/{name}" for name in NAMES]
    assert preview["expected_outage_s"] is None
    report = pd.restart("pd")
    assert outcomes(report) == [(name, "healthy") for name in NAMES]
    assert pd.order() == [*(f"stop {n}" for n in reversed(NAMES)), *(f"start {n}" for n in NAMES)]
    for one, name in zip(report["services"], NAMES, strict=True):
        assert one["pids_before"][0] == before[name]
        assert one["pids"][0] == pd.pid(name) != before[name]
        assert [gate["ok"] for gate in one["gates"]] == [True]
    started = [one["started"] for one in report["services"]]
    assert started == sorted(started)
    again = pd.knob("restart", "pd", code=1).json["error"]["report"]
    assert 0 < again["expected_outage_s"] < 20
    [restart] = pd.knob("since", "1h").json["restarts"]
    assert restart == {**report, "services": restart["services"]}


def test_a_unit_changed_after_the_plan_makes_it_void(pd: Pd) -> None:
    words = ("set", "gpu2/decode:env", "NCCL_DEBUG=INFO", "--restart", "service", "--plan")
    plan = pd.knob(*words).json["plan"]
    pd.knob("approve", plan)
    drop_in = "/etc/systemd/system/pd-decode.service.d/later.conf"
    pd.put(drop_in, "[Service]\nExecStartPost=/bin/true\n")
    error = pd.knob("apply", plan, code=10).json["error"]
    assert "the unit 'pd-decode.service' of gpu2/decode was changed since plan" in error["message"]
    shown = pd.knob("show", plan).json
    assert shown["stale"]
    assert "was changed since" in shown["stale_because"]
    assert pd.lab.at("/etc/pd/decode.env").read_text() == "NCCL_DEBUG=WARN\n"
    assert pd.order() == []
    pd.lab.at(drop_in).unlink()
    done = pd.knob("apply", plan).json
    assert done["restart"]["done"]
    assert pd.page("decode")["NCCL_DEBUG"] == "INFO"


def test_scopes(pd: Pd) -> None:
    for target, scope, wanted in (
        ("gpu2/decode", "service", ["decode"]),
        ("gpu2/decode:env", "dependents", ["decode", "router"]),
        ("gpu2/router", "group", list(NAMES)),
    ):
        preview = pd.knob("restart", target, "--scope", scope, code=1).json["error"]["report"]
        assert [one["service"].partition("/")[2] for one in preview["services"]] == wanted


def test_a_prefill_that_never_becomes_healthy_ends_the_chain(pd: Pd) -> None:
    pd.put("/etc/pd/prefill.env", "STARTS_IN_S=9999\n")
    pd.configure(prefill="\n" + pd.health("prefill", "2s"))
    failed = pd.knob("restart", "pd", "--go-ahead", code=23)
    error = failed.json["error"]
    assert (
        "gpu2/prefill: http http://127.0.0.1:30000/health is not green within 2 s: status 503"
        in error["message"]
    )
    assert error["log"] == ["prefill starts", "prefill starts"]
    assert outcomes(error["restart"]) == [
        ("prefill", "unhealthy"), ("decode", "not reached"), ("router", "not reached"),
    ]  # fmt: skip
    assert "start decode" not in pd.order()
    assert "note: gpu2/prefill was unhealthy when it was last restarted" in failed.err
    [target] = pd.knob("status", "gpu2/prefill:env").json["targets"]
    assert "is not green" in target["unhealthy"]


def test_a_decode_that_crashes_after_5_s_is_a_restart_loop(pd: Pd) -> None:
    pd.put("/etc/pd/decode.env", "CRASH_AFTER_S=5\n")
    pd.configure(decode='\nstable = "8s"\n' + pd.health("decode"))
    error = pd.restart("gpu2/decode", code=23)["error"]
    assert re.search(
        r"restart loop: process \d+ ended( and came up again)? within \d\.\d s", error["message"]
    )
    assert "decode: CUDA error: out of memory" in error["log"]


def test_a_process_that_dies_at_once_again_and_again_is_not_waited_for(pd: Pd) -> None:
    pd.put("/etc/pd/decode.env", "CRASH_AFTER_S=0.2\nSTARTS_IN_S=9999\n")
    error = pd.restart("gpu2/decode", code=23)["error"]
    assert "restart loop: it came up again" in error["message"]


def test_a_port_that_the_old_process_answers_is_not_green(pd: Pd) -> None:
    """Started by hand, outside the unit: the unit's own process finds its port taken, and stays alive without it."""
    pd.systemctl("stop", "pd-decode.service")
    by_hand = "setsid /usr/bin/python3 /srv/engine.py decode 30001 >/dev/null 2>&1 & echo $!"
    pid = int(pd.lab.run("sh", "-c", by_hand).stdout)
    pd.put("/etc/pd/decode.env", "KEEPS_ON=1\n")
    pd.configure(decode="\n" + pd.health("decode", "2s"))
    try:
        error = pd.restart("gpu2/decode", code=23)["error"]
    finally:
        pd.lab.run("kill", "-9", str(pid))
    assert f"port 30001 is answered by process {pid}" in error["message"]
    assert "which was there before the restart and is not of gpu2/decode" in error["message"]


def test_a_drop_in_without_service_section_stops_nothing(pd: Pd) -> None:
    pd.put("/etc/systemd/system/pd-decode.service.d/knobs.conf", "Environment=CTAS=512\n")
    pd.configure(decode=', drop_in = "/etc/systemd/system/pd-decode.service.d/knobs.conf"')
    pid = pd.pid("decode")
    error = pd.restart("gpu2/decode", code=23)["error"]
    assert "nothing was stopped: " in error["message"]
    assert "knobs.conf has no [Service] section, so systemd ignores what stands in it" in error["message"]
    assert pd.pid("decode") == pid


def test_a_drop_in_that_is_a_link_is_the_file_that_systemd_reads(pd: Pd) -> None:
    pd.put("/srv/knobs.conf", "[Service]\nEnvironment=CTAS=512\n")
    folder = "/etc/systemd/system/pd-decode.service.d"
    pd.lab.run("sh", "-c", f"mkdir -p {folder} && ln -s /srv/knobs.conf {folder}/knobs.conf")
    pd.configure(decode=', drop_in = "/srv/knobs.conf"')
    pd.restart("gpu2/decode")
    assert pd.page("decode")["ctas"] == "512"


def test_an_environment_file_that_beats_the_unit(pd: Pd) -> None:
    pd.put("/etc/pd/decode.env", "CTAS=9\n")
    unit = "gpu2/decode:unit"
    pid = pd.pid("decode")
    failed = pd.knob("set", unit, "CTAS=512", "--restart", "service", "--go-ahead", code=23)
    message = failed.json["error"]["message"]
    assert (
        "sets CTAS to '512', but EnvironmentFile /etc/pd/decode.env sets it to '9', and that is in effect"
        in message
    )
    assert pd.pid("decode") == pid
    assert [one["restart_owed"] for one in pd.knob("status", unit).json["targets"]] == [True]
    again = ("set", unit, "CTAS=1024", "--restart", "service", "--roll-back-on-failure", "--go-ahead")
    assert "no service was touched" in pd.knob(*again, code=21).json["error"]["message"]
    assert pd.pid("decode") == pid
    assert "CTAS=512" in pd.systemctl("show", "-P", "Environment", "pd-decode.service")
    [service] = pd.restart("gpu2/decode")["services"]
    assert any(step.startswith("warning: ") and "that is in effect" in step for step in service["steps"])
    assert pd.page("decode")["ctas"] == "9"
    # The live proof found that the file's value is not in the new process either.
    [target] = pd.knob("status", unit).json["targets"]
    assert "CTAS is '512' in the file and '9' in the process" in target["seen"]


def test_after_a_roll_back_that_stopped_nothing_nothing_is_owed(pd: Pd) -> None:
    pd.put("/etc/pd/decode.env", "CTAS=9\n")
    pid = pd.pid("decode")
    words = ("gpu2/decode:unit", "CTAS=1024", "--restart", "service", "--roll-back-on-failure", "--go-ahead")
    back = pd.knob("set", *words, code=21)
    assert "no service was touched" in back.json["error"]["message"]
    assert "restart owed" not in back.err
    assert "when it was last restarted" not in back.err
    assert pd.pid("decode") == pid
    [target] = pd.knob("status", "gpu2/decode:unit").json["targets"]
    assert not target["restart_owed"]
    assert target["unhealthy"] == ""


def test_a_changed_unit_is_reloaded_and_runs_with_the_new_value(pd: Pd) -> None:
    change = pd.knob("set", "gpu2/decode:unit", "CTAS=512", "--restart", "service", "--go-ahead").json
    assert change["restart"]["done"]
    assert change["restart"]["change"] == change["change"]
    assert pd.page("decode")["ctas"] == "512"
    [target] = pd.knob("status", "gpu2/decode:unit").json["targets"]
    assert (target["restart_owed"], target["unhealthy"]) == (False, "")


def test_a_router_that_is_green_without_workers_fails_the_completion_gate(pd: Pd) -> None:
    gates = '[{{ http = "http://127.0.0.1:8000/health" }}, {{ completion = "http://127.0.0.1:8000{}", within = "{}" }}]'
    pd.configure(router="\nhealth = " + gates.format("/generate", "2s"))
    pd.systemctl("stop", "pd-decode.service")
    error = pd.restart("gpu2/router", code=23)["error"]
    http, completion = error["restart"]["services"][0]["gates"]
    assert (http["ok"], completion["ok"]) == (True, False)
    assert completion["detail"].startswith("status 503")
    pd.systemctl("start", "pd-decode.service")
    for path in ("/generate", "/v1/completions", "", "/v1/chat/completions"):
        pd.configure(router="\nhealth = " + gates.format(path, "10s"))
        [router] = pd.restart("gpu2/router")["services"]
        assert router["gates"][1]["detail"] == "completed with ' Paris'"
    pd.put("/etc/pd/router.env", "COMPLETES_WITH=\n")
    pd.configure(router="\nhealth = " + gates.format("/generate", "2s"))
    assert "the completion is empty" in pd.restart("gpu2/router", code=23)["error"]["message"]


def test_a_failed_change_goes_back_with_its_services(pd: Pd) -> None:
    pd.configure(decode="\n" + pd.health("decode", "100s"))
    pid = pd.pid("router")
    before = pd.lab.at("/etc/pd/decode.env").read_bytes()
    failed = pd.knob(
        "set", "gpu2/decode:env", "CRASH_AFTER_S=0.2", "STARTS_IN_S=9999", "--add", "--restart", "dependents",
        "--roll-back-on-failure", "--go-ahead", code=21,
    )  # fmt: skip
    error = failed.json["error"]
    assert error["kind"] == "rolled_back"
    assert "it was rolled back: all services are as before" in error["message"]
    assert pd.lab.at("/etc/pd/decode.env").read_bytes() == before
    assert pd.page("decode")["name"] == "decode"
    assert pd.pid("router") != pid
    assert [event["outcome"] for event in pd.events("restart_ended")] == ["failed", "done"]
    [seen] = pd.events("seen_live")
    assert [(knob["name"], knob["state"]) for knob in seen["knobs"]] == [
        ("CRASH_AFTER_S", "absent"),
        ("STARTS_IN_S", "absent"),
    ]
    [target] = pd.knob("status", "gpu2/decode:env").json["targets"]
    assert (target["restart_owed"], target["unhealthy"]) == (False, "")


def test_sigkill_comes_after_the_grace_period_and_is_said(pd: Pd) -> None:
    pd.put("/etc/pd/decode.env", "IGNORES_TERM=1\n")
    pd.systemctl("restart", "pd-decode.service")
    time.sleep(0.5)
    pd.put("/etc/pd/decode.env", "A=1\n")
    pd.configure(decode='\ngrace = "1s"\n' + pd.health("decode"))
    [service] = pd.restart("gpu2/decode")["services"]
    assert any("still there after 1 s: SIGKILL" in step for step in service["steps"])


def started(pd: Pd, *words: str) -> subprocess.Popen[str]:
    """A command as a process of its own, once it has begun to start decode."""
    process = subprocess.Popen(
        [sys.executable, "-m", "knobledger", "-C", str(pd.root), *words, "--go-ahead"],
        stderr=subprocess.PIPE,
        stdout=subprocess.DEVNULL,
        text=True,
        env=dict(os.environ),
    )
    assert process.stderr is not None
    for line in process.stderr:
        if line.startswith("gpu2/decode: systemctl start"):
            return process
    raise AssertionError("it never started decode")


def killed(process: subprocess.Popen[str]) -> None:
    process.send_signal(signal.SIGKILL)
    process.wait()
    assert process.stderr is not None
    process.stderr.close()


def test_a_chain_that_was_killed_in_the_middle_is_finished(pd: Pd) -> None:
    pd.put("/etc/pd/decode.env", "STARTS_IN_S=8\n")
    process = started(pd, "restart", "pd")
    busy = pd.knob("restart", "gpu2/router", "--go-ahead", code=11).json["error"]
    assert "is being restarted by" in busy["message"]
    before = pd.lab.at("/srv/serve_router.sh").read_bytes()
    pd.knob(
        "set", "gpu2/router", "NCCL_IB_DISABLE=0", "--restart", "service", "--go-ahead", code=11
    )  # nothing is written that could not be followed by its restart
    assert pd.lab.at("/srv/serve_router.sh").read_bytes() == before
    killed(process)
    looked = pd.knob("recover", code=23)
    [found] = looked.json["restarts"]
    states = {one["service"]: one["state"] for one in found["services"]}
    assert found["outcome"] == "in the middle"
    assert states["gpu2/prefill"].endswith("; proven")
    assert states["gpu2/decode"].endswith("; new, not proven")
    assert states["gpu2/router"] == "down"
    assert "has no end in the ledger: `knob recover`" in looked.err
    prefill = pd.pid("prefill")
    [settled] = pd.knob("recover", "--finish").json["restarts"]
    assert settled["outcome"] == "finished"
    assert pd.pid("prefill") == prefill
    assert pd.page("router")["name"] == "router"
    assert "restarts" not in pd.knob("recover").json


def test_a_change_whose_chain_was_killed_is_rolled_back(pd: Pd) -> None:
    before = pd.lab.at("/etc/pd/decode.env").read_bytes()
    killed(started(pd, "set", "gpu2/decode:env", "STARTS_IN_S=9999", "--add", "--restart", "dependents"))
    [settled] = pd.knob("recover", "--roll-back").json["restarts"]
    assert settled["outcome"] == "rolled back"
    assert pd.lab.at("/etc/pd/decode.env").read_bytes() == before
    assert {pd.page(name)["name"] for name in NAMES} == set(NAMES)
    assert "restarts" not in pd.knob("recover").json


def test_plan_mode_restarts_nothing(pd: Pd, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("KNOBLEDGER_MODE", "plan")
    pid = pd.pid("decode")
    said: Said = pd.knob("restart", "gpu2/decode", "--go-ahead", code=1)
    assert said.json["error"]["kind"] == "plan_mode"
    assert pd.pid("decode") == pid


def test_the_lines_for_a_supervisor_restart_the_unit(pd: Pd) -> None:
    pid = pd.pid("decode")
    lines = restart_lines(Config.load(pd.root).service("gpu2/decode"))
    pd.lab.run("sh", "-e", "-c", "\n".join(lines))
    assert pd.pid("decode") not in (0, pid)
