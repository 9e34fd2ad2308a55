"""The ledger at size: building the index against sqlite3's own executemany, and what a question costs then."""

from __future__ import annotations

import argparse
import json
import os
import platform
import sqlite3
import statistics
import tempfile
import time
from collections.abc import Callable
from datetime import UTC, datetime, timedelta
from pathlib import Path

from knobledger.event import encode, id_of, stamp
from knobledger.events.changes import Planned
from knobledger.ledger import tables as _loaded  # noqa: F401 - its half second of imports is not measured
from knobledger.ledger.index import Index
from knobledger.ledger.store import Ledger
from knobledger.names import HostPath, TargetName, digest_of
from knobledger.plan import Edit, PlannedFile

BEGIN = datetime(2026, 1, 1, tzinfo=UTC)
_MEMORY = Path("/dev/shm")


def main() -> None:
    """Measures, and prints one table."""
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("sizes", nargs="*", type=int, default=[1_000, 100_000])
    parser.add_argument("--runs", type=int, default=5, help="of each question")
    wanted = parser.parse_args()
    load = ", ".join(f"{value:.1f}" for value in os.getloadavg())
    print(
        f"{datetime.now(UTC):%Y-%m-%d %H:%M} UTC, {os.cpu_count()} cores, load {load}; {platform.platform()}\n"
    )
    print(
        "| events | index built | executemany of its rows | times | since noon | log --knob | resolve a prefix |"
    )
    print("|---|---|---|---|---|---|---|")
    for size in wanted.sizes:
        with tempfile.TemporaryDirectory(dir=_MEMORY if os.access(_MEMORY, os.W_OK) else None) as name:
            _measure(Path(name), size, wanted.runs)


def _measure(root: Path, size: int, runs: int) -> None:
    ledger = Ledger(root)
    last, some = _fill(ledger, size)
    index = Index(ledger)
    built = _seconds(index.rebuild)
    plain = _executemany(index.path, root / "plain.sqlite")
    noon = last.replace(hour=12, minute=0, second=0, microsecond=0)
    questions: tuple[Callable[[], object], ...] = (
        lambda: index.find(since=noon, limit=100),
        lambda: index.find(knob="KNOB_7", limit=100),
        lambda: ledger.resolve(some[:8]),
    )
    times = []
    for ask in questions:
        ask()
        times.append(statistics.median(_seconds(ask) for _ in range(runs)))
    shown = " | ".join(f"{1000 * each:.1f} ms" for each in times)
    print(f"| {size:,} | {built:.2f} s | {plain:.2f} s | {built / plain:.1f} | {shown} |", flush=True)


def _fill(ledger: Ledger, size: int) -> tuple[datetime, str]:
    """Plans over 200 days, as files; without syncing, which is not what is measured here."""
    made, some = BEGIN, ""
    parents: tuple[object, ...] = ()
    for n in range(size):
        made = BEGIN + timedelta(days=200) * (n / size)
        edit = Edit(name=f"KNOB_{n % 50}", kind="env", before=str(n), after=str(n + 1))
        file = PlannedFile(
            target=TargetName(f"gpu{n % 40}/decode"),
            path=HostPath("/root/serve.sh"),
            dialect="bash",
            edits=(edit,),
            base=digest_of(b"%d" % n),
            result=digest_of(b"%d" % (n + 1)),
            diff=f"-export KNOB={n}\n+export KNOB={n + 1}\n",
        )
        plan = Planned(
            at=stamp(made), actor=f"p{n % 9}@example.org", verb="set", files=(file,), expires=stamp(made)
        )
        content = encode(plan.model_copy(update={"parents": parents}))
        some = id_of(content)
        parents = (some,)
        path = ledger.folder / json.loads(content)["at"][:10].replace("-", "/") / f"{some}.json"
        path.parent.mkdir(parents=True, exist_ok=True)
        path.write_bytes(content)
    return made, some


def _executemany(index: Path, other: Path) -> float:
    """The same tables with the same rows, read into memory before the clock starts."""
    source = sqlite3.connect(index)
    schema = [sql for (sql,) in source.execute("SELECT sql FROM sqlite_master WHERE sql IS NOT NULL")]
    tables = [name for (name,) in source.execute("SELECT name FROM sqlite_master WHERE type = 'table'")]
    rows = {name: source.execute(f"SELECT * FROM {name}").fetchall() for name in tables}
    source.close()

    def write() -> None:
        target = sqlite3.connect(other)
        target.execute("PRAGMA journal_mode = OFF")
        target.execute("PRAGMA synchronous = OFF")
        for sql in schema:
            target.execute(sql)
        for name, found in rows.items():
            if found:
                target.executemany(f"INSERT INTO {name} VALUES ({', '.join('?' * len(found[0]))})", found)
        target.commit()
        target.close()

    return _seconds(write)


def _seconds(act: Callable[[], object]) -> float:
    begun = time.perf_counter()
    act()
    return time.perf_counter() - begun


if __name__ == "__main__":
    main()
