"""Writes docs/cli.md from the program itself: its commands with their help, and its errors' exit codes.

`python docs/generate.py` writes; with `--check` it writes nothing and exits 1 if the page is not up to date.
"""

from __future__ import annotations

import difflib
import inspect
import os
import sys
from collections.abc import Iterator
from pathlib import Path

PAGE = Path(__file__).with_name("cli.md")

HEAD = """\
# Commands

Generated from the program's own help by `make docs`; edits here are lost.

`knobledger` and `knob` are the same program.
"""

DONE = "done"


def page() -> str:
    """The whole page. The same for every terminal, user and folder."""
    # What a help text shows must hang on neither the terminal nor the workspace of whoever runs this.
    for name in [name for name in os.environ if name.startswith(("KNOBLEDGER_", "_TYPER", "_KNOB"))]:
        del os.environ[name]
    import typer.main

    from knobledger.cli.main import app

    return "\n".join([HEAD, *_command(typer.main.get_command(app), "knob", 2), *_exit_codes()])


def _command(command: object, name: str, level: int) -> Iterator[str]:
    """The section of one command and those of its subcommands, in the order of the program's help.

    Typer brings its own copy of click in some releases, so no class of click is named here.
    """
    context = command.context_class(command, info_name=name)  # type: ignore[attr-defined]
    yield f"{'#' * level} {name}\n"
    yield f"```\n{' '.join([name, *command.collect_usage_pieces(context)])}\n```\n"  # type: ignore[attr-defined]
    if text := inspect.cleandoc(command.help or "").split("\f")[0].replace("\b\n", "").strip():  # type: ignore[attr-defined]
        yield f"{text}\n"
    records = [p.get_help_record(context) for p in command.get_params(context)]  # type: ignore[attr-defined]
    if records := [record for record in records if record and record[0] != "--help"]:
        yield "| | |\n|---|---|"
        yield from (f"| {_cell(f'`{names}`')} | {_cell(text)} |" for names, text in records)
        yield ""
    for child in getattr(command, "commands", {}).values():
        if not child.hidden:
            yield from _command(child, f"{name} {child.name}", level + (name != "knob"))


def _cell(text: str) -> str:
    return " ".join(text.replace("|", "\\|").split())


def _exit_codes() -> Iterator[str]:
    """The table of exit codes, from the classes of `knobledger.errors`."""
    from knobledger import errors

    classes = [
        found
        for found in vars(errors).values()
        if inspect.isclass(found) and issubclass(found, errors.KnobError) and found is not errors.KnobError
    ]
    yield "## Exit codes\n"
    yield "`kind` is the error's name in `--json`.\n"
    yield "| exit code | kind | meaning |\n|---|---|---|"
    yield f"| 0 | | {DONE} |"
    for found in sorted(classes, key=lambda found: found.exit_code):
        meaning = (inspect.getdoc(found) or "").split("\n\n")[0]
        yield f"| {found.exit_code} | `{found.kind}` | {_cell(meaning)} |"
    yield ""


def main(arguments: list[str]) -> int:
    """Exit code 0 if the page is (now) up to date."""
    new = page()
    old = PAGE.read_text(encoding="utf-8") if PAGE.exists() else ""
    if arguments != ["--check"]:
        PAGE.write_text(new, encoding="utf-8")
        return 0
    if new == old:
        return 0
    sys.stderr.writelines(
        difflib.unified_diff(
            old.splitlines(keepends=True), new.splitlines(keepends=True), "docs/cli.md", "the program"
        )
    )
    print("docs/cli.md is not up to date: make docs", file=sys.stderr)
    return 1


if __name__ == "__main__":
    sys.exit(main(sys.argv[1:]))
