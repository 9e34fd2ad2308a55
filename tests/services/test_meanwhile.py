"""Two operators with a workspace each: one changes the file while the other's restart is going on. Real processes.

ansible#64899: two edits at once, one lost, both "ok".
"""

from __future__ import annotations

import json
import os
import shutil
import subprocess
import sys
import time
from pathlib import Path
from typing import Any

import pytest
from test_plain import Plain, plain

__all__ = ["plain"]
pytestmark = pytest.mark.timeout(400)


@pytest.fixture
def slow(plain: Plain, tmp_path: Path) -> Plain:
    """A service that is not up before `go` is there, and a second workspace, `other`, that knows nothing of the first."""
    go = plain.sshd.sandbox / "go"
    go.touch()
    plain.knobs(STARTS_WHEN=str(go))
    plain.configure(plain.gate('http = "http://127.0.0.1:PORT/health"', within="60s"))
    shutil.copytree(plain.root, tmp_path / "other", symlinks=True)
    plain.restart("gpu1/decode")
    go.unlink()
    return plain


def knob(root: Path, actor: str, *words: str) -> subprocess.Popen[str]:
    return subprocess.Popen(
        [sys.executable, "-m", "knobledger", "-C", str(root), "--json", *words, "--go-ahead"],
        env={**os.environ, "KNOBLEDGER_ACTOR": actor},
        stdin=subprocess.DEVNULL,
        stdout=subprocess.PIPE,
        stderr=subprocess.PIPE,
        text=True,
    )


def ended(process: subprocess.Popen[str]) -> tuple[int, Any]:
    out, err = process.communicate(timeout=300)
    return process.returncode, json.loads(out) if out.strip() else err


def in_the_middle(slow: Plain, *words: str) -> subprocess.Popen[str]:
    """Anna's change, once it has written the file and begun to start the service."""
    pid = slow.sshd.sandbox / "pid"
    before = pid.read_text()
    process = knob(slow.root, "anna", "set", "gpu1/decode", *words, "--restart", "service")
    while pid.read_text() in ("", before):
        assert process.poll() is None, process.communicate()
        time.sleep(0.02)
    return process


def let_go(slow: Plain, process: subprocess.Popen[str]) -> tuple[int, Any]:
    """The service comes up, and the restart comes to its end."""
    assert process.poll() is None, process.communicate()
    (slow.sshd.sandbox / "go").touch()
    return ended(process)


def test_a_change_by_another_workspace_is_told_to_whoever_restarts(slow: Plain, tmp_path: Path) -> None:
    other = tmp_path / "other"
    anna = in_the_middle(slow, "CTAS=512")
    began = int(time.time())
    code, _ = ended(knob(other, "bert", "set", "gpu1/decode", "CTAS=640"))
    assert code == 0
    code, said = let_go(slow, anna)
    error = said["error"]
    assert (code, error["kind"]) == (10, "overtaken"), said
    assert "another workspace (its backup is " in error["holder"]
    assert began - 2 <= error["since"] <= time.time()
    # Nothing is lost: the winner's bytes are there, the loser's in the backup, and both ledgers know their own.
    folder = slow.sshd.sandbox
    assert b"CTAS=640" in (folder / "knobs.env").read_bytes()
    backup = Path(error["holder"].partition("its backup is ")[2].rstrip(")"))
    assert b"CTAS=512" in backup.read_bytes()
    for root, actor in ((slow.root, "anna"), (other, "bert")):
        assert ended(knob(root, actor, "revert", "@"))[0] in (0, 10)
        subprocess.run(
            [sys.executable, "-m", "knobledger", "-C", str(root), "verify"], check=True, capture_output=True
        )


def test_a_change_in_the_same_workspace_names_who_made_it(slow: Plain) -> None:
    anna = in_the_middle(slow, "CTAS=512")
    code, said = ended(knob(slow.root, "bert", "set", "gpu1/decode", "CTAS=640", "--restart", "service"))
    assert (code, said["error"]["kind"], said["error"]["holder"]) == (11, "busy", "anna")
    code, _ = ended(knob(slow.root, "bert", "revert", "@"))
    assert code == 0
    code, said = let_go(slow, anna)
    assert (code, said["error"]["kind"]) == (10, "overtaken"), said
    assert said["error"]["holder"].startswith("bert (change ")
    assert b"CTAS=256" in (slow.sshd.sandbox / "knobs.env").read_bytes()


def test_a_restart_that_is_killed_holds_up_nobody(slow: Plain, tmp_path: Path) -> None:
    anna = in_the_middle(slow, "CTAS=512")
    anna.kill()
    anna.communicate()
    for root, value in ((tmp_path / "other", "640"), (slow.root, "700")):
        code, said = ended(knob(root, "bert", "set", "gpu1/decode", f"CTAS={value}"))
        assert code == 0, said
    left = [path.name for path in slow.sshd.sandbox.iterdir() if path.name.startswith(".knobledger.")]
    assert left == []
    assert not (slow.sshd.sandbox / ".knobledger/.holder").exists()
