"""The composition root: one method per verb.

Methods return report values; they print nothing and ask nothing.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from pathlib import Path
from typing import TYPE_CHECKING

from knobledger.apply import attempt, ready, settle
from knobledger.drafting import Draft, Options, draft_content, draft_edit, look
from knobledger.errors import KnobError, NotApproved, PlanMode, Refused, Unknown, Usage
from knobledger.event import Approved, Noted, Rejected
from knobledger.hosts.config import Target
from knobledger.hosts.host import Host
from knobledger.knobs import Request
from knobledger.ledger.store import Ledger
from knobledger.names import EventId, TargetName, short
from knobledger.opening import Opening
from knobledger.plan import PlannedFile, Verb
from knobledger.report.plans import Decided, NothingToDo, PlanReport, plan_report
from knobledger.state import Plan

if TYPE_CHECKING:
    from knobledger.looking import Query
    from knobledger.moment import Resolved
    from knobledger.report.changes import Blame, Log, Since
    from knobledger.report.status import Status
    from knobledger.report.upkeep import Backups, Difference, Indexed, Plans, Recovered, Verified

# What only some verbs need is imported by these verbs: a change is to be quick.


class Workspace(Opening):
    """A folder with `hosts.toml`, `ledger/` and `templates/`, and what can be done with it."""

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
        [(where, host)] = self._only(target)
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

    def _only(self, target: str) -> list[tuple[Target, Host]]:
        found = self.targets([target])
        if len(found) != 1:
            raise Usage(f"{target!r} stands for {len(found)} targets; this command takes one")
        return found

    def _drafted(self, draft: Draft) -> PlanReport | NothingToDo:
        if draft.plan is None:
            return NothingToDo(tuple(seen.target.name for seen in draft.seen), draft.remarks)
        return plan_report(
            self.state, self.state.plans[draft.plan], self.now, stale=False, remarks=draft.remarks
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
        """Applies an approved plan, target by target, stopping at the first that fails.

        With one target its error is raised; with several the report carries each outcome.
        """
        found = self.find_plan(plan)
        ready(self.desk, found)
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

    # -- looking -----------------------------------------------------------

    def plans(self) -> Plans:
        """Plans that wait: open, approved, in doubt; newest first."""
        from knobledger import looking

        return looking.plans(self.state, self.now)

    def show(self, text: str) -> PlanReport | Log:
        """A plan or change in full; of another event, that event."""
        from knobledger import looking

        if text.startswith("@"):
            return self._shown(self.state.plans[self.find_change(text)])
        id_ = self.desk.ledger.resolve(text)
        if id_ in self.state.plans:
            return self._shown(self.state.plans[id_])
        return looking.entry(self.state, id_)

    def _shown(self, plan: Plan) -> PlanReport:
        stale = None
        if plan.status(self.now) in ("open", "approved"):
            try:
                stale = any(
                    self.host(target.host).read(target.path).digest != file.base
                    for file in plan.planned.files
                    for target in [self.config.target(file.target)]
                )
            except KnobError as error:
                self.notes.append(f"whether the plan is stale could not be looked up: {error.message}")
        return plan_report(self.state, plan, self.now, stale=stale)

    def status(self, targets: Sequence[str], *, recorded: bool = False) -> Status:
        """The knobs of targets (default: all) with who set them; live unless `recorded`."""
        from knobledger import looking

        wanted = self.config.targets(targets or ["*"]) if self.config.hosts else ()
        return looking.status(self.desk, wanted, None if recorded else self.host)

    def since(
        self, start: Resolved, until: Resolved | None, target: str | None = None, *, live: bool = False
    ) -> Since:
        """What changed between two moments, oldest first; `live` asks the hosts for drift, too."""
        from knobledger import looking

        only = self.config.target(target) if target else None
        wanted = (only,) if only else (self.config.targets(["*"]) if self.config.hosts else ())
        return looking.since(
            self.desk, start, until, only.name if only else None, wanted, self.host if live else None
        )

    def log(self, query: Query) -> Log:
        """Events that match, newest first, by the SQL index."""
        from knobledger import looking

        return looking.log(self.desk, query)

    def blame(self, target: str) -> Blame:
        """Each line of a target with the entry that brought it."""
        from knobledger import looking

        [(where, host)] = self._only(target)
        return looking.blame(self.desk, where, host)

    def diff(self, target: str, a: str | None, b: str | None) -> Difference:
        """The difference of two states of a target (a change, a backup, `live`), or of two targets."""
        from knobledger import looking
        from knobledger.undoing import change_of_backup

        [(where, _)] = self._only(target)
        other = None
        if a and "/" in a and change_of_backup(self.state, a) is None:
            [(other, _)] = self._only(a)
            a = "live"
        return looking.diff(self.desk, where, self.host, a, b, other)

    def backups(self, target: str) -> Backups:
        """The backups of a target, recorded ones and others, as they lie on the host."""
        from knobledger import looking

        [(where, host)] = self._only(target)
        return looking.backups(self.desk, where, host)

    # -- upkeep ------------------------------------------------------------

    def recover(self) -> Recovered:
        """Settles every attempt in doubt by a fresh look at its host, and removes what failed ones left there."""
        from knobledger.report.upkeep import Recovered

        if self.planning_only:
            raise PlanMode("plan mode: nothing is settled", hint="somebody who may act: `knob recover`")
        settled, unsettled = [], []
        for doubt in self.state.in_doubt():
            started = doubt.started
            try:
                target = self.config.target(started.target)
                outcome = settle(self.desk, doubt, target, self.host(target.host)).outcome
                settled.append((started.plan, started.target, outcome))
            except KnobError as error:
                unsettled.append((started.plan, started.target, error.message, error.exit_code))
        self._sweep()
        self.desk.ledger.tidy()
        return Recovered(tuple(settled), tuple(unsettled))

    def _sweep(self) -> None:
        """Files that a failed attempt could not take away: the disk was read-only, or its shell was killed."""
        newest = {one.started.target: one for one in self.state.attempts.values()}
        for name in (name for name, one in newest.items() if one.untidy):
            try:
                target = self.config.target(name)
                removed = self.host(target.host).tidy(target.path, target.backup_dir)
            except KnobError as error:
                self.notes.append(f"can't look for what failed attempts left: {error.message}")
            else:
                self.notes += [
                    f"removed {path!r} on {target.host!r}, left by a failed attempt" for path in removed
                ]

    def verify(self) -> Verified:
        """Whether the ledger on disk, its snapshots and its git history are what was written."""
        from knobledger.ledger.verify import TAIL_NOTE, verify
        from knobledger.report.upkeep import Verified

        return Verified(verify(Ledger(self.root)), TAIL_NOTE)

    def index(self, *, rebuild: bool) -> Indexed:
        """Brings the SQL index up to date, or makes it anew."""
        from knobledger.ledger.index import Index
        from knobledger.report.upkeep import Indexed

        index = Index(Ledger(self.root))
        return Indexed(index.rebuild() if rebuild else index.update(), rebuild)

    def note(self, text: str, about: str | None) -> Log:
        """Free text in the ledger, about an entry or about nothing."""
        from knobledger import looking

        if not text.strip():
            raise Refused("the note is empty", hint="`knob note TEXT`")
        on = self.find_change(about) if about and about.startswith("@") else None
        on = on or (self.desk.ledger.resolve(about) if about else None)
        id_ = self.desk.write(Noted(**self.desk.author.signs(), text=self.masker.text(text), about=on))
        return looking.entry(self.state, id_)
