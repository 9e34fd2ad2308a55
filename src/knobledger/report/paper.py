"""What reports are written on: a terminal with colours by rich, or a plain stream without it.

Importing rich costs 0.1 s, so a stream that shows no colours does without.
"""

from __future__ import annotations

import os
from collections.abc import Mapping
from typing import TYPE_CHECKING, Protocol, TextIO

if TYPE_CHECKING:
    from rich.console import Console


class Paper(Protocol):
    """Takes one line after the other."""

    def write(self, text: str, style: str) -> None:
        """One line without its newline; `style` as rich names styles, empty for none."""


class Plain:
    """A pipe or a file."""

    def __init__(self, stream: TextIO) -> None:
        self.stream = stream

    def write(self, text: str, style: str) -> None:
        """The text alone."""
        del style
        print(text, file=self.stream)


class Coloured:
    """A terminal. Long lines are wrapped by the terminal itself, so that they can be copied whole."""

    def __init__(self, console: Console) -> None:
        self.console = console

    def write(self, text: str, style: str) -> None:
        """The text in its style; never taken for markup."""
        from rich.text import Text

        self.console.print(Text(text, style=style), soft_wrap=True)


def paper(stream: TextIO, env: Mapping[str, str] = os.environ) -> Paper:
    """Coloured on a terminal (or with `FORCE_COLOR`), plain elsewhere and with `NO_COLOR`."""
    if env.get("NO_COLOR") or not (stream.isatty() or env.get("FORCE_COLOR")):
        return Plain(stream)
    from rich.console import Console

    return Coloured(Console(file=stream, highlight=False, emoji=False))
