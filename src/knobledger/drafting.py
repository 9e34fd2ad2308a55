"""From a wish to a plan: read the host, record what is new there, edit or merge, write the plan down.

A plan is made on the bytes that are on the host now. Nothing on the host is changed here.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable, Mapping, Sequence
from datetime import timedelta

from msgspec import Struct, field

from knobledger.author import Author
from knobledger.binding import Binding
from knobledger.diff import unified
from knobledger.errors import KnobError, KnobRefused, Refused, together
from knobledger.event import stamp
from knobledger.events.changes import Planned, Settled
from knobledger.events.entry import Event
from knobledger.hosts.config import Target
from knobledger.hosts.host import RemoteFile
from knobledger.knobs import (
    Dialect,
    Edited,
    KnobEdit,
    Masker,
    Reading,
    Request,
    SyntaxCheck,
    changed_knobs,
    edit,
)
from knobledger.ledger.snapshots import Snapshots
from knobledger.ledger.store import Ledger
from knobledger.ledger.turns import Turns
from knobledger.names import Digest, EventId, HostPath, TargetName, digest_of, short
from knobledger.plan import Ask, Edit, LaterEdit, PlannedFile, Policy, Purpose, RestartScope, Verb, strictest
from knobledger.quoting import quote
from knobledger.state import State


class Desk(Struct):
    """What making and applying plans needs at hand; one per command. Threads may write at the same time."""

    ledger: Ledger
    snapshots: Snapshots
    state: State
    masker: Masker
    author: Author
    syntax: SyntaxCheck | None = None
    sign: Callable[[Planned], Planned] | None = None
    """puts the planner's signature on a plan that needs two persons"""
    binding: Binding | None = None
    """what a plan is bound to beside bytes"""
    settles: bool = True
    """may find out and record what became of attempts without an outcome"""
    _readings: dict[tuple[Digest, Dialect], Reading] = field(default_factory=dict)
    _turns: Turns = field(default_factory=Turns)

    def write(self, event: Event) -> EventId:
        """Appends an event to the ledger, then to the state: for all threads in the same order."""
        return self.write_each([event])[0]

    def write_each(self, events: Sequence[Event]) -> list[EventId]:
        """`write` for several."""
        return self._turns.append_each(self.ledger, events, lambda id_, event: self.state.add(id_, event))

    def propose(self, planned: Planned) -> tuple[EventId, Planned]:
        """Writes a plan down, with its planner's signature where two persons are asked for."""
        if planned.policy == "two-person" and self.sign:
            planned = self.sign(planned)
        return self.write(planned), planned

    def reading(self, content: bytes, dialect: Dialect) -> Reading:
        """What is in these bytes; read once, on however many hosts they lie. The masker knows their secrets then."""
        key = digest_of(content), dialect
        if key not in self._readings:
            reading = Reading.of(content, dialect)
            self.masker.content(reading)
            self._readings[key] = reading
        return self._readings[key]


class Options(Struct, frozen=True):
    """How a change is to be made, and why; the same for every verb."""

    add: bool = False
    line: int | None = None
    force: bool = False
    in_place: bool = False
    exact: bool = False
    why: str = ""
    hypotheses: tuple[str, ...] = ()
    purpose: Purpose | None = None
    """None: nobody said; it is `other`, or a mitigation where something is taken away under a hypothesis"""
    label: str = ""
    restart: RestartScope = "none"
    confirm_within_s: int = 0
    roll_back_on_failure: bool = False
    despite: str = ""
    expires_in: timedelta = timedelta(hours=24)
    batches: tuple[str, ...] = ()
    max_failures: int = 0
    skip_unreachable: bool = False
    at_least: Policy = "confirm"
    """what the services ask for that are restarted with it; the targets may ask for more"""


class Seen(Struct, frozen=True):
    """A target as the host holds it now."""

    target: Target
    remote: RemoteFile
    reading: Reading
    drifted_from: Digest | None = None


class Draft(Struct, frozen=True):
    """A plan that was written down, or None where every target already is as wished."""

    plan: EventId | None
    planned: Planned | None
    seen: tuple[Seen, ...] = ()
    remarks: tuple[str, ...] = ()


class Sketch(Struct):
    """One target's part of a plan in the making; undoing fills in the fields about later edits and the backup."""

    seen: Seen
    content: bytes
    edits: tuple[KnobEdit, ...]
    warnings: tuple[str, ...] = ()
    later: tuple[LaterEdit, ...] = ()
    clean: bool = False
    backup: HostPath | None = None
    backup_digest: Digest | None = None
    names: tuple[str, ...] = ()


def draft_edit(
    desk: Desk,
    verb: Verb,
    targets: Sequence[Seen],
    requests: Sequence[Request],
    options: Options,
    left_out: Mapping[TargetName, KnobError] | None = None,
) -> Draft:
    """Plans knob edits on every target; those that are as wished already are left out.

    `left_out` are targets of the wish that could not be reached; the plan names them. Raises for all targets
    at once what is wrong with any (`together`).
    """
    sketches = []
    asks = tuple(_ask(desk.masker, request) for request in requests)
    edits: dict[tuple[Digest, Dialect], Edited | KnobError] = {}
    refused: dict[str, KnobError] = {}
    for seen in targets:
        key = seen.remote.digest, seen.target.dialect
        if key not in edits:
            edits[key] = _edited(desk, seen, requests, options)
        match edits[key]:
            case Edited() as edited:
                sketches.append(Sketch(seen, edited.content, edited.edits, edited.warnings))
            case KnobError() as error:
                refused[seen.target.name] = error
    if refused:
        raise together(refused, len(targets))
    return write_plan(desk, verb, sketches, options, asks=asks, left_out=left_out)


def _edited(desk: Desk, seen: Seen, requests: Sequence[Request], options: Options) -> Edited | KnobError:
    try:
        return edit(
            seen.reading, requests, add=options.add, line=options.line, force=options.force, check=desk.syntax
        )
    except KnobRefused as error:
        return error.listed_by(f"knob status {quote(seen.target.name)}")
    except KnobError as error:
        return error


def _ask(masker: Masker, request: Request) -> Ask:
    """A request as it may be stored; its value is known to the masker from then on."""
    secret = request.value is not None and masker.is_secret(request.name, request.value)
    return Ask(name=request.name, value=masker.value(request.name, request.value), secret=secret)


def draft_content(desk: Desk, seen: Seen, content: bytes, options: Options) -> Draft:
    """Plans a file as somebody wrote it in an editor."""
    after = Reading.of(content, seen.target.dialect)
    if desk.syntax and (complaint := desk.syntax(content, seen.target.dialect)):
        before = desk.syntax(seen.remote.content, seen.target.dialect)
        if complaint != before:
            raise Refused(
                f"the edited file has a syntax error: {desk.masker.text(complaint)}",
                hint="nothing was planned; edit again",
            )
    edits = changed_knobs(seen.reading, after)
    return write_plan(desk, "edit", [Sketch(seen, content, edits)], options)


def write_plan(
    desk: Desk,
    verb: Verb,
    sketches: Sequence[Sketch],
    options: Options,
    *,
    asks: tuple[Ask, ...] = (),
    undoes: EventId | None = None,
    left_out: Mapping[TargetName, KnobError] | None = None,
) -> Draft:
    """Writes snapshots, then the plan that needs them."""
    seen = tuple(sketch.seen for sketch in sketches)
    wanted = [sketch for sketch in sketches if sketch.content != sketch.seen.remote.content]
    remarks = tuple(_remarks(desk, sketches))
    if not wanted:
        return Draft(None, None, seen, remarks)
    for sketch in wanted:
        desk.snapshots.put(sketch.seen.remote.content)
        desk.snapshots.put(sketch.content)
    shown: dict[tuple[object, ...], _Shown] = {}
    planned = Planned(
        **desk.author.signs(),
        verb=verb,
        files=tuple(_planned_file(desk, sketch, shown) for sketch in wanted),
        asks=asks,
        why=desk.masker.text(options.why),
        hypotheses=options.hypotheses,
        purpose=options.purpose or "other",
        label=options.label,
        undoes=undoes,
        exact=options.exact,
        add=options.add,
        line=options.line,
        force=options.force,
        in_place=options.in_place,
        despite=desk.masker.text(options.despite),
        restart=options.restart,
        confirm_within_s=options.confirm_within_s,
        roll_back_on_failure=options.roll_back_on_failure,
        policy=strictest((options.at_least, *(sketch.seen.target.approval for sketch in wanted))),
        expires=stamp(desk.author.now() + options.expires_in),
        warnings=tuple(dict.fromkeys(desk.masker.text(text) for text in _warnings(wanted, left_out or {}))),
        batches=options.batches,
        max_failures=options.max_failures,
        services=desk.binding.services([sketch.seen.target.name for sketch in wanted], options.restart)
        if desk.binding
        else (),
    )
    id_, planned = desk.propose(planned)
    return Draft(id_, planned, seen, remarks)


_Shown = tuple[tuple[Edit, ...], str]
"""edits and difference as they are stored"""


def _planned_file(desk: Desk, sketch: Sketch, shown: dict[tuple[object, ...], _Shown]) -> PlannedFile:
    """`shown` keeps what is the same for all hosts on which the same bytes become the same others."""
    seen = sketch.seen
    dialect, path = seen.target.dialect, seen.target.path
    key = (seen.remote.digest, sketch.content, dialect, path, sketch.edits)
    if key not in shown:
        after = desk.reading(sketch.content, dialect)
        shown[key] = (
            masked_edits(desk.masker, sketch.edits),
            masked_diff(desk.masker, seen.reading, after, path),
        )
    edits, diff = shown[key]
    return PlannedFile(
        target=seen.target.name,
        path=seen.target.path,
        resolved=seen.remote.manifest.resolved,
        dialect=seen.target.dialect.value,
        edits=edits,
        base=seen.remote.digest,
        result=digest_of(sketch.content),
        diff=diff,
        lines=sketch.names or tuple(edit.name for edit in edits),
        clean=sketch.clean,
        backup=sketch.backup,
        backup_digest=sketch.backup_digest,
        later_edits=sketch.later,
        drifted_from=seen.drifted_from,
        way=desk.binding.way(seen.target.host) if desk.binding else "",
    )


def _warnings(sketches: Sequence[Sketch], left_out: Mapping[TargetName, KnobError]) -> Iterable[str]:
    for sketch in sketches:
        yield from sketch.warnings
    for target, error in left_out.items():
        yield f"{target} is left out: {error.message}"


def _remarks(desk: Desk, sketches: Sequence[Sketch]) -> Iterable[str]:
    for seen in (sketch.seen for sketch in sketches):
        name = seen.target.name
        for id_ in desk.ledger.written:
            event = desk.state.events[id_]
            if isinstance(event, Settled) and event.target == name:
                yield f"{short(event.plan)} on {name} had no outcome in the ledger: {_FOUND[event.outcome]}"
        if not seen.drifted_from:
            continue
        torn = desk.state.torn_on(name, seen.remote.digest)
        yield (
            f"{name} {'is not as its last entry left it' if torn else 'was changed by hand since its last entry'}; "
            "that is recorded as observed, and this plan is made on the bytes that are there now"
        )


_FOUND = {
    "applied": "the file holds what it was to write, so it is recorded as applied",
    "unchanged": "the file is as it was before, so it is recorded as not done",
    "overwritten": "the file holds neither what was before nor what it was to write",
}


def masked_edits(masker: Masker, edits: Sequence[KnobEdit]) -> tuple[Edit, ...]:
    """Edits as they may be stored and shown."""
    return tuple(
        Edit(
            name=item.name,
            kind=item.kind,
            before=masker.value(item.name, item.before),
            after=masker.value(item.name, item.after),
        )
        for item in edits
    )


def masked_diff(masker: Masker, before: Reading, after: Reading, path: HostPath) -> str:
    """The unified difference of two readings of one file, secrets masked."""
    return unified(masker.content(before), masker.content(after), path)
