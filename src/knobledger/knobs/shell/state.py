"""What the variables may hold at one point of a script, and how the ways to that point are joined."""

from __future__ import annotations

from typing import Literal, TypeAlias

from msgspec import Struct, field
from msgspec.structs import replace

from knobledger.knobs.occurrence import Scope
from knobledger.knobs.shell.source import Source
from knobledger.knobs.shell.syntax import Word
from knobledger.knobs.site import Choice, Site

Sure = Literal["no", "maybe", "yes"]
PARTS = 64
"""How many stretches a value may be made of before it counts as unknown (`X="$X$X"` in a row doubles them, and so do
an array that is added to in both arms of an `if`, in a row)."""


class Arg(Struct, frozen=True, gc=False):
    """One argument of a command, or with no word any number of unknown ones."""

    word: Word | None
    guarded: bool = False
    """it may be missing"""
    split: bool = False
    """it came of splitting a string at blanks"""
    scope: Scope | None = None
    """of the place where it is written, if that is not the command itself"""
    path: tuple[int, ...] = ()


class Text(Struct, frozen=True, gc=False):
    """A stretch of a string variable whose characters are known."""

    source: Source
    guarded: bool = False
    """it may be missing: it was added under a condition"""
    scope: Scope | None = None
    path: tuple[int, ...] = ()


class Hole(Struct, frozen=True, gc=False):
    """A stretch of a string, or some elements, that only running the script could tell."""

    guarded: bool = False
    value: Word | None = None
    """the expansion, where it stands for one value and not for any number of words"""


class Elements(Struct, frozen=True, gc=False):
    """Words of an array."""

    args: tuple[Arg, ...]
    guarded: bool = False


class Break(Struct, frozen=True, gc=False):
    """Between what one way leaves in a variable and what another way leaves: they never stand together."""

    guarded: bool = True


Part: TypeAlias = Text | Hole | Elements | Break


class Variable(Struct, frozen=True, gc=False):
    """One variable. `choices` are the assignments that may have made it what it is, in the order of the text."""

    choices: tuple[Choice, ...] = (None,)
    exported: Sure = "no"
    parts: tuple[Part, ...] = (Hole(),)
    unset: str = ""
    """what took it away, in words"""
    reads: frozenset[str] = frozenset()
    """the variables that its value is made of"""
    inherited: bool = True
    """nothing in the script has set it yet"""
    disturbed: bool = False
    """something gives it a value that is written nowhere"""


UNKNOWN = Variable()


class State(Struct):
    """The variables at one point of a script.

    A way that may be taken from here (an arm, a subshell) is followed on a copy. A copy only holds what changes on it
    and looks up the rest in its `base`, which must not change as long as the copy is in use: so an `if` costs as much as
    what it assigns, however long the script is.
    """

    own: dict[str, Variable] = field(default_factory=dict)
    """what was changed since the copy was made"""
    allexport: Sure = "no"
    """whether what is assigned is exported (`set -a`)"""
    dead: bool = False
    """the script has ended, or became another program"""
    base: State | None = None

    def copy(self) -> State:
        """A copy that changes on its own."""
        return State({}, self.allexport, self.dead, self)

    def get(self, name: str) -> Variable:
        """A variable; one that was never set is unknown, not empty."""
        state: State | None = self
        while state is not None:
            if (variable := state.own.get(name)) is not None:
                return variable
            state = state.base
        return UNKNOWN

    def all(self) -> dict[str, Variable]:
        """Every variable by its name."""
        if self.base is None:
            return self.own
        return {**self.base.all(), **self.own}

    def export(self, name: str, sure: Sure = "yes") -> None:
        """Mark a variable as exported, or with `no` as not."""
        self.own[name] = replace(self.get(name), exported=sure)

    def exported_when_set(self, name: str, exports: bool = False) -> Sure:
        """Whether the variable is exported once something is assigned to it."""
        if exports or self.allexport == "yes":
            return "yes"
        exported = self.get(name).exported
        return "maybe" if self.allexport == "maybe" and exported == "no" else exported

    def since(self, base: State) -> State:
        """A copy of `base`, of which this is a copy or a copy's copy, with all that was changed on the way here."""
        own: dict[str, Variable] = {}
        for layer in reversed(_layers(self, base)):
            own.update(layer.own)
        return State(own, self.allexport, self.dead, base)

    def adopt(self, way: State, base: State | None = None) -> None:
        """Become `way`, a copy of this state or of its copies; see `join`."""
        for layer in reversed(_layers(way, base or self)):
            self.own.update(layer.own)
        self.allexport, self.dead = way.allexport, way.dead

    def join(self, ways: list[State], base: State | None = None) -> int:
        """Become the state behind several ways of which one was taken: copies of this state, or itself; or, where this is a
        new copy of `base`, copies of that. How much work that was."""
        alive = [way for way in ways if not way.dead]
        if len(alive) < 2:
            self.adopt((alive or ways)[0], base)
            return 1
        exports = {way.allexport for way in alive}
        names: dict[str, None] = {}
        for way in alive:
            for layer in reversed(_layers(way, base or self)):
                names.update(dict.fromkeys(layer.own))
        joined = {}
        work = len(names)
        for name in names:
            variables = [way.get(name) for way in alive]
            first = variables[0]
            if any(variable is not first for variable in variables):
                first = _join(variables)
                work += sum(len(variable.choices) + len(variable.parts) for variable in variables)
            joined[name] = first
        self.own.update(joined)
        self.allexport, self.dead = exports.pop() if len(exports) == 1 else "maybe", False
        return work


def _layers(way: State, base: State) -> list[State]:
    """The states from `way` down to the one above `base`."""
    layers = []
    while way is not base:
        layers.append(way)
        assert way.base is not None
        way = way.base
    return layers


def _join(variables: list[Variable]) -> Variable:
    first = variables[0]
    choices = dict.fromkeys(first.choices)
    exported, parts, unset, reads = first.exported, first.parts, first.unset, first.reads
    inherited, disturbed = first.inherited, first.disturbed
    for variable in variables[1:]:
        choices.update(dict.fromkeys(variable.choices))
        if variable.exported != exported:
            exported = "maybe"
        if len(parts) <= PARTS:
            parts = _join_parts(parts, variable.parts)
        unset = unset or variable.unset
        reads |= variable.reads
        inherited = inherited and variable.inherited
        disturbed = disturbed or variable.disturbed
    if len(parts) > PARTS:
        parts = (Hole(),)
    ordered = tuple(sorted(choices, key=_order))
    return Variable(ordered, exported, parts, unset, reads, inherited, disturbed)


def _order(choice: Choice) -> tuple[bool, int]:
    return (choice is None, choice.span[0] if isinstance(choice, Site) else 0)


def _join_parts(one: tuple[Part, ...], other: tuple[Part, ...]) -> tuple[Part, ...]:
    """The common beginning, then what follows it on either way, each of which may be missing."""
    same = 0
    while same < min(len(one), len(other)) and one[same] is other[same]:
        same += 1
    rest = (*one[same:], *([Break()] if one[same:] and other[same:] else []), *other[same:])
    return (*one[:same], *(part if part.guarded else replace(part, guarded=True) for part in rest))
