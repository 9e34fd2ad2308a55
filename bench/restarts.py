"""What `knob restart` adds to the demo's three services: against the same stops, starts and health requests by hand.

Both take turns on one stage, the demo's: a real SSH server on loopback, real processes. By hand means: in this
process, without SSH, asking for health every 5 ms; so that is what the processes themselves take.
"""

from __future__ import annotations

import argparse
import json
import os
import statistics
import subprocess
import sys
import tempfile
import time
import urllib.request
from pathlib import Path

from knobledger.demo.stage import SERVICES, Stage

LIMIT_S = 1.0
"""what the product may add"""
HEALTHY_S = 20.0


def by_hand(stage: Stage) -> float:
    """Stop in reverse, start in order, each healthy before the next; seconds."""
    begun = time.perf_counter()
    control = os.fspath(stage.host / "service.sh")
    for name in reversed(SERVICES):
        subprocess.run([control, "stop", name], check=True)
    for name in SERVICES:
        subprocess.run([control, "start", name], check=True)
        page = "generate" if name == "router" else "health"
        data = b"{}" if name == "router" else None
        end = time.perf_counter() + HEALTHY_S
        while True:
            try:
                urllib.request.urlopen(f"http://127.0.0.1:{stage.ports[name]}/{page}", data, timeout=5).read()
                break
            except OSError:
                if time.perf_counter() > end:
                    raise
                time.sleep(0.005)
    return time.perf_counter() - begun


def by_knob(stage: Stage) -> tuple[float, float]:
    """`knob restart dsv4 --go-ahead` as a cold command: the outage that it says, and the whole command; seconds."""
    argv = [
        sys.executable,
        "-m",
        "knobledger",
        "-C",
        os.fspath(stage.root),
        "restart",
        "dsv4",
        "--go-ahead",
        "--json",
    ]
    begun = time.perf_counter()
    said = subprocess.run(argv, check=True, capture_output=True).stdout
    return json.loads(said)["outage_s"], time.perf_counter() - begun


def main() -> None:
    parser = argparse.ArgumentParser(prog="bench/restarts.py", description=(__doc__ or "").split("\n")[0])
    parser.add_argument("--runs", type=int, default=5, help="runs of each that count (default 5)")
    runs = parser.parse_args().runs
    with tempfile.TemporaryDirectory(prefix="knob-bench-") as folder, Stage.new(Path(folder) / "ws") as stage:
        by_hand(stage)
        by_knob(stage)
        turns = [(by_hand(stage), *by_knob(stage)) for _ in range(runs)]
    hand, outage, whole = (statistics.median(times) for times in zip(*turns, strict=True))
    added = statistics.median(outage - hand for hand, outage, _ in turns)
    print(f"| the demo's three services | median of {runs} |")
    print("|---|---|")
    print(f"| what the processes take: first stop to last completion, by hand | {hand:.2f} s |")
    print(f"| the outage in `knob restart dsv4 --go-ahead` | {outage:.2f} s |")
    print(f"| what it adds to the outage | {added:.2f} s |")
    print(f"| the whole cold command, with its start, connection, ledger and git | {whole:.2f} s |")
    if added > LIMIT_S:
        sys.exit(f"it adds {added:.2f} s, more than {LIMIT_S:g} s")


if __name__ == "__main__":
    main()
