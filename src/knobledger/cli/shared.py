"""The options that every command has which makes a plan: written once, added to each of them."""

from __future__ import annotations

import inspect
from collections.abc import Callable
from functools import wraps
from typing import Annotated, Any, Literal, get_type_hints

import typer
from msgspec import Struct

from knobledger.cli.session import Source

Why = Annotated[str, typer.Option("--why", metavar="TEXT", help="The reason, kept in the ledger.")]
From = Annotated[
    Source,
    typer.Option(
        "--from", help="Read the ledger from its files, or from the PostgreSQL replica of hosts.toml."
    ),
]
GoAhead = Annotated[bool, typer.Option("--go-ahead", help="This is the go-ahead: apply without asking.")]


class Shared(Struct, frozen=True):
    """Why a plan is made, how, and what happens to it next."""

    why: Why = ""
    hypotheses: Annotated[
        list[str] | None,
        typer.Option("--for", metavar="HYPOTHESIS", help="The hypothesis it is made under; may repeat."),
    ] = None
    kind: Annotated[
        Literal["perf", "fix", "mitigation", "other"] | None,
        typer.Option(
            "--kind",
            help="What the change is for. Default: other; mitigation for what is taken away under a hypothesis.",
        ),
    ] = None
    label: Annotated[
        str, typer.Option("--label", metavar="WORD", help="A word for the backup's name: FILE.WORD.bak.")
    ] = ""
    despite: Annotated[
        str,
        typer.Option(
            "--despite", metavar="TEXT", help="Do it although evidence contradicts, for this reason."
        ),
    ] = ""
    in_place: Annotated[
        bool,
        typer.Option(
            "--in-place", help="Write into the file where a rename can't work (bind mount, hard link)."
        ),
    ] = False
    restart: Annotated[
        Literal["none", "service", "dependents", "group"],
        typer.Option(
            "--restart", help="Restart afterwards: the service, with its dependents, or its groups."
        ),
    ] = "none"
    roll_back: Annotated[
        bool,
        typer.Option(
            "--roll-back-on-failure", help="Files and services go back if a service is not healthy after it."
        ),
    ] = False
    confirm_within: Annotated[
        str,
        typer.Option(
            "--confirm-within",
            metavar="DURATION",
            help="The host takes the change back by itself unless `knob confirm` comes in time: 10m, 90s.",
        ),
    ] = ""
    batch: Annotated[
        str,
        typer.Option(
            "--batch",
            metavar="SIZES",
            help="How many targets at a time: 1,10%,100%. The last is repeated. Default: all at once.",
        ),
    ] = ""
    max_failures: Annotated[
        int,
        typer.Option(
            "--max-failures",
            metavar="N",
            min=0,
            help="Begin no further batch when more targets than this have failed.",
        ),
    ] = 0
    skip_unreachable: Annotated[
        bool,
        typer.Option(
            "--skip-unreachable",
            help="Plan without the targets whose hosts can't be reached; the plan names them.",
        ),
    ] = False
    plan: Annotated[bool, typer.Option("--plan", help="Only plan; nothing on the host is changed.")] = False
    go_ahead: GoAhead = False


_SHARED_HINTS = get_type_hints(Shared, include_extras=True)
_SHARED_PARAMETERS = inspect.signature(Shared).parameters


def planning(command: Callable[..., int]) -> Callable[..., int]:
    """The command with the options of `Shared` in place of its last parameter, `shared`."""
    names = Shared.__struct_fields__

    @wraps(command)
    def with_options(**values: Any) -> int:
        shared = Shared(**{name: values.pop(name) for name in names})
        return command(**values, shared=shared)

    # What typer looks at: the signature, with its annotations evaluated.
    own = inspect.signature(command)
    hints = get_type_hints(command, include_extras=True) | _SHARED_HINTS
    del hints["shared"]
    both = own.parameters | _SHARED_PARAMETERS
    parameters = [both[name].replace(annotation=hints[name]) for name in both if name != "shared"]
    with_options.__signature__ = own.replace(parameters=parameters)  # type: ignore[attr-defined]
    with_options.__annotations__ = hints
    return with_options
