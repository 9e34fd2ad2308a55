"""Commands that look at what runs."""

from __future__ import annotations

from typing import Annotated

import typer

from knobledger.cli.change import Target, knob_name
from knobledger.cli.session import session


def register(app: typer.Typer) -> None:
    """Adds the commands in the order of the help."""
    for command in (live,):
        app.command()(command)


def live(
    target: Target,
    names: Annotated[
        list[str] | None,
        typer.Argument(metavar="NAME...", help="Knobs. Default: all that the file decides."),
    ] = None,
    knobs: Annotated[
        list[str] | None,
        typer.Option("--knob", metavar="NAME", help="The same, also for flags: --knob=--flag; may repeat."),
    ] = None,
) -> int:
    """Show what the running processes of a service have of its knobs: file, unit and process side by side."""
    wanted = [knob_name(name) for name in (*(names or ()), *(knobs or ()))]
    with session.workspace() as workspace:
        return session.show(workspace.live([target], wanted))
