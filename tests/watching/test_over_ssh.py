"""The same through a real SSH server: what is looked at, and what is dialled, belongs to the host."""

from __future__ import annotations

import json
from pathlib import Path

import pytest
from metricsd import RUNNING, page, serving
from watched import KNOB, SCRIPT, Watched

from servers import openssh

WAITS = "import sys\nprint('ready', flush=True)\nsys.stdin.read()\n"


@pytest.mark.tool("sshd", "ssh", "ssh-keygen")
@pytest.mark.parametrize("transport", ["fabric", "openssh"])
def test_processes_and_metrics_through_ssh(watched: Watched, tmp_path: Path, transport: str) -> None:
    watched.write(SCRIPT)
    pid = watched.start(WAITS, env={KNOB: "512"})
    with openssh(tmp_path / "sshd") as sshd, serving(lambda n: page({"0": 53}) if n < 2 else None) as server:
        (watched.root / "hosts.toml").write_text(
            sshd.toml(transport=transport) + f'[hosts.gpu1.services.decode]\nscript = "{watched.script}"\n'
            f'pid = "cat {watched.folder}/pid"\nmetrics = "{server.url}"\n'
        )
        target = watched.live(KNOB)
        assert [process["pid"] for process in target["processes"]] == [pid]
        assert target["knobs"][0]["value"] == "512"
        fast = ("--for", "3s", "--every", "0.5s", "--json")
        code, out, err = watched.say("observe", "gpu1/decode", RUNNING, *fast)
        found = json.loads(out)
        assert (code, found["ended"], found["peak"]) == (23, "gone", 53), err
        code, out, _ = watched.say("observe", "gpu1/decode", RUNNING, *fast)
        assert (code, json.loads(out)["error"]["kind"]) == (23, "no_metrics")
