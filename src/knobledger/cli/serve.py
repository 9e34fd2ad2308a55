"""Commands about running services."""

from __future__ import annotations

from typing import Annotated, Literal

import typer

from knobledger.cli.change import carry_out
from knobledger.cli.session import session
from knobledger.cli.shared import GoAhead
from knobledger.errors import NotApproved

Scope = Annotated[
    Literal["service", "dependents", "group"],
    typer.Option("--scope", help="It alone, with all that come after it, or with all of its groups."),
]


def register(app: typer.Typer) -> None:
    """Adds the commands in the order of the help."""
    app.command("restart")(restart)


def restart(
    targets: Annotated[
        list[str], typer.Argument(metavar="TARGET...", help="Targets, services, globs, hosts or groups.")
    ],
    scope: Scope = "service",
    why: Annotated[
        str, typer.Option("--why", metavar="TEXT", help="The reason; it makes a plan that keeps it.")
    ] = "",
    plan: Annotated[
        bool, typer.Option("--plan", help="Only plan, for somebody to approve; nothing is restarted.")
    ] = False,
    go_ahead: GoAhead = False,
) -> int:
    """Restart services in order, each one proven healthy before the next begins. A policy may ask for a signed plan."""
    from knobledger.report.plans import PlanReport

    with session.workspace() as workspace:
        preview = workspace.restart_wish(targets, scope, why=why, plan=plan)
        if isinstance(preview, PlanReport):
            return carry_out(workspace, preview, plan=plan, go_ahead=go_ahead)
        if not go_ahead:
            if session.can_ask:
                session.preview(preview)
            elif not session.json:
                session.show(preview)
            if not session.can_ask or not typer.confirm("Go ahead?", default=False, err=True):
                raise NotApproved(
                    "nothing was restarted: no go-ahead was given",
                    hint=f"`knob restart {' '.join(targets)} --scope {scope} --go-ahead`",
                    **({"report": preview.to_json()} if session.json else {}),
                )
        return session.show(workspace.restart(targets, scope))
