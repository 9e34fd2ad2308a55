"""`make faults`: the whole matrix over both transports, and the kills; writes docs/reliability.md's section.

python -m faults.run [--write] [--kills N] [--seed N] [--each N] [--hosts N] [--minutes N] [--results FILE]
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
from itertools import count
from pathlib import Path

from faults import matrix
from faults.kills import Kills
from faults.matrix import Cell, Outcome, Sites
from faults.results import Results
from lab import Lab

_PAGE = Path(__file__).parents[2] / "docs/reliability.md"
_TITLE = "## Faults"
_TRANSPORTS = ("fabric", "openssh")
_INTRO = """\
Written by `make faults`; do not edit. A number is how often that fault struck at that step, each time in a real change
by a real `knob` on a host of the [lab](lab.md), and each time followed by `knob recover`. After each it was looked
whether the file is exactly the old or the new one with its attributes, nothing is left beside it, the exit code and
the message are true, the ledger says what the file says, and `knob verify` finds nothing.
"""
_WORDS = """\
`silence` drops every packet, `mended` after a second; `no permission` takes the folder away from a user who is not root;
`quota used up` refuses to everybody what needs room, on a btrfs (EDQUOT). `torn`: in the middle of the bytes, before the
first and after 60; no disk can be made read-only then. A dash: not struck.
"""


def section(host: Sequence[Outcome], here: Sequence[Outcome], kills: str, facts: str) -> str:
    """The text between our heading and the next."""
    wrong = [one for one in (*host, *here) if one.violations]
    lines = [
        _TITLE,
        "",
        _INTRO,
        f"{len(host) + len(here)} faults, {len(wrong)} violations. {facts}",
        "",
        "### On the host and on the way to it",
        "",
        _WORDS,
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
        kills,
        "",
    ]
    return "\n".join(lines)


def told_of_kills(series: Sequence[tuple[int, dict[str, int], list[str]]]) -> str:
    """A sentence on all series."""
    total = {word: sum(ended.get(word, 0) for _, ended, _ in series) for word in ("old", "new", "too late")}
    violations = sum(len(wrong) for _, _, wrong in series)
    return (
        f"{total['old'] + total['new']} times a `knob set`, `knob revert` or `knob restore` was killed with SIGKILL at "
        f"a random moment ({total['too late']} more were done by then): {total['old']} left the old bytes, "
        f"{total['new']} left the new ones; {violations} violations. "
        f"Seeds {', '.join(str(seed) for seed in sorted(seed for seed, _, _ in series))}."
    )


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
    parser.add_argument("--hosts", type=int, default=2, help="so many at once for each transport")
    parser.add_argument("--minutes", type=float, default=1e6, help="no new fault after that")
    parser.add_argument(
        "--results", type=Path, help="each result at once; if it is there, go on where it ended"
    )
    parser.add_argument("--table", action="store_true", help="strike nothing, tell of --results")
    asked = parser.parse_args()
    if asked.table:
        return _told(Results(asked.results), write=asked.write)
    begun = time.monotonic()
    folder = Path(tempfile.mkdtemp(prefix="knoblab-"))
    try:
        results = Results(asked.results or folder / "results")
        with Lab(folder / "lab") as lab:
            hosts = _hosts(lab, folder, asked.hosts)
            cells = [
                cell
                for sites in hosts[:: asked.hosts]
                for cell in (
                    *matrix.on_the_host(sites),
                    *matrix.in_place(sites),
                    *matrix.at_the_operators(sites),
                )
            ]
            results.begins(len(cells))
            chosen = _part(cells, asked.each, asked.seed)
            _strike(chosen, hosts, results, asked, begun + 60 * asked.minutes)
        results.ran(round(time.monotonic() - begun))
        return _told(results, write=asked.write)
    finally:
        shutil.rmtree(folder, ignore_errors=True)


def _told(results: Results, *, write: bool) -> int:
    """Prints the section, and what is wrong; 0 if nothing is."""
    struck = results.struck_so_far()
    places = set(matrix.PLACES.values())
    host = [one for one in struck if one.cell.row in places]
    here = [one for one in struck if one.cell.row not in places]
    text = section(host, here, told_of_kills(results.kills()), _facts(results))
    print(text)
    if write:
        _PAGE.write_text(put_into(_PAGE.read_text("utf-8"), text), "utf-8")
    wrong = [one.violations for one in struck if one.violations]
    wrong += [tuple(violations) for _, _, violations in results.kills() if violations]
    for violations in wrong:
        print(*violations, sep="\n", file=sys.stderr)
    return int(bool(wrong))


def _hosts(lab: Lab, folder: Path, number: int) -> list[Sites]:
    named = [(transport, f"{transport}{n}") for transport in _TRANSPORTS for n in range(number)]
    return [Sites(lab.host(name), folder / name, transport) for transport, name in named]


def _facts(results: Results) -> str:
    done = len(results.struck_so_far())
    part = (
        "" if done >= results.total else f"A part of the matrix, by chance: {done} of {results.total} cells. "
    )
    return (
        f"{part}{results.date}, Linux {platform.release().split('-')[0]}, both transports, "
        f"{results.seconds / 60:.0f} minutes."
    )


def _strike(
    cells: list[Cell], hosts: Sequence[Sites], results: Results, asked: argparse.Namespace, until_s: float
) -> None:
    """Kills, and what was not struck yet, in an order by chance, so that also a run that is cut off is a fair sample."""
    before = {one.cell for one in results.outcomes(cells)}
    done, wrong = len(before), 0
    killed = sum(ended.get("old", 0) + ended.get("new", 0) for _, ended, _ in results.kills())
    shares = _shares(max(0, asked.kills - killed), hosts)
    seeds = count(asked.seed + len(results.kills()))

    def kills(sites: Sites) -> None:
        if shares[sites.host.name]:
            series = Kills(sites.root, next(seeds))
            series.run(
                shares[sites.host.name], lambda line: print(line, file=sys.stderr, flush=True), until_s
            )
            results.killed(series)

    def told(one: Outcome) -> None:
        nonlocal done, wrong
        results.struck(one)
        done += 1
        wrong += bool(one.violations)
        cell = one.cell
        for violation in one.violations:
            print(f"{cell.by}, {cell.column}, {cell.row}, {cell.where}: {violation}", file=sys.stderr)
        print(f"{done} of {len(cells)}, {wrong} wrong", file=sys.stderr, flush=True)

    left = [cell for cell in cells if cell not in before]
    matrix.side_by_side(left, hosts, told, first=kills, until_s=until_s)


def _part(cells: list[Cell], each: int, seed: int) -> list[Cell]:
    """In an order by chance: of every fault at every step one cell in `each`, but at least one."""
    chance = random.Random(seed)
    groups: dict[tuple[str, str], list[Cell]] = {}
    for cell in cells:
        groups.setdefault((cell.row, cell.column), []).append(cell)
    chosen = [cell for group in groups.values() for cell in chance.sample(group, max(1, len(group) // each))]
    return chance.sample(chosen, len(chosen))


def _shares(kills: int, hosts: Sequence[Sites]) -> dict[str, int]:
    """How many of them each host gets."""
    whole, rest = divmod(kills, len(hosts))
    return {sites.host.name: whole + (number < rest) for number, sites in enumerate(hosts)}


if __name__ == "__main__":
    sys.exit(main())
