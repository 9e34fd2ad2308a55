"""Services with plain start, stop and pid commands, behind a real SSH server on loopback: gates, grace, owed restarts."""

from __future__ import annotations

import os
import re
import socket
import subprocess
import time
from collections.abc import Iterator
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

import pytest
from stand import ENGINE, Stand, workspace

from knobledger.demo.sshd import EmbeddedSshd
from knobledger.hosts.config import Config
from knobledger.hosts.local import LocalHost
from knobledger.quoting import quote
from knobledger.services.control import restart_lines
from knobledger.services.running import look

CONTROL = """\
#!/bin/sh
# control.sh start|stop|pid
cd {folder}
case $1 in
start)
  . ./knobs.env
  nohup setsid python3 -u {engine} decode {port} >>decode.log 2>&1 </dev/null &
  echo $! >pid
  ;;
stop) kill "$(cat pid)" ;;
pid) cat pid ;;
esac
"""


@dataclass
class Plain(Stand):
    """One service, `gpu1/decode`."""

    sshd: EmbeddedSshd
    port: int
    pids: list[int] = field(default_factory=list)

    def configure(self, *lines: str, stop: bool = True) -> None:
        control = quote(str(self.sshd.sandbox / "control.sh"))
        commands = {"start": f"{control} start", "pid": f"{control} pid"} | (
            {"stop": f"{control} stop"} if stop else {}
        )
        workspace(
            self.root,
            "\n".join(
                [
                    f'[hosts.gpu1]\naddress = "127.0.0.1"\nport = {self.sshd.port}\nuser = "demo"',
                    f'identity_file = "{self.sshd.keys.identity_file}"',
                    f'known_hosts = "{self.sshd.keys.known_hosts}"',
                    f'[hosts.gpu1.services.decode]\nscript = "{self.sshd.sandbox}/knobs.env"\ndialect = "sh"',
                    f'log = "{self.sshd.sandbox}/decode.log"',
                    f'metrics = "http://127.0.0.1:{self.port}/metrics"',
                    *(f'{name} = "{line}"' for name, line in commands.items()),
                    *lines,
                ]
            ),
        )

    def knobs(self, **values: str) -> None:
        lines = [f"export {name}={value}\n" for name, value in values.items()]
        (self.sshd.sandbox / "knobs.env").write_text("".join(["export CTAS=256\n", *lines]))

    def gate(self, text: str, within: str = "60s") -> str:
        return f'health = [{{ {text.replace("PORT", str(self.port))}, within = "{within}" }}]'

    def restarted(self) -> Any:
        [service] = self.restart("gpu1/decode")["services"]
        return service

    def failed(self) -> str:
        message: str = self.restart("gpu1/decode", code=23)["error"]["message"]
        return message


@pytest.fixture
def plain(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Iterator[Plain]:
    monkeypatch.setenv("KNOBLEDGER_TRACEBACK", "1")
    sandbox = tmp_path / "host"
    sandbox.mkdir()
    with socket.socket() as probe:
        probe.bind(("127.0.0.1", 0))
        port = probe.getsockname()[1]
    control = sandbox / "control.sh"
    control.write_text(CONTROL.format(folder=quote(str(sandbox)), engine=quote(str(ENGINE)), port=port))
    control.chmod(0o755)
    with EmbeddedSshd(folder=tmp_path / "sshd", sandbox=sandbox, user="demo") as sshd:
        plain = Plain(tmp_path / "ws", "gpu1", sshd, port)
        plain.knobs()
        plain.configure()
        yield plain
    for pid in _pids(plain.root):
        try:
            if str(ENGINE).encode() in Path(f"/proc/{pid}/cmdline").read_bytes():
                os.kill(pid, 9)
        except OSError:
            continue


def _pids(root: Path) -> list[int]:
    import json

    events = [json.loads(path.read_bytes()) for path in (root / "ledger" / "events").rglob("*.json")]
    kinds = [event for event in events if event["kind"] == "service_restarted"]
    held = [process["pid"] for event in kinds for process in event["after"]]
    file = root.parent / "host" / "pid"
    return [*held, *([int(file.read_text())] if file.exists() else [])]


def test_the_first_start_and_a_restart(plain: Plain) -> None:
    plain.configure(plain.gate('http = "http://127.0.0.1:PORT/health", body = "decode"'))
    first = plain.restarted()
    assert (first["pids_before"], first["outcome"]) == ([], "healthy")
    second = plain.restarted()
    assert second["pids_before"] == first["pids"]
    assert second["pids"] != first["pids"]
    assert second["started"] > first["started"]


@pytest.mark.parametrize(
    ("gate", "detail"),
    [
        ('http = "http://127.0.0.1:PORT/x", body = "^.*decode"', "status 200, body matches '^.*decode'"),
        ('tcp = "127.0.0.1:PORT"', "accepts connections"),
        ('command = "test -s pid"', "status 0"),
        ('metric = "sglang:num_queue_reqs", below = 3.5', "0 to 3 in 4 series"),
        ('completion = "http://127.0.0.1:PORT/generate"', "completed with ' Paris'"),
        ('completion = "http://127.0.0.1:PORT", model = "m"', "completed with ' Paris'"),
    ],
)
def test_green_gates(plain: Plain, gate: str, detail: str) -> None:
    plain.configure(plain.gate(gate))
    [seen] = plain.restarted()["gates"]
    assert (seen["ok"], seen["detail"]) == (True, detail)


@pytest.mark.parametrize(
    ("gate", "detail"),
    [
        ('http = "http://127.0.0.1:PORT/health", status = 204', "status 200 instead of 204: {"),
        ('http = "http://127.0.0.1:PORT/health", body = "prefill"', "'prefill' is not in the body"),
        ('tcp = "127.0.0.1:1"', "connection refused"),
        ('command = "echo no >&2; exit 3"', "status 3: no"),
        ('command = "sleep 60"', "status 124"),
        ('metric = "sglang:num_queue_reqs", below = 3', "0 to 3 in 4 series"),
        ('metric = "sglang:nothing", above = 0', "no metric 'sglang:nothing'"),
        ('completion = "http://127.0.0.1:PORT/v1/models"', "no answer"),
    ],
)
def test_red_gates(plain: Plain, gate: str, detail: str) -> None:
    up = 'tcp = "127.0.0.1:PORT", within = "60s" }, { '  # a gate is asked once at least, however long the start took
    plain.configure(plain.gate(up + gate, "1s"))
    message = plain.failed()
    assert "is not green within 1 s" in message
    assert detail in message


def test_a_process_that_ends_is_not_waited_for(plain: Plain) -> None:
    plain.knobs(CRASH_AFTER_S="0.3", STARTS_IN_S="99")
    plain.configure(plain.gate('http = "http://127.0.0.1:PORT/health"', "60s"))
    error = plain.restart("gpu1/decode", code=23)["error"]
    assert "ended" in error["message"]
    assert "decode: CUDA error: out of memory" in error["log"]


def test_a_crash_within_the_stable_time(plain: Plain) -> None:
    plain.knobs(CRASH_AFTER_S="1.5")
    plain.configure('stable = "4s"', plain.gate('http = "http://127.0.0.1:PORT/health"'))
    assert "after it was healthy" in plain.failed()


@pytest.mark.parametrize("stop", [True, False])
def test_sigterm_the_grace_period_sigkill(plain: Plain, stop: bool) -> None:
    plain.knobs(IGNORES_TERM="1")
    plain.configure('grace = "0.5s"', plain.gate('tcp = "127.0.0.1:PORT"'), stop=stop)
    first = plain.restarted()
    service = plain.restarted()
    assert service["pids_before"] == first["pids"]
    told = " / ".join(service["steps"])
    assert ("outlived the stop command: SIGTERM" if stop else "SIGTERM to process") in told
    assert "SIGKILL" in told


def test_a_service_without_a_pid_command_is_refused(plain: Plain) -> None:
    path = plain.root / "hosts.toml"
    path.write_text(
        "\n".join(line for line in path.read_text().splitlines() if not line.startswith("pid = "))
    )
    error = plain.restart("gpu1/decode", code=1)["error"]
    assert "no pid command" in error["message"]
    assert plain.events("restart_started") == []


def test_an_owed_restart_is_remembered_until_a_new_process_was_seen(plain: Plain) -> None:
    plain.configure(plain.gate('tcp = "127.0.0.1:PORT"'))

    def owed() -> Any:
        [target] = plain.knob("status", "gpu1/decode").json["targets"]
        return target["restart_owed"]

    assert owed() is None
    change = plain.knob("set", "gpu1/decode", "CTAS=512", "--go-ahead")
    assert change.json["restart"] == {"scope": "none", "done": False, "services": []}
    assert "note: restart owed: gpu1/decode" in change.err
    assert owed() is True
    assert "restart owed" in plain.knob("since", "1h").err
    restart = plain.restart("gpu1/decode")
    [live] = restart["live"]
    assert [(knob["name"], knob["value"], knob["agrees"]) for knob in live["knobs"]] == [
        ("CTAS", "512", True)
    ]
    assert [process["pid"] for process in live["processes"]] == restart["services"][0]["pids"]
    assert owed() is False
    # The red gate is a state of its own: the new process was seen.
    plain.configure(plain.gate('tcp = "127.0.0.1:1"', "0.5s"))
    failed = plain.knob("set", "gpu1/decode", "CTAS=256", "--restart", "service", "--go-ahead", code=23)
    assert failed.json["error"]["message"].startswith("change ")
    assert owed() is False
    assert "gpu1/decode was unhealthy when it was last restarted" in failed.err


def test_a_secret_of_the_service_stays_out_of_the_ledger(plain: Plain) -> None:
    plain.knobs(HF_TOKEN="hf_AbCdEfGhIjKlMnOpQrStUvWxYz01234567", STARTS_IN_S="99")
    plain.configure(plain.gate('command = "cat knobs.env >&2; exit 1"', "0.5s"))
    plain.knob("status", "gpu1/decode")
    said = plain.knob("restart", "gpu1/decode", "--go-ahead", code=23)
    text = said.out + said.err + "".join(p.read_text() for p in (plain.root / "ledger").rglob("*.json"))
    assert "hf_AbCdEf" not in text


def test_the_lines_for_a_supervisor_restart_it(plain: Plain) -> None:
    plain.configure('grace = "2s"', plain.gate('tcp = "127.0.0.1:PORT"'))
    first = plain.restarted()
    service = Config.load(plain.root).service("gpu1/decode")
    done = LocalHost().run(("/bin/sh", "-e", "-c", "\n".join(restart_lines(service))), timeout_s=20)
    assert done.status == 0, done.stderr
    now = look(LocalHost(), service)
    assert now.main is not None
    assert now.pids != tuple(first["pids"])


def test_a_window_that_the_start_would_use_up_is_refused(plain: Plain) -> None:
    """luci#3628: half a minute is too short for a service that loads for minutes."""
    plain.knobs(STARTS_IN_S="6")
    plain.configure(plain.gate('http = "http://127.0.0.1:PORT/health"', "60s"))
    plain.restarted()
    before = (plain.sshd.sandbox / "knobs.env").read_bytes()
    words = (
        "set",
        "gpu1/decode",
        "CTAS=512",
        "--restart",
        "service",
        "--confirm-within",
        "10s",
        "--go-ahead",
    )
    error = plain.knob(*words, code=1).json["error"]
    assert "gpu1/decode has taken " in error["message"]
    assert re.search(r"--confirm-within \d+s", error["hint"])
    assert (plain.sshd.sandbox / "knobs.env").read_bytes() == before


def test_the_deadline_restarts_what_the_change_restarted(plain: Plain) -> None:
    """deploy-rs#68: the roll-back restarted fewer services than the change."""
    plain.configure(plain.gate('tcp = "127.0.0.1:PORT"', "60s"))
    plain.restarted()
    words = (
        "set",
        "gpu1/decode",
        "CTAS=512",
        "--restart",
        "service",
        "--confirm-within",
        "10m",
        "--go-ahead",
    )
    [made] = plain.knob(*words).json["restart"]["services"]
    armed = plain.sshd.sandbox / ".knobledger/knobs.env.armed"
    (armed / "deadline").write_text(f"{int(time.time())}\n")
    fired = subprocess.run(
        ("/bin/sh", str(armed / "supervise"), "fire", str(armed)), capture_output=True, check=False
    )
    assert b"CTAS=256" in (plain.sshd.sandbox / "knobs.env").read_bytes(), fired
    now = look(LocalHost(), Config.load(plain.root).service("gpu1/decode"))
    assert now.main is not None
    assert now.main not in made["pids"]
    assert b"CTAS=256" in Path(f"/proc/{now.main}/environ").read_bytes()
