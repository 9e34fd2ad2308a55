"""Where in a script the walk is."""

from __future__ import annotations

from msgspec import Struct, field

from knobledger.knobs.occurrence import Scope
from knobledger.knobs.shell.state import State


class Ways(Struct):
    """A loop, or a call of a function or a sourced file, and the ways that leave it before its last command."""

    base: State
    """the variables before it, which nothing changes while it is walked"""
    outer: Ways | None = None
    """the loop or call around it"""
    call: bool = False
    left: list[State] = field(default_factory=list)
    """behind each `break`, or `return`"""
    again: list[State] = field(default_factory=list)
    """behind each `continue`"""


class Frame(Struct, frozen=True, gc=False):
    """What surrounds the command that is being walked."""

    scope: Scope | None = None
    """the innermost construct that gives a scope, or None at the top"""
    path: tuple[int, ...] = ()
    """the arms, functions and heredocs around it, outermost first"""
    called: bool = True
    """False in a function that nothing calls, and in text for another file"""
    calls: int = 0
    loops: int = 0
    background: bool = False
    pipeline: bool = False
    nested: int = 0
    """how many shells more than the file's own read it"""
    sources: int = 0
    depends: bool = False
    """another program decides whether it runs"""
    uses: frozenset[str] = frozenset()
    """variables that the text itself was made of"""
    ways: Ways | None = None
    """the loop or call that `break`, `continue` and `return` leave; None in a subshell, where they end only that"""

    def leaves(self, command: str, count: str | None) -> list[Ways]:
        """What `return`, or `break` or `continue` with a number of loops, may leave: any, if the number is not told."""
        ways = self.ways
        loops: list[Ways] = []
        while ways is not None and not ways.call:
            loops.append(ways)
            ways = ways.outer
        if command == "return":
            return [ways] if ways is not None else []
        if count is None or not count.isdecimal() or count == "0":
            return loops
        return loops[min(int(count), len(loops)) - 1 :][:1]

    @property
    def apart(self) -> bool:
        """Whether what is assigned here is lost behind it."""
        return self.pipeline or self.background
