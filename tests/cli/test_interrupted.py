"""A command that is killed, or stopped by Ctrl-C, as its own process."""

from __future__ import annotations

import json
import os
import signal
import subprocess
import sys
import time
from collections.abc import Iterator
from pathlib import Path

import pytest
from test_real_sshd import Desk

import servers
from workspaces import KNOB, SERVE

pytestmark = pytest.mark.tool("sshd", "ssh-keygen", "git")

NEW = SERVE.replace(b"CTAS=256", b"CTAS=512")
KILLED = """
import os, signal, sys
from knobledger.ledger.store import Ledger
append_each = Ledger.append_each
def die(self, events):
    if any(event.kind == "applied" for event in events):
        os.kill(os.getpid(), signal.SIGKILL)
    return append_each(self, events)
Ledger.append_each = die
from knobledger.cli.main import run
sys.exit(run(sys.argv[1:]))
"""
"""`knob` that is killed after the file was changed, and before that is recorded"""


@pytest.fixture
def desk(tmp_path: Path) -> Iterator[Desk]:
    host = tmp_path / "host"
    host.mkdir()
    with servers.openssh(tmp_path / "sshd") as sshd:
        yield Desk(tmp_path / "ws", sshd, host)


def test_what_a_killed_command_has_done_is_never_by_hand(desk: Desk) -> None:
    done = subprocess.run(
        (sys.executable, "-c", KILLED, "set", "gpu1/decode", f"{KNOB}=512", "--go-ahead"),
        cwd=desk.root,
        env={**os.environ, "KNOBLEDGER_ACTOR": "anna"},
        capture_output=True,
        stdin=subprocess.DEVNULL,
        check=False,
    )
    assert done.returncode == -signal.SIGKILL
    assert desk.script.read_bytes() == NEW
    assert "which may be the work of" in desk.knob("status")
    assert "by hand" not in desk.knob("drift", code=22)
    told = desk.knob("set", "gpu1/decode", "NCCL_DEBUG=INFO", "--plan")  # without `recover`
    desk.knob("set", "gpu1/decode", "NCCL_DEBUG=INFO", "--go-ahead")
    assert "had no outcome in the ledger: the file holds what it was to write" in told
    assert desk.script.read_bytes() == NEW.replace(b"WARN", b"INFO")
    assert desk.json("recover") == {"settled": [], "unsettled": []}
    for words in (("blame", "gpu1/decode", KNOB), ("log",)):
        assert "by hand" not in desk.knob(*words), words
    since = desk.json("since", "1h")
    assert since["observed"] == []
    first, second = since["changes"]
    assert [one["status"] for one in (first, second)] == ["in effect"] * 2
    assert [edit["after"] for edit in first["edits"]] == ["512"]
    desk.knob("revert", first["change"][:8], "--go-ahead")
    assert desk.script.read_bytes() == SERVE.replace(b"WARN", b"INFO")
    assert "the ledger verifies" in desk.knob("verify")


AT_ONCE = """
import gc, sys
def ready(*_):
    sys.stderr.write("ready\\n")
    sys.stderr.flush()
    STOP
gc.set_threshold = ready
from knobledger.cli.start import main
main()
"""
"""`knob` that says when its entry point is at work, before anything else is imported"""


@pytest.mark.timeout(400)
@pytest.mark.parametrize("words", [("status",), ("set", "gpu1/decode", f"{KNOB}=512", "--plan")])
def test_ctrl_c_at_any_moment_is_said_in_one_line(desk: Desk, words: tuple[str, ...]) -> None:
    begun = time.monotonic()
    desk.knob(*words)
    usual_s = time.monotonic() - begun
    for share in (0, 0.1, 0.25, 0.45, 0.65, 0.85):
        running = subprocess.Popen(
            (sys.executable, "-c", AT_ONCE.replace("STOP", ""), *words),
            cwd=desk.root,
            stdin=subprocess.DEVNULL,
            stdout=subprocess.PIPE,
            stderr=subprocess.PIPE,
            text=True,
            env={**os.environ, "KNOBLEDGER_ACTOR": "anna"},
        )
        assert running.stderr is not None
        assert running.stderr.readline() == "ready\n"
        time.sleep(share * usual_s)
        running.send_signal(signal.SIGINT)
        _, err = running.communicate(timeout=60)
        assert "Traceback" not in err, (share, err)
        assert running.returncode in (0, 130), (share, err)
        if running.returncode:
            assert sum("interrupted" in line for line in err.splitlines()) == 1, (share, err)


def test_ctrl_c_while_it_loads_has_written_nothing(desk: Desk) -> None:
    """As soon as the entry point runs, before anything else is imported."""
    stops = AT_ONCE.replace("STOP", "import os, signal; os.kill(os.getpid(), signal.SIGINT)")
    for more in ((), ("--json",)):
        done = subprocess.run(
            (sys.executable, "-c", stops, "set", "gpu1/decode", f"{KNOB}=512", "--go-ahead", *more),
            cwd=desk.root,
            capture_output=True,
            text=True,
            stdin=subprocess.DEVNULL,
            check=False,
        )
        assert done.returncode == 130
        if more:
            assert json.loads(done.stdout)["error"]["kind"] == "interrupted"
        else:
            assert done.stderr == "ready\nknob: interrupted; nothing was written\n"
    assert desk.script.read_bytes() == SERVE
    assert not list((desk.root / "ledger" / "events").rglob("*.json"))
