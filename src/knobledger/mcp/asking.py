"""The tools of asking why: what was suspected, on what evidence, and what could come back. An agent gives no verdict."""

from __future__ import annotations

from typing import Annotated, Any, Literal

from mcp.server import MCPServer
from mcp.server.mcpserver import Context
from pydantic import Field

from knobledger.mcp import results
from knobledger.mcp.annotations import LOOKS, PLANS, READS
from knobledger.mcp.desk import AgentDesk

Ctx = Context[Any, Any]
Slug = Annotated[str, Field(description="The short name of a hypothesis.")]


def register(server: MCPServer[Any], desk: AgentDesk) -> None:
    """Adds them."""

    @server.tool(annotations=LOOKS)
    def drift(
        ctx: Ctx,
        targets: Annotated[list[str], Field(description="Targets, globs or groups; empty: all.")] = [],  # noqa: B006
    ) -> results.DriftResult:
        """Compare targets with their last recorded bytes: knobs, lines, when, and hints at who."""
        return results.DriftResult(**desk.call(ctx, lambda w: w.drift(targets).to_json()))

    @server.tool(annotations=LOOKS)
    def clawback(ctx: Ctx) -> results.ClawbackResult:
        """What was taken away on suspicion and could come back: its worth, whether it comes back clean, the command."""
        return results.ClawbackResult(**desk.call(ctx, lambda w: w.clawback().to_json()))

    @server.tool(annotations=READS)
    def hypotheses(ctx: Ctx) -> results.HypothesesResult:
        """Every hypothesis with its standing, open ones first."""
        return results.HypothesesResult(**desk.call(ctx, lambda w: w.hypotheses().to_json()))

    @server.tool(annotations=READS)
    def hypothesis(slug: Slug, ctx: Ctx) -> results.HypothesisResult:
        """One hypothesis: its evidence on both sides, its verdicts, and the changes made under it."""
        return results.HypothesisResult(**desk.call(ctx, lambda w: w.hypothesis(slug).to_json()))

    @server.tool(annotations=PLANS)
    def open_hypothesis(
        slug: Slug,
        claim: Annotated[str, Field(description="What is claimed, in one sentence.")],
        ctx: Ctx,
        about: Annotated[list[str], Field(description="Changes that it suspects: ids, @.")] = [],  # noqa: B006
    ) -> results.HypothesisResult:
        """Write a claim down, so that evidence for and against it can be gathered. Marked with your name."""
        return results.HypothesisResult(
            **desk.call(ctx, lambda w: w.open_hypothesis(slug, claim, about).to_json())
        )

    @server.tool(annotations=PLANS)
    def give_evidence(
        slug: Slug,
        side: Literal["supports", "contradicts"],
        text: Annotated[str, Field(description="What was seen, in one sentence.")],
        ctx: Ctx,
        weight: Annotated[
            Literal["timing", "observation", "experiment"], Field(description="How much it weighs.")
        ] = "observation",
        rests_on: Annotated[str, Field(description="The entry that it rests on; empty: none.")] = "",
    ) -> results.HypothesisResult:
        """Record what speaks for or against a hypothesis. Marked with your name; a person gives the verdict."""
        return results.HypothesisResult(
            **desk.call(
                ctx,
                lambda w: w.evidence(slug, side, text, weight=weight, rests_on=rests_on or None).to_json(),
            )
        )
