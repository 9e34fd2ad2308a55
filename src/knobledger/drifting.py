"""Drift: every target against its last recorded bytes, and what the host's own records say about who was there."""

from __future__ import annotations

from collections.abc import Sequence
from contextlib import suppress
from datetime import datetime, timedelta
from pathlib import PurePosixPath

from knobledger.drafting import Desk
from knobledger.errors import KnobError, StateUnknown
from knobledger.event import moment_of, stamp
from knobledger.hosts.config import Target
from knobledger.hosts.host import Host, RemoteFile
from knobledger.looking import HostOf, side_by_side
from knobledger.names import HostPath
from knobledger.observing import mtime_of, observation
from knobledger.report.drift import Drift, TargetDrift
from knobledger.tracks import Interval, commands, logins

_LOGS = ("/var/log/auth.log", "/var/log/secure")
_TAIL_BYTES = "4000000"
_PATIENCE_S = 20.0


def drift(desk: Desk, targets: Sequence[Target], hosts: HostOf, *, strict: bool = False) -> Drift:
    """Compares every target, hosts at the same time; those that are down do not hide the others."""
    return Drift(tuple(side_by_side(desk, targets, hosts, compare)), desk.author.zone, strict)


def compare(desk: Desk, target: Target, host: Host) -> TargetDrift:
    """One target against its last recorded bytes. Records nothing."""
    try:
        remote = host.read(target.path)
    except KnobError as error:
        return failed(desk, target, error)
    return compared(desk, target, host, remote)


def failed(desk: Desk, target: Target, error: KnobError) -> TargetDrift:
    """A target that could not be read."""
    message, hint = desk.masker.text(error.message), desk.masker.text(error.hint)
    return _line(desk, target, "not known", error=message, hint=hint, exit_code=error.exit_code)


def compared(desk: Desk, target: Target, host: Host, remote: RemoteFile) -> TargetDrift:
    """The same with the file as it was read."""
    try:
        _, found = observation(desk, target, remote)
    except StateUnknown as error:
        return failed(desk, target, error)
    mtime = stamp(mtime_of(remote))
    if found is None:
        return _line(desk, target, "as recorded", live=remote.digest, mtime=mtime)
    if found.previous is None:
        return _line(desk, target, "never recorded", live=remote.digest, found=found, mtime=mtime)
    hints = who(host, remote, moment_of(found.not_before), moment_of(found.not_after))
    found = found.but(hints=(*found.hints, *map(desk.masker.text, hints)))
    return _line(desk, target, "drifted", live=remote.digest, found=found, mtime=mtime)


def _line(desk: Desk, target: Target, state: str, **facts: object) -> TargetDrift:
    known = desk.state.files.get(target.name)
    return TargetDrift(
        target=target.name,
        path=target.path,
        state=state,  # type: ignore[arg-type]
        recorded=known.digest if known else None,
        recorded_by=known.event if known else None,
        recorded_at=known.at if known else "",
        **facts,  # type: ignore[arg-type]
    )


def times_of(host: Host, paths: Sequence[HostPath]) -> list[tuple[float, timedelta]]:
    """Per file the ctime (which nobody can set) in seconds of the host's clock, and the host's offset from UTC then.

    Empty where the host's `stat` can't tell.
    """
    with suppress(KnobError, ValueError):
        done = host.run(("stat", "-c", "%Z %z", "--", *paths), timeout_s=_PATIENCE_S)
        lines = done.stdout.decode("ascii", "replace").splitlines()
        if done.status == 0 and len(lines) == len(paths):
            return [_ctime(line) for line in lines]
    return []


def _ctime(line: str) -> tuple[float, timedelta]:
    """`1764530704 2025-11-30 20:25:04.000000000 +0100`: the offset is the difference of the two."""
    seconds, day, clock, *_ = line.split()
    local = datetime.fromisoformat(f"{day}T{clock[:8]}+00:00").timestamp()
    return float(seconds), timedelta(seconds=round(local - float(seconds)))


def who(host: Host, remote: RemoteFile, start: datetime, end: datetime) -> list[str]:
    """Hints at who changed a file in an interval of our clock: its owner, sudo and login records where readable."""
    hints = []
    owner = remote.manifest.owner or str(remote.manifest.uid)
    hints.append(f"the file belongs to {owner}")
    path = remote.manifest.resolved
    offset = next((offset for _, offset in times_of(host, [path])), timedelta())
    ahead = timedelta(seconds=remote.clock_offset_s if abs(remote.clock_offset_s) >= 2 else 0)
    start = start.replace(microsecond=0)  # logs know whole seconds only
    within = Interval(start + ahead, end + ahead + timedelta(seconds=1), offset)
    said = [_said(host, "tail", "-c", _TAIL_BYTES, log) for log in _LOGS]
    if not any(said):
        begin, finish = f"@{int(within.start.timestamp())}", f"@{int(within.end.timestamp()) + 1}"
        said = [
            _said(
                host, "journalctl", "--no-pager", "-q", "-o", "short-unix", "-n", "500",
                "--since", begin, "--until", finish, "-t", "sudo", "-t", "sshd",
            )
        ]  # fmt: skip
    hints += commands("\n".join(said), within, PurePosixPath(path).name)
    return hints + logins(_said(host, "last", "-w", "-n", "200", "--time-format", "iso"), within)


def _said(host: Host, *argv: str) -> str:
    """What a command prints; nothing where it is not here, may not be run, or fails: these are hints."""
    with suppress(KnobError):
        done = host.run(argv, timeout_s=_PATIENCE_S)
        if done.status == 0:
            return done.stdout.decode("utf-8", "replace")
    return ""
