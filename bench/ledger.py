"""The ledger at size: building the index, what a question costs in process and as a command, and appending with git.

Each size is a ledger of 500 hosts with two services each, where people have made five changes with each 25 events, seen one
edit by hand and restarted one service; 2,000 events are written in a day, so a larger ledger is an older one.
`--write` puts the result into docs/performance.md.
"""

from __future__ import annotations

import argparse
import json
import os
import platform
import shutil
import sqlite3
import statistics
import subprocess
import sys
import tempfile
import time
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from dataclasses import dataclass, field
from datetime import UTC, datetime, timedelta
from itertools import count
from pathlib import Path
from typing import Any

from knobledger.blaming import blame
from knobledger.event import encode, id_of, stamp
from knobledger.events.asking import HypothesisOpened
from knobledger.events.changes import Applied, Approved, Observed, Planned, Started
from knobledger.events.entry import Event
from knobledger.events.notes import Noted
from knobledger.events.serving import Before, RestartEnded, RestartStarted, SeenRunning, ServiceRestarted
from knobledger.hosts.memory import MemoryHost
from knobledger.ledger import tables as _loaded  # noqa: F401 - its half second of imports is not measured
from knobledger.ledger.history import commit
from knobledger.ledger.index import Index
from knobledger.ledger.snapshots import Snapshots
from knobledger.ledger.store import Ledger, now
from knobledger.looking import Query
from knobledger.moment import Resolved
from knobledger.names import Digest, EventId, HostPath, TargetName, digest_of
from knobledger.plan import Edit, PlannedFile
from knobledger.receipt import Manifest, Receipt
from knobledger.workspace import Workspace

PAGE = Path(__file__).resolve().parent.parent / "docs" / "performance.md"
MARKS = "<!-- ledger: begin -->", "<!-- ledger: end -->"
KNOB = Path(sys.executable).with_name("knob")
HOSTS, PER_DAY, KNOBS = 500, 2_000, 50
LAST = datetime(2026, 11, 29, 14, 14, tzinfo=UTC)
"""the moment of the newest event"""
PATH = HostPath("/root/serve.sh")
WATCHED = TargetName("h0/decode")
"""the target that is blamed: only its bytes are among the snapshots"""
_MEMORY = Path("/dev/shm")


@dataclass
class Row:
    """What was measured of one size, in seconds."""

    events: int
    built: float
    plain: float
    asked: dict[str, float] = field(default_factory=dict)
    commands: dict[str, float] = field(default_factory=dict)
    appended: float | None = None
    committed: float | None = None


def main() -> None:
    """Measures, and prints the tables."""
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("sizes", nargs="*", type=int, default=[1_000, 100_000])
    parser.add_argument("--runs", type=int, default=9, help="of each short timing")
    parser.add_argument("--git-up-to", type=int, default=100_000, help="append with git to no larger ledger")
    parser.add_argument(
        "--keep", type=Path, metavar="DIR", help="leave the ledgers there, and take those that are"
    )
    parser.add_argument("--realtime", action="store_true", help="short timings by SCHED_FIFO (root)")
    parser.add_argument("--write", action="store_true", help="put the result into docs/performance.md")
    wanted = parser.parse_args()
    sys.stdout.reconfigure(line_buffering=True)  # type: ignore[union-attr]
    with _quietly(wanted.realtime):
        imported = _median(lambda: _run(sys.executable, "-c", "import sqlmodel"), wanted.runs)
    rows = []
    for size in wanted.sizes:
        git = size <= wanted.git_up_to
        if wanted.keep:
            rows.append(_measure(wanted.keep / str(size), size, wanted.runs, wanted.realtime, git=git))
            continue
        with tempfile.TemporaryDirectory(dir=_MEMORY if os.access(_MEMORY, os.W_OK) else None) as name:
            rows.append(_measure(Path(name), size, wanted.runs, wanted.realtime, git=git))
    text = _page(rows, imported, sys.argv[1:])
    print(text)
    if wanted.write:
        page = PAGE.read_text()
        begin, end = (page.index(mark) for mark in MARKS)
        PAGE.write_text(f"{page[: begin + len(MARKS[0])]}\n{text}{page[end:]}")


def _measure(root: Path, size: int, runs: int, realtime: bool, *, git: bool) -> Row:
    ledger = Ledger(root)
    script = root / "serve.sh"
    if not script.exists():
        live = Filling(ledger).fill(size)
        script.write_bytes(live)
    live = script.read_bytes()
    (root / "hosts.toml").write_text(
        "".join(
            f'[hosts.h{n}]\naddress = "127.0.0.1"\ntransport = "local"\n'
            + "".join(f'[hosts.h{n}.services.{name}]\nscript = "{PATH}"\n' for name in ("decode", "prefill"))
            for n in range(HOSTS)
        ).replace(f'"{PATH}"', f'"{root}/serve.sh"', 1)
    )
    index = Index(ledger)
    row = Row(size, _cpu_seconds(index.rebuild), _executemany(index.path, root / "plain.sqlite"))
    index.close()
    time.sleep(2.1)  # a folder that has changed just now is looked into at every question
    host = MemoryHost()
    host.put(f"{root}/serve.sh", live)
    noon = LAST.replace(hour=12, minute=0)
    asked: dict[str, Callable[[Workspace], object]] = {
        "since noon": lambda it: it.since(Resolved(noon, "UTC", "noon"), None),
        "log --knob": lambda it: it.log(Query(knob="KNOB_7", limit=100)),
        "blame": lambda it: blame(
            it.excerpt(lambda taken: taken.target(WATCHED)), it.config.target(WATCHED), host
        ),
        "plans": lambda it: it.plans(),
        "what a change needs": lambda it: it.decides_on_targets([WATCHED]),
        "a prefix": lambda it: it.ledger.resolve(prefix),
    }
    prefix = ledger.heads()[0][:8]
    with _quietly(realtime):
        for name, ask in asked.items():
            row.asked[name] = statistics.median(_seconds(_opened(root, ask)) for _ in range(runs + 1))
        commands = {
            "since noon": ("since", stamp(noon)),
            "log --knob": ("log", "--knob", "KNOB_7", "--limit", "100"),
            "blame": ("blame", WATCHED),
            "plans": ("plans",),
        }
        for name, argv in commands.items():
            row.commands[name] = _median(lambda a=argv: _run(KNOB, "-C", root, *a), runs)  # type: ignore[misc]
        numbers = count(int(time.time()))
        row.commands["set"] = _median(
            lambda: _run(KNOB, "-C", root, "set", WATCHED, f"KNOB_3={next(numbers)}", "--go-ahead"), runs
        )
    if git:
        _all_committed(root)
        with _quietly(realtime):
            times = [_in_turns(root, ledger) for _ in range(runs)]
        row.appended, row.committed = (statistics.median(each) for each in zip(*times, strict=True))
    return row


def _opened(root: Path, ask: Callable[[Workspace], object]) -> Callable[[], object]:
    """A question to a workspace that knows its hosts already, and nothing of the ledger."""
    workspace = Workspace(root, {})
    _ = workspace.config.targets(), workspace.author, workspace.masker
    return lambda: ask(workspace)


def _all_committed(root: Path) -> None:
    """A repository whose only commit holds every event, in one pack: `git add` would write a file for each first."""
    if (root / ".git").exists():
        return
    _git(root, "init", "-q", "-b", "main")
    _git(root, "config", "gc.auto", "0")
    git = shutil.which("git")
    assert git
    with subprocess.Popen((git, "-C", root, "fast-import", "--quiet"), stdin=subprocess.PIPE) as importing:
        assert importing.stdin
        importing.stdin.write(b"commit refs/heads/main\ncommitter a <a@b> 1700000000 +0000\ndata 3\nall\n")
        for folder, _, names in os.walk(root / "ledger" / "events"):
            for name in names:
                with open(f"{folder}/{name}", "rb", buffering=0) as file:  # noqa: PTH123 - a million of them
                    content = file.read()
                place = os.path.relpath(f"{folder}/{name}", root)
                importing.stdin.write(b"M 100644 inline %s\ndata %d\n" % (place.encode(), len(content)))
                importing.stdin.write(content + b"\n")
    assert importing.returncode == 0
    _git(root, "reset", "-q")
    _git(root, "update-index", "-q", "--refresh")


def _in_turns(root: Path, ledger: Ledger) -> tuple[float, float]:
    """Appending an event with its commit, then `git commit` of one file that is staged already."""

    def append() -> None:
        id_ = ledger.append(Noted(at=now(), actor="anna@example.org", text="a note"))
        done = commit(root, [id_], "note")
        assert done.commit, done.note

    ours = _seconds(append)
    (root / "other").write_text(str(time.time_ns()))
    _git(root, "add", "other")
    return ours, _seconds(lambda: _git(root, "commit", "-q", "-m", "other"))


class Filling:
    """Writes events as files, without syncing, which is not what is measured here."""

    def __init__(self, ledger: Ledger) -> None:
        self.ledger = ledger
        self.parents: list[str] = []
        self.values: dict[tuple[str, str], int] = {}
        self.script = [b"#!/usr/bin/env bash", *(b"export KNOB_%d=0" % n for n in range(KNOBS))]
        self.script += [b"# line %d of a launch script" % n for n in range(150)]
        self.snapshots = Snapshots(ledger.root)
        self.digests: dict[str, Digest] = {}
        self.made: set[Path] = set()

    def fill(self, size: int) -> bytes:
        """The live bytes of the watched target, at the end."""
        at = LAST - timedelta(days=size / PER_DAY)
        step = timedelta(days=1 / PER_DAY)
        for n, act in zip(range(size), self._events(), strict=False):
            self._write(act, at + step * (n + 1))
        return b"\n".join(self.script) + b"\n"

    def _events(self) -> Iterator[Callable[[str], dict[str, Any]]]:
        n = 0
        forms = _forms()
        while True:
            for _ in range(5):
                n += 1
                yield from self._change(forms, n)
            turn = n // 5
            target = _target(turn * 7)
            seen = forms["observed"]
            edits = [seen["edits"][0] | {"name": f"KNOB_{(turn + turn // (2 * HOSTS)) % KNOBS}"}]
            yield lambda _, t=target, s=seen, e=edits: s | {"target": t, "edits": e}  # type: ignore[misc]
            service = _target(turn)
            services = [{"processes": [], "service": service}]
            yield lambda _, s=services: forms["restart_started"] | {"services": s}  # type: ignore[misc]
            chain = self.parents[0]
            yield lambda _, s=service, c=chain: forms["service_restarted"] | {"chain": c, "service": s}  # type: ignore[misc]
            yield lambda _, c=chain: forms["restart_ended"] | {"chain": c}  # type: ignore[misc]
            yield lambda _: forms["noted"]
            if n % 2_000 == 0:
                yield lambda _, n=n: forms["hypothesis_opened"] | {"slug": f"claim-{n}"}  # type: ignore[misc]

    def _change(self, forms: dict[str, dict[str, Any]], n: int) -> Iterator[Callable[[str], dict[str, Any]]]:
        target, knob = _target(n), f"KNOB_{(n + n // (2 * HOSTS)) % KNOBS}"
        before = self.values.get((target, knob), 0)
        self.values[target, knob] = n
        base, result = (
            self.digests.get(target) or digest_of(f"{target} 0".encode()),
            digest_of(f"{target} {n}".encode()),
        )
        if target == WATCHED:
            base = self.snapshots.put(b"\n".join(self.script) + b"\n")
            self.script[1 + int(knob[5:])] = b"export %s=%d" % (knob.encode(), n)
            result = self.snapshots.put(b"\n".join(self.script) + b"\n")
        self.digests[target] = result
        form = forms["planned"]
        edit = form["files"][0]["edits"][0] | {"name": knob, "before": str(before), "after": str(n)}
        file = form["files"][0] | {"target": target, "edits": [edit], "base": base, "result": result}
        yield lambda at: form | {"files": [file], "expires": at, "actor": f"p{n % 9}@example.org"}
        plan = self.parents[0]
        about = {"plan": plan, "target": target}
        yield lambda _: forms["approved"] | {"plan": plan}
        yield lambda _: forms["started"] | about | {"base": base, "result": result}
        attempt = self.parents[0]
        receipt = forms["applied"]["receipt"] | {"digest": result, "backup_digest": base}
        yield lambda _: forms["applied"] | about | {"attempt": attempt, "receipt": receipt}

    def _write(self, make: Callable[[str], dict[str, Any]], moment: datetime) -> None:
        at = stamp(moment)
        raw = make(at) | {"at": at, "parents": self.parents}
        content = json.dumps(raw, sort_keys=True, separators=(",", ":"), ensure_ascii=False).encode()
        id_ = id_of(content)
        self.parents = [id_]
        folder = self.ledger.folder / at[:10].replace("-", "/")
        if folder not in self.made:
            folder.mkdir(parents=True)
            self.made.add(folder)
        with open(f"{folder}/{id_}.json", "wb", buffering=0) as file:  # noqa: PTH123 - a million of them
            file.write(content)


def _target(n: int) -> TargetName:
    return TargetName(f"h{n % HOSTS}/{('decode', 'prefill')[n // HOSTS % 2]}")


def _forms() -> dict[str, dict[str, Any]]:
    """One event of each kind as canonical JSON has it, to be filled in."""
    id_, digest, target = EventId("0" * 64), digest_of(b""), WATCHED
    common: dict[str, Any] = {"at": stamp(LAST), "actor": "anna@example.org"}
    manifest = Manifest(path=PATH, resolved=PATH, uid=0, gid=0, mode="0755", size=4711, mtime=1_700_000_000)
    edit = Edit(name="KNOB", kind="env", before="1", after="2")
    file = PlannedFile(
        target=target,
        path=PATH,
        dialect="bash",
        edits=(edit,),
        base=digest,
        result=digest,
        diff="--- a/root/serve.sh\n+++ b/root/serve.sh\n@@ -1,7 +1,7 @@\n-export KNOB=1\n+export KNOB=2\n",
    )
    receipt = Receipt(
        backup=HostPath("/root/.knobledger/serve.sh.20261130T141400Z.bak"),
        backup_digest=digest,
        digest=digest,
        manifest=manifest,
        clock_offset_s=0.0125,
    )
    started = Before(service="s", processes=())
    after = SeenRunning(pid=4711, parent=1, started=1_700_000_000.25, command="python3 -m sglang")
    events: tuple[Event, ...] = (
        Planned(**common, verb="set", files=(file,), expires=stamp(LAST), why="it may help"),
        Approved(**common, plan=id_, source="flag"),
        Started(**common, plan=id_, target=target, base=digest, result=digest),
        Applied(**common, plan=id_, attempt=id_, target=target, receipt=receipt),
        Observed(
            **common,
            target=target,
            path=PATH,
            digest=digest,
            previous=digest,
            edits=(edit,),
            manifest=manifest,
        ),
        RestartStarted(**common, cause="asked", scope="service", services=(started,)),
        ServiceRestarted(
            **common, chain=id_, service="s", outcome="healthy", after=(after,), healthy_after_s=12.5
        ),
        RestartEnded(**common, chain=id_, outcome="done"),
        Noted(**common, text="a note of some length, as people write them"),
        HypothesisOpened(**common, slug="claim", claim="it leaks"),
    )
    return {event.kind: json.loads(encode(event)) for event in events}


def _executemany(index: Path, other: Path) -> float:
    """The same tables with the same rows, each table's read into memory before the clock starts."""
    source = sqlite3.connect(index)
    schema = [sql for (sql,) in source.execute("SELECT sql FROM sqlite_master WHERE sql IS NOT NULL")]
    tables = [name for (name,) in source.execute("SELECT name FROM sqlite_master WHERE type = 'table'")]
    target = sqlite3.connect(other)
    for pragma in ("journal_mode = OFF", "synchronous = OFF", "cache_size = -200000"):
        target.execute(f"PRAGMA {pragma}")
    for sql in schema:
        if sql.startswith("CREATE TABLE"):
            target.execute(sql)

    def write(name: str, rows: list[tuple[object, ...]]) -> None:
        if rows:
            target.executemany(f"INSERT INTO {name} VALUES ({', '.join('?' * len(rows[0]))})", rows)

    def end() -> None:
        for sql in schema:
            if not sql.startswith("CREATE TABLE"):
                target.execute(sql)
        target.commit()
        target.close()

    took = 0.0
    for name in tables:
        found = source.execute(f"SELECT * FROM {name}").fetchall()
        took += _cpu_seconds(lambda name=name, rows=found: write(name, rows))  # type: ignore[misc]
        del found
    source.close()
    took += _cpu_seconds(end)
    other.unlink()
    return took


@contextmanager
def _quietly(realtime: bool) -> Iterator[None]:
    """Short timings are not to measure what else the machine does; children inherit it."""
    if realtime:
        os.sched_setscheduler(0, os.SCHED_FIFO, os.sched_param(50))
    try:
        yield
    finally:
        if realtime:
            os.sched_setscheduler(0, os.SCHED_OTHER, os.sched_param(0))


def _run(*argv: str | Path) -> None:
    subprocess.run(argv, check=True, stdout=subprocess.DEVNULL, stderr=subprocess.DEVNULL)


def _git(root: Path, *argv: str) -> None:
    git = shutil.which("git")
    assert git
    who = {
        "GIT_AUTHOR_NAME": "a",
        "GIT_AUTHOR_EMAIL": "a@b",
        "GIT_COMMITTER_NAME": "a",
        "GIT_COMMITTER_EMAIL": "a@b",
    }
    subprocess.run((git, "-C", root, *argv), check=True, env={**os.environ, **who})


def _median(act: Callable[[], object], runs: int) -> float:
    return statistics.median(_seconds(act) for _ in range(runs))


def _seconds(act: Callable[[], object]) -> float:
    begun = time.perf_counter()
    act()
    return time.perf_counter() - begun


def _cpu_seconds(act: Callable[[], object]) -> float:
    begun = time.process_time()
    act()
    return time.process_time() - begun


def _page(rows: list[Row], imported: float, argv: list[str]) -> str:
    load = ", ".join(f"{value:.1f}" for value in os.getloadavg())
    out = [
        f"`python bench/ledger.py {' '.join(argv)}`\n",
        f"{datetime.now(UTC):%Y-%m-%d %H:%M} UTC; {os.cpu_count()} cores, load {load}; {platform.platform()}, "
        f"Python {platform.python_version()}. Building is told in seconds of CPU. "
        f"`python -c 'import sqlmodel'` takes {imported:.2f} s.\n",
        "| events | index built | executemany of its rows | times | since noon | log --knob | blame | plans "
        "| what a change needs | a prefix |",
        "|---|---|---|---|---|---|---|---|---|---|",
    ]
    for row in rows:
        asked = " | ".join(f"{1000 * value:.1f} ms" for value in row.asked.values())
        out.append(
            f"| {row.events:,} | {row.built:.2f} s | {row.plain:.2f} s | {row.built / row.plain:.1f} | {asked} |"
        )
    out += [
        "\n| events | knob since noon | knob log --knob | knob blame | knob plans | knob set --go-ahead "
        "| times `import sqlmodel` | append and commit | bare git commit | times |",
        "|---|---|---|---|---|---|---|---|---|---|",
    ]
    for row in rows:
        shown = " | ".join(f"{value:.2f} s" for value in row.commands.values())
        times = ", ".join(f"{value / imported:.2f}" for value in row.commands.values())
        git = (
            f"{1000 * row.appended:.0f} ms | {1000 * row.committed:.0f} ms | {row.appended / row.committed:.1f}"
            if row.appended and row.committed
            else "- | - | -"
        )
        out.append(f"| {row.events:,} | {shown} | {times} | {git} |")
    return "\n".join(out) + "\n"


if __name__ == "__main__":
    main()
