"""Adopt: what is there by hand becomes recorded as observed, and the past is read from the copies beside it.

Nothing on a host is changed, and nothing is credited to whoever adopts.
"""

from __future__ import annotations

import posixpath
from collections.abc import Callable, Sequence
from datetime import datetime, timedelta
from functools import partial
from pathlib import PurePosixPath

from msgspec.structs import replace

from knobledger.drafting import Desk, masked_diff, masked_edits
from knobledger.drifting import compared, failed, times_of
from knobledger.errors import KnobError
from knobledger.event import moment_of, stamp
from knobledger.events.changes import Observed
from knobledger.hosts.config import Target
from knobledger.hosts.host import BackupFile, Host, RemoteFile
from knobledger.knobs import Reading, changed_knobs
from knobledger.looking import HostOf, side_by_side
from knobledger.names import HostPath, digest_of
from knobledger.observing import names_in, on_our_clock
from knobledger.past import Passage, Sighting, is_copy, moment_in, reconstruct
from knobledger.report.drift import Adopted, Adoption
from knobledger.undoing import backup_of

MOST = 200
"""copies, and commits, that are looked at for one target"""
_GIT_S = 60.0


def adopt(desk: Desk, targets: Sequence[Target], hosts: HostOf, *, backups: bool, record: bool) -> Adoption:
    """What there is to record of each target, hosts at the same time; with `record`, it is recorded."""
    read: Callable[[Desk, Target, Host], tuple[Adopted, list[bytes]]] = partial(_look, backups=backups)
    found = side_by_side(desk, targets, hosts, read)
    if not record:
        return Adoption(tuple(item for item, _ in found), desk.author.zone, done=False)
    written = tuple(_record(desk, item, contents) for item, contents in found)
    desk.state = desk.state.refolded()
    return Adoption(written, desk.author.zone, done=True)


def _look(desk: Desk, target: Target, host: Host, *, backups: bool) -> tuple[Adopted, list[bytes]]:
    try:
        remote = host.read(target.path)
        drift = compared(desk, target, host, remote)
        if not backups:
            return Adopted(drift), [remote.content]
        past, contents, remarks = _past(desk, target, host, remote, drift.found)
    except KnobError as error:
        return Adopted(failed(desk, target, error)), []
    return Adopted(drift, past, (), remarks), [remote.content, *contents]


def _record(desk: Desk, item: Adopted, contents: Sequence[bytes]) -> Adopted:
    """Snapshots first, then the events that need them: the live bytes, then the past."""
    if not item.new:
        return item
    for content in contents:
        desk.snapshots.put(content)
    events = ([item.drift.found] if item.drift.found else []) + list(item.past)
    return replace(item, ids=tuple(desk.write(event) for event in events))


def _past(
    desk: Desk, target: Target, host: Host, remote: RemoteFile, first_contact: Observed | None
) -> tuple[tuple[Observed, ...], list[bytes], tuple[str, ...]]:
    """The events that tell the past of a target, the contents that they need, and what is uncertain."""
    remarks: list[str] = []
    at, live = _baseline(desk, target, host, remote, first_contact)
    if live is None:
        return (
            (),
            [],
            (
                f"the first recorded bytes of {target.name} are not among the snapshots: nothing was reconstructed",
            ),
        )
    copies = _copies(desk, target, host, remote, remarks) + _commits(host, remote, remarks)
    earlier = [item for item in copies if item.seen <= at]
    if len(earlier) < len(copies):
        remarks.append(
            f"{len(copies) - len(earlier)} copies are younger than the first entry of {target.name}: left out, since the "
            "ledger tells that time itself"
        )
    told = {
        event.digest
        for event in desk.state.events.values()
        if isinstance(event, Observed) and event.target == target.name and event.reconstructed
    }
    if told:
        new = [item.source for item in earlier if item.digest not in told and item.digest != live.digest]
        remarks += [f"{source} was not there when the past was reconstructed: left out" for source in new]
        return (), [], tuple(remarks)
    past = reconstruct(earlier, live)
    events = tuple(_event(desk, target, passage) for passage in past.passages)
    return events, [passage.after.content for passage in past.passages], (*remarks, *past.remarks)


def _baseline(
    desk: Desk, target: Target, host: Host, remote: RemoteFile, found: Observed | None
) -> tuple[datetime, Sighting | None]:
    """When recorded history begins, and the bytes with which it does: the first contact's, else the live ones."""
    firsts = [
        event
        for event in desk.state.events.values()
        if isinstance(event, Observed) and event.target == target.name and not event.reconstructed
    ]
    content: bytes | None = remote.content
    ctimes: list[tuple[float, timedelta]] = []
    if not firsts and found is not None:
        firsts = [found]
        ctimes = times_of(host, [remote.manifest.resolved])
    else:
        content = desk.snapshots.get(min(firsts, key=lambda event: event.at).digest)
    first = min(firsts, key=lambda event: event.at)
    at = moment_of(first.at) - timedelta(microseconds=1)  # what led to it comes before it
    if content is None:
        return at, None
    seen = min(on_our_clock(first.manifest.mtime, remote.clock_offset_s), at)
    changed = [on_our_clock(ctime + 1, remote.clock_offset_s) for ctime, _ in ctimes]
    live = Sighting(
        content, first.digest, first.manifest, first.path, seen, latest=min([at, *changed]), path=first.path
    )
    return at, live


def _copies(desk: Desk, target: Target, host: Host, remote: RemoteFile, remarks: list[str]) -> list[Sighting]:
    """The copies beside the target and in its backup directory that no recorded change has made."""
    resolved = remote.manifest.resolved
    name = PurePosixPath(resolved).name
    ours = {backup_of(desk.state, change, target.name) for change in desk.state.changes}
    found: dict[HostPath, BackupFile] = {}
    for folder in dict.fromkeys((".", target.backup_dir)):
        for item in host.backups(target.path, folder):
            if item.path not in ours and is_copy(PurePosixPath(item.path).name, name):
                found[item.path] = item
    if len(found) > MOST:
        remarks.append(f"only the {MOST} youngest of {len(found)} copies were read")
    items = sorted(found.values(), key=lambda item: item.mtime)[-MOST:]
    times = times_of(host, [item.path for item in items]) if items else []
    sightings = []
    for i, item in enumerate(items):
        try:
            copy = host.read(item.path)
        except KnobError as error:
            remarks.append(f"{item.path} could not be read: {desk.masker.text(error.message)}")
            continue
        seen = on_our_clock(copy.manifest.mtime, remote.clock_offset_s)
        still = None
        if times:
            still = _named(PurePosixPath(item.path).name.removeprefix(name), *times[i], remote.clock_offset_s)
        sightings.append(
            Sighting(copy.content, copy.digest, copy.manifest, item.path, seen, still, path=item.path)
        )
    return sightings


def _named(rest: str, ctime: float, offset: timedelta, clock_offset_s: float) -> datetime | None:
    """When the copy was made by its own name, if the file's ctime does not speak against it."""
    at = moment_in(rest, offset)
    if at is None or at.timestamp() > ctime + 1:
        return None
    return on_our_clock(at.timestamp(), clock_offset_s)


def _commits(host: Host, remote: RemoteFile, remarks: list[str]) -> list[Sighting]:
    """The contents of the target in the git history of its folder (etckeeper's, or anybody's)."""
    folder, name = posixpath.split(remote.manifest.resolved)
    git = ("git", "-C", folder, "--no-pager")
    try:
        log = host.run(
            (
                *git,
                "log",
                f"-n{MOST}",
                "--no-show-signature",
                "--format=%H%x09%ct%x09%an <%ae>%x09%s",
                "--",
                name,
            ),
            timeout_s=_GIT_S,
        )
    except KnobError as error:
        remarks.append(f"the git history of {folder} was not read: {error.message}")
        return []
    if log.status != 0:
        if b"dubious ownership" in log.stderr:
            remarks.append(
                f"{folder} has a git history that belongs to somebody else, so git does not read it"
            )
        return []
    found = []
    for line in log.stdout.decode("utf-8", "surrogateescape").splitlines():
        commit, seconds, author, subject = line.split("\t", 3)
        shown = host.run((*git, "cat-file", "blob", f"{commit}:./{name}"), timeout_s=_GIT_S)
        if shown.status != 0:
            continue
        manifest = remote.manifest.but(size=len(shown.stdout), mtime=int(seconds))
        seen = on_our_clock(int(seconds), remote.clock_offset_s)
        hint = f"git commit {commit[:8]} by {author}: {subject}"
        found.append(
            Sighting(shown.stdout, digest_of(shown.stdout), manifest, f"git {commit}", seen, hint=hint)
        )
    return found


def _event(desk: Desk, target: Target, passage: Passage) -> Observed:
    before, after = passage.before, passage.after
    new = Reading.of(after.content, target.dialect)
    desk.masker.content(new)
    facts: dict[str, object] = {"knobs": names_in(new)}
    if before is not None and passage.not_before is not None:
        old = Reading.of(before.content, target.dialect)
        desk.masker.content(old)
        facts = {
            "previous": before.digest,
            "kept": before.path,
            "edits": masked_edits(desk.masker, changed_knobs(old, new)),
            "diff": masked_diff(desk.masker, old, new, target.path),
            "not_before": stamp(passage.not_before),
        }
    owner = after.manifest.owner if after.manifest.uid else ""
    hints = [after.hint] if after.hint else [f"the file that is left belongs to {owner}"] if owner else []
    return Observed.of(
        {
            **desk.author.signs(),
            **facts,
            "target": target.name,
            "path": target.path,
            "digest": after.digest,
            "manifest": after.manifest,
            "not_after": stamp(passage.not_after),
            "source": after.source,
            "hints": tuple(map(desk.masker.text, hints)),
        }
    )
