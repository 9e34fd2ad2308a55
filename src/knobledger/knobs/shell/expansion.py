"""Expanding words: which arguments a command is given."""

from __future__ import annotations

from collections.abc import Sequence

from msgspec.structs import replace

from knobledger.knobs.occurrence import Scope
from knobledger.knobs.shell.declare import Declarer
from knobledger.knobs.shell.frame import Frame
from knobledger.knobs.shell.parse import set_by
from knobledger.knobs.shell.source import Source
from knobledger.knobs.shell.state import Arg, Break, Elements, Part, State, Text
from knobledger.knobs.shell.strings import names_of, operand_words, parts_of, split
from knobledger.knobs.shell.syntax import Piece, Statement, Word
from knobledger.knobs.shell.values import prefix_text


class Expander(Declarer):
    """Follows the expansion of words."""

    def statements(self, body: tuple[Statement, ...], state: State, frame: Frame) -> None:
        """See Walker."""
        raise NotImplementedError

    def arguments(self, words: Sequence[Word], state: State, frame: Frame) -> list[Arg]:
        """The arguments that words become when they are expanded."""
        args: list[Arg] = []
        for word in words:
            pieces = word.pieces
            if len(pieces) != 1:
                if not all(piece.kind == "command" and not piece.script for piece in pieces):
                    args.append(Arg(word))
                continue
            piece, quoted = pieces[0], False
            if piece.kind == "double" and len(piece.parts) == 1:
                piece, quoted = piece.parts[0], True
            if piece.kind == "command" and not piece.script and not quoted:
                continue
            if piece.kind == "param":
                args.extend(self._parameter(word, piece, quoted, state, frame))
            else:
                args.append(Arg(word))
        return args

    def _parameter(self, word: Word, piece: Piece, quoted: bool, state: State, frame: Frame) -> list[Arg]:
        if piece.op == "@":
            return self._all_of("@" if piece.text == "*" else piece.text, state)
        if piece.op in (":+", "+"):
            return self._alternative(word, piece, quoted, state, frame)
        if piece.op == "" and not quoted:
            variable = state.get(piece.text)
            if any(isinstance(part, Elements) for part in variable.parts):
                return [Arg(word)]
            args = split(variable.parts)
            self.charge(len(args))
            if not args and not variable.inherited:
                return []
            plain = (
                len(args) == 1 and args[0].word is not None and not prefix_text(args[0].word).startswith("-")
            )
            if plain or all(arg.word is None for arg in args):
                return [Arg(word)]
            return args
        return [Arg(word)]

    def _all_of(self, name: str, state: State) -> list[Arg]:
        variable = state.get(name)
        args: list[Arg] = []
        for part in variable.parts:
            if isinstance(part, Elements):
                self.charge(len(part.args))
                args.extend(replace(arg, guarded=arg.guarded or part.guarded) for arg in part.args)
            elif not isinstance(part, Break):
                args.append(Arg(None, part.guarded))
        return args

    def _alternative(self, word: Word, piece: Piece, quoted: bool, state: State, frame: Frame) -> list[Arg]:
        """`${X:+words}`: the words, if X is set."""
        if quoted:
            return [Arg(word)]
        words = operand_words(word.source, piece.parts)
        args = self.arguments(words, state, frame)
        variable = state.get(piece.text)
        if not variable.inherited and any(isinstance(part, Elements) for part in variable.parts):
            # ${A[@]+"${A[@]}"} only keeps old shells quiet about an empty array.
            return args
        path = (*frame.path, self.mark(piece))
        return [
            replace(arg, guarded=True)
            if arg.scope is not None
            else replace(arg, guarded=True, scope=Scope.CONDITIONAL, path=path)
            for arg in args
        ]

    def substitutions(self, word: Word, state: State, frame: Frame) -> None:
        """Follow the commands inside `$( )` and backticks, which change nothing outside, and sums, which may."""
        todo = [piece for piece in word.pieces if piece.parts or piece.script or piece.kind == "arith"]
        while todo:
            piece = todo.pop(0)
            todo.extend(part for part in piece.parts if part.parts or part.script or part.kind == "arith")
            if piece.kind == "arith":
                for name in set_by(word.source.text[piece.start : piece.end]):
                    self.disturb(name, state, f"a sum on line {self.line(word.source, piece.start)}")
            if piece.script:
                inner = replace(frame, scope=Scope.SUBSHELL, background=False, pipeline=False, ways=None)
                outer, self.source = self.source, piece.source or word.source
                self.statements(piece.script, state.copy(), inner)
                self.source = outer

    def names_used(self, args: Sequence[Arg], words: Sequence[Word], state: State) -> list[str]:
        """The variables that the words expand, and those that these are made of."""
        todo = sorted(names_of(words))
        todo += sorted(names_of(arg.word for arg in args if arg.word is not None))
        found: dict[str, None] = {}
        while todo:
            name = todo.pop()
            if name not in found:
                found[name] = None
                todo.extend(sorted(state.get(name).reads))
        self.charge(len(found) // 4)
        return list(found)

    def joined(self, words: Sequence[Word], state: State) -> tuple[Part, ...]:
        """The words as one string with blanks between, as eval and ssh join them."""
        parts: list[Part] = []
        for index, word in enumerate(words):
            if index:
                at = word.source.span(word.start, word.start)[0]
                parts.append(Text(Source(" ", (at - 1,), (at,), ((0, "lost"),))))
            parts.extend(parts_of(word, state))
        return tuple(parts)
