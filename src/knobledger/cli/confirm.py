"""Commands around changes that put themselves back unless they are confirmed."""

from __future__ import annotations

from typing import Annotated

import typer

from knobledger.cli.change import Change
from knobledger.cli.session import session


def register(app: typer.Typer) -> None:
    """Adds the commands in the order of the help."""
    for command in (confirm, pending):
        app.command(command.__name__)(command)


def confirm(change: Change) -> int:
    """Keep a change that was made with --confirm-within; after its deadline this says what happened instead."""
    with session.workspace() as workspace:
        return session.show(workspace.confirm(change))


def pending(
    recorded: Annotated[bool, typer.Option("--recorded", help="Ask only the ledger, no host.")] = False,
) -> int:
    """Show the changes that put themselves back unless they are confirmed, with the time that is left."""
    with session.workspace() as workspace:
        return session.show(workspace.pending(recorded=recorded))
