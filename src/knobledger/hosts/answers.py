"""From the frames of a reply to values and errors, and the words of each step. Pure."""

from __future__ import annotations

import re
from typing import Any, NoReturn

from msgspec import Struct

from knobledger.errors import (
    Bug,
    Busy,
    Drifted,
    KnobError,
    NotWritten,
    Refused,
    RolledBack,
    StateUnknown,
    Unreachable,
)
from knobledger.hosts.host import BackupFile, RemoteFile, Transaction
from knobledger.hosts.wire import Exit, Reply, decode
from knobledger.names import Digest, HostPath, digest_of, short
from knobledger.quoting import command_line, quote
from knobledger.receipt import GrepLine, Manifest, Receipt, Step


class Asked(Struct, frozen=True):
    """Whom was asked for what, for messages."""

    host: str
    path: HostPath

    def __str__(self) -> str:
        return f"{self.path!r} on {self.host!r}"


def manifest_of(reply: Reply, path: HostPath) -> Manifest:
    """The manifest in a reply."""
    uid, gid, mode, size, mtime, links = reply.text("stat").split()
    owner, _, group = reply.text("names").partition("/")
    return Manifest(
        path=path,
        resolved=HostPath(reply.text("resolved")),
        uid=int(uid),
        gid=int(gid),
        owner=owner,
        group=group,
        mode=mode.zfill(4),
        size=int(size),
        mtime=int(mtime),
        links=int(links),
        mount=reply.text("mount") == "1",
        acl=reply.text("acl"),
        xattrs=reply.text("xattrs"),
        label=reply.text("label"),
        running=tuple(int(pid) for pid in reply.text("running").split()),
    )


def file_of(reply: Reply, asked: Asked, clock_offset_s: float) -> RemoteFile | None:
    """The file in a reply of `read`; None if it changed while it was being read."""
    content = reply.raw("content")
    whole = len(content) == int(reply.text("size") or -1) and digest_of(content) == reply.text("live")
    if reply.has("moved") or not whole:
        return None
    return RemoteFile(content, digest_of(content), manifest_of(reply, asked.path), clock_offset_s)


def backups_of(reply: Reply) -> tuple[BackupFile, ...]:
    """The files in a reply of `list`."""
    found = []
    for path, stat in zip(reply.all("b.path"), reply.all("b.stat"), strict=True):
        digest, size, mtime, mode, uid, gid = stat.split()
        extra = {"mode": mode.zfill(4), "uid": uid, "gid": gid}
        found.append(BackupFile(HostPath(path), Digest(digest), int(size), int(mtime), extra))
    return tuple(found)


def receipt_of(reply: Reply, transaction: Transaction, clock_offset_s: float) -> Receipt:
    """The receipt in a reply of `replace` that ended well."""
    lines = [line for output in reply.all("grep") for line in output.split("\n") if line]
    grep = dict.fromkeys(
        GrepLine(line=int(line.partition(":")[0]), text=line.partition(":")[2]) for line in lines
    )
    return Receipt(
        backup=HostPath(reply.text("backup")),
        backup_digest=Digest(reply.text("backup.digest")),
        digest=Digest(reply.text("digest.after")),
        grep=tuple(grep),
        matches=transaction.matches,
        matches_backup=None if transaction.matches is None else reply.text("matches") == "yes",
        steps=steps_of(reply, transaction),
        clock_offset_s=clock_offset_s,
        manifest=manifest_of(reply, transaction.path),
        digest_tool=reply.text("tool"),
    )


def steps_of(reply: Reply, transaction: Transaction) -> tuple[Step, ...]:
    """Every step that was reported, in words, with the command as it could be typed by hand."""
    steps = []
    for frame in reply.all("step"):
        name, verdict, detail = (*frame.split(" ", 2), "")[:3]
        ok = verdict == "ok"
        steps.append(
            Step(step=name, ok=ok, detail=_words(name, reply, transaction) + detail if ok else detail)
        )
    return tuple(steps)


def _words(step: str, reply: Reply, transaction: Transaction) -> str:
    """What a step that went well did."""
    tool = reply.text("tool")
    target = reply.text("resolved")
    backup = reply.text("backup")
    in_place = reply.text("way") == "inplace"
    match step:
        case "probe":
            return f"digests by `{tool}`"
        case "resolve":
            running = reply.text("running")
            leads = "" if target == transaction.path else f"{transaction.path} leads to "
            return f"{leads}{target}" + (
                f"; running it: process {', '.join(running.split())}" if running else ""
            )
        case "lock":
            return f"nobody else writes in {folder_of(target)} meanwhile; by "
        case "compare":
            return f"`{tool} {quote(target)}` is {short(reply.text('live'))}, as planned"
        case "backup":
            return f"`{command_line(('cp', '-p', target, backup))}`; same digest, owner, mode, times"
        case "stage":
            return f"{len(transaction.content)} bytes beside the target, digest {short(transaction.result)}"
        case "swap" if in_place:
            return f"`cat {quote(reply.text('stage'))} > {quote(target)}` (in place)"
        case "swap":
            return f"`{command_line(('mv', reply.text('stage'), target))}`"
        case "verify":
            return "; ".join(_proofs(reply, transaction, tool, target))
        case "rollback":
            return f"the content of {backup} is back: digest {short(transaction.base)}, owner, mode"
        case _:
            return ""


def _proofs(reply: Reply, transaction: Transaction, tool: str, target: str) -> list[str]:
    proofs = [f"`{tool} {quote(target)}` is {short(reply.text('digest.after'))}"]
    if transaction.grep or transaction.gone:
        # The strings themselves may be secret; the receipt's lines are masked where they are shown.
        found = sum(len(output.splitlines()) for output in reply.all("grep"))
        proofs.append(f"`grep -n -F` finds {found} line{'' if found == 1 else 's'}")
    if transaction.matches is not None:
        proofs.append(f"`{command_line(('diff', '-q', target, transaction.matches))}`: matches backup")
    return [*proofs, "owner, mode and labels as before"]


def folder_of(path: str) -> str:
    """The folder of an absolute path."""
    return path.rpartition("/")[0] or "/"


def refuse(reply: Reply, asked: Asked, transaction: Transaction | None = None) -> NoReturn:
    """Raises what the last frame, which is not `ok`, stands for."""
    raise failure(reply, asked, transaction)


def failure(reply: Reply, asked: Asked, transaction: Transaction | None) -> KnobError:
    """The error that the last frame stands for."""
    kind, message = reply.outcome()
    steps = () if transaction is None else steps_of(reply, transaction)
    facts: dict[str, Any] = {"host": asked.host, "path": asked.path}
    if steps:
        facts["steps"] = [step.plain() for step in steps]
    left = next((f"; {step.detail}, `knob recover` removes it" for step in steps if step.step == "clean"), "")
    match kind:
        case "refused":
            return Refused(f"{asked}: {message}", **facts)
        case "inplace":
            hint = "`--in-place` allows it; the write is then not atomic, and is backed up first"
            return Refused(f"{asked}: {message}", hint=hint, **facts)
        case "drifted":
            base = "" if transaction is None else transaction.base
            live = reply.text("live")
            return Drifted(
                f"{asked} holds {short(live)}, not {short(base)}: changed since the plan; nothing written",
                hint="plan again on the bytes that are there now",
                base=base,
                live=live,
                **facts,
            )
        case "moved":
            planned = "" if transaction is None or transaction.resolved is None else transaction.resolved
            return Drifted(
                f"{asked} leads to {message!r} now, and the plan was made for {planned!r}; nothing written",
                hint="look at the symbolic links, then make a new plan",
                **facts,
            )
        case "busy":
            return _busy(reply, asked, facts)
        case "notwritten":
            hint = _complaint(reply, asked) or f"the file is as before; mend the reason and apply again{left}"
            return NotWritten(f"{asked} was not written: {message}", hint=hint, **facts)
        case "rolledback":
            hint = f"the file is as before; the backup stays at {reply.text('backup')}{left}"
            return RolledBack(
                f"{asked}: {message}; the backup was put back, and that is proven", hint=hint, **facts
            )
        case "unknown" if transaction is not None:
            error = unknown(reply, asked, transaction, message)
            error.values["objection"] = message
            return error
        case _:
            return Bug(f"{asked}: the transaction ended with {kind!r} {message!r}", **facts)


def _complaint(reply: Reply, asked: Asked) -> str:
    """What the syntax check said, by the target's name, without the lines of the file that shells repeat.

    Those may hold secrets.
    """
    said = re.sub(
        r"\S*/\.(?:knobledger\.stage|verify)\.[^\s:]*", lambda _: asked.path, reply.text("complaint")
    )
    return "\n".join(line for line in said.splitlines() if not re.search(r"line \d+: `", line))


def _busy(reply: Reply, asked: Asked, facts: dict[str, Any]) -> Busy:
    holder = reply.text("holder") or "somebody else"
    since = reply.text("since")
    told = f"{holder} since {since}" if not since.isdigit() else f"{holder} since {_clock(int(since))}"
    return Busy(
        f"{asked} is being changed by {told if since else holder}; nothing was written",
        hint="try again in a moment",
        holder=holder,
        since=int(since) if since.isdigit() else None,
        **facts,
    )


def _clock(epoch: int) -> str:
    from datetime import UTC, datetime

    return datetime.fromtimestamp(epoch, UTC).strftime("%Y-%m-%d %H:%M:%S UTC")


def unknown(reply: Reply, asked: Asked, transaction: Transaction, message: str) -> StateUnknown:
    """Nobody knows what the file holds: with the commands to look and to mend."""
    target = reply.text("resolved") or transaction.path
    backup = reply.text("backup")
    directory = transaction.backup_dir
    if not directory.startswith("/"):
        directory = f"{folder_of(target)}/{directory}"
    look = [f"sha256sum {quote(target)}   # before: {transaction.base}, after: {transaction.result}"]
    if backup:
        look.append(command_line(("diff", backup, target)))
        look.append(f"{command_line(('cp', '-p', backup, target))}   # puts the old content back")
    else:
        look.append(command_line(("ls", "-la", directory)))
    return StateUnknown(
        f"{asked}: {message}; the file may hold the old or the new content",
        hint="`knob recover` settles it by digest; by hand on the host: " + "; ".join(look),
        host=asked.host,
        path=asked.path,
        commands=look,
        base=transaction.base,
        result=transaction.result,
        steps=[step.plain() for step in steps_of(reply, transaction)],
    )


def incomplete(
    reply: Reply, done: Exit, asked: Asked, transaction: Transaction | None, limit_s: float
) -> KnobError:
    """The error for a reply without its end: the script never ran, was killed, or its answer was lost."""
    if not reply.begun and done.status is not None:
        # Whatever the login shell did, it did not run our line.
        ends = [
            stream.splitlines()[-1:]
            for stream in (decode(done.stderr).rstrip(), decode(done.stdout).rstrip())
        ]
        last = "; ".join(line.strip()[:200] for end in ends for line in end) or "it said nothing"
        hint = f"`ssh {asked.host} /bin/sh -c true` must work; with sudo = true, `sudo -n true` too"
        return Unreachable(f"{asked.host!r} ran no command (exit status {done.status}): {last}", hint=hint)
    reason = (
        f"the command time-out of {limit_s:g} s was over" if done.timed_out else "the connection was lost"
    )
    if transaction is None:
        return Unreachable(f"{asked}: {reason} before the answer came", hint="nothing was changed; try again")
    if done.status is not None and not reply.has("swapping"):
        hint = "the file is as before; `knob recover` removes what it left beside it"
        return NotWritten(f"{asked} was not written: the transaction was killed before the swap", hint=hint)
    if done.status is not None:
        reason = "the transaction was killed after the swap began"
    return unknown(reply, asked, transaction, reason)
