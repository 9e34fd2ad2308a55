"""Where in a script the walk is."""

from __future__ import annotations

from msgspec import Struct

from knobledger.knobs.occurrence import Scope


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

    @property
    def apart(self) -> bool:
        """Whether what is assigned here is lost behind it."""
        return self.pipeline or self.background
