"""The verbs that plan, decide and apply."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from pathlib import Path

from knobledger.apply import attempt, ready
from knobledger.drafting import Draft, Options, draft_content, draft_edit, look
from knobledger.errors import KnobError, NotApproved, PlanMode, Unknown, Usage
from knobledger.events.changes import Approved, Rejected
from knobledger.hosts.config import Target
from knobledger.knobs import Request
from knobledger.names import EventId, TargetName, short
from knobledger.plan import PlannedFile, Verb
from knobledger.report.plans import Decided, NothingToDo, PlanReport, plan_report
from knobledger.state import Plan
from knobledger.verbs.serving import Serving

# What only some verbs need is imported by these verbs: a change is to be quick.


class Changing(Serving):
    """Plans, go-aheads, and applying."""

    def set(
        self, targets: Sequence[str], requests: Sequence[Request], options: Options
    ) -> PlanReport | NothingToDo:
        """Plans knob values (or, with None, their absence) on targets."""
        where = self.targets(targets)
        verb: Verb = "unset" if all(request.value is None for request in requests) else "set"
        if not requests:
            raise Usage("no knob was named", hint="`knob set TARGET NAME=VALUE`")
        return self._drafted(draft_edit(self.desk, verb, where, requests, options))

    def edit(
        self, target: str, editor: Callable[[bytes, str], bytes], options: Options
    ) -> PlanReport | NothingToDo:
        """Plans a whole file as `editor` returns it; it is given the live bytes and the file's name."""
        where, host = self.only(target)
        seen = look(self.desk, where, host)
        content = editor(seen.remote.content, Path(where.path).name)
        return self._drafted(draft_content(self.desk, seen, content, options))

    def revert(self, change: str, options: Options) -> PlanReport | NothingToDo:
        """Plans the undoing of a change."""
        from knobledger.undoing import change_to_revert

        return self._undo("revert", change_to_revert(self.state, self.find_change(change)), options)

    def restore(self, what: str, options: Options) -> PlanReport | NothingToDo:
        """Plans the undoing of a revert, named by itself, by the change it took back, or by a backup's name."""
        from knobledger.undoing import change_of_backup, change_to_restore

        found = change_of_backup(self.state, what)
        if found is None and what.endswith(".bak"):
            raise Unknown(
                f"no recorded backup has the name {what!r}", hint="`knob backups TARGET` lists them"
            )
        found = found or self.find_change(what)
        return self._undo("restore", change_to_restore(self.state, found), options)

    def _undo(self, verb: Verb, change: EventId, options: Options) -> PlanReport | NothingToDo:
        from knobledger.undoing import draft_undo

        plan = self.state.plans[change]
        applied = [a.started.target for a in plan.attempts if a.succeeded]
        return self._drafted(draft_undo(self.desk, verb, change, self.targets(applied), options))

    def _drafted(self, draft: Draft) -> PlanReport | NothingToDo:
        if draft.plan is None:
            return NothingToDo(tuple(seen.target.name for seen in draft.seen), draft.remarks)
        plan = self.state.plans[draft.plan]
        preview = None
        if plan.planned.restart != "none":
            where = [file.target for file in plan.planned.files]
            preview = self._preview(self._in_scope(where, plan.planned.restart), plan.planned.restart)
        return plan_report(
            self.state, plan, self.now, stale=False, remarks=draft.remarks, restart_preview=preview
        )

    def approve(self, plan: str, source: str) -> Decided:
        """Records a go-ahead for one plan, with what stands behind it."""
        found = self.find_plan(plan)
        name = short(found.id)
        if self.planning_only:
            raise PlanMode(
                "plan mode: looking and planning is allowed, a go-ahead is not",
                hint=f"somebody who may act: `knob approve {name}`, then `knob apply {name}`",
                plan=found.id,
            )
        policy = found.planned.policy
        if policy != "confirm":
            raise NotApproved(
                f"the policy of this target is {policy!r}: a go-ahead needs a signature, and this version can't check one",
                hint="the plan stays open",
                plan=found.id,
            )
        if found.status(self.now) not in ("open", "approved"):
            ready(self.desk, found)
        if not found.approvals:
            self.desk.write(Approved(**self.desk.author.signs(), plan=found.id, source=source))
        event = found.approvals[-1][1]
        return Decided(
            plan_report(self.state, found, self.now), "approved", f"{event.actor} ({event.source})"
        )

    def reject(self, plan: str, why: str) -> Decided:
        """Turns a plan down, for good."""
        found = self.find_plan(plan)
        if found.status(self.now) not in ("open", "approved"):
            ready(self.desk, found)
        self.desk.write(Rejected(**self.desk.author.signs(), plan=found.id, why=self.masker.text(why)))
        return Decided(plan_report(self.state, found, self.now), "rejected", self.desk.author.actor)

    def apply(self, plan: str) -> PlanReport:
        """Applies an approved plan, target by target, stopping at the first that fails; then restarts as it says.

        With one target its error is raised; with several the report carries each outcome. Raises `Unhealthy`.
        """
        found = self.find_plan(plan)
        ready(self.desk, found)
        self.check_restart(found)
        failures: dict[TargetName, KnobError] = {}
        differences: dict[TargetName, tuple[str, ...]] = {}
        for file in found.planned.files:
            target = self.config.target(file.target)
            try:
                self._apply_to(found, file, target, differences)
            except KnobError as error:
                if len(found.planned.files) == 1:
                    raise
                failures[file.target] = error
                break
        if not failures:
            self.restart_after(found)
        return plan_report(self.state, found, self.now, failures=failures, differences=differences)

    def _apply_to(
        self, plan: Plan, file: PlannedFile, target: Target, differences: dict[TargetName, tuple[str, ...]]
    ) -> None:
        from knobledger.ledger.history import prepare

        host = self.host(target.host)
        prepare()
        attempt(self.desk, plan, target, host, lambda: self.host(target.host, fresh=True))
        if file.backup and not file.clean:
            from knobledger import looking

            differences[target.name] = looking.differences(self.desk, host, file, target)
