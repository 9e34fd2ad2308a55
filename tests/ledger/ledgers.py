"""Events, ledgers and repositories for the tests of this folder."""

from __future__ import annotations

import os
import subprocess
import tempfile
from datetime import UTC, datetime, timedelta
from pathlib import Path

from knobledger.event import encode, id_of, stamp
from knobledger.events.changes import Applied, Approved, Observed, Planned, Started
from knobledger.events.notes import Noted
from knobledger.ledger.store import Ledger
from knobledger.names import Digest, EventId, HostPath, TargetName, digest_of
from knobledger.plan import Edit, PlannedFile, Purpose, Verb
from knobledger.receipt import Manifest, Receipt

_MEMORY = Path("/dev/shm")

NOON = datetime(2026, 11, 30, 12, 0, tzinfo=UTC)
SCRIPT = HostPath("/root/serve_dsv4_decode.sh")
DECODE = TargetName("gpu1/decode")
PREFILL = TargetName("gpu1/prefill")
KNOB = "SGLANG_SM120_MMA_TARGET_CTAS"


def scratch() -> tempfile.TemporaryDirectory[str]:
    """A folder for one example of a property, in memory where there is such a disk: syncing is free there."""
    return tempfile.TemporaryDirectory(dir=_MEMORY if os.access(_MEMORY, os.W_OK) else None)


def at(minutes: float = 0) -> str:
    """A moment so many minutes after noon, as an event writes it."""
    return stamp(NOON + timedelta(minutes=minutes))


def note(text: str = "a note", minutes: float = 0, actor: str = "anna@example.org") -> Noted:
    return Noted(at=at(minutes), actor=actor, text=text)


def edit(knob: str = KNOB, before: str | None = "256", after: str | None = "512") -> Edit:
    return Edit(name=knob, kind="env", before=before, after=after)


def manifest() -> Manifest:
    return Manifest(path=SCRIPT, resolved=SCRIPT, uid=0, gid=0, mode="0755", size=8, mtime=1_700_000_000)


def planned(
    minutes: float = 0,
    *,
    targets: tuple[TargetName, ...] = (DECODE,),
    knob: str = KNOB,
    verb: Verb = "set",
    purpose: Purpose = "perf",
    actor: str = "anna@example.org",
    behalf: str = "",
) -> Planned:
    files = tuple(
        PlannedFile(
            target=target,
            path=SCRIPT,
            dialect="bash",
            edits=(edit(knob),),
            base=digest_of(b"old"),
            result=digest_of(b"new"),
            diff="-256\n+512\n",
        )
        for target in targets
    )
    return Planned(
        at=at(minutes),
        actor=actor,
        on_behalf_of=behalf,
        verb=verb,
        purpose=purpose,
        files=files,
        expires=at(minutes + 1440),
    )


def observed(minutes: float = 0, *, target: TargetName = DECODE, knob: str = KNOB) -> Observed:
    return Observed(
        at=at(minutes),
        actor="knobledger",
        target=target,
        path=SCRIPT,
        digest=digest_of(b"by hand"),
        edits=(edit(knob),),
        manifest=manifest(),
    )


def change(ledger: Ledger, minutes: float = 0, plan: Planned | None = None) -> list[EventId]:
    """A whole change in the ledger: planned, approved, started, applied."""
    plan = plan or planned(minutes)
    target = plan.files[0].target
    id_ = ledger.append(plan)
    approved = ledger.append(
        Approved(at=at(minutes + 0.1), actor="owner@example.org", plan=id_, source="flag")
    )
    started = ledger.append(
        Started(
            at=at(minutes + 0.2),
            actor=plan.actor,
            plan=id_,
            target=target,
            base=plan.files[0].base,
            result=plan.files[0].result,
        )
    )
    receipt = Receipt(
        backup=HostPath("/root/b.bak"),
        backup_digest=Digest(plan.files[0].base),
        digest=Digest(plan.files[0].result),
        manifest=manifest(),
        clock_offset_s=0.0125,
    )
    applied = ledger.append(
        Applied(
            at=at(minutes + 0.3), actor=plan.actor, plan=id_, attempt=started, target=target, receipt=receipt
        )
    )
    return [id_, approved, started, applied]


def chain(texts: list[str]) -> list[bytes]:
    """Event files whose parents form one line, as bytes, oldest first."""
    made: list[bytes] = []
    for n, text in enumerate(texts):
        parents = (id_of(made[-1]),) if made else ()
        made.append(encode(note(text, n * 700).but(parents=parents)))
    return made


def files(ledger: Ledger) -> dict[str, bytes]:
    """Every file below `ledger/events/`, by its path there."""
    return {
        path.relative_to(ledger.folder).as_posix(): path.read_bytes()
        for path in ledger.folder.rglob("*")
        if path.is_file()
    }


def path_of(ledger: Ledger, id_: EventId) -> Path:
    [path] = ledger.folder.rglob(f"{id_}.json")
    return path


def overwrite(path: Path, content: bytes) -> None:
    """Change a read-only event file in place, as somebody who tampers would."""
    path.chmod(0o644)
    path.write_bytes(content)


def git(folder: Path, *argv: str, ok: bool = True, **env: str) -> str:
    """What a real git prints; fails the test if it fails, unless `ok` is False."""
    done = subprocess.run(
        ["git", *argv], cwd=folder, capture_output=True, text=True, check=False, env={**os.environ, **env}
    )
    assert done.returncode == 0 or not ok, done.stderr
    return done.stdout
