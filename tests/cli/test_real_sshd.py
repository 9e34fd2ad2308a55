"""The whole story with the installed command against a real OpenSSH server, and Ctrl-C, $EDITOR, and a terminal."""

from __future__ import annotations

import hashlib
import json
import os
import pty
import select
import signal
import subprocess
import sys
import time
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest

import servers
from workspaces import KNOB, SERVE

pytestmark = pytest.mark.tool("sshd", "ssh-keygen", "git")


class Desk:
    """A workspace beside a real sshd, and the command as its own process."""

    def __init__(self, root: Path, sshd: servers.Sshd, host: Path) -> None:
        self.root = root
        self.script = host / "serve_dsv4_decode.sh"
        self.script.write_bytes(SERVE)
        self.script.chmod(0o750)
        self.knob("init", str(root))
        service = f'[hosts.gpu1.services.decode]\nscript = "{self.script}"\n'
        (root / "hosts.toml").write_text(sshd.toml("gpu1") + service)

    def argv(self, *words: str) -> tuple[str, ...]:
        return (sys.executable, "-m", "knobledger", *words)

    def knob(self, *words: str, code: int = 0, **env: str) -> str:
        done = subprocess.run(
            self.argv(*words),
            cwd=self.root if self.root.exists() else None,
            env={**os.environ, "KNOBLEDGER_ACTOR": "anna", "TZ": "UTC", **env},
            capture_output=True,
            text=True,
            stdin=subprocess.DEVNULL,
            check=False,
        )
        assert done.returncode == code, done.stdout + done.stderr
        return done.stdout

    def json(self, *words: str) -> dict[str, Any]:
        found: dict[str, Any] = json.loads(self.knob(*words, "--json"))
        return found


@pytest.fixture
def desk(tmp_path: Path) -> Iterator[Desk]:
    host = tmp_path / "host"
    host.mkdir()
    with servers.openssh(tmp_path / "sshd") as sshd:
        yield Desk(tmp_path / "ws", sshd, host)


def test_done_when(desk: Desk) -> None:
    """Set a knob, unset it under a label, change another, restore: the knob is back, the other change is still there."""
    desk.knob("set", "gpu1/decode", f"{KNOB}=512", "--go-ahead", "--why", "A/B")
    tuned = desk.script.read_bytes()
    desk.knob("unset", "gpu1/decode", KNOB, "--label", "pretgt_revert_2025", "--go-ahead")
    desk.knob("set", "gpu1/decode", "WATCHDOG=60", "--add", "--go-ahead", "--kind", "fix")
    told = desk.knob("restore", "serve_dsv4_decode.sh.pretgt_revert_2025.bak", "--go-ahead")
    assert f"  5:export {KNOB}=512\n" in told
    assert "differs from the backup in the 1 later edit above and in nothing else" in told
    assert desk.script.read_bytes() == tuned.replace(b"WARN\n", b"WARN\nexport WATCHDOG=60\n")
    assert desk.script.stat().st_mode & 0o7777 == 0o750
    changes = desk.json("since", "1h")["changes"]
    assert [change["status"] for change in changes] == ["restored", "reverted", "in effect", "in effect"]
    assert [entry["kind"] for entry in desk.json("log", "--kind", "planned")["entries"]] == ["planned"] * 4
    history = subprocess.run(
        ("git", "log", "--format=%s"), cwd=desk.root, capture_output=True, text=True, check=True
    ).stdout.splitlines()
    assert [line.split(":")[0] for line in history] == [
        "restore gpu1/decode",
        "set gpu1/decode",
        "unset gpu1/decode",
        "set gpu1/decode",
    ]
    events = list((desk.root / "ledger" / "events").rglob("*.json"))
    assert len(events) == 17
    assert all(hashlib.sha256(path.read_bytes()).hexdigest() == path.stem for path in events)
    assert "the ledger verifies" in desk.knob("verify")


def test_the_second_init_changes_nothing(desk: Desk) -> None:
    before = {path: path.read_bytes() for path in desk.root.rglob("*") if path.is_file()}
    assert desk.json("init", str(desk.root))["made"] == []
    assert {path: path.read_bytes() for path in desk.root.rglob("*") if path.is_file()} == before


def test_edit_plans_what_the_editor_left(desk: Desk, tmp_path: Path) -> None:
    editor = tmp_path / "editor"
    editor.write_text("#!/bin/sh\nsed -i 's/WARN/INFO/; s/^# decode/# decode, tuned/' \"$1\"\n")
    editor.chmod(0o755)
    told = desk.knob("edit", "gpu1/decode", "--go-ahead", EDITOR=str(editor))
    assert "NCCL_DEBUG   WARN → INFO" in told
    assert b"# decode, tuned" in desk.script.read_bytes()
    assert "nothing to change" in desk.knob("edit", "gpu1/decode", "--go-ahead", EDITOR="true")
    desk.knob("edit", "gpu1/decode", "--go-ahead", code=1, EDITOR="false")
    editor.write_text("#!/bin/sh\necho 'if then' >>\"$1\"\n")
    before = desk.script.read_bytes()
    desk.knob("edit", "gpu1/decode", "--go-ahead", code=1, EDITOR=str(editor))
    assert desk.script.read_bytes() == before


def _at_a_terminal(desk: Desk, *words: str, answer: bytes) -> tuple[int, str]:
    """Runs the command on a pseudo-terminal, and types `answer` when it asks."""
    child, terminal = pty.fork()
    if child == 0:
        os.chdir(desk.root)
        os.environ.update({"KNOBLEDGER_ACTOR": "anna", "TERM": "xterm"})
        os.execv(sys.executable, desk.argv(*words))
    seen = b""
    answered = False
    end = time.monotonic() + 60
    while time.monotonic() < end:
        if select.select([terminal], [], [], 0.2)[0]:
            try:
                chunk = os.read(terminal, 65536)
            except OSError:
                break
            if not chunk:
                break
            seen += chunk
        if not answered and b"Go ahead?" in seen:
            os.write(terminal, answer)
            answered = True
    os.close(terminal)
    return os.waitstatus_to_exitcode(os.waitpid(child, 0)[1]), seen.decode()


def test_a_terminal_is_asked_and_its_answer_counts(desk: Desk) -> None:
    code, seen = _at_a_terminal(desk, "set", "gpu1/decode", f"{KNOB}=512", answer=b"n\n")
    assert code == 1
    assert "no go-ahead was given" in seen
    assert desk.script.read_bytes() == SERVE
    code, seen = _at_a_terminal(desk, "set", "gpu1/decode", f"{KNOB}=512", answer=b"y\n")
    assert code == 0, seen
    assert b"CTAS=512" in desk.script.read_bytes()
    [approval] = desk.json("log", "--kind", "approved")["entries"]
    assert approval["text"] == "confirm at a terminal"


def test_ctrl_c_is_said_and_leaves_what_recover_settles(desk: Desk) -> None:
    slow = desk.root.parent / "host" / ".knobledger"
    slow.mkdir(mode=0o700)
    running = subprocess.Popen(
        desk.argv("set", "gpu1/decode", f"{KNOB}=512", "--go-ahead"),
        cwd=desk.root,
        stdout=subprocess.PIPE,
        stderr=subprocess.PIPE,
        text=True,
        env={**os.environ, "KNOBLEDGER_ACTOR": "anna"},
    )
    events = desk.root / "ledger" / "events"
    end = time.monotonic() + 60
    while time.monotonic() < end and not any(
        b'"started"' in p.read_bytes() for p in events.rglob("[0-9a-f]*.json")
    ):
        time.sleep(0.002)
    running.send_signal(signal.SIGINT)
    _, err = running.communicate(timeout=60)
    assert running.returncode in (0, 130), err
    desk.knob("recover")
    assert desk.json("recover") == {"settled": [], "unsettled": []}
    live = desk.script.read_bytes()
    assert live in (SERVE, SERVE.replace(b"CTAS=256", b"CTAS=512"))
    change = desk.json("since", "1h")["changes"]
    assert bool(change) == (live != SERVE)


def test_a_changed_host_key_makes_no_connection(desk: Desk, tmp_path: Path) -> None:
    known = next(tmp_path.glob("sshd/**/known_hosts"))
    servers.keygen(tmp_path / "other")
    key = (tmp_path / "other.pub").read_text().split()
    known.write_text(known.read_text().split()[0] + f" {key[0]} {key[1]}\n")
    error = json.loads(desk.knob("set", "gpu1/decode", f"{KNOB}=512", "--go-ahead", "--json", code=20))[
        "error"
    ]
    assert error["kind"] == "host_key"
    assert desk.script.read_bytes() == SERVE
