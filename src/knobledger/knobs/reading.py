"""Reading a file: its bytes to occurrences, and what decides each knob."""

from __future__ import annotations

import re
from bisect import bisect_left, bisect_right
from collections.abc import Container, Mapping, Sequence
from functools import cached_property

from msgspec import Struct, field

from knobledger.knobs.occurrence import Dialect, Launch, Note, Occurrence, Scope
from knobledger.knobs.site import SITES, Choice, Site

LIMIT = 500_000
"""The longest file that is read, in bytes: a serve script is a hundred times shorter."""


class Insertion(Struct, frozen=True):
    """Where `add` may put something in a shell file; all are byte offsets in it."""

    launch: int
    """of the launch's command word"""
    top: int
    """of the statement of the file itself that holds or calls the launch"""
    exports_end: int
    """behind the last top-level export before that; -1 if there is none"""
    arguments_end: int
    """behind the last word of the launch"""
    image: int | None
    """of a container's image"""
    cleared: bool
    nested: bool
    path: tuple[int, ...] = ()
    """the arms and functions around it"""


class Reading(Struct, frozen=True, eq=False, dict=True):
    """What one file says about its knobs. Pure: a function of the bytes and the arguments of `of`."""

    content: bytes
    dialect: Dialect
    warnings: tuple[Note, ...]
    launches: tuple[Launch, ...]
    sites: tuple[Site, ...] = ()
    """behind each occurrence, in the same order: how to write there"""
    winners: frozenset[Site] = frozenset()
    seen: tuple[Mapping[str, tuple[Choice, ...]], ...] = ()
    """per launch (or once, for the end of the file), what may decide each name; None among it: nothing in the file"""
    hidden: Mapping[str, str] = field(default_factory=dict)
    """names that the launches do not see, and why"""
    faults: tuple[tuple[int, int, str], ...] = ()
    """stretches of bytes that could not be read, and why"""
    insertions: tuple[Insertion, ...] = ()
    picked: int = 0
    """index of the launch that `wins` is about"""
    sources: Mapping[str, bytes] = field(default_factory=dict)
    work: int = 0
    """what reading a shell file took, in counted steps; they are bounded (shell/registry.py)"""

    @staticmethod
    def of(
        content: bytes,
        dialect: Dialect,
        *,
        sources: Mapping[str, bytes] | None = None,
        launch: int | None = None,
    ) -> Reading:
        """Read `content`. `sources` are side files by the name that the file uses for them; `launch` is the line of
        the launch that `wins` is about, else the first. Never raises: what can't be read is a warning."""
        sides = dict(sources or {})
        if len(content) > LIMIT:
            message = f"longer than {LIMIT} bytes: too long to be followed"
            fault = (0, len(content), message)
            return Reading(
                content, dialect, (Note(1, message),), (), seen=({},), faults=(fault,), sources=sides
            )
        match dialect:
            case Dialect.BASH | Dialect.SH | Dialect.ENV:
                return _shell(content, dialect, sides, launch)
            case Dialect.ENV_DOCKER | Dialect.ENV_SYSTEMD:
                return _env(content, dialect, sides)
            case Dialect.UNIT:
                return _unit(content, sides)

    @cached_property
    def occurrences(self) -> tuple[Occurrence, ...]:
        """In the order of the text, side files last."""
        # Made when somebody looks: an edit needs few of them.
        return self._told(self.sites)

    def occurrences_of(self, names: Container[str]) -> tuple[Occurrence, ...]:
        """The occurrences of these names, in the same order."""
        return self._told([site for site in self.sites if site.name in names])

    def _told(self, sites: Sequence[Site]) -> tuple[Occurrence, ...]:
        starts: dict[str | None, list[int]] = {None: _line_starts(self.content)}
        starts.update((key, _line_starts(side)) for key, side in self.sources.items())
        return tuple(
            _occurrence(
                site,
                self.content if site.file is None else self.sources[site.file],
                starts[site.file],
                site in self.winners,
                self.launches,
            )
            for site in sites
        )

    def decided(self) -> dict[str, Occurrence]:
        """Per name the occurrence that wins; with no launch, the last active unconditional one."""
        found: dict[str, Occurrence] = {}
        for occurrence in self.occurrences:
            if occurrence.wins:
                found[occurrence.name] = occurrence
        for occurrence in self.occurrences:
            if occurrence.name not in found and occurrence.wins_for:
                found[occurrence.name] = occurrence
        return found

    def line_of(self, offset: int) -> int:
        """The line, from 1, of a byte offset."""
        return self.content.count(b"\n", 0, offset) + 1


def dialect_of(path: str, content: bytes) -> Dialect:
    """What reads the file, by its name and first line."""
    name = path.rpartition("/")[2]
    folder = path.rpartition("/")[0]
    suffix = name.rpartition(".")[2] if "." in name else ""
    if suffix in ("service", "socket", "timer", "mount", "target") or (
        suffix == "conf" and folder.endswith(".d")
    ):
        return Dialect.UNIT
    if name in ("nccl.conf", ".nccl.conf"):
        # NAME=VALUE without quotes, `#` begins a comment: what docker's reader does, too.
        return Dialect.ENV_DOCKER
    if suffix == "env" or name == ".env" or name.startswith(".env."):
        return Dialect.ENV
    first = content.removeprefix(b"\xef\xbb\xbf").partition(b"\n")[0]
    if first.startswith(b"#!"):
        words = [word.rpartition(b"/")[2] for word in first[2:].split()]
        shell = next((word for word in words if word != b"env" and not word.startswith(b"-")), b"")
        if shell in (b"sh", b"dash", b"ash"):
            return Dialect.SH
    return Dialect.BASH


def prepare(dialect: Dialect) -> None:
    """Loads what reading and editing such a file will want; for a moment in which nothing else can be done."""
    if dialect in (Dialect.BASH, Dialect.SH):
        import knobledger.knobs.editing
        import knobledger.knobs.shell.read  # noqa: F401
        from knobledger.knobs.witness import parser

        parser()


def _shell(content: bytes, dialect: Dialect, sources: Mapping[str, bytes], launch: int | None) -> Reading:
    # Imported here: the parser is only loaded where a shell file is really read.
    from knobledger.knobs.shell.read import read_shell

    found = read_shell(content, dialect, sources)
    insertions = []
    for candidate, top in zip(found.candidates, found.tops, strict=True):
        start = _line_top(content, top.start if top is not None else candidate.position, found.top_starts)
        exports = [statement.end for statement in found.exports if statement.end <= start]
        node = candidate.node
        ends = [node.source.span(word.start, word.end)[1] for word in node.words]
        insertions.append(
            Insertion(
                candidate.position,
                start,
                max(exports, default=-1),
                max(ends, default=candidate.position),
                candidate.image,
                candidate.cleared,
                candidate.nested,
                candidate.path,
            )
        )
    return _assemble(
        content,
        dialect,
        found.sites,
        [{name: tuple(choices) for name, choices in names.items()} for names in found.seen],
        found.launches,
        found.notes,
        sources,
        launch,
        hidden=found.hidden,
        faults=tuple((fault.start, fault.end, fault.message) for fault in found.faults),
        insertions=tuple(insertions),
        work=found.work,
    )


def _line_top(content: bytes, start: int, tops: list[int]) -> int:
    """The first statement of the file itself on the line of `start`, if the line begins with one."""
    line = content.rfind(b"\n", 0, start) + 1
    index = bisect_left(tops, line)
    if index < len(tops) and tops[index] <= start and not content[line : tops[index]].strip(b" \t"):
        return tops[index]
    return start


def _env(content: bytes, dialect: Dialect, sources: Mapping[str, bytes]) -> Reading:
    from knobledger.knobs.envfile import read_env

    found = read_env(content, dialect)
    seen: dict[str, tuple[Choice, ...]] = {name: (site,) for name, site in found.winners.items()}
    return _assemble(content, dialect, list(found.sites), [seen], [], list(found.notes), sources, None)


def _unit(content: bytes, sources: Mapping[str, bytes]) -> Reading:
    from knobledger.knobs.unit import read_unit

    found = read_unit(content.decode("latin-1"), sources)
    seen: dict[str, tuple[Choice, ...]] = {name: (site,) for name, site in found.winners.items()}
    return _assemble(
        content, Dialect.UNIT, found.sites, [seen], found.launches[:1], found.notes, sources, None
    )


def _assemble(
    content: bytes,
    dialect: Dialect,
    sites: list[Site],
    seen: Sequence[Mapping[str, tuple[Choice, ...]]],
    launches: list[Launch],
    notes: list[Note],
    sources: Mapping[str, bytes],
    launch: int | None,
    *,
    hidden: Mapping[str, str] | None = None,
    faults: tuple[tuple[int, int, str], ...] = (),
    insertions: tuple[Insertion, ...] = (),
    work: int = 0,
) -> Reading:
    if len(sites) > SITES:
        message = f"more than {SITES} knobs: too many to be followed"
        faults = (*faults, (0, len(content), message))
        sites, seen, launches, insertions = [], [{}], [], ()
        notes = [*notes, Note(1, message)]
    picked = 0
    if launch is not None:
        picked = next((index for index, found in enumerate(launches) if found.line == launch), 0)
    wins: set[Site] = set()
    for index, names in enumerate(seen):
        for choices in names.values():
            _judge(choices, index, index == picked, wins)
    ordered = sorted(sites, key=lambda site: (site.file is not None, site.file or "", site.span, site.name))
    return Reading(
        content,
        dialect,
        tuple(notes),
        tuple(launches),
        tuple(ordered),
        frozenset(wins),
        tuple(seen),
        hidden or {},
        faults,
        insertions,
        picked,
        sources,
        work,
    )


def _judge(choices: tuple[Choice, ...], index: int, picked: bool, wins: set[Site]) -> None:
    real = [choice for choice in choices if choice is not None]
    if not real:
        return
    if len(choices) == 1:
        winner = real[0]
        if winner.path and any(winner.path):
            winner.depends = True
        winner.wins_for.append(index)
        if picked:
            wins.add(winner)
        return
    for site in real:
        site.depends = True
    if None not in choices:
        likely = min(real, key=lambda site: (len(site.path), -site.span[0]))
        likely.wins_for.append(index)
        if picked:
            wins.add(likely)


def _line_starts(content: bytes) -> list[int]:
    return [0, *(match.end() for match in re.finditer(b"\n", content))]


def _occurrence(
    site: Site, content: bytes, starts: list[int], wins: bool, launches: Sequence[Launch]
) -> Occurrence:
    start, end = site.span
    # A bare flag has no value: it stands where its name does.
    anchor = site.whole[0] if site.bare else start
    line = bisect_right(starts, anchor)
    return Occurrence(
        name=site.name,
        kind=site.kind,
        value=site.value,
        raw=content[start:end].decode("utf-8", "surrogateescape"),
        line=line,
        column=anchor - starts[line - 1] + 1,
        span=site.span,
        active=site.active,
        wins=wins,
        scope=site.scope,
        form=site.form,
        dynamic=site.dynamic,
        bare=site.bare,
        overridable=site.overridable,
        depends=site.depends or (site.active and site.scope is Scope.FUNCTION),
        file=site.file,
        wins_for=tuple(launches[index].line for index in site.wins_for if index < len(launches)),
    )
