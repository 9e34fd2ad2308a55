"""What one invocation shares: where it writes, whether it may ask, and which workspace it means."""

from __future__ import annotations

import json
import os
import secrets
import sys
from collections.abc import Iterator
from contextlib import contextmanager
from functools import partial
from pathlib import Path
from typing import TYPE_CHECKING, Any, Literal, Protocol

from msgspec import Struct

from knobledger.cli.progress import Progress

if TYPE_CHECKING:
    from knobledger.knobs import Masker
    from knobledger.workspace import Workspace


Source = Literal["files", "replica"]
"""where a command reads the ledger"""


def _limit_s(workspace: Workspace, host: str) -> float:
    """How long one step on a host may take at most: connecting and one command. 0: it is no host, nobody knows."""
    config = workspace.config.hosts.get(host)
    return config.connect_timeout_s + config.command_timeout_s if config else 0.0


class Shown(Protocol):
    """Any report value."""

    def to_json(self) -> dict[str, Any]:
        """Its JSON document."""


class Session(Struct):
    """Set once by the app's callback. stdout is the result, stderr is the talk."""

    json: bool = False
    directory: Path | None = None
    on_behalf_of: str = ""
    masker: Masker | None = None
    """of the workspace that was opened"""
    shown: int | None = None
    """the exit code that the last report called for"""

    @contextmanager
    def workspace(self, source: Source = "files", *, quiet: bool = False) -> Iterator[Workspace]:
        """The workspace that the command line and the environment mean; its footer is said at the end, or not."""
        from knobledger import ahead
        from knobledger.cli.talk import Talk
        from knobledger.workspace import Workspace

        progress = Progress(lambda host: _limit_s(opened, host))
        opened = Workspace.open(
            self.directory,
            os.environ,
            on_behalf_of=self.on_behalf_of,
            connect=partial(ahead.connect, tell=progress.hears),
        )
        opened.from_replica = source == "replica"
        self.masker = opened.masker
        opened.progress = Talk(sys.stderr)
        if not quiet:
            opened.watch = progress
        try:
            with opened:
                yield opened
        finally:
            progress.stop()
            for note in () if quiet else opened.notes:
                self.say(f"note: {note}")

    @property
    def can_ask(self) -> bool:
        """There is a terminal to ask at, and the output is for people."""
        return not self.json and sys.stdin.isatty() and sys.stderr.isatty()

    def mask(self, value: object) -> object:
        """A value of an error, at any depth, with its secrets masked: by the workspace's key, or one for this run."""
        if self.masker is None:
            from knobledger.knobs import Masker

            self.masker = Masker(secrets.token_bytes(32))
        match value:
            case str():
                return self.masker.text(value)
            case dict():
                return {key: self.mask(item) for key, item in value.items()}
            case list() | tuple():
                return [self.mask(item) for item in value]
            case _:
                return value

    def show(self, report: Shown) -> int:
        """Prints a report on stdout; the exit code that it calls for."""
        if self.json:
            print(json.dumps(report.to_json(), ensure_ascii=True))
        else:
            from knobledger.report.paper import paper
            from knobledger.report.renderings import render

            render(report, paper(sys.stdout))
        self.shown = int(getattr(report, "exit_code", 0))
        return self.shown

    def preview(self, report: Shown) -> None:
        """Shows a report on stderr, as part of a question."""
        from knobledger.report.paper import paper
        from knobledger.report.renderings import render

        render(report, paper(sys.stderr))

    def say(self, text: str) -> None:
        """A sentence on stderr."""
        if text:
            print(text, file=sys.stderr)


session = Session()
