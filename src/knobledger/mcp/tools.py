"""The tools: each parses, calls one method of the workspace, and gives its report.

None approves, trusts, confirms or prunes.
"""

from __future__ import annotations

import time
from collections.abc import Sequence
from typing import Annotated, Any, Literal

import anyio
from mcp.server import MCPServer
from mcp.server.mcpserver import Context
from msgspec.structs import replace
from pydantic import Field

from knobledger import asking
from knobledger.delegate import Delegate
from knobledger.drafting import Options
from knobledger.errors import Usage
from knobledger.knobs import Request
from knobledger.looking import Query
from knobledger.mcp import asking as why_tools
from knobledger.mcp import results
from knobledger.mcp.annotations import APPLIES, LOOKS, PLANS, READS
from knobledger.mcp.desk import AgentDesk
from knobledger.mcp.marking import page
from knobledger.plan import Purpose, RestartScope
from knobledger.report.plans import NothingToDo, PlanReport

Target = Annotated[str, Field(description="HOST/SERVICE, or HOST/SERVICE:NAME for another file of it.")]
When = Annotated[
    str, Field(description="noon, 14:14, yesterday 18:00, 2h, 3 days ago, monday, an ISO instant.")
]
Cursor = Annotated[str, Field(description="next_cursor of the page before; empty for the first page.")]
Limit = Annotated[int, Field(ge=1, le=200, description="Entries on a page, at most.")]
Why = Annotated[str, Field(description="The reason, kept in the ledger for good.")]
Kind = Annotated[
    Purpose | None,
    Field(
        description="What the change is for; null: mitigation where a hypothesis takes something away, else other."
    ),
]
Hypotheses = Annotated[list[str], Field(description="Slugs of the hypotheses that it is made under.")]
Restart = Annotated[
    RestartScope,
    Field(
        description="Restart after applying: the service, with its dependents, or its groups; part of the plan."
    ),
]
RollBack = Annotated[
    bool, Field(description="Take files and services back if a service does not become healthy.")
]
Despite = Annotated[
    str,
    Field(
        description="Plan it although the ledger holds evidence against its hypothesis, for this reason; "
        "show the evidence to the person first."
    ),
]
ConfirmWithin = Annotated[str, Field(description="The host takes it back unless a person confirms: 10m.")]
Plan = Annotated[str, Field(description="A plan's id, or a prefix of it.")]
Ctx = Context[Any, Any]

LONGEST_WAIT_S = 600
POLL_S = 1.0


def register(server: MCPServer[Any], desk: AgentDesk) -> None:
    """Adds every tool."""
    _looking(server, desk)
    _history(server, desk)
    _planning(server, desk)
    _acting(server, desk)
    why_tools.register(server, desk)


def _looking(server: MCPServer[Any], desk: AgentDesk) -> None:
    @server.tool(annotations=LOOKS)
    def scan(target: Target, ctx: Ctx, cursor: Cursor = "", limit: Limit = 100) -> results.Scanned:
        """List every knob in a target's live file: commented and overridden ones too."""

        def act(workspace: Delegate) -> dict[str, Any]:
            found = workspace.scan(target).files[0].to_json()
            return _paged(found, "knobs", cursor, limit)

        return results.Scanned(**desk.call(ctx, act))

    @server.tool(annotations=LOOKS)
    def status(
        ctx: Ctx,
        targets: Annotated[list[str], Field(description="Targets, globs or groups; empty: all.")] = [],  # noqa: B006
        recorded: Annotated[bool, Field(description="Ask only the ledger, no host.")] = False,
        cursor: Cursor = "",
        limit: Limit = 100,
    ) -> results.StatusResult:
        """The active knobs of targets: value, who set it, when and why; and what is out of order."""

        def act(workspace: Delegate) -> dict[str, Any]:
            found = workspace.status(targets, recorded=recorded).to_json()
            lines = found["targets"]
            found["knobs"] = [
                {"target": line["target"], **knob}
                for line in lines
                for knob in line["knobs"]
                if knob["active"]
            ]
            found["targets"] = [{k: v for k, v in line.items() if k != "knobs"} for line in lines]
            return _paged(found, "knobs", cursor, limit)

        return results.StatusResult(**desk.call(ctx, act))

    @server.tool(annotations=LOOKS)
    def blame(target: Target, ctx: Ctx, cursor: Cursor = "", limit: Limit = 200) -> results.BlameResult:
        """Each line of a target with the entry that brought it."""
        return results.BlameResult(
            **desk.call(ctx, lambda w: _paged(w.blame(target).to_json(), "lines", cursor, limit))
        )

    @server.tool(annotations=LOOKS)
    def diff(
        target: Target,
        ctx: Ctx,
        a: Annotated[
            str, Field(description="A change, a backup, live, or another target; empty: as recorded.")
        ] = "",
        b: Annotated[str, Field(description="The same; empty: live.")] = "",
    ) -> results.DiffResult:
        """The difference of two states of a target, as knobs and as lines."""
        return results.DiffResult(**desk.call(ctx, lambda w: w.diff(target, a or None, b or None).to_json()))

    @server.tool(annotations=LOOKS)
    def backups(target: Target, ctx: Ctx, cursor: Cursor = "", limit: Limit = 50) -> results.BackupsResult:
        """The backups of a target on its host."""
        return results.BackupsResult(
            **desk.call(ctx, lambda w: _paged(w.backups(target).to_json(), "backups", cursor, limit))
        )


def _history(server: MCPServer[Any], desk: AgentDesk) -> None:
    @server.tool(annotations=LOOKS)
    def since(
        when: When,
        ctx: Ctx,
        until: Annotated[str, Field(description="The end, in the same words; empty: now.")] = "",
        target: Annotated[str, Field(description="Only this target; empty: all.")] = "",
        live: Annotated[bool, Field(description="Ask the hosts as well, for edits by hand.")] = False,
        cursor: Cursor = "",
        limit: Limit = 50,
    ) -> results.SinceResult:
        """What changed since a moment, oldest first: the first question of an investigation."""

        def act(workspace: Delegate) -> dict[str, Any]:
            end = workspace.moment(until) if until else None
            found = workspace.since(workspace.moment(when), end, target or None, live=live).to_json()
            return _paged(found, "changes", cursor, limit)

        found = desk.call(ctx, act)
        return results.SinceResult(since=found.pop("from"), **found)

    @server.tool(annotations=READS)
    def log(
        ctx: Ctx,
        target: Annotated[str, Field(description="Only this target.")] = "",
        knob: Annotated[str, Field(description="Only entries about this knob.")] = "",
        kind: Annotated[str, Field(description="planned, applied, observed, set, revert, perf, ...")] = "",
        actor: Annotated[str, Field(description="Only entries by this actor.")] = "",
        since: Annotated[str, Field(description="From this moment on.")] = "",
        until: Annotated[str, Field(description="Before this moment.")] = "",
        cursor: Cursor = "",
        limit: Limit = 50,
    ) -> results.LogResult:
        """The ledger's entries, newest first."""

        def act(workspace: Delegate) -> dict[str, Any]:
            query = Query(
                target=workspace.config.target(target).name if target else None,
                knob=knob or None,
                kind=kind or None,
                actor=actor or None,
                since=workspace.moment(since).instant if since else None,
                until=workspace.moment(until).instant if until else None,
            )
            return _paged(workspace.log(query).to_json(), "entries", cursor, limit, anchor="id")

        return results.LogResult(**desk.call(ctx, act))


def _planning(server: MCPServer[Any], desk: AgentDesk) -> None:
    @server.tool(annotations=PLANS)
    def plan_set(
        targets: Annotated[list[str], Field(min_length=1, description="Targets, globs or groups.")],
        values: Annotated[
            dict[str, str], Field(description="Knobs and their new values; a bare flag has an empty one.")
        ],
        why: Why,
        ctx: Ctx,
        kind: Kind = None,
        hypotheses: Hypotheses = [],  # noqa: B006
        add: Annotated[bool, Field(description="Put a knob in where the file does not have it.")] = False,
        line: Annotated[int | None, Field(description="The occurrence on this line is meant.")] = None,
        force: Annotated[bool, Field(description="Replace a dynamic or conditional value, too.")] = False,
        label: Annotated[str, Field(description="A word for the backup's name.")] = "",
        confirm_within: ConfirmWithin = "",
        restart: Restart = "none",
        roll_back_on_failure: RollBack = False,
        despite: Despite = "",
    ) -> results.PlanResult:
        """Plan new values for knobs. Nothing on the host is changed; a person gives the go-ahead."""
        return _planned(
            desk,
            ctx,
            lambda w: w.set(
                targets,
                [Request(asking.knob_name(name), value) for name, value in values.items()],
                replace(
                    _options(why, kind, hypotheses, restart, roll_back_on_failure, despite, confirm_within),
                    add=add,
                    line=line,
                    force=force,
                    label=asking.label(label),
                ),
            ),
        )

    @server.tool(annotations=PLANS)
    def plan_unset(
        targets: Annotated[list[str], Field(min_length=1, description="Targets, globs or groups.")],
        names: Annotated[list[str], Field(min_length=1, description="Knobs to take out.")],
        why: Why,
        ctx: Ctx,
        kind: Kind = None,
        hypotheses: Hypotheses = [],  # noqa: B006
        line: Annotated[int | None, Field(description="The occurrence on this line is meant.")] = None,
        confirm_within: ConfirmWithin = "",
        restart: Restart = "none",
        roll_back_on_failure: RollBack = False,
        despite: Despite = "",
    ) -> results.PlanResult:
        """Plan to take knobs out. Nothing on the host is changed; a person gives the go-ahead."""
        return _planned(
            desk,
            ctx,
            lambda w: w.set(
                targets,
                [Request(asking.knob_name(name), None) for name in names],
                replace(
                    _options(why, kind, hypotheses, restart, roll_back_on_failure, despite, confirm_within),
                    line=line,
                ),
            ),
        )

    @server.tool(annotations=PLANS)
    def plan_revert(
        change: Annotated[str, Field(description="A change's id or prefix; @ is the newest.")],
        why: Why,
        ctx: Ctx,
        kind: Kind = None,
        hypotheses: Hypotheses = [],  # noqa: B006
        confirm_within: ConfirmWithin = "",
        restart: Restart = "none",
        roll_back_on_failure: RollBack = False,
        despite: Despite = "",
    ) -> results.PlanResult:
        """Plan to undo one change, keeping all later ones."""
        return _planned(
            desk,
            ctx,
            lambda w: w.revert(
                change,
                _options(why, kind, hypotheses, restart, roll_back_on_failure, despite, confirm_within),
            ),
        )

    @server.tool(annotations=PLANS)
    def plan_restore(
        change: Annotated[
            str, Field(description="The revert, or the change that it took back, or a backup's name.")
        ],
        why: Why,
        ctx: Ctx,
        kind: Kind = None,
        hypotheses: Hypotheses = [],  # noqa: B006
        confirm_within: ConfirmWithin = "",
        restart: Restart = "none",
        roll_back_on_failure: RollBack = False,
        despite: Despite = "",
    ) -> results.PlanResult:
        """Plan to undo a revert: bring back what it took away."""
        return _planned(
            desk,
            ctx,
            lambda w: w.restore(
                change,
                _options(why, kind, hypotheses, restart, roll_back_on_failure, despite, confirm_within),
            ),
        )

    @server.tool(annotations=PLANS)
    def plan_restart(
        services: Annotated[
            list[str], Field(min_length=1, description="Services, targets, globs or groups.")
        ],
        why: Why,
        ctx: Ctx,
        scope: Annotated[
            Literal["service", "dependents", "group"], Field(description="What else is restarted with them.")
        ] = "service",
    ) -> results.PlanResult:
        """Plan a restart that changes no file, each service proven before the next. A person gives the go-ahead."""
        return _planned(desk, ctx, lambda w: w.restart_wish(services, scope, why=why, plan=True))


def _options(
    why: str,
    kind: Purpose | None,
    hypotheses: Sequence[str],
    restart: RestartScope,
    roll_back: bool,
    despite: str,
    confirm_within: str,
) -> Options:
    """What every planning tool takes. Raises `Usage`."""
    if roll_back and restart == "none":
        raise Usage("roll_back_on_failure needs a restart to fail", hint="restart='service'")
    return Options(
        why=why,
        purpose=kind,
        hypotheses=tuple(hypotheses),
        restart=restart,
        roll_back_on_failure=roll_back,
        despite=despite,
        confirm_within_s=asking.window(confirm_within),
    )


def _acting(server: MCPServer[Any], desk: AgentDesk) -> None:
    @server.tool(annotations=LOOKS)
    def show_plan(plan: Plan, ctx: Ctx) -> results.PlanResult:
        """One plan or change in full: diff, knobs, reason, restart scope, warnings, later edits, whether it is stale."""
        return _planned(desk, ctx, lambda w: w.show_plan(plan))

    @server.tool(annotations=READS)
    async def wait_for_approval(
        plan: Plan,
        ctx: Ctx,
        seconds: Annotated[
            int, Field(ge=0, le=LONGEST_WAIT_S, description="How long to wait, at most.")
        ] = 60,
    ) -> results.StandingResult:
        """Wait until a person has signed a plan, or it can't be applied any more, or the time is over.

        Tell the person the command: `knob show PLAN`, then `knob approve PLAN`.
        """
        begun = time.monotonic()
        while True:
            found = await anyio.to_thread.run_sync(
                lambda: desk.call(ctx, lambda w: _standing(w, plan)), abandon_on_cancel=True
            )
            waited = time.monotonic() - begun
            if found.pop("settled") or waited >= seconds:
                return results.StandingResult(waited_s=round(waited, 1), **found)
            await ctx.report_progress(waited, seconds, "waits for a signature")
            await anyio.sleep(min(POLL_S, seconds - waited))

    @server.tool(annotations=APPLIES)
    def apply_plan(plan: Plan, ctx: Ctx) -> results.PlanResult:
        """Apply a plan that a person has signed, once, on exactly the bytes it was made for."""
        return _planned(desk, ctx, lambda w: w.apply(plan))


def _standing(workspace: Delegate, plan: str) -> dict[str, Any]:
    found = workspace.standing(plan)
    return {**found.to_json(), "settled": found.settled}


def _planned(desk: AgentDesk, ctx: Ctx, act: Any) -> results.PlanResult:
    def work(workspace: Delegate) -> dict[str, Any]:
        report = act(workspace)
        assert isinstance(report, PlanReport | NothingToDo)
        return report.to_json()

    return results.PlanResult(**desk.call(ctx, work))


def _paged(found: dict[str, Any], name: str, cursor: str, limit: int, *, anchor: str = "") -> dict[str, Any]:
    """A report with one of its lists cut to a page."""
    entries = found[name]
    shown, following = page(entries, cursor, limit, (lambda entry: str(entry[anchor])) if anchor else None)
    return {**found, name: shown, "total": len(entries), "next_cursor": following}
