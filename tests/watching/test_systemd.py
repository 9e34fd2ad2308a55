"""Live proof on a host with a real systemd: a unit's control group, and what systemd gives its processes."""

from __future__ import annotations

from typing import Any

import pytest
from watched import KNOB, Watched, eventually

from lab.fixtures import MARKS
from lab.lab import LabHost

pytestmark = MARKS

UNIT = """\
[Service]
Environment=UNIT_ONLY=1 SHARED=from_unit
EnvironmentFile=/etc/dsv4/decode.env
ExecStart=/bin/bash /srv/serve_decode.sh
KillMode=control-group
"""
SERVE = f"""\
#!/bin/bash
export {KNOB}=512
echo $$ >/srv/pid
setsid sleep 1000.5 &
sleep 1000.25
"""


@pytest.fixture
def service(systemd_host: LabHost, watched: Watched) -> Any:
    host = systemd_host
    host.at("/etc/dsv4").mkdir(exist_ok=True)
    host.at("/etc/dsv4/decode.env").write_text("SHARED=from_file\n")
    host.at("/srv/serve_decode.sh").write_text(SERVE)
    host.at("/etc/systemd/system/dsv4-decode.service").write_text(UNIT)
    services = (
        f"[hosts.{host.name}.services.decode]\n"
        'script = "/srv/serve_decode.sh"\nunit = "dsv4-decode.service"\n'
        'files = { env = "/etc/dsv4/decode.env", unit = "/etc/systemd/system/dsv4-decode.service" }\n'
    )
    (watched.root / "hosts.toml").write_text(host.toml(services))
    host.run("systemctl", "daemon-reload")
    # Another program with the same command line, in nobody's control group.
    host.run("sh", "-c", f"{KNOB}=999 setsid sleep 1000.25 >/dev/null 2>&1 & echo $! >/srv/other")
    host.run("systemctl", "start", "dsv4-decode.service")
    eventually(lambda: b"1000.5" in host.run("sh", "-c", "cat /proc/[0-9]*/cmdline").stdout)
    try:
        yield host
    finally:
        host.run("systemctl", "stop", "dsv4-decode.service")
        host.run("sh", "-c", "kill $(cat /srv/other)")


def live(watched: Watched, target: str, *names: str) -> dict[str, Any]:
    [found] = watched.ask("live", target, *names)["targets"]
    return dict(found)


def test_the_control_group_and_three_sides(service: LabHost, watched: Watched) -> None:
    script = f"{service.name}/decode"
    target = live(watched, script, KNOB, "UNIT_ONLY", "SHARED")
    other = int(service.run("cat", "/srv/other").stdout)
    processes = {process["pid"]: process for process in target["processes"]}
    # The shell, its child, and one that left for a session of its own: all in the unit's group.
    assert len(processes) == 3
    assert other not in processes
    assert [process["runs_script"] for process in target["processes"]] == [True, False, False]
    knobs = {knob["name"]: knob for knob in target["knobs"]}
    assert (knobs[KNOB]["state"], knobs[KNOB]["value"], knobs[KNOB]["agrees"]) == ("present", "512", True)
    assert knobs[KNOB]["unit"]["state"] == "absent"
    assert knobs["UNIT_ONLY"]["unit"] == {"state": "set", "value": "1", "place": "Environment="}
    assert (knobs["UNIT_ONLY"]["file"]["state"], knobs["UNIT_ONLY"]["agrees"]) == ("absent", True)
    # An environment file beats Environment=, and what beats is what is shown.
    assert knobs["SHARED"]["unit"] == {
        "state": "set",
        "value": "from_file",
        "place": "/etc/dsv4/decode.env",
    }
    assert (knobs["SHARED"]["value"], knobs["SHARED"]["agrees"]) == ("from_file", True)
    assert target["unit"] == {"name": "dsv4-decode.service", "active": "active", "restarts": 0}
    assert len(watched.events("seen_live")) == 1


def test_a_unit_file_that_an_environment_file_beats(service: LabHost, watched: Watched) -> None:
    target = live(watched, f"{service.name}/decode:unit", "SHARED")
    [knob] = target["knobs"]
    assert (knob["file"]["value"], knob["unit"]["value"], knob["value"]) == (
        "from_unit",
        "from_file",
        "from_file",
    )
    assert knob["agrees"] is False


def test_an_edit_is_not_in_the_process_before_the_restart(service: LabHost, watched: Watched) -> None:
    name = f"{service.name}/decode:env"
    assert live(watched, name, "SHARED")["knobs"][0]["agrees"] is True
    watched.ask("set", name, "SHARED=new", "--go-ahead")
    target = live(watched, name, "SHARED")
    assert target["knobs"][0]["agrees"] is False
    assert {process["after_write"] for process in target["processes"]} == {False}
    service.run("systemctl", "restart", "dsv4-decode.service")
    eventually(lambda: live(watched, name, "SHARED")["knobs"][0]["value"] == "new")
    target = live(watched, name, "SHARED")
    assert target["knobs"][0]["agrees"] is True
    assert {process["after_write"] for process in target["processes"]} == {True}


def test_plan_mode_may_look(service: LabHost, watched: Watched, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("KNOBLEDGER_MODE", "plan")
    assert live(watched, f"{service.name}/decode", KNOB)["knobs"][0]["value"] == "512"


def test_a_unit_that_is_down_or_unknown(service: LabHost, watched: Watched) -> None:
    service.run("systemctl", "stop", "dsv4-decode.service")
    [remark] = live(watched, f"{service.name}/decode", KNOB)["remarks"]
    assert remark == f"no process of {service.name}/decode runs: systemd calls its unit inactive"
    config = watched.root / "hosts.toml"
    config.write_text(
        config.read_text().replace('unit = "dsv4-decode.service"', 'unit = "dsv4-decod.service"')
    )
    remarks = live(watched, f"{service.name}/decode", KNOB)["remarks"]
    assert "not-found" in remarks[0]


def test_the_whole_host_can_be_checked(service: LabHost, watched: Watched) -> None:
    [host] = watched.ask("check")["hosts"]
    assert (host["able"], host["root"], host["systemd"] != "") == (True, True, True)
