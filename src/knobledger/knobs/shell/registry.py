"""What a walk has found: sites, candidates for the launch, notes."""

from __future__ import annotations

from bisect import bisect_right
from collections.abc import Mapping, Sequence
from itertools import accumulate
from typing import Literal

from knobledger.knobs.occurrence import Dialect, Note, Scope
from knobledger.knobs.shell.flags import Flag, flags_of
from knobledger.knobs.shell.frame import Frame
from knobledger.knobs.shell.launches import Candidate
from knobledger.knobs.shell.parse import parse_within
from knobledger.knobs.shell.source import Source
from knobledger.knobs.shell.state import Arg
from knobledger.knobs.shell.syntax import Comment, Fault, Script, Statement
from knobledger.knobs.shell.tokens import READS
from knobledger.knobs.site import Site

PROGRAMS = 2_000
"""How many nested texts are read as programs."""
WORK = 400_000
"""How much work a walk may be: a command counts 5, and 1 each argument, element and assignment that is looked at again.
A bound on what hostile text can cost, counted and not timed, so that a file is read or refused on every machine alike."""
NESTED = 3
"""How many shells deep a text is read."""


class TooMuch(Exception):
    """The walk is more work than any script is worth."""


class Registry:
    """Collects the findings of one walk."""

    def __init__(self, dialect: Dialect, sources: Mapping[str, bytes]) -> None:
        self.dialect = dialect
        self.sources = sources
        self.sites: dict[tuple[str | None, int, int, str], Site] = {}
        self.candidates: dict[tuple[str | None, int], Candidate] = {}
        self.work = WORK
        """what is left of it"""
        self.reads = READS
        """what is left of the work of parsing, all nested texts together"""
        self.notes: dict[Note, None] = {}
        self.comments: list[tuple[Source, Comment]] = []
        self.faults: list[Fault] = []
        self.exported: set[str] = set()
        self.top: Statement | None = None
        """the statement of the file itself that is being walked"""
        self.tops: dict[tuple[str | None, int], Statement] = {}
        """by candidate, the statement of the file itself that holds or calls it"""
        self.exports: list[Statement] = []
        """the statements of the file itself that export"""
        self.references: dict[str, str] = {}
        """what each name that was declared with `-n` stands for"""
        self.looped: dict[str, tuple[str, ...]] = {}
        """the words that are known of what each loop's variable takes in turn"""
        self.gave_up = False
        self.source = Source("")
        self._lines: dict[str, list[int]] = {}
        self._scripts: list[Script] = []
        self._marks: dict[int, tuple[int, object]] = {}

    def charge(self, work: int) -> None:
        """Count work. Raises TooMuch."""
        self.work -= work
        if self.work < 0:
            raise TooMuch

    def parse(self, source: Source, nested: int = 0) -> Script | None:
        """The syntax tree of a text; None if too much was read already."""
        if nested > NESTED or len(self._scripts) > PROGRAMS:
            self.gave_up = True
            return None
        self.charge(len(source.text) // 50)
        script, self.reads = parse_within(source, self.reads)
        self._scripts.append(script)
        if not nested:
            self.comments.extend((source, comment) for comment in script.comments)
            if source.file is None:
                self.faults.extend(script.faults)
        return script

    def mark(self, node: object) -> int:
        """A number for an arm or a function, the same each time that the walk comes there."""
        # The node is kept, for the identity of a dead one may be given out again.
        return self._marks.setdefault(id(node), (len(self._marks) + 1, node))[0]

    def line(self, source: Source, position: int) -> int:
        """The line, from 1, of a position in a source, in the file that holds it."""
        return self.line_of(source.span(position, position + 1)[0])

    def line_of(self, offset: int) -> int:
        """The line, from 1, of a byte offset in the main file."""
        lines = self._lines.get("")
        return bisect_right(lines, offset) if lines else 0

    def set_text(self, text: str) -> None:
        """The main file's text, for line numbers."""
        lines = text.split("\n")
        self._lines[""] = [0, *accumulate(len(line) + 1 for line in lines[:-1])]

    def note(self, line: int, message: str) -> None:
        """Warn of something, once."""
        self.notes[Note(line, message)] = None

    def site(self, site: Site) -> Site:
        """The one site at that place: the walk may come there more than once."""
        known = self.sites.setdefault((site.file, *site.span, site.name), site)
        if known is not site and not known.path and site.path:
            known.path = site.path
        return known

    def flag_sites(
        self,
        args: Sequence[Arg],
        frame: Frame,
        usual: Scope,
        form: Literal["flag", "array", "string", "set"],
        statement: tuple[int, int],
    ) -> list[tuple[Flag, Site]]:
        """The flags among `args` with their sites. `usual` is the scope of those that no construct holds."""
        self.charge(6 * len(args))
        found = []
        for flag in flags_of(args):
            scope = flag.arg.scope or frame.scope or usual
            path = flag.arg.path if flag.arg.scope is not None else frame.path
            value = flag.value
            text = None if value is None else value.text
            site = Site(
                flag.name,
                "flag",
                text,
                flag.span,
                flag.whole,
                flag.slot,
                scope,
                form if form != "flag" else ("flag" if value is None or flag.slot.word else "flag="),
                statement,
                dynamic=value is not None and text is None,
                bare=value is None,
                overridable=value is not None and value.overridable,
                depends=frame.depends,
                file=flag.file,
                path=path,
                why_dynamic=value.why if value is not None else "",
            )
            found.append((flag, self.site(site)))
        return found
