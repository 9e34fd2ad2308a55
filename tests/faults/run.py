"""`make faults`: the whole matrix over both transports, and the kills; writes docs/reliability.md's section.

python -m faults.run [--write] [--kills N] [--seed N] [--each N]
"""

from __future__ import annotations

import argparse
import platform
import random
import shutil
import sys
import tempfile
import time
from collections.abc import Sequence
from concurrent.futures import ThreadPoolExecutor
from itertools import count
from pathlib import Path

from faults import matrix
from faults.kills import Kills
from faults.matrix import Cell, Outcome, Sites
from faults.site import Site
from lab import Lab

_PAGE = Path(__file__).parents[2] / "docs/reliability.md"
_TITLE = "## Faults"
_INTRO = """\
Written by `make faults`; do not edit. A number is how often that fault struck at that step, each time in a real change
by a real `knob` on a host of the [lab](lab.md), and each time followed by `knob recover`. After each it was looked
whether the file is exactly the old or the new one with its attributes, nothing is left beside it, the exit code and
the message are true, the ledger says what the file says, and `knob verify` finds nothing.
"""


def section(host: Sequence[Outcome], here: Sequence[Outcome], kills: Sequence[Kills], facts: str) -> str:
    """The text between our heading and the next."""
    wrong = [one for one in (*host, *here) if one.violations]
    killed = sum(sum(one.ended.values()) - one.ended["too late"] for one in kills)
    ended = ", ".join(
        f"{sum(one.ended[word] for one in kills)} {text}"
        for word, text in (("old", "left the old bytes"), ("new", "left the new ones"))
    )
    late = sum(one.ended["too late"] for one in kills)
    violations = sum(len(one.violations) for one in kills)
    lines = [
        _TITLE,
        "",
        _INTRO,
        f"{len(host) + len(here)} faults, {len(wrong)} violations. {facts}",
        "",
        "### On the host and on the way to it",
        "",
        "`silence` drops every packet, `mended` after a second; `no permission` takes the folder away from a user who is "
        "not root.",
        "",
        matrix.table(host, "step"),
        "",
        "### On the operator's machine",
        "",
        "Before each write of `knob apply` into the workspace.",
        "",
        matrix.table(here, "before writing"),
        "",
        "### Kills at random moments",
        "",
        f"{killed} times a `knob set`, `knob revert` or `knob restore` was killed with SIGKILL at a random moment "
        f"({late} more were done by then): {ended}; {violations} violations. "
        f"Seeds {', '.join(str(one.seed) for one in kills)}.",
        "",
    ]
    return "\n".join(lines)


def put_into(page: str, text: str) -> str:
    """The page with our section in the place of the old one, or at the end."""
    before, heading, after = page.partition(f"\n{_TITLE}\n")
    if not heading:
        return f"{page.rstrip()}\n\n{text}"
    _, more, rest = after.partition("\n## ")
    return f"{before}\n{text}" + (f"\n## {rest}" if more else "")


def main() -> int:
    """0 if nothing was wrong."""
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--write", action="store_true", help="write docs/reliability.md")
    parser.add_argument("--kills", type=int, default=200)
    parser.add_argument("--seed", type=int, default=1)
    parser.add_argument("--each", type=int, default=1, help="one of N points only, by chance")
    asked = parser.parse_args()
    begun = time.monotonic()
    folder = Path(tempfile.mkdtemp(prefix="knoblab-"))
    try:
        with Lab(folder / "lab") as lab:
            both = [
                Sites.on(lab.host(f"gpu{number}"), folder / transport, transport)
                for number, transport in enumerate(("fabric", "openssh"))
            ]
            host = _several(
                _parts([matrix.on_the_host(sites) for sites in both], asked.each, asked.seed), "on the host"
            )
            here = _several(
                _parts([matrix.at_the_operators(sites) for sites in both], asked.each, asked.seed), "here"
            )
            with ThreadPoolExecutor(len(both)) as pool:
                kills = list(
                    pool.map(_kills, (sites.root for sites in both), _shares(asked.kills), count(asked.seed))
                )
    finally:
        shutil.rmtree(folder, ignore_errors=True)
    minutes = (time.monotonic() - begun) / 60
    part = (
        ""
        if asked.each == 1
        else f"A part of the matrix: one of {asked.each} points, but at least one for each fault at each step. "
    )
    facts = (
        part
        + f"{time.strftime('%Y-%m-%d')}, Linux {platform.release().split('-')[0]}, both transports, {minutes:.0f} minutes."
    )
    text = section(host, here, kills, facts)
    print(text)
    for kill in kills:
        print(*kill.violations, sep="\n", file=sys.stderr)
    if asked.write:
        _PAGE.write_text(put_into(_PAGE.read_text("utf-8"), text), "utf-8")
    return int(any(one.violations for one in (*host, *here)) or any(kill.violations for kill in kills))


def _several(rows: list[list[Cell]], what: str) -> list[Outcome]:
    total, done, wrong = sum(map(len, rows)), 0, 0

    def told(one: Outcome) -> None:
        nonlocal done, wrong
        done += 1
        wrong += bool(one.violations)
        for violation in one.violations:
            print(f"{one.cell.column}, {one.cell.row}, {one.cell.where}: {violation}", file=sys.stderr)
        print(f"{what}: {done} of {total}, {wrong} wrong", file=sys.stderr, flush=True)

    return matrix.side_by_side(rows, told)


def _parts(rows: list[list[Cell]], each: int, seed: int) -> list[list[Cell]]:
    """Of every fault at every step one cell in `each`, but at least one, by one of the transports at least."""
    if each == 1:
        return rows
    chance = random.Random(seed)
    groups: dict[tuple[str, str], list[tuple[int, int]]] = {}
    for row, cells in enumerate(rows):
        for number, cell in enumerate(cells):
            groups.setdefault((cell.row, cell.column), []).append((row, number))
    chosen = {one for group in groups.values() for one in chance.sample(group, max(1, len(group) // each))}
    return [
        [cell for number, cell in enumerate(cells) if (row, number) in chosen]
        for row, cells in enumerate(rows)
    ]


def _shares(kills: int) -> tuple[int, int]:
    return kills // 2, kills - kills // 2


def _kills(site: Site, rounds: int, seed: int) -> Kills:
    kills = Kills(site, seed)
    kills.run(rounds, lambda line: print(line, file=sys.stderr, flush=True))
    return kills


if __name__ == "__main__":
    sys.exit(main())
