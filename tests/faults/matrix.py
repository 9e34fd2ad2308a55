"""The cells of the matrix, run one after the other or several at once, and the table of what came of them."""

from __future__ import annotations

import time
from collections.abc import Callable, Iterable, Sequence
from concurrent.futures import ThreadPoolExecutor
from dataclasses import dataclass, field
from pathlib import Path
from queue import Empty, SimpleQueue

from faults import here, remote
from faults.site import SMALL, Site
from lab import LabHost
from lab.lab import LabError

PLACES = {
    "probe": "probe",
    "resolve": "resolve",
    "lock": "receive, lock",
    "compare": "compare",
    "backup": "backup",
    "stage": "stage",
    "swap": "swap",
    "verify": "verify",
    "answer": "answer",
    "rollback": "roll back",
    "swap torn": "swap, in place, torn",
    "rollback torn": "roll back, in place, torn",
}
"""rows of the host's table, in the order of the transaction"""


class Sites:
    """One lab host over one transport, with a site for each user, disk and way of writing; made when it is needed."""

    def __init__(self, host: LabHost, folder: Path, transport: str) -> None:
        self.host, self.transport = host, transport
        self._folder = folder
        self._sites: dict[tuple[str, str, bool], Site | None] = {}

    @property
    def root(self) -> Site:
        """The plainest."""
        site = self.site()
        assert site is not None
        return site

    def site(self, user: str = "root", disk: str = SMALL, *, in_place: bool = False) -> Site | None:
        """None: the kernel has no such disk."""
        key = user, disk, in_place
        if key not in self._sites:
            folder = self._folder / f"{user}{disk.replace('/', '-')}{'-in-place' if in_place else ''}"
            try:
                self._sites[key] = Site(self.host, folder, self.transport, user, disk, in_place)
            except LabError:
                if disk == SMALL:
                    raise
                self._sites[key] = None
        return self._sites[key]

    def of(self, fault: remote.Fault, *, in_place: bool = False) -> Site | None:
        """Where this fault can strike."""
        return self.site(fault.user, fault.disk, in_place=in_place)


@dataclass(frozen=True, slots=True)
class Cell:
    """One fault at one point over one transport, and how to bring it about on any host of that transport."""

    by: str
    row: str
    column: str
    where: str
    run: Callable[[Sites], list[str]] = field(compare=False)


@dataclass(frozen=True, slots=True)
class Outcome:
    """A cell that was run."""

    cell: Cell
    violations: tuple[str, ...]


def on_the_host(sites: Sites) -> list[Cell]:
    """Every point of the transaction with every fault of `remote`."""
    return [
        Cell(sites.transport, PLACES[point.step], fault.name, f"line {point.line}", _remote(point, fault))
        for point in remote.points(sites.root)
        for fault in remote.FAULTS
        if sites.of(fault)
    ]


def in_place(sites: Sites) -> list[Cell]:
    """Every fault in the middle of writing in place, and of putting back in place."""
    return [
        Cell(
            sites.transport, PLACES[point.step], fault.name, point.line, _remote(point, fault, in_place=True)
        )
        for point in remote.TORN
        for fault in remote.FAULTS
        # A disk can't be made read-only while a file on it is open for writing.
        if sites.of(fault, in_place=True) and fault.name != "read-only"
    ]


def _remote(
    point: remote.Point, fault: remote.Fault, *, in_place: bool = False
) -> Callable[[Sites], list[str]]:
    def strikes(sites: Sites) -> list[str]:
        site = sites.of(fault, in_place=in_place)
        assert site is not None
        return remote.strike(site, point, fault)

    return strikes


def at_the_operators(sites: Sites) -> list[Cell]:
    """Every write into the workspace with every fault of `here`."""
    return [
        Cell(sites.transport, kind, fault, f"write {number}", _here(number, fault))
        for number, kind in enumerate(here.writes(sites.root))
        for fault in here.FAULTS
    ]


def _here(number: int, fault: str) -> Callable[[Sites], list[str]]:
    return lambda sites: here.strike(sites.root, number, fault)


def run(cells: Iterable[Cell], sites: Sites, told: Callable[[Outcome], None]) -> list[Outcome]:
    """One after the other; `told` hears of each."""
    outcomes = []
    for cell in cells:
        try:
            violations = tuple(cell.run(sites))
        except Exception as error:
            violations = (f"{type(error).__name__}: {error}",)
        outcomes.append(Outcome(cell, violations))
        told(outcomes[-1])
    return outcomes


def side_by_side(
    cells: Iterable[Cell],
    hosts: Sequence[Sites],
    told: Callable[[Outcome], None],
    *,
    first: Callable[[Sites], None],
    until_s: float,
) -> None:
    """Each host, in a thread of its own, does `first`, then takes the next cell of its transport; none after `until_s`.

    `until_s` is of the monotonic clock.
    """
    queues: dict[str, SimpleQueue[Cell]] = {one.transport: SimpleQueue() for one in hosts}
    for cell in cells:
        queues[cell.by].put(cell)

    def works(sites: Sites) -> None:
        first(sites)
        while time.monotonic() < until_s:
            try:
                cell = queues[sites.transport].get_nowait()
            except Empty:
                return
            run([cell], sites, told)

    with ThreadPoolExecutor(len(hosts)) as pool:
        for _ in pool.map(works, hosts):
            pass


def table(outcomes: Sequence[Outcome], what: str) -> str:
    """In Markdown: how often each fault struck at each step, and in how many of these something was wrong."""
    columns = [
        name
        for name in (*(fault.name for fault in remote.FAULTS), *here.FAULTS)
        if any(one.cell.column == name for one in outcomes)
    ]
    columns = list(dict.fromkeys(columns))
    lines = [f"| {what} | {' | '.join(columns)} |", f"|---{'|---' * len(columns)}|"]
    order = [*PLACES.values(), *sorted({one.cell.row for one in outcomes})]
    there = {one.cell.row for one in outcomes}
    for row in (row for row in dict.fromkeys(order) if row in there):
        cells = [row]
        for column in columns:
            here_ = [one for one in outcomes if (one.cell.row, one.cell.column) == (row, column)]
            bad = sum(bool(one.violations) for one in here_)
            cells.append(f"{len(here_)}, **{bad} wrong**" if bad else str(len(here_) or "-"))
        lines.append(f"| {' | '.join(cells)} |")
    return "\n".join(lines)
