"""What reports are written on: a terminal with colours by rich, or a plain stream without it.

Importing rich costs 0.1 s, so a stream that shows no colours does without.
"""

from __future__ import annotations

import os
from collections.abc import Mapping
from typing import TYPE_CHECKING, Protocol, TextIO

if TYPE_CHECKING:
    from rich.console import Console


WIDTH = 100
"""characters of a line where nobody says how wide the page is"""


class Paper(Protocol):
    """Takes one line after the other."""

    @property
    def width(self) -> int:
        """characters in a line; longer ones are written whole"""

    def write(self, text: str, style: str) -> None:
        """One line without its newline; `style` as rich names styles, empty for none."""


class Plain:
    """A pipe or a file."""

    def __init__(self, stream: TextIO, width: int = WIDTH) -> None:
        self.stream = stream
        self.width = width

    def write(self, text: str, style: str) -> None:
        """The text alone."""
        del style
        print(text, file=self.stream)


class Coloured:
    """A terminal. Long lines are wrapped by the terminal itself, so that they can be copied whole."""

    def __init__(self, console: Console) -> None:
        self.console = console
        self.width = console.width

    def write(self, text: str, style: str) -> None:
        """The text in its style; never taken for markup."""
        from rich.text import Text

        self.console.print(Text(text, style=style), soft_wrap=True)


def paper(stream: TextIO, env: Mapping[str, str] = os.environ) -> Paper:
    """Coloured on a terminal (or with `FORCE_COLOR`), plain elsewhere and with `NO_COLOR`."""
    if env.get("NO_COLOR") or not (stream.isatty() or env.get("FORCE_COLOR")):
        columns = env.get("COLUMNS", "")
        return Plain(stream, _terminal_width(stream) or (int(columns) if columns.isdigit() else 0) or WIDTH)
    from rich.console import Console

    return Coloured(Console(file=stream, highlight=False, emoji=False))


def _terminal_width(stream: TextIO) -> int:
    try:
        return os.get_terminal_size(stream.fileno()).columns
    except (OSError, ValueError):
        return 0
