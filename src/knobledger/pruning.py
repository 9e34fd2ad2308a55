"""Which backups on a host nothing needs any more, and their removal.

A backup is needed as long as anything in the ledger could want its bytes: a change that is in effect may be
reverted, a revert may be restored, and bytes that are in no snapshot here are nowhere else.
"""

from __future__ import annotations

from datetime import timedelta

from msgspec import Struct

from knobledger.drafting import Desk
from knobledger.event import moment_of
from knobledger.events.notes import Pruned, PrunedFile
from knobledger.hosts.config import Target
from knobledger.hosts.host import BackupFile, Host
from knobledger.names import EventId, HostPath, short
from knobledger.undoing import backup_of


class Keep(Struct, frozen=True):
    """A backup that stays, and why."""

    path: HostPath
    why: str


class Choice(Struct, frozen=True):
    """Backups of one target: those that could go, those that stay."""

    target: Target
    go: tuple[tuple[BackupFile, EventId], ...]
    stay: tuple[Keep, ...]


def choose(desk: Desk, target: Target, host: Host, older_than: timedelta) -> Choice:
    """Looks at the backups on the host. Files that no entry made are never touched."""
    made: dict[HostPath, EventId] = {}
    for change in desk.state.changes:
        path = backup_of(desk.state, change, target.name)
        if path is not None:
            made[path] = change
    there = host.backups(target.path, target.backup_dir)
    newest = next((path for path in reversed(made) if any(item.path == path for item in there)), None)
    go, stay = [], []
    for item in there:
        why = _needed(desk, target, item, made.get(item.path), older_than)
        if not why and item.path == newest:
            why = "it is the newest one"
        if why:
            stay.append(Keep(item.path, why))
        else:
            go.append((item, made[item.path]))
    return Choice(target, tuple(go), tuple(stay))


def _needed(
    desk: Desk, target: Target, item: BackupFile, change: EventId | None, older_than: timedelta
) -> str:
    """Why it stays, in a phrase; empty if nothing needs it."""
    state = desk.state
    if change is None:
        return "no entry of this ledger made it"
    file = state.plans[change].file_of(target.name)
    if file is None or item.digest != file.base:
        return "it does not hold what was recorded: somebody should look at it"
    if state.fate(change)[0] == "in effect":
        return f"{short(change)} is in effect, and could be taken back"
    if any(pending.target == target.name for pending in state.pending()):
        return "a change of this target waits for its confirmation"
    if desk.snapshots.get(item.digest) is None:
        return "its bytes are in no snapshot of this workspace"
    if desk.author.now() - moment_of(state.applied_at[change]) < older_than:
        return "it is younger than what was asked for"
    return ""


def prune(desk: Desk, choice: Choice, host: Host) -> tuple[HostPath, ...]:
    """Writes down what goes, then removes it; the paths that are gone. Raises `Busy`."""
    if not choice.go:
        return ()
    desk.write(
        Pruned(
            **desk.author.signs(),
            target=choice.target.name,
            files=tuple(
                PrunedFile(path=item.path, digest=item.digest, size=item.size, change=change)
                for item, change in choice.go
            ),
        )
    )
    return host.prune(choice.target.path, choice.target.backup_dir, tuple(item for item, _ in choice.go))
