"""The syntax tree of a shell program. Positions are offsets in the text of the node's source.

Structs that the garbage collector does not track: a tree has some thousand nodes and no cycles.
"""

from __future__ import annotations

from typing import Literal, TypeAlias

from msgspec import Struct

from knobledger.knobs.shell.source import Source

PieceKind = Literal["bare", "escape", "single", "double", "ansi", "param", "command", "arith", "glob"]


class Piece(Struct, frozen=True, gc=False):
    """One part of a word."""

    kind: PieceKind
    start: int
    end: int
    text: str = ""
    """what a literal piece stands for; a parameter's name"""
    parts: tuple[Piece, ...] = ()
    """inside double quotes; the operand of a parameter expansion"""
    op: str = ""
    """a parameter's operator: `:-`, `-`, `:=`, `:+`, `@` (all elements), `?` for anything else"""
    script: tuple[Statement, ...] = ()
    """what a command substitution runs"""
    source: Source | None = None
    """of `script`, where it is not the word's own (backticks)"""


class Word(Struct, frozen=True, gc=False):
    """One word of a command, quotes and all."""

    source: Source
    start: int
    end: int
    pieces: tuple[Piece, ...]


class Assignment(Struct, frozen=True, gc=False):
    """`NAME=value`, `NAME+=value` or `NAME=(...)`; the value of an array is its words."""

    name: str
    start: int
    end: int
    append: bool
    value: Word
    array: tuple[Word, ...] | None = None
    subscript: bool = False


class Heredoc(Struct, frozen=True, gc=False):
    """The text between `<<EOF` and `EOF`."""

    start: int
    end: int
    expands: bool
    """False if the delimiter is quoted"""


class Redirect(Struct, frozen=True, gc=False):
    """`> file`, `2>&1`, `<<EOF`, ..."""

    op: str
    start: int
    end: int
    target: Word
    heredoc: list[Heredoc]
    """one, once the parser has reached its text"""


class Simple(Struct, frozen=True, gc=False):
    """Assignments, then words, with redirects anywhere among them."""

    start: int
    end: int
    assignments: tuple[Assignment, ...]
    words: tuple[Word | Assignment, ...]
    """an assignment among them is an argument of export, declare and their like"""
    redirects: tuple[Redirect, ...]
    source: Source
    expands: bool = True
    """False if no assignment and no word of it has an expansion; True if one may have"""


class Group(Struct, frozen=True, gc=False):
    """`{ ...; }`, or with `subshell` `( ... )`."""

    start: int
    end: int
    body: tuple[Statement, ...]
    subshell: bool
    redirects: tuple[Redirect, ...] = ()


class If(Struct, frozen=True, gc=False):
    """`if` with its tests and arms; the last arm, without a test, is `else`."""

    start: int
    end: int
    tests: tuple[tuple[Statement, ...], ...]
    arms: tuple[tuple[Statement, ...], ...]


class Case(Struct, frozen=True, gc=False):
    """`case WORD in`; `total` if an arm is `*)`."""

    start: int
    end: int
    arms: tuple[tuple[Statement, ...], ...]
    total: bool


class Loop(Struct, frozen=True, gc=False):
    """`for`, `select`, `while`, `until`."""

    start: int
    end: int
    name: str
    """the variable of a for loop, or nothing"""
    words: tuple[Word, ...]
    test: tuple[Statement, ...]
    body: tuple[Statement, ...]
    redirects: tuple[Redirect, ...] = ()
    word: str = "for"


class Function(Struct, frozen=True, gc=False):
    """`name() { ...; }`."""

    start: int
    end: int
    name: str
    body: tuple[Statement, ...]
    source: Source


class Test(Struct, frozen=True, gc=False):
    """`[[ ... ]]` and `(( ... ))`: they set nothing, or `names` by arithmetic."""

    start: int
    end: int
    names: tuple[str, ...] = ()
    words: tuple[Word, ...] = ()


Command: TypeAlias = Simple | Group | If | Case | Loop | Function | Test


class Pipeline(Struct, frozen=True, gc=False):
    """Commands joined by `|`."""

    start: int
    end: int
    commands: tuple[Command, ...]


class Statement(Struct, frozen=True, gc=False):
    """Pipelines joined by `&&` and `||`; `ops` is one shorter."""

    start: int
    end: int
    pipelines: tuple[Pipeline, ...]
    ops: tuple[str, ...]
    background: bool


class Comment(Struct, frozen=True, gc=False):
    """From the `#` to the end of the line; `cuts` if it ends a continued command."""

    start: int
    end: int
    cuts: bool = False


class Fault(Struct, frozen=True, gc=False):
    """Text that could not be parsed."""

    start: int
    end: int
    message: str


class Script(Struct, frozen=True, gc=False):
    """A parsed program."""

    source: Source
    body: tuple[Statement, ...]
    comments: tuple[Comment, ...]
    faults: tuple[Fault, ...]
