"""What was struck so far, one line of JSON each, written at once: a run that is cut off can be told of, and goes on."""

from __future__ import annotations

import hashlib
import json
import threading
import time
from collections.abc import Iterable
from pathlib import Path
from typing import Any

from faults.kills import Kills
from faults.matrix import Cell, Outcome
from knobledger.hosts import wire


class OtherScript(Exception):
    """The file's results are about another transaction.sh than this one."""


class Results:
    """The results in a file, which is made if it is not there."""

    def __init__(self, path: Path) -> None:
        self.path = path
        self._writing = threading.Lock()
        script = hashlib.sha256(wire.script()).hexdigest()
        if not path.exists():
            self._append({"script": script, "date": time.strftime("%Y-%m-%d")})
        self._lines: list[dict[str, Any]] = [json.loads(line) for line in path.read_text().splitlines()]
        if self._lines[0]["script"] != script:
            raise OtherScript(f"{path} has results of another transaction.sh; begin with another file")

    @property
    def date(self) -> str:
        """Of the first run."""
        return str(self._lines[0]["date"])

    @property
    def seconds(self) -> int:
        """Of all runs that came to their end."""
        return sum(line["seconds"] for line in self._lines if "seconds" in line)

    @property
    def total(self) -> int:
        """How many cells the newest run would have struck, had it come to its end."""
        return max((line["cells"] for line in self._lines if "cells" in line), default=0)

    def struck_so_far(self) -> list[Outcome]:
        """All outcomes, of cells that can only be told of: for a table without a lab."""
        return [
            Outcome(
                Cell(line["by"], line["row"], line["column"], line["where"], lambda _: []),
                tuple(line["violations"]),
            )
            for line in self._lines
            if "row" in line
        ]

    def outcomes(self, cells: Iterable[Cell]) -> list[Outcome]:
        """Of these cells, in their order, those that were struck."""
        struck = {
            (line["by"], line["row"], line["column"], line["where"]): tuple(line["violations"])
            for line in self._lines
            if "row" in line
        }
        keys = ((cell, (cell.by, cell.row, cell.column, cell.where)) for cell in cells)
        return [Outcome(cell, struck[key]) for cell, key in keys if key in struck]

    def kills(self) -> list[tuple[int, dict[str, int], list[str]]]:
        """Seed, rounds by how they came out, and violations of each series of kills."""
        return [(line["seed"], line["ended"], line["violations"]) for line in self._lines if "ended" in line]

    def struck(self, one: Outcome) -> None:
        """From any thread."""
        cell = one.cell
        where = {"by": cell.by, "row": cell.row, "column": cell.column, "where": cell.where}
        self._add({**where, "violations": one.violations})

    def killed(self, kills: Kills) -> None:
        """From any thread, when a series is over."""
        self._add({"seed": kills.seed, "ended": kills.ended, "violations": kills.violations})

    def begins(self, cells: int) -> None:
        """At the beginning of a run."""
        self._add({"cells": cells})

    def ran(self, seconds: int) -> None:
        """At the end of a run."""
        self._add({"seconds": seconds})

    def _add(self, line: dict[str, Any]) -> None:
        with self._writing:
            self._append(line)
            self._lines.append(line)

    def _append(self, line: dict[str, Any]) -> None:
        with self.path.open("a") as file:
            file.write(json.dumps(line) + "\n")
