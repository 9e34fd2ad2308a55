"""The verbs that plan, decide and apply."""

from __future__ import annotations

import re
from collections.abc import Callable, Sequence
from pathlib import Path

from msgspec.structs import replace

from knobledger import fleet
from knobledger.again import again
from knobledger.apply import ready, way_back
from knobledger.asking import each_once
from knobledger.drafting import Draft, Options, draft_content, draft_edit
from knobledger.errors import Drifted, NotApproved, PlanMode, PlanSpent, Refused, Unknown, Usage
from knobledger.events.changes import Approved, Observed, Rejected
from knobledger.folds.plans import Plan
from knobledger.hosts.config import Target
from knobledger.knobs import Request
from knobledger.names import EventId, HostPath, TargetName, short
from knobledger.plan import Verb
from knobledger.report.plans import Decided, NothingToDo, PlanReport, plan_report
from knobledger.verbs.asking import Asking
from knobledger.verbs.confirming import Confirming
from knobledger.verbs.restarting import Restarting
from knobledger.who import signing_key

# What only some verbs need is imported by these verbs: a change is to be quick.

_ID = re.compile(r"[0-9a-fA-F]{4,64}")


class Changing(Confirming, Restarting, Asking):
    """Plans, go-aheads, and applying."""

    def set(
        self, targets: Sequence[str], requests: Sequence[Request], options: Options
    ) -> PlanReport | NothingToDo:
        """Plans knob values (or, with None, their absence) on targets."""
        each_once(requests, self.masker)
        self.decides_on_targets(targets)
        self.decides_on_restart(targets, options.restart)
        self.check_window(targets, options)
        where = self.config.targets(targets)
        verb: Verb = "unset" if all(request.value is None for request in requests) else "set"
        if not requests:
            raise Usage("no knob was named", hint="`knob set TARGET NAME=VALUE`")
        taken = [(target.name, one.name, one.value) for target in where for one in requests]
        options = self.guarded(targets, self.weighed(verb, options, taken))
        fleet.sizes(options.batches, len(where))
        seen, left_out = fleet.look_at(
            self.desk, where, self.host, self.watch, skip_unreachable=options.skip_unreachable
        )
        return self._drafted(draft_edit(self.desk, verb, seen, requests, options, left_out))

    def edit(
        self, target: str, editor: Callable[[bytes, str], bytes], options: Options
    ) -> PlanReport | NothingToDo:
        """Plans a whole file as `editor` returns it; it is given the live bytes and the file's name."""
        self.decides_on_targets([target])
        self.decides_on_restart([target], options.restart)
        self.check_window([target], options)
        where, _ = self.only(target)
        options = self.guarded([target], self.weighed("edit", options))
        [seen], _ = fleet.look_at(self.desk, [where], self.host, self.watch, skip_unreachable=False)
        content = editor(seen.remote.content, Path(where.path).name)
        return self._drafted(draft_content(self.desk, seen, content, options))

    def revert(self, change: str, options: Options) -> PlanReport | NothingToDo:
        """Plans the undoing of a change, of an edit by hand, or (`exact`) of an attempt that left neither old nor new."""
        from knobledger.undoing import change_to_revert

        self.decides_on_change(change)
        found = self._torn(change) or change_to_revert(self.state, self._change_or_edit(change))
        return self._undo("revert", found, options)

    def _torn(self, text: str) -> EventId | None:
        """A plan that never became a change, and after which a file held neither the old nor the new bytes."""
        plan = None if text.startswith("@") else self.state.plans.get(self.desk.ledger.resolve(text))
        if plan is None or plan.is_change or not any(one.torn for one in plan.attempts):
            return None
        return plan.id

    def restore(self, what: str, options: Options) -> PlanReport | NothingToDo:
        """Plans the undoing of a revert, named by itself, by the change it took back, or by a backup's name.

        The revert may have been made by hand; the backup may be a copy that somebody made before it. Raises `Refused`
        where several have the name, or where the edit that followed a copy is undone already.
        """
        from knobledger.undoing import change_to_restore, copies_named

        if what.startswith("@") or _ID.fullmatch(what):
            self.decides_on_change(what)  # the name of a backup may be any target's
        copies = copies_named(self.state, what)
        if len(set(copies.values())) > 1:
            from knobledger.copies import several

            raise several(what, copies)
        found = next(iter(copies.values()), None)
        if found is not None and found not in self.state.plans:
            return self._restore_copy(found, *next(iter(copies)), options)
        if found is None and what.endswith(".bak"):
            raise Unknown(
                f"no recorded backup has the name {what!r}",
                hint="`knob backups TARGET` lists them; `knob adopt TARGET --backups` records those of others",
            )
        found = found or self._change_or_edit(what)
        return self._undo("restore", change_to_restore(self.state, found), options)

    def _restore_copy(
        self, by_hand: EventId, target: TargetName, path: HostPath, options: Options
    ) -> PlanReport | NothingToDo:
        """Undoes the edit by hand that followed a copy; if that is undone already, says how the file differs from it."""
        if self.state.fate(by_hand)[0] != "reverted":
            return self._undo("restore", by_hand, options)
        from knobledger.copies import differing

        where, host = self.only(target)
        error = differing(self.desk, where, host, by_hand, path)
        if error is None:
            return NothingToDo((target,), (f"no knob differs from its value in {path}",))
        raise error

    def _change_or_edit(self, text: str) -> EventId:
        """A change, or an edit by hand that was observed. Raises `Unknown`; `Refused` for a first contact."""
        id_ = None if text.startswith("@") else self.desk.ledger.resolve(text)
        event = self.state.events[id_] if id_ else None
        if id_ is None or not isinstance(event, Observed):
            return self.find_change(text)
        if event.previous is None:
            raise Refused(
                f"{short(id_)} is the first that was seen of {event.target}: nothing is known from before it",
                hint=f"`knob adopt {event.target} --backups` looks for copies",
            )
        return id_

    def _undo(self, verb: Verb, change: EventId, options: Options) -> PlanReport | NothingToDo:
        from knobledger.undoing import draft_undo, files_to_undo

        options = self.weighed(verb, options)
        event = self.state.events[change]
        if isinstance(event, Observed):
            applied = [event.target]
        else:
            applied = self._written(self.state.plans[change], options)
        self.decides_on_restart(applied, options.restart)
        self.check_window(applied, options)
        options = self.guarded(applied, options)
        where = self.config.targets(applied)
        fleet.sizes(options.batches, len(where))
        targets, left_out = fleet.read_all(
            self.desk,
            where,
            lambda target: files_to_undo(self.state, change, target),
            self.host,
            self.watch,
            skip_unreachable=options.skip_unreachable,
        )
        return self._drafted(draft_undo(self.desk, verb, change, targets, options, left_out))

    def _written(self, plan: Plan, options: Options) -> list[TargetName]:
        """Where a plan has written; half-written files have nothing to merge with, so only `exact` brings these back."""
        found = [one.started.target for one in plan.attempts if one.succeeded or (one.torn and options.exact)]
        if not found:
            raise Refused(
                f"{short(plan.id)} left neither the bytes before nor those planned: only the whole backup can come back",
                hint=f"{way_back(plan)} puts it back",
            )
        return list(dict.fromkeys(found))

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

    def approve(self, plan: str, source: str, *, key: str = "", break_glass: str = "") -> Decided:
        """Records a go-ahead for one plan, with what stands behind it.

        `key` signs it where the policy asks for that (else git's `user.signingkey`); for a change that was made by
        breaking the glass it is the review that closes it.
        """
        found = self._plan_to_act_on(plan)
        name = short(found.id)
        if self.planning_only:
            raise PlanMode(
                "plan mode: looking and planning is allowed, a go-ahead is not",
                hint=f"somebody who may act: `knob approve {name}`, then `knob apply {name}`",
                plan=found.id,
            )
        if found.status(self.now) not in ("open", "approved"):
            return self._review(found, key)
        if by := self.state.overtaken_by(found):
            raise PlanSpent(
                f"plan {name} waits in vain: {short(by)} was applied since, and left other bytes",
                hint=f"plan again: `{again(found.planned)}`",
                change=by,
            )
        if not self._needs_signature(found):
            if break_glass:
                raise Refused(
                    "there is no glass to break: the policy is 'confirm', a go-ahead is enough",
                    hint=f"`knob approve {name}`",
                )
            if not found.approvals:
                self.desk.write(Approved(**self.desk.author.signs(), plan=found.id, source=source))
        else:
            from knobledger import approving

            key = self._key(name, key)
            approving.approve(self.desk, self.config, found, key, self.masker.text(break_glass))
        event = found.approvals[-1][1]
        return Decided(
            plan_report(self.state, found, self.now), "approved", f"{event.actor} ({event.source})"
        )

    def _needs_signature(self, plan: Plan) -> bool:
        policy = plan.planned.policy
        if policy == "confirm" and self.config.asks_no_signature:
            return False
        from knobledger.approving import policy_of

        return policy_of(self.desk, self.config, plan.planned) != "confirm"

    def _key(self, name: str, key: str) -> str:
        key = key or signing_key(self.root)
        if not key:
            raise NotApproved(
                "the policy asks for a signature, and no key is named: no --key, and git has no user.signingkey",
                hint=f"`knob approve {name} --key FILE`",
            )
        return key

    def _review(self, plan: Plan, key: str) -> Decided:
        """A look afterwards at a change that was made by breaking the glass. Raises why any other plan is spent."""
        from knobledger import approving

        if not plan.unreviewed:
            ready(self.desk, plan)
        event = approving.review(self.desk, self.config, plan, self._key(short(plan.id), key))
        return Decided(plan_report(self.state, plan, self.now), "approved", f"{event.actor} ({event.source})")

    def reject(self, plan: str, why: str) -> Decided:
        """Turns a plan down, for good."""
        found = self._plan_to_act_on(plan)
        if found.status(self.now) not in ("open", "approved"):
            ready(self.desk, found)
        self.desk.write(Rejected(**self.desk.author.signs(), plan=found.id, why=self.masker.text(why)))
        return Decided(plan_report(self.state, found, self.now), "rejected", self.desk.author.actor)

    def apply(self, plan: str) -> PlanReport:
        """Applies an approved plan, hosts side by side, in the plan's batches; then restarts as it says.

        With one target its error is raised; with several the report carries each outcome. Raises `Unhealthy`.
        """
        found = self._plan_to_act_on(plan)
        ready(self.desk, found)
        assert self.desk.binding
        self.desk.binding.check(found.id, found.planned)
        self.check_restart(found)
        if self._needs_signature(found):
            from knobledger import approving

            approving.require(self.desk, self.config, found)
        if found.planned.only_restarts:
            live = self.restart_planned(found)
            return replace(plan_report(self.state, found, self.now), live=live)
        targets = [self.config.target(file.target) for file in found.planned.files]
        differences: dict[TargetName, tuple[str, ...]] = {}

        def compare(target: Target) -> None:
            """An undo that kept later edits shows that these are all."""
            file = found.file_of(target.name)
            if file and file.backup and not file.clean:
                from knobledger import looking

                differences[target.name] = looking.differences(
                    self.desk, self.host(target.host), file, target
                )

        restarts = {
            target.name: self.restarts_of(found, file)
            for target, file in zip(targets, found.planned.files, strict=True)
        }
        self.will_commit()
        failures = fleet.carry_out(self.desk, found, targets, self.host, self.watch, compare, restarts)
        for error in failures.values():
            if isinstance(error, Drifted):
                error.hint = f"{error.hint or 'plan again'}: `{again(found.planned)}`"
        if failures and len(targets) == 1:
            raise failures[targets[0].name]
        live = None
        if not failures:
            self.restart_after(found)
            if found.planned.restart != "none":
                edited = [(file.target, [edit.name for edit in file.edits]) for file in found.planned.files]
                live = self.seen_live(edited)
        report = plan_report(self.state, found, self.now, failures=failures, differences=differences)
        return replace(report, live=live)
