"""`knob plans`: what it lists, what is stale, and the watch at a terminal and without one."""

from __future__ import annotations

import json
import os
import pty
import select
import signal
import subprocess
import sys
import time
from collections.abc import Callable
from datetime import timedelta
from pathlib import Path

from knobledger.errors import Unreachable
from knobledger.hosts.host import RemoteFile
from knobledger.hosts.memory import MemoryHost
from knobledger.names import HostPath
from workspaces import KNOB, SCRIPT, SERVE, Bench


def words(bench: Bench, *, spent: bool = False, live: bool = False) -> dict[str, str]:
    with bench.open() as workspace:
        return {plan.id: plan.word for plan in workspace.plans(spent=spent, live=live).plans}


def test_what_is_listed(tmp_path: Path) -> None:
    bench = Bench(tmp_path / "ws")
    used = bench.set((KNOB, "300")).id
    expired = bench.plan((KNOB, "400"), expires_in=timedelta(seconds=-1)).id
    rejected, approved, waits = (bench.plan((KNOB, value)).id for value in ("500", "600", "700"))
    with bench.open() as workspace:
        workspace.reject(rejected, "no")
        workspace.approve(approved, "flag")
    assert words(bench) == {waits: "open", approved: "approved"}
    every = words(bench, spent=True)
    assert every == {
        waits: "open",
        approved: "approved",
        rejected: "rejected",
        expired: "expired",
        used: "used",
    }
    assert list(every) == [waits, approved, rejected, expired, used]
    assert words(bench, live=True) == words(bench)
    bench.host.put(SCRIPT, SERVE + b"# by hand\n", mode="0755")
    assert words(bench) == {waits: "open", approved: "approved"}, "no host was asked"
    assert words(bench, live=True) == {waits: "stale", approved: "stale"}
    assert words(bench, spent=True, live=True)[used] == "used"


def test_a_host_that_is_down_makes_nothing_stale(tmp_path: Path) -> None:
    class Down(MemoryHost):
        def read(self, path: HostPath, *, running: bool = False) -> RemoteFile:
            raise Unreachable(f"no way to {path!r}")

    bench = Bench(tmp_path / "ws")
    plan = bench.plan((KNOB, "300")).id
    bench.host = Down("gpu1")
    assert words(bench, live=True) == {plan: "open"}


def local(folder: Path) -> tuple[Path, Path]:
    """A workspace whose host is this machine."""
    root, script = folder / "ws", folder / "serve.sh"
    root.mkdir()
    script.write_bytes(SERVE)
    (root / "hosts.toml").write_text(
        '[hosts.gpu1]\ntransport = "local"\n[hosts.gpu1.services.decode]\n'
        f"script = {json.dumps(str(script))}\n"
    )
    return root, script


def knob(root: Path, *words: str) -> dict[str, object]:
    done = subprocess.run(
        (sys.executable, "-m", "knobledger", "-C", str(root), "--json", *words),
        capture_output=True,
        text=True,
        check=True,
    )
    found = json.loads(done.stdout)
    assert isinstance(found, dict)
    return found


def ended(process: subprocess.Popen[bytes]) -> int:
    process.send_signal(signal.SIGINT)
    return process.wait(30)


def test_watched_without_a_terminal(tmp_path: Path) -> None:
    root, script = local(tmp_path)
    first = str(knob(root, "set", "gpu1/decode", f"{KNOB}=300", "--plan")["plan"])
    watch = subprocess.Popen(
        (sys.executable, "-m", "knobledger", "-C", str(root), "plans", "--watch"), stdout=subprocess.PIPE
    )
    try:
        assert watch.stdout
        assert watch.stdout.readline().decode().startswith(f"{first[:8]}  open  set gpu1/decode  by ")
        second = str(knob(root, "set", "gpu1/decode", f"{KNOB}=400", "--plan")["plan"])
        assert watch.stdout.readline().decode().startswith(f"{second[:8]}  open  set")
        knob(root, "approve", first)
        assert watch.stdout.readline().decode().startswith(f"{first[:8]}  open → approved  ")
        knob(root, "apply", first)
        line = watch.stdout.readline().decode()
        if "→ in doubt" in line:  # a look in the middle of the attempt
            line = watch.stdout.readline().decode()
        assert "→ used  " in line
        assert watch.stdout.readline().decode().startswith(f"{second[:8]}  open → stale  "), "it is overtaken"
        assert ended(watch) == 0
        assert watch.stdout.read() == b""
    finally:
        watch.kill()
        watch.wait()
        if watch.stdout:
            watch.stdout.close()
    assert f"{KNOB}=300".encode() in script.read_bytes()


def test_watched_at_a_terminal(tmp_path: Path) -> None:
    root, _ = local(tmp_path)
    ours, theirs = pty.openpty()
    watch = subprocess.Popen(
        (sys.executable, "-m", "knobledger", "-C", str(root), "plans", "--watch"),
        stdout=theirs,
        stdin=theirs,
        stderr=theirs,
        env={**os.environ, "TERM": "xterm"},
    )
    os.close(theirs)
    shown = b""

    def until(seen: Callable[[bytes], bool]) -> None:
        nonlocal shown
        end = time.monotonic() + 90
        while not seen(shown):
            assert time.monotonic() < end, shown
            if select.select([ours], [], [], 1)[0]:
                shown += os.read(ours, 65536)

    try:
        until(lambda text: b"no plan waits" in text and b"Ctrl-C ends" in text)
        plan = str(knob(root, "set", "gpu1/decode", f"{KNOB}=300", "--plan")["plan"])[:8].encode()
        until(lambda text: plan in text.rpartition(b"\x1b[2J")[2])
        assert ended(watch) == 0
    finally:
        watch.kill()
        watch.wait()
        os.close(ours)
    assert b"Traceback" not in shown
