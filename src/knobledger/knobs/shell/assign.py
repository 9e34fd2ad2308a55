"""Assignments, export and its like, unset: what they do to a script's variables."""

from __future__ import annotations

import re
from collections.abc import Mapping, Sequence

from msgspec.structs import replace

from knobledger.knobs.occurrence import Dialect, Scope
from knobledger.knobs.shell.flags import looks_like_flags
from knobledger.knobs.shell.frame import Frame
from knobledger.knobs.shell.registry import Registry
from knobledger.knobs.shell.source import decode
from knobledger.knobs.shell.state import PARTS, Arg, Elements, Hole, Part, State, Sure, Text, Variable
from knobledger.knobs.shell.strings import mapped, names_in, names_of, parts_of, split
from knobledger.knobs.shell.syntax import Assignment, Piece, Word
from knobledger.knobs.shell.values import (
    PLAIN_SLOTS,
    Quotes,
    Value,
    is_plain,
    prefix_text,
    slot_of,
    unquoted,
    value_of,
    whole_text,
)
from knobledger.knobs.site import Choice, Site

_NO_NAMES: frozenset[str] = frozenset()
_NAME = re.compile(r"[A-Za-z_][A-Za-z0-9_]*")


class Assigner(Registry):
    """Follows what a script assigns."""

    def __init__(self, dialect: Dialect, sources: Mapping[str, bytes]) -> None:
        super().__init__(dialect, sources)
        self.locals: dict[str, Variable] = {}

    def arguments(self, words: Sequence[Word], state: State, frame: Frame) -> list[Arg]:
        """The arguments that words become when they are expanded."""
        raise NotImplementedError

    def assign(
        self,
        assignment: Assignment,
        state: State,
        frame: Frame,
        *,
        statement: tuple[int, int],
        exports: bool = False,
        form: str = "assignment",
        head: bool = False,
        alone: bool = True,
        integer: bool = False,
        braces: bool = False,
        basis: State | None = None,
    ) -> None:
        """Follow `NAME=value`, `NAME+=value`, `NAME=(...)`."""
        name = assignment.name
        if name in self.references:
            line = self.line(assignment.value.source, assignment.start)
            self.disturb(name, state, f"the reference {name!r} gives it a value on line {line}")
        if assignment.subscript:
            self.disturb(name, state, "an element of it is assigned")
            return
        if assignment.array is not None:
            self._array(assignment, state, frame, statement)
            return
        if not assignment.append and not integer and (whole := whole_text(assignment.value)):
            self._plain(assignment, whole, state, frame, statement, exports, form, head, alone)
            return
        exported: Sure = "yes" if exports else state.exported_when_set(name)
        scope = frame.scope or self.scope_here(frame, exported == "yes")
        word = assignment.value
        source = word.source
        value = value_of(word, assignment=True, expands_braces=braces)
        dynamic = value.text is None or assignment.append or integer
        why = (
            value.why
            if value.text is None
            else "it adds to what was there"
            if assignment.append
            else "it is a sum"
        )
        site = self.site(
            Site(
                name,
                "env",
                None if dynamic else value.text,
                source.span(value.start, value.end),
                source.span(assignment.start, assignment.end),
                slot_of(source, value),
                scope,
                "append"
                if assignment.append
                else "default"
                if value.overridable and form != "export"
                else form,
                statement,
                head=head,
                alone=alone,
                dynamic=dynamic,
                overridable=value.overridable,
                depends=frame.depends or Scope.FUNCTION is scope,
                file=source.file,
                path=frame.path,
                why_dynamic=why if dynamic else "",
            )
        )
        if "--" in source.text[word.start : word.end]:
            self._string_flags(word, frame, statement)
        self.store(
            site,
            word,
            value,
            state,
            frame,
            append=assignment.append,
            exported=exported,
            basis=basis or state,
        )

    def _plain(
        self,
        assignment: Assignment,
        whole: tuple[Piece, Quotes],
        state: State,
        frame: Frame,
        statement: tuple[int, int],
        exports: bool,
        form: str,
        head: bool,
        alone: bool,
    ) -> None:
        """Follow `NAME=text`, the most frequent of all: what `assign` and `store` do in general, without asking what
        only an expansion could make necessary."""
        name, word, (piece, style) = assignment.name, assignment.value, whole
        source, text, at = word.source, piece.text, piece.start + (style == "single")
        exported: Sure = "yes" if exports else state.exported_when_set(name)
        scope = frame.scope or self.scope_here(frame, exported == "yes")
        site = self.site(
            Site(
                name,
                "env",
                decode(text),
                (word.start, word.end),
                (assignment.start, word.end),
                PLAIN_SLOTS[style],
                scope,
                form,
                statement,
                head=head,
                alone=alone,
                depends=frame.depends or scope is Scope.FUNCTION,
                file=source.file,
                path=frame.path,
            )
        )
        if "--" in text:
            self._string_flags(word, frame, statement)
        if exported == "yes" and not frame.path and frame.scope is None:
            self.exported.add(name)
        stretch = Text(mapped(source, text, at, style), False, frame.scope or Scope.SHELL, frame.path)
        state.own[name] = Variable((site,), exported, (stretch,), "", _NO_NAMES, False)

    def store(
        self,
        site: Site,
        word: Word,
        value: Value,
        state: State,
        frame: Frame,
        *,
        append: bool,
        exported: Sure,
        basis: State,
        assigns: bool = True,
    ) -> None:
        """Make the variable what the site says; `basis` is the state in which its words are expanded."""
        name = site.name
        variable = basis.get(name)
        if exported == "yes" and not frame.path and frame.scope is None:
            self.exported.add(name)
        before = variable.choices if value.default_of == name and not variable.inherited else ()
        if before and _surely_set(variable, value.default_op):
            site.lost = site.lost or "the variable has a value before, so its default is not used"
            state.own[name] = replace(variable, exported=exported if assigns else variable.exported)
            return
        scope = frame.scope or Scope.SHELL
        parts: tuple[Part, ...]
        if is_plain(word):
            reads = _NO_NAMES
            parts = (Text(mapped(word.source, word.pieces[0].text, word.start), False, scope, frame.path),)
        else:
            reads = frozenset(names_in(word.pieces) - {name})
            parts = tuple(
                Text(part.source, part.guarded, scope, frame.path)
                if isinstance(part, Text) and part.scope is None
                else part
                for part in parts_of(word, basis)
            )
        if append:
            parts = (*state.get(name).parts, *parts)
            reads |= state.get(name).reads
        if len(parts) > PARTS:
            parts = (Hole(),)
        self.charge(len(before) + len(reads) // 4)
        choices: tuple[Choice, ...] = (site,)
        open_before = bool(before) and not _surely_unset(variable, value.default_op)
        if open_before:
            # Something may have given it a value before, and then the default is not used.
            choices = (*[choice for choice in before if variable.disturbed or choice is not None], site)
        disturbed = open_before and variable.disturbed
        state.own[name] = Variable(choices, exported, parts, "", reads, False, disturbed)

    def scope_here(self, frame: Frame, exported: bool) -> Scope:
        """The scope of an assignment."""
        if frame.apart and frame.scope in (None, Scope.SUBSHELL):
            return Scope.SUBSHELL
        return frame.scope or (Scope.EXPORT if exported else Scope.SHELL)

    def disturb(self, name: str, state: State, reason: str, *, keeps: bool = True) -> None:
        """The variable, or what it is a reference to, gets a value that is written nowhere; with `keeps` it may keep the one
        that it has."""
        name = self.references.get(name, name)
        variable = state.get(name)
        exported = state.exported_when_set(name)
        sites = tuple(choice for choice in variable.choices if choice is not None and keeps)
        state.own[name] = Variable((*sites, None), exported, (Hole(),), reason, frozenset(), False, True)

    def unset(self, name: str, state: State, reason: str) -> None:
        """The variable is taken away."""
        for choice in state.get(name).choices:
            if choice is not None:
                choice.lost = reason
        state.own[name] = Variable((None,), "no", (), reason, frozenset(), False)

    def _array(self, assignment: Assignment, state: State, frame: Frame, statement: tuple[int, int]) -> None:
        words = assignment.array or ()
        scope = self.scope_here(frame, False)
        args = tuple(
            arg if arg.scope is not None else Arg(arg.word, arg.guarded, arg.split, scope, frame.path)
            for arg in self.arguments(words, state, frame)
        )
        self.flag_sites(args, frame, scope, "array", statement)
        variable = state.get(assignment.name)
        reads = frozenset(names_of(words) - {assignment.name})
        parts: tuple[Part, ...] = (Elements(args),)
        if assignment.append:
            parts = (*variable.parts, *parts) if not variable.inherited else (Hole(), *parts)
            reads |= variable.reads
        if len(parts) > PARTS or sum(len(p.args) for p in parts if isinstance(p, Elements)) > 5000:
            parts = (Hole(),)
        state.own[assignment.name] = Variable((), variable.exported, parts, "", reads, False)

    def _string_flags(self, word: Word, frame: Frame, statement: tuple[int, int]) -> None:
        """List the flags in a string that reads as flags."""
        prefix = prefix_text(word)
        if not (looks_like_flags(prefix) or (not prefix.strip() and (prefix or len(word.pieces) > 0))):
            return
        parts = parts_of(word, State())
        args = split(parts)
        if not args or (args[0].word is not None and not looks_like_flags(prefix_text(args[0].word))):
            return
        self.flag_sites(args, frame, self.scope_here(frame, False), "string", statement)

    def defaults(
        self, word: Word, state: State, frame: Frame, statement: tuple[int, int], alone: bool
    ) -> None:
        """Follow `${NAME:=word}` in a command's words (mostly of `:`)."""
        pieces = unquoted(word)
        for piece in pieces:
            if piece.kind != "param" or piece.op not in (":=", "=") or not _NAME.fullmatch(piece.text):
                continue
            whole = len(word.pieces) == 1 and len(pieces) == 1
            value = value_of(
                word if whole else replace(word, pieces=(piece,)), assignment=True, expands_braces=False
            )
            source = word.source
            exported = state.exported_when_set(piece.text)
            site = self.site(
                Site(
                    piece.text,
                    "env",
                    value.text,
                    source.span(value.start, value.end),
                    statement if alone else source.span(word.start, word.end),
                    slot_of(source, value),
                    self.scope_here(frame, exported == "yes"),
                    "default",
                    statement,
                    head=alone,
                    alone=alone,
                    dynamic=value.text is None,
                    overridable=True,
                    depends=frame.depends,
                    file=source.file,
                    path=frame.path,
                    why_dynamic=value.why,
                )
            )
            self.store(
                site, word, value, state, frame, append=False, exported=exported, basis=state, assigns=False
            )


def _surely_set(variable: Variable, op: str) -> bool:
    """Whether the variable has a value, so that a default with `op` is not used."""
    if None in variable.choices:
        return False
    return not op.startswith(":") or all(choice.value for choice in variable.choices if choice is not None)


def _surely_unset(variable: Variable, op: str) -> bool:
    """Whether the variable has no value, so that the default is used."""
    if variable.disturbed:
        return False
    return all(choice is None or (op.startswith(":") and choice.value == "") for choice in variable.choices)
