"""The app, and the one place that turns errors into output and exit codes."""

from __future__ import annotations

import copy
import json
import os
import sys
from pathlib import Path
from typing import Annotated, Any

import typer
from typer.models import CommandInfo, TyperInfo

from knobledger.ahead import WITH_VALUE
from knobledger.cli import (
    adopt,
    agents,
    ask,
    change,
    confirm,
    look,
    reporting,
    serve,
    share,
    signers,
    upkeep,
    watch,
)
from knobledger.cli.session import session
from knobledger.cli.start import acts
from knobledger.errors import Bug, Interrupted, KnobError, Usage
from knobledger.names import short

app = typer.Typer(
    name="knob",
    help="A ledger for the knobs of remote model servers: verified changes, reverts with a reason, restores with a proof.",
    no_args_is_help=True,
    add_completion=False,
    rich_markup_mode=None,
    pretty_exceptions_enable=False,
    context_settings={"help_option_names": ["-h", "--help"], "max_content_width": 100},
    epilog="--json may stand anywhere: one JSON document on stdout, errors too. Exit codes: docs/cli.md.",
)
change.register(app)
confirm.register(app)
look.register(app)
signers.register(app)
serve.register(app)
watch.register(app)
ask.register(app)
reporting.register(app)
adopt.register(app)
agents.register(app)
upkeep.register(app)
share.register(app)


def _version(wanted: bool) -> None:
    if wanted:
        from importlib.metadata import version

        print(f"knobledger {version('knobledger')}")
        raise typer.Exit


@app.callback()
def begin(
    directory: Annotated[
        Path | None,
        typer.Option(
            "-C", metavar="DIR", help="The workspace. Default: $KNOBLEDGER_WORKSPACE, else upwards."
        ),
    ] = None,
    on_behalf_of: Annotated[
        str,
        typer.Option(
            "--on-behalf-of", metavar="NAME", help="The one who asked for it, if not the one who types."
        ),
    ] = "",
    version: Annotated[
        bool, typer.Option("--version", callback=_version, is_eager=True, help="Show the version and exit.")
    ] = False,
) -> None:
    """Sets what every command shares."""
    del version  # its callback has done the work
    acts()
    session.directory = directory
    session.on_behalf_of = on_behalf_of


def _narrowed(argv: list[str]) -> typer.Typer:
    """The app with nothing but the command that is asked for: typer builds the parameters of all that it has.

    The whole app where a complaint about its commands may be called for; for its own help, their names and help alone.
    """
    rest = iter(argv)
    for word in rest:
        if word in WITH_VALUE:
            next(rest, None)
            continue
        if word in ("--help", "-h"):
            break
        if word.startswith("-"):
            continue
        only = copy.copy(app)
        only.registered_commands = [info for info in app.registered_commands if info.name == word]
        only.registered_groups = [info for info in app.registered_groups if info.name == word]
        return only if only.registered_commands or only.registered_groups else app
    listed = copy.copy(app)
    listed.registered_commands = [_without_parameters(info) for info in app.registered_commands]
    listed.registered_groups = [_without_commands(info) for info in app.registered_groups]
    return listed


def _without_parameters(command: CommandInfo) -> CommandInfo:
    def stand_in() -> None: ...

    stand_in.__doc__ = command.callback.__doc__
    bare = copy.copy(command)
    bare.callback = stand_in
    return bare


def _without_commands(group: TyperInfo) -> TyperInfo:
    bare = copy.copy(group)
    assert bare.typer_instance is not None
    bare.typer_instance = copy.copy(bare.typer_instance)
    bare.typer_instance.registered_commands = []
    return bare


_USAGE_ERROR: type[Exception] = typer.BadParameter.__mro__[1]
"""click's own root of usage errors, which typer carries inside and does not name"""


def run(argv: list[str]) -> int:
    """Runs one command; its exit code."""
    typed, argv = argv, _take_json(argv)
    session.masker = session.shown = None
    try:
        result = _narrowed(argv)(argv, prog_name="knob", standalone_mode=False)
    except KnobError as error:
        return _report(error)
    except (KeyboardInterrupt, typer.Abort):
        return _interrupted()
    except _USAGE_ERROR as error:
        message = error.format_message() if hasattr(error, "format_message") else str(error)
        if type(error).__name__ == "NoArgsIsHelpError" and not session.json:
            session.say(message)  # nothing was asked for: the help, as it is
            return Usage.exit_code
        return _report(Usage(_lowered(message), hint=_flag_hint(error, typed) or _help_hint(error)))
    except BrokenPipeError:
        sys.stdout = open(os.devnull, "w")  # noqa: SIM115, PTH123 - the reader of the pipe is gone
        return 0
    except Exception as error:
        if os.environ.get("KNOBLEDGER_TRACEBACK"):
            raise
        return _report(
            Bug(
                f"a bug in knobledger: {type(error).__name__}: {error}",
                hint="KNOBLEDGER_TRACEBACK=1 shows where; `knob recover` settles what was under way",
            )
        )
    if result == Interrupted.exit_code != session.shown:  # typer has made a number of Ctrl-C
        return _interrupted()
    return result if isinstance(result, int) else 0


def _interrupted() -> int:
    return _report(Interrupted("interrupted", hint="`knob recover` tells what was done"))


def _take_json(argv: list[str]) -> list[str]:
    """`--json` may stand anywhere before a `--`."""
    end = argv.index("--") if "--" in argv else len(argv)
    session.json = "--json" in argv[:end]
    return [word for word in argv[:end] if word != "--json"] + argv[end:]


def _report(error: KnobError) -> int:
    message, hint = str(session.mask(error.message)), str(session.mask(error.hint))
    if session.json:
        values = {name: session.mask(value) for name, value in error.values.items()}
        body = {"kind": error.kind, "message": message, "hint": hint, **values}
        print(json.dumps({"error": body}, ensure_ascii=True, default=str))
    else:
        print(f"knob: {_printable(message)}", file=sys.stderr)
        for line in error_details(error):
            print(f"  {_printable(str(session.mask(line)))}", file=sys.stderr)
        if hint:
            print(f"hint: {_printable(hint)}", file=sys.stderr)
    return error.exit_code


def error_details(error: KnobError) -> list[str]:
    """The facts that a person needs beside the message: occurrences, the two sides of a conflict, commands."""
    lines = []
    for item in _dicts(error, "occurrences"):
        lines.append(f"line {item.get('line')}: {str(item.get('text', '')).strip()}   ({item.get('reason')})")
    for item in _dicts(error, "objections"):
        lines.append(f"{item['weight']}: {item['text']}   ({short(item['entry'])} by {item['actor']})")
    for side in _dicts(error, "sides"):
        for name, title in (
            ("live", "live now"),
            ("change", "as the change left it"),
            ("wanted", "wanted back"),
        ):
            lines.append(f"line {side.get('line')}, {title}:")
            lines += [f"    {text}" for text in side.get(name, ())] or ["    (nothing)"]
    for item in _dicts(error, "later_edits"):
        by = (
            f"{str(item['change'])[:8]} by {item['actor']}"
            if item.get("change") and item.get("actor")
            else "by hand"
        )
        lines.append(f"later edit: {item['sign']}{item['text']}   ({by})")
    log = error.values.get("log")
    if isinstance(log, list) and log:
        lines += ["the last lines of its log:", *(f"  | {text}" for text in log)]
    lines += [f"{item['target']}: {item['message']}" for item in _dicts(error, "targets")]
    commands = error.values.get("commands")
    if isinstance(commands, (list, tuple)):
        lines += [f"$ {command}" for command in commands]
    return lines


def _dicts(error: KnobError, name: str) -> list[dict[str, Any]]:
    found = error.values.get(name)
    return [item for item in found if isinstance(item, dict)] if isinstance(found, (list, tuple)) else []


def _printable(text: str) -> str:
    return text.encode("utf-8", "surrogateescape").decode("utf-8", "backslashreplace")


def _lowered(message: str) -> str:
    message = message.replace("Value error, ", "")
    return (message[:1].lower() + message[1:]).rstrip(".")


def _flag_hint(error: BaseException, argv: list[str]) -> str:
    """What to type where the unknown option is a flag of the target, as it is likely meant."""
    from knobledger.cli.retyped import NAMES_KNOBS, retyped

    command = getattr(getattr(error, "ctx", None), "command", None)
    if type(error).__name__ != "NoSuchOption" or command is None or command.name not in NAMES_KNOBS:
        return ""
    options = {
        name: not getattr(parameter, "is_flag", False)
        for parameter in command.params
        for name in (*parameter.opts, *parameter.secondary_opts)
    }
    options |= dict.fromkeys(("--json", "--help", "-h"), False)
    line = retyped(argv, _place_of_command(argv), options)
    return f"a flag of the target goes behind `--`: `{line}`; options: {_help_hint(error)}"


def _place_of_command(argv: list[str]) -> int:
    at = 0
    while argv[at].startswith("-"):
        at += 2 if argv[at] in WITH_VALUE else 1
    return at


def _help_hint(error: BaseException) -> str:
    context = getattr(error, "ctx", None)
    return f"`{context.command_path} --help`" if context is not None else "`knob --help`"
