"""Whether somebody else changed a file while the services that read it were being restarted.

No lock is held during a restart (decision 30), so the file is looked at again when the services are up.
"""

from __future__ import annotations

from knobledger.errors import Overtaken, Refused
from knobledger.events.changes import Applied
from knobledger.folds.plans import Plan
from knobledger.hosts.config import Target
from knobledger.hosts.host import Host
from knobledger.ledger.store import Ledger
from knobledger.names import Digest, short
from knobledger.observing import mtime_of
from knobledger.plan import PlannedFile


def check(ledger: Ledger, plan: Plan, file: PlannedFile, target: Target, host: Host) -> None:
    """Raises `Overtaken`, naming who and since when, unless the file holds what the plan wrote."""
    try:
        remote = host.read(target.path)
    except Refused as error:
        raise Overtaken(
            f"change {short(plan.id)} is applied and its services are restarted, but {error.message}",
            hint=f"`knob show {short(plan.id)}`",
            change=plan.id,
        ) from None
    if remote.digest == file.result:
        return
    who, since = _who(ledger, file, target, host, remote.digest), mtime_of(remote)
    raise Overtaken(
        f"change {short(plan.id)} is applied and its services are restarted, but {target.name} was changed meanwhile, "
        f"by {who}, at {since:%Y-%m-%d %H:%M:%S}Z: it holds {short(remote.digest)}, not {short(file.result)}, and a "
        "service may have read either",
        hint=f"`knob diff {target.name}`, then `knob restart {target.name}` to run what is there now",
        change=plan.id,
        holder=who,
        since=int(since.timestamp()),
        base=file.result,
        live=remote.digest,
    )


def _who(ledger: Ledger, file: PlannedFile, target: Target, host: Host, live: Digest) -> str:
    """By the ledger if the other change is in it, else by the backup that every change leaves on the host."""
    for stored in reversed(list(ledger.events())):
        event = stored.event
        if isinstance(event, Applied) and event.target == target.name and event.receipt.digest == live:
            return f"{event.actor} (change {short(event.plan)})"
    backups = [one for one in host.backups(target.path, target.backup_dir) if one.digest == file.result]
    if backups:
        return f"another workspace (its backup is {backups[-1].path})"
    return "somebody without a backup (an editor, a script)"
