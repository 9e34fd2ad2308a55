"""The values that the readers give: occurrences of knobs, launches, warnings, and edits."""

from __future__ import annotations

from enum import StrEnum
from typing import Literal

from msgspec import Struct

Kind = Literal["env", "flag"]


class Dialect(StrEnum):
    """What reads the file, and so what its bytes mean."""

    BASH = "bash"
    SH = "sh"
    ENV = "env"
    """sourced by a shell under `set -a`"""
    ENV_DOCKER = "env-docker"
    """`docker run --env-file`"""
    ENV_SYSTEMD = "env-systemd"
    """systemd's `EnvironmentFile=`"""
    UNIT = "unit"


class Scope(StrEnum):
    """The innermost construct that holds the occurrence (see docs/shapes.md)."""

    EXPORT = "export"
    SHELL = "shell"
    COMMAND = "command"
    CONDITIONAL = "conditional"
    SUBSHELL = "subshell"
    FUNCTION = "function"
    HEREDOC = "heredoc"
    COMMENT = "comment"
    UNIT = "unit"


class Occurrence(Struct, frozen=True, gc=False):
    """One place in a file where a knob is written.

    Text is decoded as UTF-8 with surrogate escapes, so that every byte survives; offsets are in bytes.
    """

    name: str
    kind: Kind
    value: str | None
    """as the program sees it; None if dynamic"""
    raw: str
    """the bytes of `span`, quotes and all"""
    line: int
    """where the value begins, from 1"""
    column: int
    """byte column of the value's begin, from 1"""
    span: tuple[int, int]
    """byte offsets of the value, half open; an edit replaces exactly this"""
    active: bool
    """False only for commented-out text"""
    wins: bool
    """it decides what the (first, or picked) launch sees"""
    scope: Scope
    form: str
    """how it is written, in a word: `export`, `assignment`, `prefix`, `flag`, `flag=`, `array`, ..."""
    dynamic: bool = False
    bare: bool = False
    """a flag without a value"""
    overridable: bool = False
    """a default that the environment or an argument may replace"""
    depends: bool = False
    """what wins hangs on a condition, a call, or another program"""
    file: str | None = None
    """a side file that holds it, if not the file itself"""
    wins_for: tuple[int, ...] = ()
    """lines of the launches that it decides for"""


class Launch(Struct, frozen=True):
    """A command that starts a server."""

    line: int
    """of its command word, from 1"""
    command: str


class Note(Struct, frozen=True):
    """Something about the file that a reader should know."""

    line: int
    message: str


class Request(Struct, frozen=True):
    """What somebody wants of one knob: a value, or (None) its absence. `--flag` names are flags, all others env."""

    name: str
    value: str | None


class KnobEdit(Struct, frozen=True):
    """One knob's decided value before and after; None means absent, an empty string a bare flag or an empty value."""

    name: str
    kind: Kind
    before: str | None
    after: str | None


class Edited(Struct, frozen=True):
    """The outcome of a successful edit."""

    content: bytes
    edits: tuple[KnobEdit, ...]
    warnings: tuple[str, ...] = ()
