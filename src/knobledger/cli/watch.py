"""Commands that look at what runs."""

from __future__ import annotations

import sys
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from typing import TYPE_CHECKING, Annotated, Literal

import typer

from knobledger.asking import knob_name
from knobledger.cli.change import Target
from knobledger.cli.session import session
from knobledger.errors import Usage

if TYPE_CHECKING:
    from knobledger.services.sampling import Sampling


def register(app: typer.Typer) -> None:
    """Adds the commands in the order of the help."""
    for command in (live, observe, check):
        app.command(command.__name__)(command)


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


def observe(
    target: Target,
    metric: Annotated[str, typer.Argument(metavar="METRIC", help="As the metrics page names its samples.")],
    for_: Annotated[str, typer.Option("--for", metavar="DURATION", help="How long: 85s, 10m.")],
    every: Annotated[
        str, typer.Option("--every", metavar="DURATION", help="From one sample to the next.")
    ] = "1s",
    labels: Annotated[
        list[str] | None,
        typer.Option("--label", metavar="NAME=VALUE", help="Only series with this label; may repeat."),
    ] = None,
    after_restart: Annotated[
        bool,
        typer.Option(
            "--after-restart", help="Make it part of the target's newest change; its service must run since."
        ),
    ] = False,
    evidence: Annotated[
        str | None,
        typer.Option(
            "--evidence", metavar="SLUG", help="Record what was seen as evidence on this hypothesis."
        ),
    ] = None,
    supports: Annotated[bool, typer.Option("--supports", help="It speaks for the hypothesis.")] = False,
    contradicts: Annotated[bool, typer.Option("--contradicts", help="It speaks against it.")] = False,
) -> int:
    """Sample a metric of a service for a while, and say what it does: idle, rotating, pinned, growing; or its rate."""
    if (evidence is None) == (supports or contradicts) or (supports and contradicts):
        raise Usage(
            "--evidence SLUG goes with one of --supports and --contradicts",
            hint=f"`knob observe {target} {metric} --for {for_} --evidence SLUG --contradicts`",
        )
    from knobledger.services.scrape import Wanted

    wanted = Wanted(metric, tuple(_label(text) for text in labels or ()))
    side: tuple[str, Literal["supports", "contradicts"]] | None = None
    if evidence is not None:
        side = (evidence, "supports" if supports else "contradicts")
    for_s, every_s = _duration("--for", for_), _duration("--every", every)
    with session.workspace() as workspace, _drawn(f"{target} {metric}", for_) as tell:
        found = workspace.observe(
            target,
            wanted,
            for_s=for_s,
            every_s=every_s,
            after_restart=after_restart,
            evidence=side,
            tell=tell,
        )
    return session.show(found)


def check(
    hosts: Annotated[
        list[str] | None, typer.Argument(metavar="HOST...", help="Hosts of hosts.toml. Default: all.")
    ] = None,
) -> int:
    """Show whether hosts can do what a change needs: connection, tools, lock, room, clock, rights, systemd."""
    with session.workspace() as workspace:
        return session.show(workspace.check(hosts or []))


def _label(text: str) -> tuple[str, str]:
    name, equals, value = text.partition("=")
    if not equals or not name:
        raise Usage(f"{text!r} is no label", hint="`--label tp_rank=0`")
    return name, value


def _duration(option: str, text: str) -> float:
    from knobledger.moment import duration

    try:
        return duration(f"{text}s" if text.replace(".", "", 1).isdigit() else text)
    except Usage as error:
        raise Usage(f"{option}: {error.message}", hint=error.hint) from None


@contextmanager
def _drawn(title: str, for_: str) -> Iterator[Callable[[Sampling], None]]:
    """Draws the samples on stderr as they come, where that is a terminal; else says once what goes on."""
    if session.json or not sys.stderr.isatty():
        session.say("" if session.json else f"observing {title} for {for_}; Ctrl-C keeps what was sampled")
        yield lambda _: None
        return
    from rich.console import Console
    from rich.live import Live

    from knobledger.report.terminal_watching import frame

    console = Console(file=sys.stderr, highlight=False, emoji=False)
    with Live(console=console, transient=True, auto_refresh=False) as live:
        yield lambda sampling: live.update(frame(title, sampling, console.width), refresh=True)
