"""Between the words of a program: blanks, comments, newlines, heredocs, reserved words."""

from __future__ import annotations

import re

from knobledger.knobs.shell.source import Source
from knobledger.knobs.shell.syntax import Comment, Heredoc, Redirect
from knobledger.knobs.shell.words import SyntaxFault

_BLANKS = re.compile(r"(?:[ \t]++|\\\n)*+")
_BLANK_CHARS = frozenset(" \t\\")
_COMMENT = re.compile(r"#[^\n]*+")
_GAP = re.compile(r"(?:[ \t\n]++|\\\n)*+")
_KEYWORD = re.compile(r"(?:[a-z]{2,8}+|[{}!]|\[\[)(?=[ \t\n;&|<>()]|$|\\\n)")
_WORDS = "if then elif else fi while until for select do done case esac function { } [[ ! time coproc in"
_RESERVED = frozenset(_WORDS.split())
READS = 80_000
"""How much a program may hold (a command counts 3, a word and an expansion 1): a bound on what hostile text can cost."""


class Tokens:
    """Steps over one source."""

    def __init__(self, source: Source, work: int = READS) -> None:
        self.source = source
        self.text = source.text
        self.at = 0
        self.comments: list[Comment] = []
        self._pending: list[Redirect] = []
        self.left = work
        """of the work that reading may be"""

    def charge(self, work: int) -> None:
        """Count work; too much of it is a fault."""
        self.left -= work
        if self.left < 0:
            raise SyntaxFault("nested or repeated too much to be read", self.at)

    def _blanks(self) -> bool:
        """Skip blanks and continued line ends; whether the last of them was a continuation."""
        if self.text[self.at : self.at + 1] not in _BLANK_CHARS:
            return False
        match = _BLANKS.match(self.text, self.at)
        assert match is not None
        self.at = match.end()
        return "\\\n" in match.group()

    def _comment(self, *, cuts: bool = False) -> bool:
        if not self.text.startswith("#", self.at):
            return False
        match = _COMMENT.match(self.text, self.at)
        assert match is not None
        self.comments.append(Comment(self.at, match.end(), cuts))
        self.at = match.end()
        return True

    def _newline(self) -> bool:
        """Step over a newline, and over the heredocs that begin behind it."""
        if not self.text.startswith("\n", self.at):
            return False
        self.at += 1
        pending, self._pending = self._pending, []
        for redirect in pending:
            self._heredoc(redirect)
        return True

    def _gap(self) -> None:
        """Skip blanks, comments and newlines."""
        if not self._pending:
            text, at = self.text, self.at
            while True:
                at = _GAP.match(text, at).end()  # type: ignore[union-attr]
                if not text.startswith("#", at):
                    self.at = at
                    return
                end = text.find("\n", at)
                end = end if end >= 0 else len(text)
                self.comments.append(Comment(at, end))
                at = end
        while True:
            self._blanks()
            if not self._comment() and not self._newline():
                return

    def _heredoc(self, redirect: Redirect) -> None:
        pieces = redirect.target.pieces
        delimiter = "".join(
            "".join(part.text for part in piece.parts) if piece.kind == "double" else piece.text
            for piece in pieces
        )
        expands = all(piece.kind == "bare" for piece in pieces)
        start = at = self.at
        while at < len(self.text):
            end = self.text.find("\n", at)
            end = len(self.text) if end < 0 else end
            line = self.text[at:end]
            if (line.lstrip("\t") if redirect.op == "<<-" else line) == delimiter:
                redirect.heredoc.append(Heredoc(start, at, expands))
                self.at = min(end + 1, len(self.text))
                return
            at = end + 1
        # bash takes the end of the file for the delimiter, and warns.
        redirect.heredoc.append(Heredoc(start, len(self.text), expands))
        self.at = len(self.text)

    def _reserved(self) -> str:
        """The reserved word that stands here as a word of its own, or nothing."""
        match = _KEYWORD.match(self.text, self.at)
        return match.group() if match and match.group() in _RESERVED else ""
