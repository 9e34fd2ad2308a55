"""The verbs of restarts that somebody asks for: by a plan where a policy wants a signature, else at once."""

from __future__ import annotations

from collections.abc import Sequence
from typing import TYPE_CHECKING

from msgspec.structs import replace

from knobledger.errors import NotApproved, PlanMode
from knobledger.names import short
from knobledger.verbs.serving import Serving

if TYPE_CHECKING:
    from knobledger.drafting import Options
    from knobledger.folds.plans import Plan
    from knobledger.plan import Policy, RestartScope
    from knobledger.report.plans import PlanReport
    from knobledger.report.serving import RestartPreview, RestartReport
    from knobledger.report.watching import LiveReport

# What only some verbs need is imported by these verbs: a change is to be quick.


class Restarting(Serving):
    """Restarts without a change of a file."""

    def restart_wish(
        self, names: Sequence[str], scope: RestartScope, *, why: str = "", plan: bool = False
    ) -> RestartPreview | PlanReport:
        """What waits for a go-ahead: a preview where anybody may give it; a plan where a policy wants a signature, or
        where one is asked for, or has a reason to keep. Asks no host. Raises `PlanMode`, `Refused`.
        """
        services = self._in_scope(names, scope)
        self.decides_on_restart(names, scope)
        preview = self._preview(services, scope)
        if self.planning_only and not plan:
            raise PlanMode(
                "plan mode: looking and planning is allowed, a restart is not",
                hint=f"plan it by `knob restart {' '.join(names)} --scope {scope} --plan`",
            )
        policy = self._policy(services)
        if not plan and not why and policy == "confirm":
            return preview
        from knobledger.drafting import Options
        from knobledger.report.plans import plan_report
        from knobledger.restarting import draft_restart

        options = Options(why=why, restart=scope)
        made = self.state.plans[draft_restart(self.desk, services, policy, options)]
        return plan_report(self.state, made, self.now, restart_preview=preview)

    def restart(self, names: Sequence[str], scope: RestartScope) -> RestartReport:
        """Restarts services at once; the go-ahead is the caller's.

        Raises `Unhealthy` with the last lines of the log, `PlanMode`, `Refused`, `Interrupted`; `NotApproved` where a
        policy wants a signature, and so a plan that can be signed.
        """
        services = self._in_scope(names, scope)
        self.decides_on_restart(names, scope)
        typed = f"knob restart {' '.join(names)} --scope {scope}"
        if self.planning_only:
            raise PlanMode("plan mode: nothing is restarted", hint=f"plan it by `{typed} --plan`")
        if (policy := self._policy(services)) != "confirm":
            raise NotApproved(
                f"nothing was restarted: the policy {policy!r} asks for a signature", hint=f"`{typed} --plan`"
            )
        self._preview(services, scope)
        result = self._chain(services, "asked", scope)
        if result.failed or result.ended.outcome == "failed":
            raise self._unhealthy(result, "")
        return replace(self._restarted(result), live=self.recorded_live(services))

    def restart_planned(self, plan: Plan) -> LiveReport | None:
        """Carries out a plan that only restarts, once; that it may be is checked before. Raises what `restart` does."""
        from knobledger.restarting import claimed

        with claimed(self.desk, plan):
            result = self._chain(plan.planned.where, "asked", plan.planned.restart, plan=plan.id)
        if result.ended.outcome == "failed":
            raise self._unhealthy(result, f"plan {short(plan.id)}: ")
        return self.recorded_live(plan.planned.where)

    def guarded(self, names: Sequence[str], options: Options) -> Options:
        """The options of a change, whose plan asks for what the services ask for that it restarts."""
        if options.restart == "none" or self.config.asks_no_signature:
            return options
        return replace(options, at_least=self._policy(self._in_scope(names, options.restart)))

    def _policy(self, services: Sequence[str]) -> Policy:
        if self.config.asks_no_signature:
            return "confirm"
        from knobledger.approving import policy_for

        return policy_for(self.desk, self.config, (), services)
