"""What a reader knows of one occurrence beyond what it tells: how to write there, and why it does not win."""

from __future__ import annotations

from msgspec import Struct, field

from knobledger.knobs.occurrence import Kind, Scope
from knobledger.knobs.slot import Slot

SITES = 12_000
"""How many occurrences a file may have before it counts as hostile, and is not edited."""


class Site(Struct, eq=False, gc=False):
    """One occurrence while a file is being read.

    It changes as the reader comes to know more (a later `export`, a launch that sees it), so it is not frozen;
    `Reading` gives out frozen occurrences. All spans are byte offsets in the file, half open.
    """

    name: str
    kind: Kind
    value: str | None
    span: tuple[int, int]
    whole: tuple[int, int]
    """the words that `unset` takes out"""
    slot: Slot
    scope: Scope
    form: str
    statement: tuple[int, int]
    head: bool = False
    """the first word of its command: `unset` takes the blanks behind it"""
    alone: bool = False
    """nothing else stands in its statement, which goes with it"""
    active: bool = True
    dynamic: bool = False
    bare: bool = False
    overridable: bool = False
    depends: bool = False
    file: str | None = None
    path: tuple[int, ...] = ()
    """the arms, functions and heredocs that hold it, outermost first"""
    why_dynamic: str = ""
    lost: str = ""
    """why no launch sees it, in words, where the reader knows"""
    wins_for: list[int] = field(default_factory=list)
    """indices of the launches that it decides for"""


Choice = Site | None
"""What may decide for a launch; None: nothing in this file."""
