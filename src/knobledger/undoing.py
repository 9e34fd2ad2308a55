"""Revert and restore: which change is meant, where its bytes are, and the plan that takes it back.

Both verbs are one thing, the undoing of a change; a restore is the undoing of a revert.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from pathlib import PurePosixPath

from knobledger.diff import changed_lines
from knobledger.drafting import Desk, Draft, Options, Seen, Sketch, write_plan
from knobledger.errors import Conflict, KnobError, NotWritten, Refused, together
from knobledger.events.changes import Applied, Observed, Planned, Settled
from knobledger.hosts.config import Target
from knobledger.hosts.host import RemoteFile
from knobledger.knobs import Reading, changed_knobs
from knobledger.names import EventId, HostPath, TargetName, digest_of, short
from knobledger.observing import see
from knobledger.plan import LaterEdit, PlannedFile, Verb
from knobledger.state import State, changes_after
from knobledger.undo import Clash, LineChange, line_changes, taken_away, undo

Read = Callable[[HostPath], RemoteFile]
"""reads a file of one host, now or a moment ago; raises as `Host.read` does"""


def change_to_revert(state: State, change: EventId) -> EventId:
    """The change itself, if its effect is there to be taken back. Raises `Refused`."""
    fate, by = state.fate(change)
    if fate == "reverted" and by:
        _one_turned_it(state, change)
        raise Refused(
            f"change {short(change)} is reverted already, by {short(by)}",
            hint=f"to bring it back: `knob restore {short(change)}`",
        )
    return change


def _one_turned_it(state: State, change: EventId) -> None:
    """Raises `Refused` where several entries took a change back, each a part of it: none of them stands for all."""
    parts: dict[EventId, list[str]] = {}
    for edit in state.edits_of(change):
        if edit.by and edit.fate in ("reverted", "overwritten"):
            parts.setdefault(edit.by, []).append(edit.edit.name)
    if len(parts) > 1:
        what = "; ".join(f"{', '.join(names)} by {short(by)}" for by, names in parts.items())
        raise Refused(
            f"{short(change)} was taken back, or overwritten, in parts: {what}",
            hint="; ".join(
                f"to undo that of {', '.join(n)}: `knob revert {short(by)}`" for by, n in parts.items()
            ),
        )


def change_to_restore(state: State, change: EventId) -> EventId:
    """The revert that a restore of this change has to undo: itself, or the one that undid it. Raises `Refused`."""
    fate, by = state.fate(change)
    edits = state.edits_of(change)
    by_hand = change not in state.plans  # between two sightings others may have been at work, too
    takes_away = state.takes_back(change) or (by_hand and any(edit.edit.after is None for edit in edits))
    match fate:
        case "reverted" if by is not None and state.takes_back(change):
            what = "revert " if state.turns(change) else ""
            raise Refused(
                f"{what}{short(change)} is restored already, by {short(by)}",
                hint=f"see `knob show {short(by)}`",
            )
        case "reverted" if by is not None:
            _one_turned_it(state, change)
            return by
        case "in effect" | "overwritten" if takes_away:
            return change
        case "overwritten" if by is not None:
            raise Refused(
                f"change {short(change)} was not reverted but overwritten, by {short(by)}",
                hint=f"see `knob show {short(by)}`; to take that back: `knob revert {short(by)}`",
            )
        case _:
            raise Refused(
                f"change {short(change)} is in effect: there is nothing to restore",
                hint=f"to take it back: `knob revert {short(change)}`",
            )


def change_of_backup(state: State, name: str) -> EventId | None:
    """The change that made a backup of this name (or path) on its host; the newest, if several did."""
    for change in reversed(state.changes):
        for attempt in state.plans[change].attempts:
            backup = backup_of(state, change, attempt.started.target)
            if backup and name in (backup, PurePosixPath(backup).name):
                return change
    return None


def copies_named(state: State, name: str) -> dict[tuple[TargetName, HostPath], EventId]:
    """The backups and copies of this name (or path), each with the change or edit by hand before which it was made.

    Of several that were made before, at one place, the newest counts: it is the one that lies there.
    """
    found: dict[tuple[TargetName, HostPath], EventId] = {}
    for change in state.changes:
        for target in dict.fromkeys(attempt.started.target for attempt in state.plans[change].attempts):
            found |= _if_named(name, target, backup_of(state, change, target), change)
    for id_, event in state.events.items():
        if isinstance(event, Observed) and id_ not in state.repeated:
            found |= _if_named(name, event.target, event.kept, id_)
    return found


def _if_named(
    name: str, target: TargetName, path: HostPath | None, id_: EventId
) -> dict[tuple[TargetName, HostPath], EventId]:
    return {(target, path): id_} if path and name in (path, PurePosixPath(path).name) else {}


def backup_of(state: State, change: EventId, target: TargetName) -> HostPath | None:
    """Where the bytes from before a change lie on the host, as far as it is recorded."""
    if isinstance(event := state.events.get(change), Observed):
        return event.kept
    attempt = state.plans[change].attempt_on(target)
    match attempt.outcome if attempt else None:
        case Applied(receipt=receipt):
            return receipt.backup
        case Settled(backup=backup):
            return backup
        case _:
            return None


def draft_undo(
    desk: Desk,
    verb: Verb,
    change: EventId,
    targets: Sequence[tuple[Target, Read]],
    options: Options,
    left_out: Mapping[TargetName, KnobError] | None = None,
) -> Draft:
    """Plans the undoing of a change on its targets. Raises `Conflict`, `NotWritten` (a damaged backup).

    `left_out` and what is raised for several targets are as in `draft_edit`.
    """
    sketches: list[Sketch] = []
    failed: dict[str, KnobError] = {}
    for target, read in targets:
        try:
            sketches.append(undo_on(desk, verb, change, target, read, options))
        except KnobError as error:
            if len(targets) == 1:
                raise
            failed[target.name] = error
    if failed:
        raise together(failed, len(targets))
    return write_plan(desk, verb, sketches, options, undoes=change, left_out=left_out)


def files_to_undo(state: State, change: EventId, target: Target) -> list[HostPath]:
    """What undoing a change on a target will read there first."""
    backup = backup_of(state, change, target.name)
    return [target.path, *([backup] if backup else [])]


def undo_on(desk: Desk, verb: Verb, change: EventId, target: Target, read: Read, options: Options) -> Sketch:
    """What undoing a change would do to one target, on the bytes that are there now. Raises as `draft_undo` does."""
    file = _file(desk.state, change, target)
    if file is None:
        raise Refused(
            f"change {short(change)} did not touch {target.name!r}", hint=f"see `knob show {short(change)}`"
        )
    seen = see(desk, target, read(target.path))
    ours = seen.remote.content
    theirs, backup = _before(desk, read, change, file)
    # in another clone there is no snapshot of it, and mostly nothing came later
    base = ours if seen.remote.digest == file.result else _after(desk, read, change, file)
    names = tuple(edit.name for edit in file.edits)
    if options.exact:
        edits = changed_knobs(seen.reading, Reading.of(theirs, target.dialect))
        later = _later(desk, change, seen, base, line_changes(base, ours), kept=False) if base else ()
        clean = True
        content = theirs
    else:
        if base is None:
            raise Refused(
                f"the bytes that change {short(change)} left behind are nowhere to be found, so what came later "
                "can't be told apart from it",
                hint=f"the whole backup can still come back: `knob {verb} {short(change)} --exact`",
            )
        wanted = theirs
        if verb == "restore" and change not in desk.state.plans:
            wanted, names = _taken_away(change, file, target, base, theirs)
        merged = undo(ours=ours, base=base, theirs=wanted, dialect=target.dialect)
        if isinstance(merged, Clash):
            raise _conflict(desk, verb, change, seen, base, merged)
        edits, content, clean = merged.edits, merged.content, merged.content == theirs
        if wanted == theirs:
            later = _later(desk, change, seen, base, merged.later, kept=True)
        else:
            later = _later(desk, change, seen, theirs, line_changes(theirs, ours), kept=True)
            later = tuple(item for item in later if item.sign == "+")
    return Sketch(
        seen,
        content,
        edits,
        later=later,
        clean=clean,
        backup=backup,
        backup_digest=file.base if backup else None,
        names=names,
    )


def _file(state: State, change: EventId, target: Target) -> PlannedFile | None:
    """What a change did to a target; an edit by hand, as far as it was seen, in the same form."""
    event = state.events[change]
    if not isinstance(event, Observed):
        return state.plans[change].file_of(target.name)
    if event.target != target.name or event.previous is None:
        return None
    return PlannedFile(
        target=event.target,
        path=event.path,
        dialect=target.dialect.value,
        edits=event.edits,
        base=event.previous,
        result=event.digest,
        diff=event.diff,
    )


def _taken_away(
    change: EventId, file: PlannedFile, target: Target, base: bytes, theirs: bytes
) -> tuple[bytes, tuple[str, ...]]:
    """The wanted bytes and the knobs to bring back, after an edit by hand. Raises `Refused`."""
    names = tuple(edit.name for edit in file.edits if edit.before is not None)
    content = taken_away(base=base, theirs=theirs, dialect=target.dialect, names=names) if names else None
    if content is None:
        said = "its lines can't be told apart from what else was changed" if names else "it took nothing away"
        raise Refused(
            f"{short(change)}, an edit by hand: {said}; nothing was written",
            hint=f"`knob show {short(change)}` shows it; `knob revert {short(change)}` takes all of it back",
        )
    return content, names


def _before(desk: Desk, read: Read, change: EventId, file: PlannedFile) -> tuple[bytes, HostPath | None]:
    """The bytes from before the change, proven on the host where the backup is still there.

    A backup that does not hash to what was recorded stops everything: better no undo than a false one. A copy that
    somebody else made is theirs to overwrite; then there is the snapshot.
    """
    path = backup_of(desk.state, change, file.target)
    if path is not None:
        try:
            remote = read(path)
        except Refused:
            path = None
        else:
            if remote.digest != file.base and change not in desk.state.plans:
                path = None
            elif remote.digest != file.base:
                raise NotWritten(
                    f"backup {path!r} is damaged: its digest is {short(remote.digest)}, recorded is "
                    f"{short(file.base)}; nothing was written",
                    hint="`knob verify` looks at the snapshots; `knob diff` compares what is there",
                    backup=path,
                    digest=remote.digest,
                    recorded=file.base,
                )
            else:
                desk.snapshots.put(remote.content)
                return remote.content, path
    content = desk.snapshots.get(file.base)
    if content is None:
        raise Refused(
            f"the bytes from before change {short(change)} are neither on the host nor among the snapshots",
            hint=f"`knob backups {file.target}` lists what is left",
        )
    return content, None


def _after(desk: Desk, read: Read, change: EventId, file: PlannedFile) -> bytes | None:
    """The bytes that the change left behind: a snapshot, or the backup of whatever came next."""
    content = desk.snapshots.get(file.result)
    if content is not None:
        return content
    for later in changes_after(desk.state, file.target, change):
        plan = desk.state.plans.get(later)
        known = plan.file_of(file.target) if plan else None
        path = backup_of(desk.state, later, file.target) if known and known.base == file.result else None
        if path:
            content = read(path).content
            if digest_of(content) == file.result:
                return content
    return None


def _later(
    desk: Desk, change: EventId, seen: Seen, base: bytes, lines: Sequence[LineChange], *, kept: bool
) -> tuple[LaterEdit, ...]:
    """Later line changes with the entries that brought them, secrets masked as in the differences of these."""
    origin = _origins(desk.state, seen.target.name, change)
    masked = {
        "+": _masked_lines(desk, seen.reading),
        "-": _masked_lines(desk, Reading.of(base, seen.target.dialect)),
    }
    out = []
    for item in lines:
        text = masked[item.sign][item.line - 1]
        event = origin.get((item.sign, text))
        actor = desk.state.events[event].actor if event and event in desk.state.plans else ""
        out.append(LaterEdit(sign=item.sign, line=item.line, text=text, change=event, actor=actor, kept=kept))
    return tuple(out)


def _masked_lines(desk: Desk, reading: Reading) -> list[str]:
    text = desk.masker.content(reading).decode("utf-8", "surrogateescape")
    return [line.removesuffix("\r") for line in text.split("\n")]


def _origins(state: State, target: TargetName, change: EventId) -> dict[tuple[str, str], EventId]:
    found: dict[tuple[str, str], EventId] = {}
    for later in changes_after(state, target, change):
        match state.events[later]:
            case Planned(files=files):
                diff = next(file.diff for file in files if file.target == target)
            case Observed(diff=diff):
                pass
            case _:
                continue
        found |= dict.fromkeys(changed_lines(diff), later)
    return found


def _conflict(desk: Desk, verb: Verb, change: EventId, seen: Seen, base: bytes, clash: Clash) -> Conflict:
    later = _later(desk, change, seen, base, clash.later, kept=True)
    sides = [
        {
            "line": side.line,
            "live": _shown(desk, side.ours),
            "change": _shown(desk, side.base),
            "wanted": _shown(desk, side.theirs),
        }
        for side in clash.sides
    ]
    entries = list(dict.fromkeys(short(item.change) for item in later if item.change))
    place = ", ".join(map(repr, clash.knobs)) or f"line {clash.sides[0].line}"
    whole = f"to bring the whole backup back and drop what came later: `knob {verb} {short(change)} --exact`"
    return Conflict(
        f"{verb} of {short(change)} on {seen.target.name}: {clash.reason} ({place}, by "
        f"{', '.join(entries) or 'somebody, by hand'}); nothing was written",
        hint=f"see `knob show {entries[-1]}`; {whole}" if entries else whole,
        knobs=list(clash.knobs),
        sides=sides,
        later_edits=[item.plain() for item in later],
    )


def _shown(desk: Desk, text: bytes) -> list[str]:
    return [desk.masker.text(line) for line in text.decode("utf-8", "surrogateescape").split("\n") if line]
