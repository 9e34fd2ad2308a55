"""The verbs that only look: they read the ledger and, where asked, the hosts, and give reports."""

from __future__ import annotations

import difflib
from collections.abc import Callable, Collection, Iterable, Iterator, Mapping, Sequence
from concurrent.futures import ThreadPoolExecutor
from datetime import datetime
from typing import TypeVar, get_args

from msgspec import Struct
from msgspec.structs import replace

from knobledger.drafting import Desk, masked_diff, masked_edits
from knobledger.errors import KnobError, Refused, Unknown
from knobledger.event import KINDS, stamp
from knobledger.events.changes import Observed, Planned
from knobledger.folds.serving import Serving
from knobledger.hosts.config import Target
from knobledger.hosts.host import Host
from knobledger.hosts.mistakes import nearest
from knobledger.hosts.reach import HOSTS_AT_ONCE
from knobledger.knobs import Reading, changed_knobs
from knobledger.ledger.finding import Finding
from knobledger.ledger.store import Ledger, Stored
from knobledger.moment import Resolved
from knobledger.names import Digest, EventId, HostPath, TargetName, short, steps_back
from knobledger.plan import PlannedFile, Purpose, Verb
from knobledger.report.changes import Log, Since, between, change_lines, entries, observed_lines
from knobledger.report.drift import Drift
from knobledger.report.plans import plan_report
from knobledger.report.serving import restarts_between
from knobledger.report.standing import hypothesis_lines
from knobledger.report.status import KnobLine, Status, TargetStatus, differences_in, knob_line
from knobledger.report.upkeep import Backup, Backups, Difference, Plans
from knobledger.state import State
from knobledger.undoing import backup_of, change_of_backup

HostOf = Callable[[str], Host]
"""the connection to a host by its name in hosts.toml"""

T = TypeVar("T")


class Query(Struct, frozen=True):
    """What `log` is asked for; None is no restriction."""

    target: TargetName | None = None
    knob: str | None = None
    kind: str | None = None
    actor: str | None = None
    since: datetime | None = None
    until: datetime | None = None
    limit: int | None = None


def plans(state: State, now: datetime) -> Plans:
    """Plans that are neither used, rejected nor expired, newest first."""
    waiting = [p for p in state.plans.values() if p.status(now) in ("open", "approved", "in doubt")]
    return Plans(tuple(plan_report(state, plan, now) for plan in reversed(waiting)))


def entry(state: State, id_: EventId) -> Log:
    """One event as a log of one."""
    return replace(entries(state, [(id_, state.events[id_])]), full=True)


def matches(ledger: Ledger, query: Query) -> list[Stored]:
    """Events by the SQL index, newest first."""
    return ledger.index().find(
        target=query.target,
        knob=query.knob,
        kind=query.kind,
        actor=query.actor,
        since=query.since,
        until=query.until,
        limit=query.limit,
    )


def unmatched(ledger: Ledger, query: Query) -> str:
    """What to say where nothing matches, if it is for a mistyped knob. Raises `Unknown` for a kind that nothing can have."""
    kinds = [*KINDS, *get_args(Verb), *get_args(Purpose)]
    if query.kind is not None and query.kind not in kinds:
        near = difflib.get_close_matches(query.kind, kinds, n=3)
        raise Unknown(
            f"no entry can be of kind {query.kind!r}{nearest(query.kind, kinds)}",
            hint=f"kinds: {', '.join(kinds)}",
            value=query.kind,
            nearest=near,
        )
    if query.knob is None:
        return ""
    names = {name for kind in ("planned", "observed") for name in _knobs_of(ledger.index().find(kind=kind))}
    if query.knob in names:
        return ""
    return f"no entry of the ledger is about {query.knob!r}{nearest(query.knob, sorted(names))}"


def _knobs_of(found: Iterable[Stored]) -> Iterator[str]:
    for event in (stored.event for stored in found):
        if isinstance(event, Planned):
            yield from (edit.name for file in event.files for edit in file.edits)
        elif isinstance(event, Observed):
            yield from (*event.knobs, *(edit.name for edit in event.edits))


def log(desk: Desk, found: Sequence[Stored]) -> Log:
    """Events that were found, in that order."""
    return entries(desk.state, ((stored.id, stored.event) for stored in found))


def since(
    desk: Desk, start: Resolved, until: Resolved | None, only: TargetName | None, drift: Drift | None
) -> Since:
    """What changed from `start` on; with `drift`, where the hosts were asked, that as well."""
    end = stamp(until.instant if until else desk.author.now())
    begin = stamp(start.instant)
    changes = tuple(change_lines(desk.state, begin, end, only))
    named = [slug for change in changes for slug in change.hypotheses]
    return Since(
        start=start,
        until=until,
        end=end,
        zone=start.zone,
        changes=changes,
        observed=tuple(observed_lines(desk.state, begin, end, only)),
        restarts=tuple(
            restarts_between(desk.state.serving, begin, end, only.partition(":")[0] if only else None)
        ),
        hypotheses=tuple(hypothesis_lines(desk.state, begin, end, named)),
        between=tuple(between(desk.state, begin, end, only)),
        drift=tuple(item for item in drift.targets if item.state != "as recorded") if drift else (),
        looked=drift is not None,
        exit_code=drift.exit_code if drift else 0,
    )


def status(
    desk: Desk,
    targets: Sequence[Target],
    hosts: HostOf | None,
    groups: Mapping[str, Sequence[TargetName]],
    among: Collection[str] | None = None,
) -> Status:
    """Each target's knobs and whether it drifted; hosts that are down do not hide the others.

    `groups` names the targets that belong together: where their values of one knob differ, that is said.
    `among`: the plans of which the desk knows enough to tell whether they wait; None: all.
    """
    if hosts is None:
        found = [(_recorded(desk, target), 0) for target in targets]
    else:
        found = side_by_side(desk, targets, hosts, _live)
    now = desk.author.now()
    plans = [plan for plan in desk.state.plans.values() if among is None or plan.id in among]
    waiting = [
        plan.id
        for plan in plans
        if plan.status(now) in ("open", "approved") and not desk.state.overtaken_by(plan)
    ]
    lines = tuple(line for line, _ in found)
    return Status(
        targets=tuple(_with_restarts(line, desk.state.serving) for line in lines),
        documents=_documents(desk),
        in_doubt=tuple(f"{short(a.started.plan)} on {a.started.target}" for a in desk.state.in_doubt()),
        open_plans=tuple(map(short, waiting)),
        live=hosts is not None,
        unreviewed=tuple(plan.id for plan in plans if plan.unreviewed),
        differs=tuple(differences_in(groups, lines)),
        exit_code=next((code for _, code in found if code), 0),
    )


def _documents(desk: Desk) -> tuple[tuple[str, int], ...]:
    if not desk.state.anything_asked:
        return ()
    from knobledger.correcting import open_documents

    return tuple((name, len(lines)) for name, lines in open_documents(desk, desk.ledger.root))


def diff(
    desk: Desk, target: Target, host: HostOf, a: str | None, b: str | None, other: Target | None
) -> Difference:
    """The difference from `a` (default: the last recorded bytes) to `b` (default: live), or to another target."""
    left, left_name = _version(desk, target, host, a or "recorded")
    where = other or target
    right, right_name = _version(desk, where, host, b or "live")
    old, new = Reading.of(left, target.dialect), Reading.of(right, where.dialect)
    return Difference(
        f"{target.name} {left_name}",
        f"{where.name} {right_name}",
        masked_edits(desk.masker, changed_knobs(old, new)),
        masked_diff(desk.masker, old, new, target.path),
    )


def backups(desk: Desk, target: Target, host: Host) -> Backups:
    """Recorded backups with what the host holds of them, then files in the same place that nobody recorded."""
    there = {item.path: item for item in host.backups(target.path, target.backup_dir)}
    pruned = _pruned(desk, target)
    found = []
    for change in desk.state.changes:
        attempt = desk.state.plans[change].attempt_on(target.name)
        path = backup_of(desk.state, change, target.name)
        if attempt is None or path is None:
            continue
        recorded = attempt.started.base
        item = there.pop(path, None)
        gone = "removed" if path in pruned else "missing"
        state = gone if item is None else "ok" if item.digest == recorded else "damaged"
        found.append(
            Backup(
                path,
                recorded,
                item.size if item else None,
                state,
                change,
                desk.state.applied_at[change],
                desk.state.plans[change].planned.label,
            )
        )
    for item in there.values():
        at = stamp(datetime.fromtimestamp(item.mtime, tz=desk.author.now().tzinfo))
        found.append(Backup(item.path, item.digest, item.size, "not recorded", None, at, ""))
    return Backups(target.name, tuple(found))


def _pruned(desk: Desk, target: Target) -> set[HostPath]:
    """Backups that `backups prune` took away."""
    gone = [event for event in desk.state.events.values() if event.kind == "pruned"]
    return {file.path for event in gone if event.target == target.name for file in event.files}  # type: ignore[attr-defined]


def host_findings(desk: Desk, targets: Sequence[Target], hosts: HostOf) -> tuple[Finding, ...]:
    """Where the hosts hold other bytes than the ledger says: live files, and the backups that entries need."""
    found = side_by_side(desk, targets, hosts, _host_findings)
    return tuple(finding for one in found for finding in one)


def _host_findings(desk: Desk, target: Target, host: Host) -> list[Finding]:
    known = desk.state.files.get(target.name)
    if known is None:
        return []
    try:
        live = host.read(target.path).digest
        kept = backups(desk, target, host).backups
    except KnobError as error:
        return [Finding("warning_host", target.name, f"{target.name} could not be compared: {error.message}")]
    out = []
    if live != known.digest:
        out.append(
            Finding(
                "warning_drift",
                known.event,
                f"{target.name} holds {short(live)}, recorded is {short(known.digest)} by {short(known.event)}; "
                f"`knob diff {target.name}`",
            )
        )
    out += [
        Finding("backup", item.change, f"the backup {item.path} of {short(item.change)} is {item.state}")
        for item in kept
        if item.change and item.state in ("damaged", "missing")
    ]
    return out


def differences(desk: Desk, host: Host, file: PlannedFile, target: Target) -> tuple[str, ...]:
    """`diff BACKUP LIVE` as the host prints it after an undo that kept later edits: the proof that these are all."""
    assert file.backup is not None
    # The backup may hold secrets that no later line has: the masker must know them before `diff` is shown.
    desk.masker.content(Reading.of(host.read(file.backup).content, target.dialect))
    done = host.run(("diff", file.backup, target.path), timeout_s=60)
    return tuple(
        desk.masker.text(line) for line in done.stdout.decode("utf-8", "surrogateescape").splitlines()
    )


def _version(desk: Desk, target: Target, host: HostOf, name: str) -> tuple[bytes, str]:
    """The bytes that `live`, `recorded`, a change (as it left the file) or a backup's name stands for."""
    if name == "live":
        return host(target.host).read(target.path).content, "live"
    if name == "recorded":
        known = desk.state.files.get(target.name)
        if known is None:
            raise Unknown(
                f"nothing is recorded of {target.name!r}", hint=f"`knob status {target.name}` reads it"
            )
        return _stored(desk, target, known.digest), f"as recorded {known.at}"
    backup = change_of_backup(desk.state, name)
    if backup is not None:
        path = backup_of(desk.state, backup, target.name)
        if path is not None:
            return host(target.host).read(path).content, path
    change = _change(desk, name)
    file = desk.state.plans[change].file_of(target.name)
    if file is None:
        raise Refused(
            f"change {short(change)} did not touch {target.name!r}", hint=f"`knob show {short(change)}`"
        )
    return _stored(desk, target, file.result), f"as left by {short(change)}"


def _change(desk: Desk, name: str) -> EventId:
    back = steps_back(name)
    if back is not None and back < len(desk.state.changes):
        return desk.state.changes[-1 - back]
    id_ = desk.ledger.resolve(name)
    about = id_ if id_ in desk.state.plans else getattr(desk.state.events[id_], "plan", id_)
    if about not in desk.state.plans:
        raise Unknown(
            f"{name!r} is no change and no backup of this target", hint="`knob log`, `knob backups TARGET`"
        )
    return EventId(about)


def _stored(desk: Desk, target: Target, digest: Digest) -> bytes:
    content = desk.snapshots.get(digest)
    if content is None:
        raise Refused(
            f"the bytes {short(digest)} of {target.name} are not among the snapshots of this workspace",
            hint=f"`knob backups {target.name}` lists those on the host",
        )
    return content


def _live(desk: Desk, target: Target, host: Host) -> tuple[TargetStatus, int]:
    known = desk.state.files.get(target.name)
    try:
        remote = host.read(target.path)
    except KnobError as error:
        failed = _status(target, None, None, known is not None, ())
        return replace(failed, error=error.message, hint=error.hint), error.exit_code
    drift = known is not None and known.digest != remote.digest
    line = _status(target, remote.digest, drift, known is not None, _knobs(desk, target, remote.content))
    if drift and (doubts := desk.state.doubts_on(target.name)):
        # Whose bytes these are is not known before that attempt is settled.
        line = replace(line, drift=None, in_doubt=doubts[0].started.plan)
    return line, 0


def _recorded(desk: Desk, target: Target) -> TargetStatus:
    known = desk.state.files.get(target.name)
    content = desk.snapshots.get(known.digest) if known else None
    knobs = _knobs(desk, target, content) if content is not None else ()
    return _status(target, known.digest if known else None, None, known is not None, knobs)


def _knobs(desk: Desk, target: Target, content: bytes) -> tuple[KnobLine, ...]:
    reading = Reading.of(content, target.dialect)
    return tuple(knob_line(desk.state, target.name, item, desk.masker) for item in reading.occurrences)


def _status(
    target: Target,
    digest: Digest | None,
    drift: bool | None,
    recorded: bool,
    knobs: tuple[KnobLine, ...],
) -> TargetStatus:
    return TargetStatus(target.name, target.path, digest, drift, recorded, None, knobs)


def _with_restarts(line: TargetStatus, serving: Serving) -> TargetStatus:
    """The same, with what is known of its service's restarts."""
    owed = serving.owed.get(line.target)
    unhealthy = serving.unhealthy.get(line.target.partition(":")[0])
    return replace(
        line,
        restart_owed=True if owed else False if line.target in serving.current else None,
        owed_by=tuple(owed.changes) if owed else (),
        owed_since=owed.since if owed else "",
        seen=owed.seen if owed else "",
        unhealthy=unhealthy.reason if unhealthy else "",
    )


def side_by_side(
    desk: Desk, targets: Sequence[Target], hosts: HostOf, ask: Callable[[Desk, Target, Host], T]
) -> list[T]:
    """Asks every target, hosts at the same time, the targets of one host one after the other."""
    by_host: dict[str, list[int]] = {}
    for i, target in enumerate(targets):
        by_host.setdefault(target.host, []).append(i)
    answers: dict[int, T] = {}

    def visit(name: str) -> None:
        for i in by_host[name]:
            answers[i] = ask(desk, targets[i], hosts(name))

    with ThreadPoolExecutor(max_workers=min(HOSTS_AT_ONCE, max(1, len(by_host)))) as pool:
        list(pool.map(visit, by_host))
    return [answers[i] for i in range(len(targets))]
