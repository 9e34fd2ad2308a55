"""Plans, by what they wait for; and which of them wait in vain: what they were made for is no longer so."""

from __future__ import annotations

from collections.abc import Callable, Iterable
from concurrent.futures import ThreadPoolExecutor
from contextlib import suppress

from knobledger.drafting import Desk
from knobledger.errors import KnobError
from knobledger.hosts.config import Target
from knobledger.hosts.host import Host
from knobledger.hosts.reach import HOSTS_AT_ONCE
from knobledger.names import Digest, EventId, TargetName
from knobledger.report.plans import plan_report
from knobledger.report.upkeep import Plans
from knobledger.state import Plan, PlanStatus

OPEN: tuple[PlanStatus, ...] = ("open", "approved")
WAITING: tuple[PlanStatus, ...] = (*OPEN, "in doubt")


def plans(
    desk: Desk,
    target: Callable[[str], Target],
    *,
    spent: bool = False,
    host: Callable[[str], Host] | None = None,
) -> Plans:
    """Plans that wait for somebody, newest first; with `spent` those that are over as well.

    With `host` the open ones are compared with the live files, the way to them and what they restart; of a host that is
    down nothing is known.
    """
    now = desk.author.now()
    every = list(desk.state.plans.values())
    found = [plan for plan in every if spent or plan.status(now) in WAITING]
    ready = [plan for plan in found if plan.status(now) in OPEN] if host else []
    stale = _stale(ready, target, host) if host else {}
    void = {plan.id: _void(desk, plan) for plan in ready if not stale.get(plan.id)}
    shown = (
        plan_report(
            desk.state,
            plan,
            now,
            stale=bool(void.get(plan.id)) or stale.get(plan.id),
            stale_because=void.get(plan.id, ""),
        )
        for plan in reversed(found)
    )
    return Plans(tuple(shown), len(every) - len(found))


def _void(desk: Desk, plan: Plan) -> str:
    """Why a plan is void although its files are as they were; empty where nothing says so, or nobody could be asked."""
    with suppress(KnobError):
        if desk.binding:
            return desk.binding.objection(plan.id, plan.planned)[0]
    return ""


def _stale(
    plans: Iterable[Plan], target: Callable[[str], Target], host: Callable[[str], Host]
) -> dict[EventId, bool | None]:
    """Whether a file of a plan is another now; None where one could not be read, and no other differs.

    Hosts are asked at the same time, the files of one host one after the other.
    """
    files = {(plan.id, file.target): file.base for plan in plans for file in plan.planned.files}
    by_host: dict[str, list[TargetName]] = {}
    for name in dict.fromkeys(name for _, name in files):
        by_host.setdefault(name.partition("/")[0], []).append(name)
    live: dict[TargetName, Digest | None] = {}

    def visit(names: Iterable[TargetName]) -> None:
        for name in names:
            live[name] = None
            with suppress(KnobError):
                where = target(name)
                live[name] = host(where.host).read(where.path).digest

    with ThreadPoolExecutor(HOSTS_AT_ONCE) as pool:
        list(pool.map(visit, by_host.values()))
    found: dict[EventId, bool | None] = {}
    for (plan, name), base in files.items():
        differs = None if live[name] is None else live[name] != base
        if found.get(plan, False) is not True:
            found[plan] = differs if differs is not False else found.get(plan, False)
    return found
