"""Confirmation and deadline at the same moment: one wins, and both sides say so.

`make faults` runs it 1,000 times.
"""

from __future__ import annotations

import os
import random
import subprocess
import threading
import time
from pathlib import Path

from knobledger.hosts import arming
from knobledger.hosts.local import LocalHost
from knobledger.names import HostPath, digest_of

RACES = int(os.environ.get("KNOB_RACES", "40"))
SEED = int(os.environ.get("KNOB_SEED", "1"))
OLD, NEW = b"export KNOB=256\n", b"export KNOB=512\n"


def race(folder: Path, dice: random.Random, number: int) -> str:
    """Who won; asserts that host and answers agree."""
    script = folder / f"serve{number}.sh"
    script.write_bytes(OLD)
    script.chmod(0o744)
    path, secret = HostPath(str(script)), f"secret {number}"
    wanted = arming.Arming(
        path,
        ".knobledger",
        digest_of(OLD),
        digest_of(NEW),
        arming.token_of(secret),
        3600,
        f"{number}",
        "anna",
        "x.bak",
    )
    arming.arm(LocalHost("gpu1"), wanted)
    new = folder / "new"
    new.write_bytes(NEW)
    new.chmod(0o744)
    new.rename(script)
    armed = folder / ".knobledger" / f"{script.name}.armed"
    (armed / "deadline").write_text(f"{int(time.time())}\n")
    head_start = dice.uniform(0, 0.25)

    def fire() -> None:
        time.sleep(max(0.0, head_start))
        # The arming may be over, and its programs gone.
        subprocess.run(
            ("/bin/sh", str(armed / "supervise"), "fire", str(armed)), capture_output=True, check=False
        )

    deadline = threading.Thread(target=fire)
    deadline.start()
    time.sleep(max(0.0, -head_start))
    kept, watch = arming.confirm(LocalHost("gpu1"), path, ".knobledger", secret)
    deadline.join()
    if kept:
        assert script.read_bytes() == NEW
        assert not armed.exists()
    else:
        assert watch.state == "expired"
        assert script.read_bytes() == OLD
        ended = arming.watch(LocalHost("gpu1"), path, ".knobledger", wanted.token)
        assert (ended.state, ended.outcome) == ("expired", "reverted")
        arming.clear(LocalHost("gpu1"), path, ".knobledger", wanted.token)
        assert not armed.exists()
    assert script.stat().st_mode & 0o777 == 0o744
    return "confirmed" if kept else "expired"


def test_confirm_against_expiry(tmp_path: Path) -> None:
    dice = random.Random(SEED)
    won = [race(tmp_path, dice, number) for number in range(RACES)]
    print(
        f"races of confirm and expiry: {RACES}, seed {SEED}, {won.count('confirmed')} confirmed, no violation"
    )
    assert {"confirmed", "expired"} == set(won)
    assert sorted(path.name for path in tmp_path.iterdir() if path.name.startswith(".knobledger.")) == []
