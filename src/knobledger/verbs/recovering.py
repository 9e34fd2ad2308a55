"""Restarts that were left in the middle: what is up, what is down, and how they are settled."""

from __future__ import annotations

from collections.abc import Sequence
from typing import TYPE_CHECKING, Literal

from knobledger.errors import KnobError, NotApproved, Refused
from knobledger.names import EventId, short
from knobledger.services.working import worked_on
from knobledger.verbs.serving import Serving

if TYPE_CHECKING:
    from knobledger.folds.plans import Plan
    from knobledger.folds.serving import Chain
    from knobledger.report.upkeep import RecoveredRestart

Settling = Literal["look", "finish", "roll back"]
"""only say how it stands; bring every service up that is not proven yet; take the change back, then do that"""


class Recovering(Serving):
    """The part of `recover` that is about services."""

    def recover_restarts(self, how: Settling) -> tuple[RecoveredRestart, ...]:
        """Each restart without an end, and each that a change should have had and that never began."""
        found = [self._settled_chain(chain, how) for chain in self.state.serving.in_the_middle()]
        return (
            *found,
            *(self._never_begun(self.state.plans[id_], how) for id_ in self.state.serving.never_begun()),
        )

    def _settled_chain(self, chain: Chain, how: Settling) -> RecoveredRestart:
        from knobledger.report.upkeep import RecoveredRestart

        root = self.state.serving.root_of(chain)
        change = self._change_of(root)
        if worked_on(chain.started):
            return RecoveredRestart(
                chain.id, change, (), "going on", f"process {chain.started.process} works on it"
            )
        states, unproven = [], []
        try:
            for name in chain.services:
                state, proven = self._state_of(chain, name)
                states.append((name, state))
                unproven += [] if proven else [name]
            if how == "look":
                hint = (
                    f"`knob recover --finish`{' or `knob recover --roll-back`' if change else ''} settles it"
                )
                return RecoveredRestart(chain.id, change, tuple(states), "in the middle", hint, 23)
            if how == "roll back":
                return self._taken_back(root, chain, tuple(states))
            message = self._finish(chain, unproven)
        except KnobError as error:
            return RecoveredRestart(chain.id, change, tuple(states), "failed", _said(error), error.exit_code)
        return RecoveredRestart(chain.id, change, tuple(states), "finished", message)

    def _state_of(self, chain: Chain, name: str) -> tuple[str, bool]:
        """How a service stands, in words, and whether this chain has proven it already."""
        from knobledger.report.serving import clock_text
        from knobledger.services.running import look

        service = self.config.service(name)
        now = look(self.host(service.host), service)
        if now.main is None:
            return "down", False
        outcome = chain.outcomes.get(name)
        proven = outcome is not None and outcome.outcome == "healthy" and outcome.after[0].pid == now.main
        before = next(one for one in chain.started.services if one.service == name)
        old = any(p.pid == now.main and abs(p.started - (now.started or 0)) < 1 for p in before.processes[:1])
        word = "the old process, not restarted yet" if old else "proven" if proven else "new, not proven"
        return f"up: pid {now.main}, started {clock_text(now.started or 0)}; {word}", proven

    def _finish(self, chain: Chain, unproven: Sequence[str]) -> str:
        """Restarts what is not proven; a chain whose services all are only gets its end."""
        from knobledger.events.serving import RestartEnded

        if not unproven:
            end = RestartEnded(
                **self.desk.author.signs(), chain=chain.id, plan=chain.started.plan, outcome="done"
            )
            self.desk.write(end)
            return "every service was up and proven; only the end was missing"
        plan = chain.started.plan
        self._permit(chain.services, plan)
        result = self._chain(unproven, "recover", chain.started.scope, plan=plan, resumes=chain.id)
        if result.ended.outcome != "done":
            raise self._unhealthy(result, "")
        self.recorded_live(unproven)
        return f"restarted by {short(result.id)}: {', '.join(unproven)}"

    def _taken_back(self, root: Chain, chain: Chain, states: tuple[tuple[str, str], ...]) -> RecoveredRestart:
        from knobledger.report.upkeep import RecoveredRestart

        change = self._change_of(root)
        if change is None:
            raise Refused(
                "this restart belongs to no change, so there is nothing to roll back",
                hint="`knob recover --finish`",
            )
        self._permit_back(self.state.plans[change])
        undo = self.roll_back(
            self.state.plans[change], root.services, "its restart was left in the middle", resumes=chain.id
        )
        return RecoveredRestart(chain.id, change, states, "rolled back", f"by change {short(undo)}")

    def _never_begun(self, plan: Plan, how: Settling) -> RecoveredRestart:
        from knobledger.report.upkeep import RecoveredRestart

        try:
            if how == "look":
                hint = "the files are written, the restart never began: `knob recover --finish`, or `--roll-back`"
                return RecoveredRestart(None, plan.id, (), "in the middle", hint, 23)
            if how == "roll back":
                self._permit_back(plan)
                undo = self.roll_back(plan, (), "its restart never began")
                return RecoveredRestart(None, plan.id, (), "rolled back", f"by change {short(undo)}")
            self._permit((), plan.id)
            self.restart_after(plan, cause="recover")
            self.recorded_live([file.target.partition(":")[0] for file in plan.planned.files])
        except KnobError as error:
            return RecoveredRestart(None, plan.id, (), "failed", _said(error), error.exit_code)
        return RecoveredRestart(None, plan.id, (), "finished")

    def _change_of(self, root: Chain) -> EventId | None:
        """The change that a restart belongs to; None for one that was only asked for, with or without a plan."""
        plan = self.state.plans.get(root.started.plan or EventId(""))
        return None if plan is None or plan.planned.only_restarts else plan.id

    def _permit(self, services: Sequence[str], plan: EventId | None) -> None:
        """Where a policy wants signatures, only what was signed is finished, and only while it is not done.

        A chain is a few files in the ledger, which somebody without a key can write. Raises `NotApproved`.
        """
        if self.config.asks_no_signature:
            return
        from knobledger import approving
        from knobledger.restarting import restarted_by

        found = self.state.plans.get(plan or EventId(""))
        if found is None:
            if approving.policy_for(self.desk, self.config, (), services) != "confirm":
                raise NotApproved(
                    "nobody has signed for this restart", hint=f"`knob restart {' '.join(services)} --plan`"
                )
            return
        original = self.state.plans.get(found.planned.undoes or EventId(""))
        if original and found.planned.restart == "none":
            # The chain of a roll back: its plan was made by no person, and was signed with the change.
            self._permit_back(original)
            found = original
        approving.require(self.desk, self.config, found)
        if approving.policy_of(self.desk, self.config, found.planned) == "confirm":
            return
        chains = [one for one in self.state.serving.chains.values() if one.started.plan == found.id]
        done = any(one.ended and one.ended.outcome == "done" for one in chains)
        if done or not set(services) <= set(restarted_by(self.config, found.planned)):
            raise NotApproved(
                f"this is not what was signed with {short(found.id)}, or it was done already",
                hint=f"`knob restart {' '.join(services)} --plan`",
            )

    def _permit_back(self, plan: Plan) -> None:
        """Taking a change back needs its own signature, unless rolling back was signed with it. Raises `NotApproved`."""
        if self.config.asks_no_signature:
            return
        from knobledger import approving

        planned = plan.planned
        approving.require(self.desk, self.config, plan)
        if (
            not planned.roll_back_on_failure
            and approving.policy_of(self.desk, self.config, planned) != "confirm"
        ):
            raise NotApproved(
                f"the roll back of {short(plan.id)} was not signed with it",
                hint=f"`knob revert {short(plan.id)} --restart {planned.restart}`",
            )


def _said(error: KnobError) -> str:
    """A failure among others in one report: the next command belongs to it."""
    return (
        f"{error.message}; {error.hint}" if isinstance(error, NotApproved) and error.hint else error.message
    )
