"""Plans, by what they wait for; and which of them wait in vain: what they were made for is no longer so."""

from __future__ import annotations

from collections.abc import Callable, Collection, Iterable, Mapping
from contextlib import suppress
from datetime import datetime

from msgspec import Struct

from knobledger.drafting import Desk
from knobledger.errors import KnobError
from knobledger.fleet import HostOf, side_by_side
from knobledger.folds.plans import Plan, PlanStatus
from knobledger.hosts.config import Target
from knobledger.names import Digest, EventId, TargetName, short
from knobledger.report.plans import plan_report
from knobledger.report.upkeep import Plans
from knobledger.state import State
from knobledger.watch import Unwatched, Watch

OPEN: tuple[PlanStatus, ...] = ("open", "approved")
WAITING: tuple[PlanStatus, ...] = (*OPEN, "in doubt")


def plans(
    desk: Desk,
    target: Callable[[str], Target],
    *,
    spent: bool = False,
    among: Collection[str] | None = None,
    others: int = 0,
    host: HostOf | None = None,
    watch: Watch | None = None,
) -> Plans:
    """Plans that wait for somebody, newest first; with `spent` those that are over as well.

    `among`: the plans of which the desk knows enough to tell; `others`: how many more there are.
    With `host` the open ones are compared with the live files, the way to them and what they restart; of a host that is
    down nothing is known.
    """
    now = desk.author.now()
    every = [plan for plan in desk.state.plans.values() if among is None or plan.id in among]
    overtaken = {plan.id: by for plan in every if (by := overtaken_by(desk.state, plan, now))}
    found = [plan for plan in every if spent or (plan.status(now) in WAITING and plan.id not in overtaken)]
    ready = [plan for plan in found if plan.status(now) in OPEN and plan.id not in overtaken] if host else []
    looked = freshness(ready, target, host, watch or Unwatched()) if host else {}
    stale = {id_: one.stale for id_, one in looked.items()}
    void = {id_: f"{short(by)} was applied since" for id_, by in overtaken.items()}
    void |= {plan.id: _void(desk, plan) for plan in ready if not stale.get(plan.id)}
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
    return Plans(tuple(shown), len(every) - len(found) + others)


def overtaken_by(state: State, plan: Plan, now: datetime) -> EventId | None:
    """The change that left other bytes than an open plan was made for, so that it waits in vain."""
    return state.overtaken_by(plan) if plan.status(now) in OPEN else None


def _void(desk: Desk, plan: Plan) -> str:
    """Why a plan is void although its files are as they were; empty where nothing says so, or nobody could be asked."""
    with suppress(KnobError):
        if desk.binding:
            return desk.binding.objection(plan.id, plan.planned)[0]
    return ""


class Freshness(Struct, frozen=True):
    """Whether a file of a plan is another now than it was made for."""

    stale: bool | None
    """None: one could not be read, and no other differs"""
    errors: tuple[KnobError, ...] = ()
    """why not, of each such file"""


def freshness(
    plans: Iterable[Plan], target: Callable[[str], Target], host: HostOf, watch: Watch
) -> dict[EventId, Freshness]:
    """Of each plan; hosts are asked side by side, and each file once."""
    plans = tuple(plans)
    answers: dict[TargetName, Digest | KnobError] = {}
    known: list[Target] = []
    for name in dict.fromkeys(file.target for plan in plans for file in plan.planned.files):
        try:
            known.append(target(name))
        except KnobError as error:
            answers[name] = error

    def digest(where: Target) -> Digest:
        return host(where.host).read(where.path).digest

    for where, answer in side_by_side(known, digest, "reading", watch, abandon=True):
        answers[where.name] = answer
    return {plan.id: _freshness(plan, answers) for plan in plans}


def _freshness(plan: Plan, answers: Mapping[TargetName, Digest | KnobError]) -> Freshness:
    found = [(answers[file.target], file.base) for file in plan.planned.files]
    errors = tuple(answer for answer, _ in found if isinstance(answer, KnobError))
    differs = any(not isinstance(answer, KnobError) and answer != base for answer, base in found)
    return Freshness(True if differs else None if errors else False, errors)
