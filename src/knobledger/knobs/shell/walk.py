"""Walking a script in the order in which it runs, following every variable to the launches.

Nothing is run: conditions, functions and substitutions are followed on every way that they could take, and where the
ways differ the reader says that it depends.
"""

from __future__ import annotations

from collections.abc import Mapping
from typing import Literal, assert_never

from msgspec.structs import replace

from knobledger.knobs.occurrence import Dialect, Scope
from knobledger.knobs.shell.commands import Commands
from knobledger.knobs.shell.frame import Frame, Ways
from knobledger.knobs.shell.source import Source
from knobledger.knobs.shell.state import Arg, Elements, State, Variable
from knobledger.knobs.shell.syntax import (
    Case,
    Command,
    Function,
    Group,
    If,
    Loop,
    Pipeline,
    Redirect,
    Simple,
    Statement,
    Test,
    Word,
)
from knobledger.knobs.shell.unwrapped import text_of
from knobledger.knobs.shell.values import literal_text

CALLS = 8
"""How deep calls of functions are followed."""


class Walker(Commands):
    """Walks one file, and the static files that it sources."""

    def __init__(self, dialect: Dialect, sources: Mapping[str, bytes]) -> None:
        super().__init__(dialect, sources)
        self.called: set[int] = set()
        self._depth = 0

    def statements(self, body: tuple[Statement, ...], state: State, frame: Frame) -> None:
        """Walk a list of commands."""
        self._depth += 1
        for statement in body:
            pipelines = statement.pipelines
            if len(pipelines) == 1 and not statement.background:
                if self._depth == 1:
                    self.top = statement
                self._pipeline(pipelines[0], state, frame)
            else:
                self._statement(statement, state, frame)
        self._depth -= 1

    def uncalled(self, state: State, frame: Frame) -> None:
        """List what stands in functions that were never called."""
        for function, _ in list(self.functions.values()):
            if id(function) not in self.called:
                self.called.add(id(function))
                inner = replace(
                    frame,
                    scope=Scope.FUNCTION,
                    path=(self.mark(function),),
                    called=False,
                    calls=CALLS,
                    ways=Ways(state, call=True),
                )
                self.statements(function.body, state.copy(), inner)

    def _statement(self, statement: Statement, state: State, frame: Frame) -> None:
        if self._depth == 1:
            self.top = statement
        first, rest = statement.pipelines[0], statement.pipelines[1:]
        if statement.background:
            state = state.copy()
            frame = replace(frame, background=True, ways=None)
        self._pipeline(first, state, frame)
        for pipeline in rest:
            arm = state.copy()
            inner = replace(frame, scope=Scope.CONDITIONAL, path=(*frame.path, self.mark(pipeline)))
            self._pipeline(pipeline, arm, inner)
            self.charge(state.join([state, arm]))

    def _pipeline(self, pipeline: Pipeline, state: State, frame: Frame) -> None:
        if len(pipeline.commands) == 1:
            self._command(pipeline.commands[0], state, frame)
            return
        for command in pipeline.commands:
            self._command(command, state.copy(), replace(frame, pipeline=True, ways=None))

    def _command(self, command: Command, state: State, frame: Frame) -> None:
        self.charge(5)
        match command:
            case Simple():
                self.simple(command, state, frame)
            case Group():
                self._heredocs(command.redirects, frame)
                if command.subshell or frame.apart:
                    inner = replace(frame, scope=Scope.SUBSHELL, pipeline=False, background=False, ways=None)
                    self.statements(command.body, state.copy(), inner)
                else:
                    self.statements(command.body, state, frame)
            case If():
                self._if(command, state, _unpiped(frame))
            case Case():
                self._case(command, state, _unpiped(frame))
            case Loop():
                self._heredocs(command.redirects, frame)
                self._loop(command, state, _unpiped(frame))
            case Function():
                self.functions[command.name] = (command, frame.path)
            case Test():
                for name in command.names:
                    self.disturb(name, state, f"a sum on line {self.line(self.source, command.start)}")
                for word in command.words:
                    self.substitutions(word, state, frame)
            case _:
                assert_never(command)

    def _if(self, command: If, state: State, frame: Frame) -> None:
        ends: list[State] = []
        here = state
        for index, arm in enumerate(command.arms):
            if index < len(command.tests):
                # What a later test changes is not seen in the arms before it.
                here = here.copy() if index else here
                self.statements(command.tests[index], here, frame)
            inner = replace(frame, scope=Scope.CONDITIONAL, path=(*frame.path, self.mark(arm)))
            way = here.copy()
            self.statements(arm, way, inner)
            ends.append(way)
        if len(command.arms) == len(command.tests):
            ends.append(here)
        self.charge(state.join(ends))

    def _case(self, command: Case, state: State, frame: Frame) -> None:
        ends: list[State] = [] if command.total else [state]
        for arm in command.arms:
            inner = replace(frame, scope=Scope.CONDITIONAL, path=(*frame.path, self.mark(arm)))
            way = state.copy()
            self.statements(arm, way, inner)
            ends.append(way)
        if ends:
            self.charge(state.join(ends))

    def _loop(self, command: Loop, state: State, frame: Frame) -> None:
        for word in command.words:
            self.substitutions(word, state, frame)
        ways = Ways(state, frame.ways)
        inner = replace(frame, loops=frame.loops + 1, ways=ways)
        way = state.copy()
        runs = self._runs(command, state, frame)
        # A second round shows what one round leaves behind for the next; in deeper loops it is left out,
        # for it would double the work with each of them.
        for turn in range(2 if frame.loops < 3 else 1):
            if turn and way.dead:
                break
            self.statements(command.test, way, inner)
            if not turn and runs == "maybe":
                ways.left.append(way.since(state))
            if command.name:
                self.disturb(command.name, way, "", keeps=False)
            self.statements(command.body, way, inner)
            if ways.again:
                ends, ways.again, way = [way, *ways.again], [], state.copy()
                self.charge(way.join(ends, state))
        # Behind a loop without end there is only what broke out of it.
        self.charge(state.join(ways.left if runs == "forever" and ways.left else [way, *ways.left]))

    def _runs(self, command: Loop, state: State, frame: Frame) -> Literal["maybe", "surely", "forever"]:
        """Whether the body of a loop runs at all."""
        if command.name:
            arguments = self.arguments(command.words, state, frame)
            self.looped[command.name] = tuple(text for arg in arguments if (text := text_of(arg)))
            # Whoever is asked to select may choose nothing.
            return "surely" if command.word == "for" and any(map(_is_there, arguments)) else "maybe"
        word = _only_word(command.test)
        if word is None or word in self.functions:
            return "maybe"
        return "forever" if word in (("false",) if command.word == "until" else ("true", ":")) else "maybe"

    def call(self, name: str, arguments: tuple[Arg, ...], state: State, frame: Frame) -> bool:
        """Follow a call of a function of the script; False if there is none of that name."""
        function, path = self.functions.get(name, (None, ()))
        if function is None:
            return False
        if not set(path) <= set(frame.path):
            # It may not be defined: then the call fails, and changes nothing.
            way = state.copy()
            self._call(function, arguments, way, replace(frame, path=(*frame.path, *path)))
            self.charge(state.join([state, way]))
            return True
        self._call(function, arguments, state, frame)
        return True

    def _call(self, function: Function, arguments: tuple[Arg, ...], state: State, frame: Frame) -> None:
        if frame.calls >= CALLS:
            return
        self.called.add(id(function))
        outer = state.get("@")
        locals_before, self.locals = self.locals, {}
        source, self.source = self.source, function.source
        with self.called_from(state) as (way, ways):
            way.own["@"] = Variable((), "no", (Elements(arguments),))
            inner = replace(
                frame,
                scope=Scope.FUNCTION,
                path=(*frame.path, self.mark(function)),
                calls=frame.calls + 1,
                ways=ways,
            )
            self.statements(function.body, way, inner)
        self.source = source
        for local, before in self.locals.items():
            state.own[local] = before
        self.locals = locals_before
        state.own["@"] = outer

    def _heredocs(self, redirects: tuple[Redirect, ...], frame: Frame) -> None:
        for redirect in redirects:
            for heredoc in redirect.heredoc:
                self.heredoc(self.source, heredoc, None, frame)

    def program(self, source: Source, state: State, frame: Frame) -> None:
        """Walk a text that is read as a program of its own: a string, a heredoc, a sourced file."""
        script = self.parse(source, frame.nested)
        if script is None:
            return
        outer, self.source = self.source, source
        self.statements(script.body, state, frame)
        self.source = outer


def _only_word(body: tuple[Statement, ...]) -> str | None:
    """The word that is all of a list of commands; a `!` before it makes it another command."""
    match body:
        case (
            Statement(
                pipelines=(Pipeline(commands=(Simple(assignments=(), words=(Word() as word,)),)) as pipeline,)
            ),
        ):
            return literal_text(word) if pipeline.start == word.start else None
    return None


def _is_there(arg: Arg) -> bool:
    """Whether an argument is one word at least, whatever the variables in it are: `"$@"` and its like, a pattern and braces
    may become none."""
    if arg.word is None or arg.guarded:
        return False
    text = arg.word.source.text
    there = False
    for piece in arg.word.pieces:
        written = text[piece.start : piece.end]
        if piece.kind == "bare":
            if any(char in "*?[" for char in written):
                return False
            there = there or bool(written.strip("{},"))
        elif piece.kind == "glob":
            return False
        else:
            there = there or (
                piece.kind not in ("param", "command") and (piece.kind != "double" or "@" not in written)
            )
    return there


def _unpiped(frame: Frame) -> Frame:
    """The frame inside a compound command, whose own assignments are not lost at its end but at the pipe's."""
    return replace(frame, pipeline=False) if frame.pipeline else frame
