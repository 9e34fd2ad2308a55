"""`export`, `declare`, `typeset`, `readonly`, `local`."""

from __future__ import annotations

import re

from msgspec import Struct

from knobledger.knobs.occurrence import Scope
from knobledger.knobs.shell.assign import Assigner
from knobledger.knobs.shell.frame import Frame
from knobledger.knobs.shell.state import State
from knobledger.knobs.shell.syntax import Assignment, Simple, Word
from knobledger.knobs.shell.values import literal_text, prefix_text, slot_of, value_of
from knobledger.knobs.site import Site

_WHOLE = re.compile(r"([A-Za-z_][A-Za-z0-9_]*)(\+?)=")
_NAME = re.compile(r"[A-Za-z_][A-Za-z0-9_]*")


class _Declaration(Struct, frozen=True, gc=False):
    """What `export`, `declare` and their like do with their arguments."""

    command: str
    statement: tuple[int, int]
    exports: bool
    revokes: bool
    """`export -n`, `declare +x`"""
    local: bool
    integer: bool
    refers: bool
    """`declare -n`: the name stands for another variable"""
    alone: bool


class Declarer(Assigner):
    """Follows declarations."""

    def export(
        self, assignment: Assignment, state: State, frame: Frame, statement: tuple[int, int], *, alone: bool
    ) -> None:
        """Follow `export NAME=value`, the most frequent of all; `declare` does the same, and all others."""
        if frame.scope is None and not frame.nested and not frame.sources and self.top is not None:
            self.exports.append(self.top)
        self.assign(
            assignment,
            state,
            frame,
            statement=statement,
            exports=True,
            form="export",
            alone=alone,
            braces=True,
        )

    def declare(self, node: Simple, command: str, state: State, frame: Frame) -> None:
        """Follow a declaration."""
        statement = node.source.span(node.start, node.end)
        options = ""
        arguments = list(node.words[1:])
        while arguments and isinstance(arguments[0], Word):
            text = literal_text(arguments[0])
            if text is None or text[:1] not in ("-", "+"):
                break
            options += text
            del arguments[0]
        exports = command == "export" or ("x" in options and "+x" not in options)
        revokes = (command == "export" and "n" in options) or "+x" in options
        local = command == "local" or (
            command in ("declare", "typeset") and "g" not in options and Scope.FUNCTION is frame.scope
        )
        how = _Declaration(
            command,
            statement,
            exports,
            revokes,
            local,
            "i" in options,
            "n" in options and command != "export",
            len(arguments) == 1 and not node.redirects,
        )
        if (
            exports
            and frame.scope is None
            and not frame.nested
            and not frame.sources
            and self.top is not None
        ):
            self.exports.append(self.top)
        if len(arguments) < 2:
            for argument in arguments:
                self._declared(argument, how, node, state, state, frame)
            return
        # All words are expanded before the first of them is assigned, unlike in plain assignments.
        after = state.copy()
        for argument in arguments:
            self._declared(argument, how, node, after, state, frame)
        state.adopt(after)

    def _declared(
        self,
        argument: Word | Assignment,
        how: _Declaration,
        node: Simple,
        state: State,
        basis: State,
        frame: Frame,
    ) -> None:
        """Follow one argument of a declaration."""
        if isinstance(argument, Assignment):
            if how.refers:
                target = literal_text(argument.value)
                if target is None:
                    line = self.line(node.source, argument.start)
                    self.note(line, f"{argument.name!r} may stand for any name, and set it")
                else:
                    self.references[argument.name] = target
                return
            if how.local:
                self.locals.setdefault(argument.name, state.get(argument.name))
            self.assign(
                argument,
                state,
                frame,
                statement=how.statement,
                exports=how.exports and not how.revokes,
                form=how.command,
                alone=how.alone,
                integer=how.integer,
                braces=True,
                basis=basis,
            )
            return
        match = _WHOLE.match(prefix_text(argument))
        if match and not match.group(2):
            self._quoted_assignment(argument, match, state, frame, how, basis)
            return
        name = literal_text(argument)
        if name is None or not _NAME.fullmatch(name):
            if how.exports:
                self.note(
                    self.line(node.source, argument.start), "the names that are exported here are not told"
                )
            return
        if how.local:
            self.locals.setdefault(name, state.get(name))
            if how.command == "local":
                return
        if how.revokes:
            reason = f"export -n on line {self.line(node.source, node.start)} takes it back"
            for choice in state.get(name).choices:
                if choice is not None:
                    choice.lost = reason
            state.export(name, "no")
        elif how.exports:
            if frame.scope is None:
                self.exported.add(name)
            state.export(name)

    def _quoted_assignment(
        self,
        word: Word,
        match: re.Match[str],
        state: State,
        frame: Frame,
        how: _Declaration,
        basis: State,
    ) -> None:
        """`export "NAME=value"`."""
        source = word.source
        name = match.group(1)
        value = value_of(word, match.end(), assignment=True, expands_braces=True)
        exported = state.exported_when_set(name, how.exports)
        site = self.site(
            Site(
                name,
                "env",
                value.text,
                source.span(value.start, value.end),
                source.span(word.start, word.end),
                slot_of(source, value),
                self.scope_here(frame, exported == "yes"),
                how.command,
                how.statement,
                alone=how.alone,
                dynamic=value.text is None,
                overridable=value.overridable,
                depends=frame.depends,
                file=source.file,
                path=frame.path,
                why_dynamic=value.why,
            )
        )
        self.store(site, word, value, state, frame, append=False, exported=exported, basis=basis)
