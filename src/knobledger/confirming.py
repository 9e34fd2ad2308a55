"""Changes that put themselves back unless they are confirmed: arming, confirming, and what a deadline did.

An arming is in the ledger before its host is touched, and its end after; what lies between is found by a look at
the host (`settle`).
"""

from __future__ import annotations

import hashlib
import hmac
from collections.abc import Sequence
from datetime import UTC, datetime
from pathlib import PurePosixPath

from knobledger.drafting import Desk
from knobledger.errors import KnobError, Refused
from knobledger.event import stamp
from knobledger.events.arming import Armed, Arming, Confirmed, Disarmed, Expired
from knobledger.folds.arming import Pending
from knobledger.folds.plans import Plan
from knobledger.hosts import arming
from knobledger.hosts.arming import Watch
from knobledger.hosts.config import Target
from knobledger.hosts.host import Host
from knobledger.ledger.key import key
from knobledger.names import EventId, short
from knobledger.plan import PlannedFile


def secret_of(desk: Desk, plan: EventId) -> str:
    """What a confirmation of this change must know: made of the workspace's key, so clones that share it can confirm."""
    return hmac.new(key(desk.ledger.root), f"confirm {plan}".encode(), hashlib.sha256).hexdigest()


def arm(
    desk: Desk,
    plan: Plan,
    file: PlannedFile,
    target: Target,
    host: Host,
    restarts: Sequence[tuple[str, tuple[str, ...]]] = (),
) -> Pending:
    """Makes the host ready to take the change back by itself, before the change is made.

    `restarts`: the services that the change restarts, in order, each with the lines of sh that do it.
    Raises what `hosts.arming.arm` raises; then nothing is armed, and that is recorded.
    """
    token = arming.token_of(secret_of(desk, plan.id))
    window_s = plan.planned.confirm_within_s
    desk.write(
        Arming(
            **desk.author.signs(),
            plan=plan.id,
            target=target.name,
            window_s=window_s,
            token=token,
            services=tuple(name for name, _ in restarts),
        )
    )
    name = PurePosixPath(target.path).name
    wanted = arming.Arming(
        path=target.path,
        backup_dir=target.backup_dir,
        base=file.base,
        result=file.result,
        token=token,
        window_s=window_s,
        id=f"{short(plan.id)}{token[:8]}",
        holder=f"{desk.author.actor} (plan {short(plan.id)})",
        backup_name=f"{name}.unconfirmed-{short(plan.id)}.bak",
        resolved=file.resolved,
        restart=tuple(line for _, lines in restarts for line in lines),
    )
    try:
        watch = arming.arm(host, wanted)
    except KnobError as error:
        if error.exit_code not in (20, 22):
            desk.write(
                Disarmed(
                    **desk.author.signs(),
                    plan=plan.id,
                    target=target.name,
                    reason=desk.masker.text(error.message),
                )
            )
        raise
    deadline = watch.deadline or datetime.now(UTC)
    desk.write(
        Armed(
            **desk.author.signs(),
            plan=plan.id,
            target=target.name,
            deadline=stamp(deadline),
            scheduler=watch.scheduler,
        )
    )
    return desk.state.armings.by_plan[plan.id, target.name]


def disarm(desk: Desk, pending: Pending, target: Target, host: Host, reason: str) -> None:
    """Ends an arming whose change is not in the file. If its deadline was first, that is what is recorded."""
    done, watch = arming.cancel(host, target.path, target.backup_dir, pending.arming.token)
    if done or watch.state == "none" or watch.token != pending.arming.token:
        _end(desk, pending, reason)
    else:
        _settled(desk, pending, target, host, watch)


def confirm(desk: Desk, pending: Pending, target: Target, host: Host) -> bool:
    """Lets the change stay; False if that came too late, and what happened is recorded then.

    Raises `Refused` where the host knows of no such arming.
    """
    done, watch = arming.confirm(host, target.path, target.backup_dir, secret_of(desk, pending.plan))
    if done:
        desk.write(Confirmed(**desk.author.signs(), plan=pending.plan, target=pending.target))
        return True
    if watch.state == "none":
        raise Refused(
            f"nothing is armed for {target.name} on {target.host!r}: somebody took the arming away by hand",
            hint=f"`knob status {target.name}` shows what the file holds; `knob pending` closes the entry",
        )
    _settled(desk, pending, target, host, watch)
    return False


def settle(desk: Desk, pending: Pending, target: Target, host: Host) -> Watch:
    """Looks at an arming on its host, and records its end if it has come."""
    watch = arming.watch(host, target.path, target.backup_dir, pending.arming.token)
    if watch.state == "none" or watch.token != pending.arming.token:
        _end(desk, pending, "the host knows of no such arming")
    elif watch.state == "armed":
        _complete(desk, pending, watch)
    elif watch.state == "confirmed":
        desk.write(Confirmed(**desk.author.signs(), plan=pending.plan, target=pending.target))
    elif watch.state == "cancelled":
        _end(desk, pending, "it was cancelled")
    else:
        _settled(desk, pending, target, host, watch)
    return watch


def guard(desk: Desk, plan: Plan, target: Target, host: Host) -> Pending | None:
    """An armed change of the target that this plan takes back. Raises `Refused` for any other plan.

    The host would not put the file back over somebody's later edit, so such an edit would disarm in silence. One whose
    deadline is over gets its end first.
    """
    pending = desk.state.armings.on(target.name)
    if pending is not None and desk.author.now() >= pending.deadline:
        settle(desk, pending, target, host)
        pending = desk.state.armings.on(target.name)
    if pending is None or pending.plan == plan.planned.undoes:
        return pending
    name = short(pending.plan)
    raise Refused(
        f"{target.name} has a change that waits for its confirmation until {pending.deadline:%Y-%m-%d %H:%M:%S} UTC: "
        f"{name} by {pending.arming.actor}",
        hint=f"`knob confirm {name}` keeps it, `knob revert {name}` takes it back; `knob pending` looks at the host",
        change=pending.plan,
    )


def _complete(desk: Desk, pending: Pending, watch: Watch) -> None:
    """The arming is on the host; the client may have died before it could write so."""
    if pending.armed is None and watch.deadline is not None:
        desk.write(
            Armed(
                **desk.author.signs(),
                plan=pending.plan,
                target=pending.target,
                deadline=stamp(watch.deadline),
                scheduler=watch.scheduler,
            )
        )


def _end(desk: Desk, pending: Pending, reason: str) -> None:
    desk.write(Disarmed(**desk.author.signs(), plan=pending.plan, target=pending.target, reason=reason))


def _settled(desk: Desk, pending: Pending, target: Target, host: Host, watch: Watch) -> None:
    """Writes down what a deadline did, from a fresh read of the file; then its folder on the host can go."""
    if watch.outcome is None:
        return
    try:
        remote = host.read(target.path)
    except Refused:
        remote = None
    desk.write(
        Expired(
            **desk.author.signs(),
            plan=pending.plan,
            target=pending.target,
            outcome=watch.outcome,
            ended_at=stamp(watch.ended_at or datetime.now(UTC)),
            restarted=watch.restarted,
            reason=desk.masker.text(watch.said),
            digest=remote.digest if remote else None,
            manifest=remote.manifest if remote else None,
        )
    )
    arming.clear(host, target.path, target.backup_dir, pending.arming.token)
