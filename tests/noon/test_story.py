"""On a host that nobody prepared: `knob init`, `knob adopt --backups`, `knob since noon` tell a true story."""

from __future__ import annotations

import json
import os
import subprocess
import sys
from datetime import UTC, datetime, timedelta
from pathlib import Path

import pytest
from handmade import KNOB, set_to, without, write

import servers
from workspaces import SERVE

pytestmark = pytest.mark.tool("sshd", "ssh-keygen", "git")


def test_three_commands_tell_the_incident(tmp_path: Path) -> None:
    """Over a real sshd, with clocks that show Berlin's time; times are of the last noon, whenever this runs."""
    root, host = tmp_path / "ws", tmp_path / "host"
    host.mkdir()
    script = host / "serve_dsv4_decode.sh"
    now = datetime.now(UTC)
    noon = now.replace(hour=12, minute=0, second=0, microsecond=0)
    noon -= timedelta(days=1) if noon > now - timedelta(minutes=2) else timedelta()
    step = (now - noon) / 8

    def at(part: int) -> str:
        return (noon + part * step).strftime("%Y-%m-%d %H:%M:%S UTC")

    write(
        script.with_name(f"{script.name}.orig"),
        SERVE,
        (noon - timedelta(days=3)).strftime("%Y-%m-%d %H:%M UTC"),
    )
    write(script.with_name(f"{script.name}.pretgt_revert_2025.bak"), set_to("512"), at(3))
    write(script, without(), at(5))

    def knob(*words: str) -> str:
        done = subprocess.run(
            (sys.executable, "-m", "knobledger", *words),
            cwd=root if root.exists() else tmp_path,
            env={**os.environ, "KNOBLEDGER_ACTOR": "anna", "TZ": "UTC", "COLUMNS": "200"},
            capture_output=True,
            text=True,
            stdin=subprocess.DEVNULL,
            check=False,
        )
        assert done.returncode == 0, done.stdout + done.stderr
        return done.stdout

    with servers.openssh(tmp_path / "sshd") as sshd:
        knob("init", str(root))
        (root / "hosts.toml").write_text(
            sshd.toml("gpu1") + f'[hosts.gpu1.services.decode]\nscript = "{script}"\n'
        )
        knob("adopt", "gpu1/decode", "--backups", "--go-ahead")
        told = knob("since", "noon")
        (noon_echo, _, *rows) = told.splitlines()
        assert noon_echo.startswith("since noon = ")
        text = "\n".join(rows)
        assert "256 → 512" in text
        assert "512 → (absent)" in text
        assert "by hand" in text
        assert "anna" not in text
        observed = json.loads(knob("since", "noon", "--json"))["observed"]
        assert [line["status"] for line in observed] == ["reverted", "in effect"]
        knob("restore", f"{script.name}.pretgt_revert_2025.bak", "--go-ahead")
        assert script.read_bytes() == set_to("512")
        assert KNOB.decode() in knob("since", "noon", "--live")
        assert "every target holds its last recorded bytes" in knob("since", "noon", "--live")
        knob("verify", "--hosts")
