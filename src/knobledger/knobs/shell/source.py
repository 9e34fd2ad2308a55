"""A text to parse, and where each of its characters stands in the file."""

from __future__ import annotations

from bisect import bisect_right
from collections.abc import Sequence
from typing import Literal

from msgspec import Struct

Quoting = Literal["", "bare", "single", "double", "ansi", "lost"]
"""The quotes that a nested text stands in: none (a heredoc, a comment), `bare` (words that are
joined and read again), or those of its string; `lost` where
a value can't be written any more, because more than one shell reads it."""


class Source(Struct, frozen=True, gc=False):
    """A program's text as Latin-1: one character per byte, so offsets in it are byte offsets.

    A nested text (a string given to another shell, a commented-out line) maps each of its characters to
    the file's bytes by `starts` and `ends`.
    """

    text: str
    starts: Sequence[int] | None = None
    ends: Sequence[int] | None = None
    quotings: Sequence[tuple[int, Quoting]] = ((0, ""),)
    """from which character on which quotes hold, ascending"""
    file: str | None = None
    """the side file that it is, if not the file itself"""

    def span(self, start: int, end: int) -> tuple[int, int]:
        """The file's bytes of `text[start:end]`, half open."""
        if self.starts is None or self.ends is None:
            return start, end
        if start >= end:
            at = self.starts[start] if start < len(self.starts) else self.ends[-1] if self.ends else 0
            # Behind the last character of a piece, not before the first of the next one.
            at = self.ends[start - 1] if start and start <= len(self.ends) else at
            return at, at
        return self.starts[start], self.ends[end - 1]

    def quoting(self, position: int) -> Quoting:
        """The quotes around the character at `position`."""
        if len(self.quotings) == 1:
            return self.quotings[0][1]
        index = bisect_right(self.quotings, position, key=lambda pair: pair[0])
        return self.quotings[index - 1][1]

    def part(self, start: int, end: int) -> Source:
        """`text[start:end]` as a source of its own, its characters mapped."""
        starts = range(start, end) if self.starts is None else self.starts[start:end]
        ends = range(start + 1, end + 1) if self.ends is None else self.ends[start:end]
        return Source(self.text[start:end], starts, ends, ((0, self.quoting(start)),), self.file)


def decode(text: str) -> str:
    """Latin-1 text as the UTF-8 it stands for; other bytes become surrogate escapes."""
    return text if text.isascii() else text.encode("latin-1").decode("utf-8", "surrogateescape")


def encode(text: str) -> str:
    """The inverse of `decode`."""
    return text if text.isascii() else text.encode("utf-8", "surrogateescape").decode("latin-1")
