"""The product's commands as a person types them: each a process of its own, forked from one that has loaded the program.

What a command prints, how it ends and whom it calls is what `python -m knobledger` gives; only the loading, which is
most of what a command costs, is done once.
"""

from __future__ import annotations

import multiprocessing
import os
import runpy
import sys
import tempfile
from collections.abc import Mapping, Sequence
from pathlib import Path

from msgspec import Struct

_LOADED = (
    "knobledger.cli.main",
    "knobledger.workspace",
    "knobledger.events.asking",
    "knobledger.events.notes",
    "knobledger.events.serving",
    "knobledger.folds.asking",
    "knobledger.folds.serving",
    "knobledger.hosts.fabric",
    "knobledger.knobs.shell.read",
    "knobledger.ledger.history",
    "knobledger.report.renderings",
    "knobledger.report.terminal_plan",
    "knobledger.services.chain",
    "knobledger.undoing",
)
"""what is imported before a command is forked, by name since it lies above the demo; one left out costs time alone"""


class Ended(Struct, frozen=True):
    """One command that has ended."""

    status: int
    output: bytes
    """stdout and stderr as they came; of one that was run `apart` stdout alone"""


class Commands:
    """One parent of all commands; it ends with this process."""

    def __init__(self) -> None:
        self._context = multiprocessing.get_context("forkserver")
        self._context.set_forkserver_preload(list(_LOADED))

    def run(self, words: Sequence[str], env: Mapping[str, str], *, apart: bool = False) -> Ended:
        """Runs `knob WORDS` without a terminal."""
        with tempfile.TemporaryDirectory(prefix="knob-demo-out-") as folder:
            output = Path(folder) / "output"
            talk = Path(folder) / "talk" if apart else output
            process = self._context.Process(
                target=_command, args=(tuple(words), dict(env), os.fspath(output), os.fspath(talk))
            )
            process.start()
            process.join()
            status = process.exitcode
            assert status is not None
            return Ended(status, output.read_bytes())


def _command(words: tuple[str, ...], env: dict[str, str], output: str, talk: str) -> None:
    """In the new process: becomes the command."""
    os.environ.clear()
    os.environ.update(env)
    for descriptor, path, flags in (
        (0, os.devnull, os.O_RDONLY),
        (1, output, os.O_WRONLY | os.O_CREAT | os.O_APPEND),
        (2, talk, os.O_WRONLY | os.O_CREAT | os.O_APPEND),
    ):
        opened = os.open(path, flags, 0o600)
        os.dup2(opened, descriptor)
        os.close(opened)
    sys.stdin = open(0, encoding="utf-8", closefd=False)  # noqa: SIM115
    # Line by line, as at a terminal: what is said beside the result comes where a person would see it.
    sys.stdout = open(1, "w", buffering=1, encoding="utf-8", closefd=False)  # noqa: SIM115
    sys.stderr = open(2, "w", buffering=1, encoding="utf-8", errors="backslashreplace", closefd=False)  # noqa: SIM115
    sys.argv = ["knob", *words]
    runpy.run_module("knobledger", run_name="__main__")
