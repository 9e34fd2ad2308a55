"""Commands of asking why: hypotheses, evidence, verdicts, probes, clawback, documents."""

from __future__ import annotations

from pathlib import Path
from typing import Annotated, Literal

import typer

from knobledger.cli.session import session
from knobledger.errors import Usage

Slug = Annotated[str, typer.Argument(metavar="SLUG", help="The hypothesis's name.")]
Supports = Annotated[bool, typer.Option("--supports", help="It speaks for the hypothesis.")]
About = Annotated[
    str, typer.Option("--change", metavar="CHANGE", help="The change that was measured; @ is the newest.")
]
Metric = Annotated[
    str | None,
    typer.Option("--metric", metavar="NAME", help="Such as output_throughput or median_ttft_ms."),
]
Contradicts = Annotated[bool, typer.Option("--contradicts", help="It speaks against it.")]


def register(app: typer.Typer) -> None:
    """Adds the commands in the order of the help."""
    hypothesis = typer.Typer(help="Open, list and show hypotheses.", no_args_is_help=True)
    hypothesis.command("open")(open_)
    hypothesis.command("list")(list_)
    hypothesis.command("show")(show)
    app.add_typer(hypothesis, name="hypothesis")
    for command in (evidence, probe, verdict, clawback):
        app.command(command.__name__)(command)
    bench = typer.Typer(
        help="Bring in benchmarks of a change, and compare its two arms.", no_args_is_help=True
    )
    bench.command("import")(bench_import)
    bench.command("table")(bench_table)
    bench.command("show")(bench_show)
    app.add_typer(bench, name="bench")


def open_(
    slug: Slug,
    claim: Annotated[str, typer.Argument(metavar="CLAIM", help="What is claimed, in a sentence.")],
    about: Annotated[
        list[str] | None,
        typer.Option("--about", metavar="CHANGE", help="The change that is suspected; may repeat."),
    ] = None,
) -> int:
    """Open a hypothesis about a cause, so that changes can be made under it with --for."""
    with session.workspace() as workspace:
        return session.show(workspace.open_hypothesis(slug, claim, about or []))


def list_() -> int:
    """List all hypotheses with their standing, open ones first."""
    with session.workspace() as workspace:
        return session.show(workspace.hypotheses())


def show(slug: Slug) -> int:
    """Show a hypothesis: both sides, verdicts, and each change made under it with its finding."""
    with session.workspace() as workspace:
        return session.show(workspace.hypothesis(slug))


def evidence(
    slug: Slug,
    text: Annotated[str, typer.Argument(metavar="TEXT", help="What was seen.")],
    supports: Supports = False,
    contradicts: Contradicts = False,
    weight: Annotated[
        Literal["timing", "observation", "experiment"] | None,
        typer.Option("--weight", help="How much it weighs. Default: by --from, else observation."),
    ] = None,
    rests_on: Annotated[
        str | None, typer.Option("--from", metavar="ID", help="The entry that it rests on.")
    ] = None,
    supersedes: Annotated[
        str | None, typer.Option("--supersedes", metavar="ID", help="Earlier evidence that this corrects.")
    ] = None,
) -> int:
    """Record what speaks for or against a hypothesis."""
    if supports == contradicts:
        raise Usage("evidence has one side", hint=f"`knob evidence {slug} --supports TEXT`, or --contradicts")
    with session.workspace() as workspace:
        return session.show(
            workspace.evidence(
                slug,
                "supports" if supports else "contradicts",
                text,
                weight=weight,
                rests_on=rests_on,
                supersedes=supersedes,
            )
        )


def probe(
    slug: Slug,
    command: Annotated[list[str], typer.Argument(metavar="COMMAND...", help="The reproducer, after `--`.")],
    supports_if: Annotated[
        Literal["pass", "fail"] | None,
        typer.Option("--supports-if", help="pass: if all rounds pass; fail: if one fails."),
    ] = None,
    contradicts_if: Annotated[
        Literal["pass", "fail"] | None, typer.Option("--contradicts-if", help="The same.")
    ] = None,
    times: Annotated[int, typer.Option("--times", metavar="N", min=1, help="So many rounds.")] = 1,
    limit: Annotated[
        str | None, typer.Option("--within", metavar="DURATION", help="A round that takes longer has failed.")
    ] = None,
    text: Annotated[
        str, typer.Option("--text", metavar="TEXT", help="What it shows, instead of the command itself.")
    ] = "",
) -> int:
    """Run a reproducer on this machine, count its passes, and record it as evidence. Exit code 0 whatever it did."""
    from knobledger.moment import duration

    with session.workspace() as workspace:
        return session.show(
            workspace.probe(
                slug,
                command,
                times=times,
                supports_if=supports_if,
                contradicts_if=contradicts_if,
                limit_s=duration(limit) if limit else None,
                text=text,
                told=session.say,
            )
        )


def verdict(
    slug: Slug,
    ruling: Annotated[
        Literal["confirmed", "refuted", "inconclusive"],
        typer.Argument(metavar="RULING", help="confirmed, refuted or inconclusive."),
    ],
    because: Annotated[str, typer.Option("--because", metavar="TEXT", help="The reason.")],
    cause: Annotated[
        str, typer.Option("--cause", metavar="TEXT", help="The true cause, if it is known.")
    ] = "",
) -> int:
    """Say what was found of a hypothesis; every change made under it gets its finding."""
    with session.workspace() as workspace:
        return session.show(workspace.verdict_swept(workspace.verdict(slug, ruling, because, cause)))


def clawback() -> int:
    """List what was taken away wrongly and could come back, the most valuable first; and what stays, and why."""
    with session.workspace() as workspace:
        return session.show(workspace.clawback())


def bench_import(
    files: Annotated[
        list[Path], typer.Argument(metavar="FILE...", help="Results; the format is found by content.")
    ],
    change: About,
    arm: Annotated[
        Literal["baseline", "variant"], typer.Option("--arm", help="Without the change, or with it.")
    ],
    label: Annotated[
        str, typer.Option("--label", metavar="C64", help="The operating point, where the file does not say.")
    ] = "",
    start: Annotated[
        str,
        typer.Option("--start", metavar="NAME", help="The start of the server; else each file is one."),
    ] = "",
    at: Annotated[
        str | None, typer.Option("--at", metavar="WHEN", help="When it ran, where the file does not say.")
    ] = None,
) -> int:
    """Bring in benchmark files of SGLang, vLLM, AIPerf or GuideLLM for one arm of a change."""
    with session.workspace() as workspace:
        return session.show(workspace.bench_import(files, change, arm, label=label, start=start, at=at))


def bench_table(
    file: Annotated[Path, typer.Argument(metavar="FILE.md", help="A document with one table of both arms.")],
    change: About,
    metric: Metric = None,
    line: Annotated[
        int | None, typer.Option("--line", metavar="N", help="A line of the table, where there are several.")
    ] = None,
) -> int:
    """Bring in both arms of a change from a Markdown table."""
    with session.workspace() as workspace:
        return session.show(
            workspace.bench_table(file, change, metric=metric or "output_throughput", line=line)
        )


def bench_show(
    change: Annotated[
        str, typer.Argument(metavar="CHANGE", help="A change, its revert or its restore; @ is the newest.")
    ],
    metric: Metric = None,
    plot: Annotated[
        Path | None, typer.Option("--plot", metavar="FILE.svg|png", help="Draw both arms over the load.")
    ] = None,
) -> int:
    """Compare the two arms of a change at each operating point, with the call that the data allow."""
    with session.workspace() as workspace:
        return session.show(workspace.bench_show(change, metric, plot))
