"""Plans that restart services and change no file.

A restart makes live whatever the files hold, so where a change of a file needs a signature, a restart does too.
"""

from __future__ import annotations

from collections.abc import Sequence
from contextlib import contextmanager
from typing import TYPE_CHECKING

from knobledger.drafting import Desk, Options
from knobledger.errors import PlanSpent
from knobledger.event import stamp
from knobledger.events.changes import Planned
from knobledger.ledger.writing import write_once
from knobledger.names import EventId, short
from knobledger.plan import Policy
from knobledger.services.graph import in_scope, services_named

if TYPE_CHECKING:
    from collections.abc import Iterator

    from knobledger.folds.plans import Plan
    from knobledger.hosts.config import Config


def restarted_by(config: Config, planned: Planned) -> tuple[str, ...]:
    """The services that a plan restarts, in the order of their start, by hosts.toml as it is now."""
    if planned.only_restarts:
        return planned.where
    if planned.restart == "none":
        return ()
    names = services_named(config, [file.target for file in planned.files])
    return in_scope(config, names, planned.restart)


def draft_restart(desk: Desk, services: Sequence[str], policy: Policy, options: Options) -> EventId:
    """Writes the plan of a restart of services, which are in the order of their start. Hosts are asked for units alone."""
    assert desk.binding
    planned = Planned(
        **desk.author.signs(),
        verb="restart",
        files=(),
        services=desk.binding.services(services, "service"),
        why=desk.masker.text(options.why),
        restart=options.restart,
        policy=policy,
        expires=stamp(desk.author.now() + options.expires_in),
    )
    return desk.propose(planned)[0]


@contextmanager
def claimed(desk: Desk, plan: Plan) -> Iterator[None]:
    """Lets one process of this clone carry the plan out, however many try. Raises `PlanSpent` for the others.

    Bytes on a host make a plan of an edit good for one use; for a restart that is the ledger's beginning of its
    chain, which a process that reads at the same time does not see yet.
    """
    path = desk.ledger.root / ".knobledger" / "restarts" / plan.id
    if not write_once(path, b"", mode=0o600, folder_mode=0o700):
        raise PlanSpent(
            f"plan {short(plan.id)} is being carried out, or was begun here by a process that died",
            hint="see `knob plans`; a plan is good for one use",
        )
    try:
        yield
    finally:
        if not plan.begun:
            path.unlink(missing_ok=True)
