"""`knob plans --watch`: the list kept fresh in a terminal; elsewhere a line for each change of it."""

from __future__ import annotations

import json
import sys
import time
from typing import TYPE_CHECKING

from knobledger.cli.session import session

if TYPE_CHECKING:
    from knobledger.report.plans import PlanReport
    from knobledger.report.upkeep import Plans

EVERY_S, EVERY_LIVE_S = 1.0, 5.0
"""between two looks; each is a command of its own, and with `--live` asks the hosts"""
_CLEAR = "\x1b[H\x1b[2J"


def watch_plans(*, spent: bool, live: bool) -> int:
    """Until Ctrl-C, which is its end and no failure; or until nobody reads any more."""
    screen = sys.stdout.isatty() and not session.json
    seen: dict[str, str] | None = None
    try:
        while True:
            # Those that are over are looked at as well: a plan that was used is a change of the list.
            found, notes = _look(spent=spent or not screen, live=live)
            if screen:
                print(_CLEAR, end="")
                session.show(found)
                for line in (*notes, f"{time.strftime('%H:%M:%S')}, every {_pause(live):.0f} s; Ctrl-C ends"):
                    print(line)
            else:
                seen = _changed(found.plans, seen)
            sys.stdout.flush()
            time.sleep(_pause(live))
    except KeyboardInterrupt:
        return 0


def _pause(live: bool) -> float:
    return EVERY_LIVE_S if live else EVERY_S


def _look(*, spent: bool, live: bool) -> tuple[Plans, list[str]]:
    with session.workspace(quiet=True) as workspace:
        found = workspace.plans(spent=spent, live=live)
    return found, workspace.notes


def _changed(plans: tuple[PlanReport, ...], seen: dict[str, str] | None) -> dict[str, str]:
    """Prints each plan whose status is another than before; at first those that wait."""
    now: dict[str, str] = {plan.id: plan.word for plan in plans}
    for plan in reversed(plans):
        if seen is None and plan.status not in ("open", "approved", "in doubt"):
            continue
        before = (seen or {}).get(plan.id, "")
        if before != plan.word:
            _line(plan, before)
    return now


def _line(plan: PlanReport, before: str) -> None:
    if session.json:
        print(
            json.dumps(
                {"plan": plan.id, "before": before or None, "now": plan.word, "report": plan.to_json()}
            )
        )
        return
    planned = plan.planned
    where = ", ".join(planned.where)
    turned = f"{before} → {plan.word}" if before else plan.word
    print(f"{plan.id[:8]}  {turned}  {planned.verb} {where}  by {planned.actor!r}")
