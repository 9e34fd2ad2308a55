"""What became of an attempt that has no outcome in the ledger: found by a fresh look at its host, and recorded.

Nothing that such a target holds is put down to anybody's hand, and nothing is written over it, before that is known.
"""

from __future__ import annotations

import time

from knobledger.drafting import Desk
from knobledger.errors import Busy
from knobledger.events.changes import Settled, Started
from knobledger.folds.plans import Attempt
from knobledger.hosts.config import Target
from knobledger.hosts.host import Host, RemoteFile
from knobledger.names import HostPath
from knobledger.observing import undecided

_PATIENCE_S = 10.0
"""how long a transaction whose answer was lost may go on before its outcome is called unknown"""


def settle_doubts(desk: Desk, target: Target, host: Host) -> None:
    """Settles every attempt in doubt on a target, oldest first, and looks what the host did at a deadline that is over.

    Raises `StateUnknown` where the one who asks may not settle, and what `settled` raises.
    """
    for attempt in desk.state.doubts_on(target.name):
        if not desk.settles:
            raise undecided(attempt)
        settled(desk, attempt, target, host)
    pending = desk.state.overdue(target.name, desk.author.now())
    if pending and desk.settles:
        from knobledger import confirming

        confirming.settle(desk, pending, target, host)


def settle(desk: Desk, attempt: Attempt, target: Target, host: Host) -> Settled:
    """Decides an attempt in doubt by a fresh read, and records it.

    On the host only what the dead attempt left beside the file is removed. Raises `Busy` while it still runs.
    """
    started = attempt.started
    host.tidy(target.path, target.backup_dir)
    remote = host.read(target.path)
    if remote.digest == started.result:
        outcome = "applied"
    elif remote.digest == started.base:
        outcome = "unchanged"
    else:
        outcome = "overwritten"
    settled = Settled.of(
        {
            **desk.author.signs(),
            "plan": started.plan,
            "attempt": attempt.id,
            "target": started.target,
            "outcome": outcome,
            "digest": remote.digest,
            "manifest": remote.manifest,
            "backup": _backup_beside(host, target, started, remote),
        }
    )
    desk.write(settled)
    return settled


def settled(desk: Desk, attempt: Attempt, target: Target, host: Host) -> Settled:
    """`settle`, with patience for a transaction that goes on without us."""
    end = time.monotonic() + _PATIENCE_S
    while True:
        try:
            return settle(desk, attempt, target, host)
        except Busy:
            if time.monotonic() > end:
                raise
            time.sleep(0.5)


def _backup_beside(host: Host, target: Target, started: Started, remote: RemoteFile) -> HostPath | None:
    found = [
        item.path for item in host.backups(target.path, target.backup_dir) if item.digest == started.base
    ]
    return found[-1] if found and remote.digest != started.base else None
