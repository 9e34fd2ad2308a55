"""Reading a shell file as a whole: the walk, then who wins for which launch."""

from __future__ import annotations

from collections.abc import Mapping

from msgspec import Struct, field
from msgspec.structs import replace

from knobledger.collecting import no_collection
from knobledger.knobs.occurrence import Dialect, Launch, Note, Scope
from knobledger.knobs.shell.comments import commented
from knobledger.knobs.shell.frame import Frame, Ways
from knobledger.knobs.shell.launches import Candidate, choose
from knobledger.knobs.shell.registry import WORK, TooMuch
from knobledger.knobs.shell.source import Source
from knobledger.knobs.shell.state import State
from knobledger.knobs.shell.syntax import Fault, Statement
from knobledger.knobs.shell.tokens import READS
from knobledger.knobs.shell.walk import Walker
from knobledger.knobs.shell.warn import warnings
from knobledger.knobs.site import SITES, Choice, Site


class ShellFound(Struct):
    """What a shell file holds."""

    sites: list[Site]
    launches: list[Launch]
    seen: list[dict[str, list[Choice]]]
    """per launch (or once, for the end of the file, if there is none), what may decide each name"""
    hidden: dict[str, str]
    notes: list[Note]
    faults: list[Fault]
    candidates: list[Candidate] = field(default_factory=list)
    tops: list[Statement | None] = field(default_factory=list)
    """per launch, the statement of the file itself that holds or calls it"""
    exports: list[Statement] = field(default_factory=list)
    top_starts: list[int] = field(default_factory=list)
    work: int = 0
    """how much of `READS` and `WORK` was used"""


def read_shell(content: bytes, dialect: Dialect, sources: Mapping[str, bytes]) -> ShellFound:
    """Read a shell script, or a file that a shell sources under `set -a`."""
    text = content.decode("latin-1")
    with no_collection():
        return _read(Source(text), text, dialect, sources, Frame())


def read_string(source: Source, text: str) -> ShellFound:
    """Read a string that a shell is given; `text` is the file that holds it, as Latin-1."""
    return _read(source, text, Dialect.BASH, {}, Frame(scope=Scope.SUBSHELL))


def _read(
    source: Source, text: str, dialect: Dialect, sources: Mapping[str, bytes], frame: Frame
) -> ShellFound:
    walker = Walker(dialect, sources)
    walker.set_text(text)
    script = walker.parse(source)
    assert script is not None
    walker.source = source
    state = State(allexport="yes" if dialect is Dialect.ENV else "no")
    try:
        if dialect is Dialect.ENV:
            # Whoever sources it goes on behind a `return`.
            way, ways = state.copy(), Ways(state, call=True)
            walker.statements(script.body, way, replace(frame, ways=ways))
            state.join([way, *ways.left])
        else:
            walker.statements(script.body, state, frame)
        walker.uncalled(state, frame)
        candidates = choose(list(walker.candidates.values()))
    except TooMuch:
        # What was found so far is only listed: nothing decides, and nothing is edited.
        walker.gave_up = True
        state, candidates = State(), []
    seen = [candidate.seen for candidate in candidates]
    hidden: dict[str, str] = {}
    for candidate in candidates:
        hidden.update(candidate.hidden)
    if not candidates:
        seen = [_at_the_end(state, exported_only=dialect is Dialect.ENV)]
    chosen = set(map(id, candidates))
    unchosen = {
        id(site)
        for candidate in walker.candidates.values()
        if id(candidate) not in chosen and (candidate.called or candidate.rank < 2)
        for site in candidate.flags
        if site.form in ("flag", "flag=") and site.scope is not Scope.HEREDOC
    }
    kept = {id(site) for candidate in candidates for site in candidate.flags}
    sites = [site for site in walker.sites.values() if id(site) not in unchosen or id(site) in kept]
    programs = {candidate.command.partition(" ")[0] for candidate in candidates}
    for comment_source, comment in walker.comments:
        if len(sites) > SITES:
            break
        for site in commented(comment_source, comment.start, comment.end, programs):
            sites.append(site)
    for site in sites:
        if site.scope is Scope.SHELL and site.kind == "env" and site.name in walker.exported:
            site.scope = Scope.EXPORT
    launches = [Launch(walker.line_of(candidate.position), candidate.command) for candidate in candidates]
    faults = list(walker.faults)
    notes = [*walker.notes, *warnings(text, walker, sites, seen, launches)]
    if walker.gave_up:
        faults.append(Fault(0, len(text), "too much is nested or repeated to be followed"))
    return ShellFound(
        sites,
        launches,
        seen,
        hidden,
        sorted(set(notes), key=lambda note: (note.line, note.message)),
        faults,
        candidates,
        [walker.tops.get((candidate.file, candidate.position)) for candidate in candidates],
        walker.exports,
        [statement.start for statement in script.body],
        READS - walker.reads + WORK - walker.work,
    )


def _at_the_end(state: State, *, exported_only: bool) -> dict[str, list[Choice]]:
    """What a program started behind the last line would see; for a file that starts none itself."""
    return {
        name: list(variable.choices)
        for name, variable in state.all().items()
        if any(choice is not None for choice in variable.choices)
        and (variable.exported != "no" or not exported_only)
    }
