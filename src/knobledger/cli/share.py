"""Commands that share a ledger with other clones."""

from __future__ import annotations

import typer

from knobledger.cli.session import session


def register(app: typer.Typer) -> None:
    """Adds the commands in the order of the help."""
    app.command("sync")(sync)


def sync() -> int:
    """Exchange entries with the repository's remote: pull, merge, push; and say what came in."""
    with session.workspace() as workspace:
        return session.show(workspace.sync())
