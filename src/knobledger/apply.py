"""The attempt: `started` in the ledger, one transaction on the host, the outcome in the ledger.

A crash at any point leaves either nothing or an attempt in doubt, which `settling` decides.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from contextlib import suppress
from pathlib import PurePosixPath
from typing import TYPE_CHECKING

from knobledger.drafting import Desk
from knobledger.errors import (
    Busy,
    Drifted,
    Interrupted,
    KnobError,
    KnobRefused,
    LedgerUnwritable,
    NotApproved,
    NotWritten,
    PlanSpent,
    Refused,
    RolledBack,
    StateUnknown,
    Unreachable,
)
from knobledger.events.changes import Applied, Failed, Planned, Settled, Started
from knobledger.events.changes import RolledBack as RolledBackEvent
from knobledger.folds.plans import Attempt, Plan, PlanStatus
from knobledger.hosts.config import Target
from knobledger.hosts.host import Check, Host, RemoteFile, Transaction
from knobledger.knobs import Dialect, Reading, Request, edit
from knobledger.names import EventId, digest_of, short
from knobledger.plan import PlannedFile
from knobledger.quoting import command_line
from knobledger.receipt import GrepLine, Receipt
from knobledger.settling import settle_doubts, settled

if TYPE_CHECKING:
    from knobledger.folds.arming import Pending

Connect = Callable[[], Host]
"""a fresh connection to the same host, for the look after a lost answer"""

Restarts = Sequence[tuple[str, tuple[str, ...]]]
"""services in the order of their start, each with the lines of sh that restart it"""

_CHECKS: dict[Dialect, Check] = {
    Dialect.BASH: "bash",
    Dialect.SH: "sh",
    Dialect.ENV: "sh",
    Dialect.UNIT: "unit",
}


def ready(desk: Desk, plan: Plan) -> None:
    """Raises `PlanSpent` or `NotApproved` unless the plan may be applied now."""
    now = desk.author.now()
    if plan.planned.policy != "confirm":
        # Whoever sets the clock back does not bring an expired plan to life: the ledger has seen later moments.
        now = max(now, desk.state.newest)
    status: PlanStatus = plan.status(now)
    name = short(plan.id)
    match status:
        case "approved":
            return
        case "open":
            raise NotApproved(
                f"plan {name} has no go-ahead yet", hint=f"see `knob show {name}`, then `knob approve {name}`"
            )
        case "rejected":
            by = plan.rejected[1].actor if plan.rejected else ""
            raise PlanSpent(f"plan {name} was rejected by {by}", hint="make a new plan")
        case "expired":
            raise PlanSpent(f"plan {name} expired at {plan.planned.expires}", hint="make a new plan")
        case "used":
            raise PlanSpent(
                f"plan {name} was used already", hint=f"see `knob show {name}`; a plan is good for one use"
            )
        case "in doubt":
            raise PlanSpent(
                f"plan {name} has an attempt whose outcome is not known", hint="first `knob recover`"
            )


def attempt(
    desk: Desk, plan: Plan, target: Target, host: Host, reconnect: Connect, restarts: Restarts = ()
) -> Applied | Settled:
    """Applies a plan to one of its targets. `restarts`: what an armed change has to restart when it is taken back.

    The outcome is in the ledger when this returns or raises; `Settled` is a success whose receipt was lost
    on the way, proven by a second look. Raises `Drifted`, `Busy`, `NotWritten`,
    `RolledBack`, `StateUnknown`, `Refused`, `Interrupted`.
    """
    planned = plan.planned
    file = plan.file_of(target.name)
    if file is None:
        raise Refused(f"plan {short(plan.id)} does not touch {target.name!r}")
    if file.path != target.path:
        raise Drifted(
            f"{target.name} is {target.path!r} now, and plan {short(plan.id)} was made for {file.path!r}; "
            "nothing was written",
            hint="hosts.toml was changed since: make a new plan",
        )
    settle_doubts(desk, target, host)  # once this plan has written, nobody could tell any more
    content = _content(desk, planned, file, target, host)
    if file.backup and not file.clean:
        _prove_backup(host, file)
    transaction = _transaction(desk, plan, file, target, content)
    taken_back, armed = _arm(desk, plan, file, target, host, restarts)
    started = Started(
        **desk.author.signs(), plan=plan.id, target=target.name, base=file.base, result=file.result
    )
    id_ = desk.write(started)
    try:
        receipt = host.replace(transaction)
    except StateUnknown as lost:
        try:
            return _after_loss(desk, plan, desk.state.attempts[id_], target, reconnect, lost)
        except NotWritten:
            _stand_down(desk, armed, target, reconnect, "the change was not made")
            raise
    except KeyboardInterrupt:
        raise Interrupted(
            f"interrupted while {short(plan.id)} was being applied to {target.name}; the live file is exactly the "
            f"old or exactly the new one{', or torn if it was written in place' if planned.in_place else ''}",
            hint="`knob recover` looks which, and records it",
            change=plan.id,
        ) from None
    except KnobError as error:
        _record_failure(desk, plan, id_, target, error)
        _stand_down(desk, armed, target, reconnect, "the change was not made")
        error.values.setdefault("change", plan.id)
        raise
    applied = Applied(
        **desk.author.signs(),
        plan=plan.id,
        attempt=id_,
        target=target.name,
        receipt=_masked(desk, receipt, content, target),
    )
    try:
        desk.write(applied)
    except LedgerUnwritable as error:
        raise StateUnknown(
            f"the change is in {target.name}, proven on the host, but it could not be recorded: {error.message}",
            hint="make room for the ledger, then `knob recover` looks at the host again and records it",
            change=plan.id,
        ) from error
    if taken_back is not None:
        from knobledger import confirming

        confirming.disarm(desk, taken_back, target, host, f"taken back by {short(plan.id)}")
    return applied


def _arm(
    desk: Desk, plan: Plan, file: PlannedFile, target: Target, host: Host, restarts: Restarts
) -> tuple[Pending | None, Pending | None]:
    """The armed change that this plan takes back, and this plan's own arming."""
    if not (plan.planned.confirm_within_s or desk.state.pending()):
        return None, None
    from knobledger import confirming

    taken_back = confirming.guard(desk, plan, target, host)
    return taken_back, confirming.arm(
        desk, plan, file, target, host, restarts
    ) if plan.planned.confirm_within_s else None


def _stand_down(desk: Desk, armed: Pending | None, target: Target, reconnect: Connect, reason: str) -> None:
    """Disarms what was armed for a change that was not made. What can't be disarmed now finds nothing to put back."""
    if armed is None:
        return
    from knobledger import confirming

    with suppress(KnobError):
        confirming.disarm(desk, armed, target, reconnect(), reason)


def way_back(plan: Plan) -> str:
    """The command that puts back the backup of an attempt that left neither the old nor the new bytes."""
    return f"`knob revert {short(plan.id)} --exact{' --in-place' if plan.planned.in_place else ''}`"


def _content(desk: Desk, planned: Planned, file: PlannedFile, target: Target, host: Host) -> bytes:
    """The bytes that the plan was made for: its snapshot, or the same edits made again on the live file."""
    content = desk.snapshots.get(file.result)
    if content is not None:
        return content
    live = host.read(target.path)
    if live.digest != file.base:
        raise Drifted(
            f"{target.name} is not what the plan was made for: its digest is {short(live.digest)}, the plan's "
            f"base is {short(file.base)}; nothing was written",
            hint="make a new plan",
            expected=file.base,
            found=live.digest,
        )
    content = _rebuilt(planned, file, target, host, live)
    if content is None or digest_of(content) != file.result:
        raise Refused(
            f"the bytes of this plan for {target.name} can't be rebuilt here",
            hint="apply it in the workspace that made it, or make a new plan here",
        )
    desk.snapshots.put(content)
    return content


def _rebuilt(
    planned: Planned, file: PlannedFile, target: Target, host: Host, live: RemoteFile
) -> bytes | None:
    if file.backup and file.clean:
        return host.read(file.backup).content
    if not planned.asks or any(ask.secret for ask in planned.asks):
        return None
    try:
        edited = edit(
            Reading.of(live.content, target.dialect),
            [Request(ask.name, ask.value) for ask in planned.asks],
            add=planned.add,
            line=planned.line,
            force=planned.force,
        )
    except KnobRefused:
        return None
    return edited.content


def _prove_backup(host: Host, file: PlannedFile) -> None:
    """One flipped byte in the backup that an undo rests on stops it before anything is written."""
    assert file.backup is not None
    digest = host.read(file.backup).digest
    if digest != file.backup_digest:
        raise NotWritten(
            f"backup {file.backup!r} is damaged: its digest is {short(digest)}, recorded is "
            f"{short(file.backup_digest or '')}; nothing was written",
            hint="make a new plan: it will take the bytes from a snapshot",
        )


def _transaction(desk: Desk, plan: Plan, file: PlannedFile, target: Target, content: bytes) -> Transaction:
    name = PurePosixPath(target.path).name
    now = desk.author.now()
    word = plan.planned.label or f"{now:%Y%m%dT%H%M%SZ}-{short(plan.id)}"
    who = desk.author
    return Transaction(
        path=target.path,
        content=content,
        base=file.base,
        result=file.result,
        backup_dir=target.backup_dir,
        backup_name=f"{name}.{word}.bak",
        holder=f"{who.actor} (plan {short(plan.id)}) since {now:%Y-%m-%d %H:%M:%S}Z",
        check=_CHECKS.get(Dialect(file.dialect), "none"),
        grep=tuple(name for name in file.lines if name.encode() in content),
        gone=tuple(name for name in file.lines if name.encode() not in content),
        matches=file.backup if file.clean else None,
        resolved=file.resolved,
        in_place=plan.planned.in_place,
    )


def _masked(desk: Desk, receipt: Receipt, content: bytes, target: Target) -> Receipt:
    """A receipt without secrets: its `grep` lines are taken from the masked text, by line number."""
    lines = desk.masker.content(desk.reading(content, target.dialect)).split(b"\n")
    grep = tuple(
        GrepLine(
            line=item.line,
            text=lines[item.line - 1].decode("utf-8", "surrogateescape").removesuffix("\r")
            if item.line <= len(lines)
            else desk.masker.text(item.text),
        )
        for item in receipt.grep
    )
    steps = tuple(step.but(detail=desk.masker.text(step.detail)) for step in receipt.steps)
    return receipt.but(grep=grep, steps=steps)


def _record_failure(desk: Desk, plan: Plan, attempt_id: EventId, target: Target, error: KnobError) -> None:
    facts = {**desk.author.signs(), "plan": plan.id, "attempt": attempt_id, "target": target.name}
    reason = desk.masker.text(error.message)
    if isinstance(error, RolledBack):
        desk.write(RolledBackEvent(**facts, reason=reason))
    else:
        desk.write(Failed(**facts, outcome="unchanged", error=error.kind, reason=reason))


def _after_loss(
    desk: Desk, plan: Plan, attempt: Attempt, target: Target, reconnect: Connect, lost: StateUnknown
) -> Settled:
    """The answer was lost: look again over a fresh connection, and say only what was seen there."""
    try:
        found = settled(desk, attempt, target, reconnect())
    except (Unreachable, StateUnknown, Refused, Busy) as second:
        facts = {**desk.author.signs(), "plan": plan.id, "attempt": attempt.id, "target": target.name}
        desk.write(Failed(**facts, outcome="unknown", error=lost.kind, reason=desk.masker.text(lost.message)))
        raise StateUnknown(
            f"{lost.message}; a second look failed too: {second.message}",
            hint=f"when {target.host} can be reached again: `knob recover`; by hand: "
            f"`{command_line(('sha256sum', target.path))}` is {short(attempt.started.base)}... if nothing was "
            f"changed, {short(attempt.started.result)}... if the change is in",
            change=plan.id,
            commands=[command_line(("sha256sum", target.path))],
        ) from lost
    match found.outcome:
        case "unchanged":
            raise NotWritten(
                f"{lost.message}; a fresh look shows that {target.name} is as before",
                hint="make a new plan and try again",
                change=plan.id,
            ) from lost
        case "applied" if "objection" in lost.values:
            # The bytes are the planned ones, but their proof failed: that is no success.
            raise StateUnknown(
                f"{target.name}: {lost.values['objection']}; a fresh look shows that the new content is in the file",
                hint=f"`knob revert {short(plan.id)}` takes it back; by hand on the host: the commands above",
                change=plan.id,
                commands=lost.values.get("commands", ()),
            ) from lost
        case "applied":
            return found
        case "overwritten":
            raise StateUnknown(
                f"{lost.message}; a fresh look shows bytes that are neither those before nor those planned",
                hint=f"{way_back(plan)} puts back what was there before, unless somebody else has written since: see "
                f"`knob diff {target.name}`; the backup is at {found.backup}"
                if found.backup
                else f"see `knob diff {target.name}`; the backup is at a place not known",
                change=plan.id,
                commands=[command_line(("sha256sum", target.path))],
            ) from lost
