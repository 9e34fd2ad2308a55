"""Simple commands: builtins, functions, prefix assignments."""

from __future__ import annotations

import re
from collections.abc import Iterator
from contextlib import contextmanager
from typing import Final

from msgspec.structs import replace

from knobledger.knobs.occurrence import Dialect, Scope
from knobledger.knobs.shell.frame import Frame, Ways
from knobledger.knobs.shell.launches import OTHERS
from knobledger.knobs.shell.programs import Programs
from knobledger.knobs.shell.simple import DECLARERS
from knobledger.knobs.shell.source import Source
from knobledger.knobs.shell.state import Arg, Elements, Hole, State, Variable
from knobledger.knobs.shell.strings import as_source
from knobledger.knobs.shell.syntax import Assignment, Piece, Simple, Word
from knobledger.knobs.shell.unwrapped import Unwrapped, base_name, text_of
from knobledger.knobs.shell.values import is_plain, literal_text, slot_of, unquoted, value_of
from knobledger.knobs.shell.wrappers import WRAPPERS, unwrap
from knobledger.knobs.site import Site

_NAME = re.compile(r"[A-Za-z_][A-Za-z0-9_]*")
_ELEMENT = re.compile(r"([A-Za-z_][A-Za-z0-9_]*)\[")
_NAMED = re.compile(r"([A-Za-z_][A-Za-z0-9_]*)(?:\+?=|\Z)")

_BUILTINS: Final = frozenset(
    (
        *("unset", "set", "shift", "read", "mapfile", "readarray", "getopts", "let", "printf"),
        *("source", ".", "eval", "exit", "return", "break", "continue"),
    )
)
_SPECIAL: Final = frozenset(
    (
        *(":", ".", "break", "continue", "eval", "exit", "export"),
        *("readonly", "return", "set", "shift", "times", "trap", "unset"),
    )
)
"""What an assignment in front of outlasts in POSIX mode: its special builtins (POSIX.1-2017, 2.14), but for `exec`."""
_INERT: Final = OTHERS - _BUILTINS - DECLARERS - WRAPPERS
"""Commands that change no variable, start no other command, and are no launch."""


class Commands(Programs):
    """Follows simple commands."""

    def call(self, name: str, arguments: tuple[Arg, ...], state: State, frame: Frame) -> bool:
        """See Walker."""
        raise NotImplementedError

    def simple(self, node: Simple, state: State, frame: Frame) -> None:
        """Follow one simple command."""
        statement = node.source.span(node.start, node.end)
        if node.expands:
            for item in (*node.assignments, *node.words):
                for word in (item.array or (item.value,)) if isinstance(item, Assignment) else (item,):
                    if not is_plain(word):
                        self.substitutions(word, state, frame)
        if not node.words:
            alone = len(node.assignments) == 1 and not node.redirects
            for index, assignment in enumerate(node.assignments):
                self.assign(assignment, state, frame, statement=statement, head=index == 0, alone=alone)
            return
        first = node.words[0]
        command = literal_text(first) if isinstance(first, Word) else None
        if node.assignments and command in _SPECIAL and self.dialect is Dialect.SH:
            for index, assignment in enumerate(node.assignments):
                self.assign(assignment, state, frame, statement=statement, head=index == 0, alone=False)
            node = replace(node, assignments=())
        if command in DECLARERS:
            last = node.words[-1]
            simplest = command == "export" and len(node.words) == 2 and not node.assignments
            if simplest and isinstance(last, Assignment):
                self.export(last, state, frame, statement, alone=not node.redirects)
            else:
                self.declare(node, command, state, frame)
            return
        words = [word for word in node.words if isinstance(word, Word)]
        if node.expands:
            alone = command == ":" and len(words) == 2 and not node.redirects and not node.assignments
            for word in words:
                if not is_plain(word):
                    self.defaults(word, state, frame, statement, alone)
        if command in _INERT and not node.assignments and command not in self.functions:
            # It is no launch; only its arguments are counted, and a heredoc of it may be another file.
            if node.expands:
                self.arguments(words, state, frame)
            self._fed(node, frame)
            return
        overlay = self._prefixes(node, frame, statement) if node.assignments else {}
        if self.dialect is Dialect.SH and state.allexport != "no":
            # dash leaves the mark on a name that was not set, and exports it once it is; bash --posix does not.
            for key in overlay:
                if state.get(key).exported == "no" and None in state.get(key).choices:
                    state.export(key, "maybe")
        args = self.arguments(words, state, frame)
        if not args:
            return
        unwrapped = unwrap(args)
        name = base_name(unwrapped.args[0]) if unwrapped.args else ""
        if self._builtin(name, unwrapped, node, words, state, frame):
            return
        self._fed(node, frame)
        if command is None:
            self._expanded(words[0], unwrapped, state, frame)
        if name and not unwrapped.wrappers:
            before = {key: state.get(key) for key in overlay}
            for key, site in overlay.items():
                state.own[key] = Variable((site,), "yes", (Hole(),), inherited=False)
            called = self.call(name, tuple(unwrapped.args[1:]), state, frame)
            state.own.update(before)
            if called:
                return
        self.start(node, words, unwrapped, overlay, state, frame)
        if unwrapped.execs and unwrapped.args:
            state.dead = True

    def _expanded(self, word: Word, unwrapped: Unwrapped, state: State, frame: Frame) -> None:
        """Follow a command whose name is an expansion: it may be a function, or a builtin that sets what its words name."""
        if unwrapped.wrappers or (unwrapped.args and text_of(unwrapped.args[0]) not in (None, *DECLARERS)):
            return
        args = unwrapped.args[1:]
        for arg in args:
            if match := _NAMED.match(text_of(arg) or ""):
                self.disturb(match.group(1), state, f"line {self.line(word.source, word.start)} may set it")
        ends = [state]
        for name in self._functions_named(word, state, frame):
            way = state.copy()
            self.call(name, tuple(args), way, frame)
            ends.append(way)
        if len(ends) > 1:
            self.charge(state.join(ends))

    def _functions_named(self, word: Word, state: State, frame: Frame) -> list[str]:
        """The functions of the script that an expanded word may be the name of. A lone variable of which nothing is known is
        taken for a program, unless it is an argument of the script."""
        pattern, written = "", False
        for piece in unquoted(word):
            if piece.kind in ("bare", "single", "escape", "ansi"):
                pattern, written = pattern + re.escape(piece.text), True
            elif piece.kind == "param" and (texts := self._texts_of(piece, state)):
                pattern += f"(?:{'|'.join(map(re.escape, texts))}{'|.*' if written else ''})"
            else:
                pattern += ".*"
                written = written or (
                    (piece.text.isdecimal() or piece.text in ("@", "*")) and not frame.calls
                )
        if not written and ".*" in pattern:
            return []
        self.charge(len(self.functions))
        return [name for name in self.functions if re.fullmatch(pattern, name)]

    def _texts_of(self, piece: Piece, state: State) -> list[str]:
        """What is known of the values that an expansion may have."""
        texts = [
            choice.value for choice in state.get(piece.text).choices if choice is not None and choice.value
        ]
        default = [part.text for part in piece.parts if part.kind == "bare"]
        if piece.op in (":-", "-", ":=", "=") and len(default) == len(piece.parts) == 1:
            texts += default
        return [*texts, *self.looped.get(piece.text, ())]

    def _fed(self, node: Simple, frame: Frame) -> None:
        for redirect in node.redirects:
            for heredoc in redirect.heredoc:
                self.heredoc(node.source, heredoc, node, frame)

    def _prefixes(self, node: Simple, frame: Frame, statement: tuple[int, int]) -> dict[str, Site]:
        """The assignments before a command, which only that command sees."""
        overlay: dict[str, Site] = {}
        for index, assignment in enumerate(node.assignments):
            if assignment.array is not None or assignment.subscript:
                continue
            source = assignment.value.source
            value = value_of(assignment.value, assignment=True, expands_braces=False)
            dynamic = value.text is None or assignment.append
            why = value.why or "it adds to what was there"
            overlay[assignment.name] = self.site(
                Site(
                    assignment.name,
                    "env",
                    None if dynamic else value.text,
                    source.span(value.start, value.end),
                    source.span(assignment.start, assignment.end),
                    slot_of(source, value),
                    frame.scope or Scope.COMMAND,
                    "prefix",
                    statement,
                    head=index == 0,
                    alone=False,
                    dynamic=dynamic,
                    overridable=value.overridable,
                    depends=frame.depends,
                    file=source.file,
                    path=frame.path,
                    why_dynamic=why if dynamic else "",
                )
            )
        return overlay

    def _builtin(
        self, name: str, unwrapped: Unwrapped, node: Simple, words: list[Word], state: State, frame: Frame
    ) -> bool:
        """Follow a builtin that matters; False if it is none."""
        if name not in _BUILTINS:
            return False
        args = unwrapped.args[1:]
        line = self.line(node.source, node.start)
        match name:
            case "unset":
                for arg in args:
                    text = text_of(arg)
                    if text and _NAME.fullmatch(text):
                        self.unset(text, state, f"unset on line {line}")
                    elif text and (element := _ELEMENT.match(text)):
                        self.disturb(element.group(1), state, f"an element of it is unset on line {line}")
            case "set":
                self._set(args, node, state, frame)
            case "shift":
                state.own["@"] = Variable((), "no", (Hole(),), inherited=False)
            case "read" | "mapfile" | "readarray" | "getopts" | "let":
                for arg in args:
                    text = (text_of(arg) or "").partition("=")[0]
                    if _NAME.fullmatch(text):
                        self.disturb(text, state, f"{name} gives it a value on line {line}")
            case "printf" if args and text_of(args[0]) == "-v" and len(args) > 1:
                self.disturb(text_of(args[1]) or "", state, f"printf gives it a value on line {line}")
            case "source" | ".":
                self._source(args, line, state, frame)
            case "eval":
                self._eval(words, state, frame)
            case "exit":
                state.dead = True
            case "return" | "break" | "continue":
                self._leave(name, args, state, frame)
            case _:
                return False
        return True

    @contextmanager
    def called_from(self, state: State) -> Iterator[tuple[State, Ways]]:
        """A way through a function or a sourced file; behind it `state` is what that and all that returned have left."""
        way, ways = state.copy(), Ways(state, call=True)
        yield way, ways
        self.charge(state.join([way, *ways.left]))

    def _leave(self, name: str, args: list[Arg], state: State, frame: Frame) -> None:
        """Follow `return`, `break`, `continue`: the way ends here, and goes on behind the call or the loop, or in it."""
        found = frame.leaves(name, text_of(args[0]) if args else "1")
        if not found and name != "return":
            return  # there is no loop to leave
        for ways in found if not state.dead else ():
            way = state.since(ways.base)
            self.charge(len(way.own))
            (ways.again if name == "continue" else ways.left).append(way)
        state.dead = True

    def _set(self, args: list[Arg], node: Simple, state: State, frame: Frame) -> None:
        at = 0
        while at < len(args):
            text = text_of(args[at])
            if text is None or not text.startswith(("-", "+")) or text == "-":
                break
            at += 1
            if text == "--":
                break
            if text in ("-o", "+o") and at < len(args):
                if text_of(args[at]) == "allexport":
                    state.allexport = "yes" if text == "-o" else "no"
                at += 1
            elif "a" in text[1:] and not text.startswith("--"):
                state.allexport = "yes" if text.startswith("-") else "no"
        else:
            if not any(text_of(arg) == "--" for arg in args):
                return
        statement = node.source.span(node.start, node.end)
        scope = self.scope_here(frame, False)
        elements = tuple(
            arg if arg.scope is not None else replace(arg, scope=scope, path=frame.path) for arg in args[at:]
        )
        self.flag_sites(elements, frame, scope, "set", statement)
        state.own["@"] = Variable((), "no", (Elements(elements),), inherited=False)

    def _source(self, args: list[Arg], line: int, state: State, frame: Frame) -> None:
        path = text_of(args[0]) if args else None
        key = self.find_source(path)
        if key is None:
            shown = path if path is not None else "a file whose name is not told"
            self.note(line, f"{shown!r} is read here and may set any name; it was not given")
            return
        if frame.sources >= 4:
            return
        with self.called_from(state) as (way, ways):
            self.program(
                Source(self.sources[key].decode("latin-1"), file=key),
                way,
                replace(frame, sources=frame.sources + 1, ways=ways),
            )

    def _eval(self, words: list[Word], state: State, frame: Frame) -> None:
        parts = self.joined(words[1:], state)
        if parts and isinstance(parts[0], Hole):
            self.note(
                self.line(words[0].source, words[0].start),
                "what eval runs here is not told, and it may set any name",
            )
        names = frozenset(self.names_used([], words[1:], state))
        scope = frame.scope
        if any(part.guarded for part in parts):
            frame = replace(frame, depends=True)
        if names and scope is None:
            scope = Scope.SHELL
        self.program(
            as_source(parts),
            state,
            replace(frame, scope=scope, nested=frame.nested + 1, uses=frame.uses | names),
        )
