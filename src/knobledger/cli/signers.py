"""Commands about who may approve."""

from __future__ import annotations

from typing import Annotated

import typer

from knobledger.cli.session import session


def register(app: typer.Typer) -> None:
    """Adds the commands in the order of the help."""
    signers = typer.Typer(help="Record who may sign approvals.", no_args_is_help=True)
    signers.command()(trust)
    signers.command("list")(list_)
    app.add_typer(signers, name="signers")


def trust(
    file: Annotated[
        str, typer.Argument(metavar="FILE", help="The allowed_signers file that hosts.toml names.")
    ] = "",
    key: Annotated[
        str,
        typer.Option("--key", metavar="FILE", help="Sign the change with this key; not for the first time."),
    ] = "",
) -> int:
    """Record the allowed_signers file and the policies of hosts.toml. The first time is believed; later ones are signed."""
    with session.workspace() as workspace:
        return session.show(workspace.trust_signers(file, key))


def list_() -> int:
    """Show who may sign, and whether the file still is the one that was recorded."""
    with session.workspace() as workspace:
        return session.show(workspace.signers())
