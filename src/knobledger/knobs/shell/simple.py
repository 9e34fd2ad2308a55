"""Simple commands: assignments, words, redirects."""

from __future__ import annotations

import re
from typing import Final

from knobledger.knobs.shell.source import Source
from knobledger.knobs.shell.syntax import (
    Assignment,
    Command,
    Function,
    Piece,
    Redirect,
    Simple,
    Statement,
    Word,
)
from knobledger.knobs.shell.tokens import READS, Tokens
from knobledger.knobs.shell.words import SyntaxFault, WordScanner

_REDIRECT = re.compile(
    r"([0-9]+|\{[A-Za-z_][A-Za-z0-9_]*\})?(<<<|<<-|<<|<>|<&|>&|>>|>\||&>>|&>|<(?!\()|>(?!\())"
)
_REDIRECT_STARTS = frozenset("<>&{0123456789")
_ASSIGN = re.compile(r"([A-Za-z_][A-Za-z0-9_]*)(\[[^]\n]*\])?(\+?)=")
_PLAIN_WORD = r"([^ \t\n\\'\"`$;&|<>()#=][^ \t\n\\'\"`$;&|<>()]*+)(?=[ \t\n;|)]|\Z)"
_PLAIN = re.compile(rf"(?:[ \t]|\\\n)*+{_PLAIN_WORD}")
"""A word without quotes, expansions and `=` in front; most words of a script are such."""
_ELEMENT = re.compile(rf"(?:[ \t\n]|\\\n)*+{_PLAIN_WORD}")
"""The same in an array, where it may stand on another line."""
_SIMPLE_ENDS = frozenset(["", "\n", ";", "|", ")"])
FUNCTION = re.compile(r"[ \t]*\([ \t]*\)")
DECLARERS: Final = frozenset(["export", "declare", "typeset", "readonly", "local"])


class SimpleParser(Tokens):
    """Parses simple commands."""

    def __init__(self, source: Source, work: int = READS) -> None:
        super().__init__(source, work)
        self.words = WordScanner(source, self)

    def nested_list(self, start: int, closer: str, depth: int) -> tuple[tuple[Statement, ...], int]:
        """See Parser."""
        raise NotImplementedError

    def nested_source(self, source: Source, depth: int) -> tuple[Statement, ...]:
        """See Parser."""
        raise NotImplementedError

    def _function(self, start: int, name: str, depth: int) -> Function:
        raise NotImplementedError

    def _redirects(self, depth: int) -> tuple[Redirect, ...]:
        """The redirects behind a compound command."""
        found: list[Redirect] = []
        while True:
            mark = self.at
            self._blanks()
            redirect = self._redirect(depth)
            if redirect is None:
                self.at = mark
                return tuple(found)
            found.append(redirect)

    def _redirect(self, depth: int) -> Redirect | None:
        if self.text[self.at : self.at + 1] not in _REDIRECT_STARTS:
            return None
        match = _REDIRECT.match(self.text, self.at)
        if not match:
            return None
        start, op = self.at, match.group(2)
        self.at = match.end()
        self._blanks()
        target = self.words.word(self.at, depth)
        if target.end == self.at:
            raise SyntaxFault(f"nothing behind {op!r}", start)
        self.at = target.end
        redirect = Redirect(op, start, target.end, target, [])
        if op in ("<<", "<<-"):
            self._pending.append(redirect)
        return redirect

    def _simple(self, depth: int) -> Command:
        start = end = self.at
        assignments: list[Assignment] = []
        words: list[Word | Assignment] = []
        redirects: list[Redirect] = []
        declares = expands = False
        text, source = self.text, self.source
        while True:
            # The quick way for plain words; what it does not match goes the general way.
            while not declares and (plain := _PLAIN.match(text, self.at)):
                word_text = plain[1]
                if not words:
                    if "=" in word_text:
                        break
                    declares = word_text in DECLARERS
                begin, self.at = plain.span(1)
                words.append(Word(source, begin, self.at, (Piece("bare", begin, self.at, word_text),)))
                end = self.at
            continued = self._blanks()
            char = text[self.at : self.at + 1]
            if char in _SIMPLE_ENDS:
                break
            if char == "#":
                self._comment(cuts=continued)
                break
            if char in _REDIRECT_STARTS and (redirect := self._redirect(depth)):
                redirects.append(redirect)
                end = self.at
                continue
            if char == "&":
                break
            expands = True
            if (not words or declares) and (assignment := self._assignment(depth)):
                if words:
                    words.append(assignment)
                else:
                    assignments.append(assignment)
                end = self.at
                continue
            word = self.words.word(self.at, depth)
            if word.end == self.at:
                if self.text[self.at] == "(" and len(words) == 1 and not assignments:
                    return self._function_after(start, words[0], depth)
                raise SyntaxFault(f"unexpected {self.text[self.at]!r}", self.at)
            self.at = end = word.end
            if not words:
                declares = self.text[word.start : word.end] in DECLARERS
            words.append(word)
        if end == start:
            raise SyntaxFault(f"unexpected {self.text[self.at : self.at + 1]!r}", self.at)
        self.charge(len(words))
        return Simple(start, end, tuple(assignments), tuple(words), tuple(redirects), source, expands)

    def _function_after(self, start: int, name: Word | Assignment, depth: int) -> Function:
        parentheses = FUNCTION.match(self.text, self.at)
        if not parentheses:
            raise SyntaxFault("unexpected '('", self.at)
        self.at = parentheses.end()
        return self._function(start, self.text[name.start : name.end], depth)

    def _assignment(self, depth: int) -> Assignment | None:
        match = _ASSIGN.match(self.text, self.at)
        if not match:
            return None
        start, at = self.at, match.end()
        name, subscript, append = match.group(1), bool(match.group(2)), bool(match.group(3))
        if self.text.startswith("(", at):
            elements = self._array(at, depth)
            return Assignment(
                name, start, self.at, append, Word(self.source, at, self.at, ()), elements, subscript
            )
        value = self.words.word(at, depth)
        self.at = value.end
        return Assignment(name, start, value.end, append, value, None, subscript)

    def _array(self, start: int, depth: int) -> tuple[Word, ...]:
        """The words between `(` and `)`; comments and newlines may stand between them."""
        self.at = start + 1
        words: list[Word] = []
        while True:
            while not self._pending and (plain := _ELEMENT.match(self.text, self.at)):
                self.charge(1)
                begin, self.at = plain.span(1)
                words.append(Word(self.source, begin, self.at, (Piece("bare", begin, self.at, plain[1]),)))
            self._gap()
            if self.text.startswith(")", self.at):
                self.at += 1
                return tuple(words)
            word = self.words.word(self.at, depth + 1)
            if word.end == self.at:
                what = (
                    "unterminated array" if self.at >= len(self.text) else "unexpected character in an array"
                )
                raise SyntaxFault(what, start)
            self.at = word.end
            words.append(word)
