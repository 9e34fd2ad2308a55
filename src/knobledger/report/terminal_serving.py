"""Restarts for a person."""

from __future__ import annotations

from knobledger.events.serving import ServiceRestarted
from knobledger.names import short
from knobledger.report.paper import Paper
from knobledger.report.serving import RestartPreview, RestartReport, clock_text
from knobledger.report.terminal import line, render


@render.register
def _(report: RestartPreview, page: Paper) -> None:
    several = len(report.services) > 1
    how = "they stop in reverse order, then start in this one" if several else "it stops and starts"
    line(page, f"restart, scope {report.scope}: {how}", "bold")
    for number, one in enumerate(report.services, 1):
        took = "never recorded" if one.expected_start_s is None else f"about {_s(one.expected_start_s)}"
        gates = ", ".join(one.gates) or "no gate: only a new process is proven"
        line(page, f"  {number}. {one.service}   start {took}   {gates}")
    outage = report.expected_outage_s
    known = (
        f"about {_s(outage)}, by recorded starts"
        if outage is not None
        else "not known yet: a start is not recorded"
    )
    line(page, f"  expected outage: {known}", "dim")


@render.register
def _(report: RestartReport, page: Paper) -> None:
    chain = report.chain
    style = "bold green" if report.done else "bold red"
    outage = chain.ended.outage_s if chain.ended else None
    took = f", out for {_s(outage)}" if outage is not None else ""
    line(page, f"restart {short(chain.id)}: {report.outcome}{took}", style)
    for name in chain.services:
        outcome = chain.outcomes.get(name)
        if outcome is None:
            line(page, f"  {name}: not reached", "yellow")
        else:
            _service(outcome, page)
    if report.live:
        from knobledger.report import renderings

        renderings.render(report.live, page)


def _service(one: ServiceRestarted, page: Paper) -> None:
    before = ", ".join(str(process.pid) for process in one.before[:1]) or "down"
    after = ", ".join(str(process.pid) for process in one.after[:1]) or "down"
    started = f", started {clock_text(one.after[0].started)} by the host's clock" if one.after else ""
    healthy = f" after {_s(one.healthy_after_s)}" if one.healthy_after_s is not None else ""
    style = "green" if one.outcome == "healthy" else "red"
    line(page, f"  {one.service}: {one.outcome}{healthy}   pid {before} → {after}{started}", style)
    for gate in one.gates:
        mark = "green" if gate.ok else "RED"
        line(page, f"    {mark}: {gate.gate} {gate.asked}   {gate.detail}", "dim" if gate.ok else "red")
    for step in one.steps:
        if step.startswith("warning: ") or "SIGKILL" in step:
            line(page, f"    {step}", "yellow")
    if one.reason:
        line(page, f"    {one.reason}", "red")


def _s(seconds: float) -> str:
    return f"{seconds:.1f} s" if seconds < 100 else f"{seconds / 60:.0f} min"
