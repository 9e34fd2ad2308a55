"""Tables that fit the width of the page: cells are wrapped, never cut."""

from __future__ import annotations

import textwrap
from collections.abc import Sequence
from itertools import zip_longest

from msgspec import Struct

from knobledger.report.paper import Paper
from knobledger.report.terminal import line

GAP = "  "
TOGETHER = "\u00a0"
"""a blank at which no line is broken"""
_LONGEST_WORD = 32
"""characters: a column does not have to be wide enough for longer words"""

Cell = Sequence[str]
"""paragraphs, each on lines of its own"""


class Row(Struct, frozen=True):
    """One row, with the style of all its lines."""

    cells: tuple[Cell, ...]
    style: str = ""


def table(page: Paper, heads: Sequence[str], rows: Sequence[Row]) -> bool:
    """Writes a table, if its columns have room on the page; whether they had. The first column is never wrapped."""
    columns = [[list(row.cells[i]) for row in rows] for i in range(len(heads))]
    wish = [max(len(head), *map(_widest, column)) for head, column in zip(heads, columns, strict=True)]
    least = [max(len(head), *map(_word, column)) for head, column in zip(heads, columns, strict=True)]
    least[0] = wish[0]
    widths = _fitted(wish, least, page.width - len(GAP) * (len(heads) - 1))
    if widths is None:
        return False
    line(
        page, GAP.join(head.ljust(width) for head, width in zip(heads, widths, strict=True)).rstrip(), "bold"
    )
    for row in rows:
        wrapped = [_wrapped(cell, width) for cell, width in zip(row.cells, widths, strict=True)]
        for parts in zip_longest(*wrapped, fillvalue=""):
            line(
                page,
                GAP.join(part.ljust(width) for part, width in zip(parts, widths, strict=True)).rstrip(),
                row.style,
            )
    return True


def wrapped(page: Paper, text: str, indent: str, style: str = "") -> None:
    """A paragraph that hangs under what it belongs to."""
    for part in _wrapped([text], max(20, page.width - len(indent))):
        line(page, indent + part, style)


def _widest(cell: Cell) -> int:
    return max((len(text) for text in cell), default=0)


def _word(cell: Cell) -> int:
    return max((min(len(word), _LONGEST_WORD) for text in cell for word in text.split(" ")), default=0)


def _fitted(wish: Sequence[int], least: Sequence[int], room: int) -> list[int] | None:
    """Widths within the room: as wished where they fit, else the widest gives first, down to its longest word."""
    widths = list(wish)
    while sum(widths) > room:
        give = [i for i, width in enumerate(widths) if width > least[i]]
        if not give:
            return None
        widths[max(give, key=lambda i: widths[i] - least[i])] -= 1
    return widths


def _wrapped(cell: Cell, width: int) -> list[str]:
    out: list[str] = []
    for text in cell:
        out += textwrap.wrap(text, width, break_on_hyphens=False, replace_whitespace=False) or [""]
    return [part.replace(TOGETHER, " ") for part in out]
