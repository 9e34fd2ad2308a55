"""Commit-confirm on a host: a change that puts itself back unless somebody confirms it in time.

No agent: `supervisor.sh` and the transaction lie in a folder beside the backups while a change is armed, woken by
a timer of systemd or waiting as a process of their own. What ends an arming is one rename, so a confirmation
and the deadline can't both win.
"""

from __future__ import annotations

from datetime import UTC, datetime
from typing import Literal

from msgspec import Struct

from knobledger.errors import Drifted, NotWritten, Refused, StateUnknown
from knobledger.hosts import wire
from knobledger.hosts.host import Host
from knobledger.names import Digest, HostPath, digest_of
from knobledger.quoting import quote

ArmedState = Literal["none", "armed", "confirmed", "cancelled", "expired"]
Outcome = Literal["reverted", "unchanged", "failed"]
"""what came of a deadline: the old content is back; it was never gone; it could not be put back"""

_PATIENCE_S = 60.0


class Arming(Struct, frozen=True):
    """A change of one file that is to put itself back."""

    path: HostPath
    backup_dir: str
    base: Digest
    """what the file holds now, and would hold again"""
    result: Digest
    """what the change leaves; anything else is never overwritten"""
    token: str
    """SHA-256 of the secret that a confirmation must know"""
    window_s: int
    id: str
    """letters and digits, part of the timer's name"""
    holder: str
    """for people: who armed it"""
    backup_name: str
    """for what the deadline replaces"""
    resolved: HostPath | None = None
    """where the path leads to, and must still do so"""
    restart: tuple[str, ...] = ()
    """lines of sh, run after the old content is back"""


class Watch(Struct, frozen=True):
    """How an arming stands, by a fresh look at its host."""

    state: ArmedState
    token: str = ""
    deadline: datetime | None = None
    """by the host's clock"""
    scheduler: str = ""
    """`timer persistent` outlives a reboot; `timer transient` and `process` do not"""
    watched: bool = False
    """the timer is active, or the process is alive"""
    outcome: Outcome | None = None
    """None while it is not known: nothing ended yet, or it is being put back right now"""
    ended_at: datetime | None = None
    restarted: bool | None = None
    """the restart's exit status was 0; None: there was none to do"""
    said: str = ""
    now: datetime | None = None
    """the host's clock"""
    holder: str = ""


def arm(host: Host, arming: Arming) -> Watch:
    """Rehearses the way back, then starts what would take it. Nothing but the arming's own folder is written.

    Raises `Drifted`, `NotWritten` (the way back is not possible, or nothing can be started), `Refused` (the
    file has an armed change already).
    """
    reply = _call(
        host,
        "arm",
        arming.path,
        arming.backup_dir,
        base=arming.base,
        result=arming.result,
        token=arming.token,
        window=str(arming.window_s),
        id=arming.id,
        holder=arming.holder,
        fire=_fire(arming),
        supervise=wire.stripped("supervisor.sh"),
        restart="\n".join(arming.restart),
    )
    watch = _watch(reply)
    kind, message = reply.outcome()
    match kind:
        case "ok":
            return watch
        case "drifted":
            raise Drifted(
                f"{arming.path!r} on {host.name!r} is not what the plan was made for; nothing was written",
                hint="make a new plan",
                expected=arming.base,
                found=reply.text("live"),
            )
        case "armed":
            until = f" until {watch.deadline:%Y-%m-%d %H:%M:%S} UTC" if watch.deadline else ""
            raise Refused(
                f"{arming.path!r} on {host.name!r} has a change that waits for its confirmation{until}: {watch.holder}",
                hint="`knob pending` shows it; confirm it, or wait until it has put itself back",
            )
        case "notwritten":
            raise NotWritten(
                f"{arming.path!r} on {host.name!r} was not changed, because it could not be armed: {message}",
                hint="mend the reason, or leave out --confirm-within",
            )
        case _:
            raise _lost(host, arming.path, f"{kind} {message}")


def confirm(host: Host, path: HostPath, backup_dir: str, secret: str) -> tuple[bool, Watch]:
    """Ends an arming so that the change stays: whether that came in time, and how it stood.

    Raises `Refused` for a secret that is not this arming's.
    """
    reply = _call(host, "confirm", path, backup_dir, secret=secret, token=token_of(secret))
    kind, _ = reply.outcome()
    if kind == "token":
        raise Refused(
            f"what is armed for {path!r} on {host.name!r} is another change: this one's token does not fit",
            hint="`knob pending`",
        )
    return kind == "ok", _watch(reply)


def cancel(host: Host, path: HostPath, backup_dir: str, token: str) -> tuple[bool, Watch]:
    """Ends an arming whose change was not made, or was taken back by hand."""
    reply = _call(host, "cancel", path, backup_dir, token=token)
    return reply.outcome()[0] == "ok", _watch(reply)


def watch(host: Host, path: HostPath, backup_dir: str, token: str) -> Watch:
    """How it stands. Changes nothing."""
    return _watch(_call(host, "state", path, backup_dir, token=token))


def clear(host: Host, path: HostPath, backup_dir: str, token: str) -> None:
    """Takes an ended arming's folder away, once its outcome is in the ledger. May be called twice."""
    _call(host, "clear", path, backup_dir, token=token)


def _call(host: Host, mode: str, path: HostPath, backup_dir: str, **values: str) -> wire.Reply:
    """One exec of arming.sh by `Host.run`: a read-only host refuses it, so plan mode can't arm."""
    request = wire.request(
        {"mode": mode, "path": path, "bdir": backup_dir, "search": wire.SEARCH, "wait": "20", **values},
        extra=wire.stripped("arming.sh").encode() + b"\n",
    )
    done = host.run(("/bin/sh",), timeout_s=_PATIENCE_S, stdin=b"LC_ALL=C; export LC_ALL\n" + request.stdin)
    reply = wire.parse(done.stdout, request.nonce)
    if not reply.complete:
        raise _lost(host, path, done.stderr.decode("utf-8", "replace").strip()[-200:] or "no answer")
    kind, message = reply.outcome()
    if kind == "refused":
        raise Refused(f"{path!r} on {host.name!r}: {message}")
    return reply


def _lost(host: Host, path: HostPath, why: str) -> StateUnknown:
    return StateUnknown(
        f"whether {path!r} on {host.name!r} is armed is not known: {why}", hint="`knob pending` looks again"
    )


def _fire(arming: Arming) -> str:
    """transaction.sh with the way back in its header; the size and the old content are found beside it."""
    values = {
        "nonce": "knob-supervisor",
        "path": arming.path,
        "search": wire.SEARCH,
        "wait": "20",
        "base": arming.result,
        "result": arming.base,
        "bdir": arming.backup_dir,
        "bname": arming.backup_name,
        "holder": arming.holder,
        "check": "none",
        "inplace": "no",
        "leads": arming.resolved or "",
    }
    head = " ".join(f"{name}={quote(value)}" for name, value in values.items())
    return "\n".join(
        (
            "LC_ALL=C; export LC_ALL",
            head,
            "mode=$PUT matches=$PWD/content size=$(wc -c <content); size=$((size))",
            '[ "$mode" = rehearse ] && base=$result',
            "set --",
            wire.script().decode(),
        )
    )


def _watch(reply: wire.Reply) -> Watch:
    state = reply.text("armed.state") or "none"
    first, _, said = reply.text("armed.outcome").partition("\n")
    what, at, restarted = (*first.split(), "", "", "")[:3]
    return Watch(
        state=state,  # type: ignore[arg-type]
        token=reply.text("armed.token"),
        deadline=_moment(reply.text("armed.deadline")),
        scheduler=reply.text("armed.scheduler"),
        watched=reply.text("armed.watched") == "yes",
        outcome=what or None,  # type: ignore[arg-type]
        ended_at=_moment(at),
        restarted={"ok": True, "failed": False}.get(restarted),
        said=said.strip(),
        now=_moment(reply.text("armed.now")),
        holder=reply.text("armed.holder"),
    )


def _moment(text: str) -> datetime | None:
    return datetime.fromtimestamp(int(text), UTC) if text.isdigit() else None


def token_of(secret: str) -> str:
    """What an arming stores of its secret."""
    return digest_of(secret.encode())
