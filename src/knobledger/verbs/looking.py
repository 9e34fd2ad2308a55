"""The verbs that only look; what they find out is made in `knobledger.looking`."""

from __future__ import annotations

from collections.abc import Sequence
from contextlib import suppress
from typing import TYPE_CHECKING, cast

from msgspec.structs import replace

from knobledger.errors import KnobError
from knobledger.folds.plans import Plan
from knobledger.names import short
from knobledger.report.plans import PlanReport, plan_report
from knobledger.verbs.serving import Serving

if TYPE_CHECKING:
    from knobledger.events.watching import ObservedMetric
    from knobledger.ledger.working import WorkingExcerpt
    from knobledger.looking import Query
    from knobledger.moment import Resolved
    from knobledger.report.blame import Blame
    from knobledger.report.changes import Log, Since
    from knobledger.report.serving import RestartPreview
    from knobledger.report.status import Status
    from knobledger.report.upkeep import Backups, Difference, Plans

# What only some verbs need is imported by these verbs: a change is to be quick.


class Looking(Serving):
    """What is there, and how it came about."""

    def plans(self, *, spent: bool = False, live: bool = False) -> Plans:
        """Plans that wait (open, approved, in doubt), newest first; `spent` adds the rest, `live` looks who is stale."""
        from knobledger import waiting

        if not spent:
            self._decides_on_what_waits()
        host, among = self.host if live else None, self._known.in_full if self._known else None
        others = self._known.plans() - len(self._known.in_full) if self._known else 0
        return waiting.plans(
            self.desk,
            self.config.target,
            spent=spent,
            among=among,
            others=others,
            host=host,
            watch=self.watch,
        )

    def _decides_on_what_waits(self) -> None:
        """Plans that may wait, and what was done since on their targets, which may have overtaken them."""
        self.decides_on(lambda taken: taken.waiting(self.now))
        waiting = [
            plan for plan in self.state.plans.values() if plan.status(self.now) in ("open", "approved")
        ]
        where = {file.target for plan in waiting for file in plan.planned.files}
        self.decides_on(lambda taken: taken.targets(sorted(where)))

    def show(self, text: str) -> PlanReport | Log:
        """A plan or change in full; of another event, that event."""
        from knobledger import looking

        self.decides_on_entry(text)
        if text.startswith("@"):
            return self._shown(self.state.plans[self.find_change(text)])
        id_ = self.desk.ledger.resolve(text)
        if id_ in self.state.plans:
            return self._shown(self.state.plans[id_])
        return looking.entry(self.state, id_)

    def _shown(self, plan: Plan) -> PlanReport:
        stale, why = None, ""
        if plan.status(self.now) in ("open", "approved"):
            stale = self._is_stale(plan)
            if stale and (by := self.state.overtaken_by(plan)):
                why = f"{short(by)} was applied since"
            if not stale and self.desk.binding:
                try:
                    why, _ = self.desk.binding.objection(plan.id, plan.planned)
                except KnobError as error:
                    self.notes.append(f"whether the plan is stale could not be looked up: {error.message}")
        report = plan_report(
            self.state,
            plan,
            self.now,
            stale=bool(why) or stale,
            stale_because=why,
            restart_preview=None if plan.is_change or plan.begun else self._to_restart(plan),
        )
        if plan.planned.hypotheses or self.state.anything_asked:
            from knobledger.report.grounds import grounds

            report = replace(report, grounds=grounds(self.state, plan))
        seen = [event for event in self.state.events.values() if event.kind == "observed_metric"]
        mine = [event for event in seen if getattr(event, "plan", None) == plan.id]
        return replace(report, observed=tuple(cast("list[ObservedMetric]", mine)))

    def _to_restart(self, plan: Plan) -> RestartPreview | None:
        """What its restart would take, by the recorded times."""
        scope = plan.planned.restart
        if scope == "none":
            return None
        try:
            from knobledger.restarting import restarted_by

            return self._preview(restarted_by(self.config, plan.planned), scope)
        except KnobError as error:
            self.notes.append(f"what it would restart could not be looked up: {error.message}")
            return None

    def _is_stale(self, plan: Plan) -> bool | None:
        """Whether any target no longer holds the plan's base; None: not every one could be asked, which is noted."""
        from knobledger.waiting import freshness

        found = freshness([plan], self.config.target, self.host, self.watch)[plan.id]
        for failed in found.errors[:3] if found.stale is None else ():
            self.notes.append(f"whether the plan is stale could not be looked up: {failed.message}")
        if found.stale is None and len(found.errors) > 3:
            self.notes.append(f"nor on {len(found.errors) - 3} more targets")
        return found.stale

    def _say_if_there_is_nothing(self) -> None:
        """What to type in a workspace whose hosts.toml names no service."""
        if not self.config.services:
            self.notes.append(
                "hosts.toml names no service yet: add `[hosts.HOST.services.NAME]` with `script = PATH` to it, then "
                "`knob status`"
            )

    def status(self, targets: Sequence[str], *, recorded: bool = False) -> Status:
        """The knobs of targets (default: all) with who set them; live unless `recorded`."""
        from knobledger import looking

        self._say_if_there_is_nothing()
        wanted = self.config.targets(targets) if targets else self.config.usual_targets()

        def gather(taken: WorkingExcerpt) -> None:
            taken.targets(target.name for target in wanted)

        self._decides_on_what_waits()
        self.decides_on(gather)
        if self.state.anything_asked and self.state.asked.documents:
            self.decides_on_all()  # a document may tell of any target
        groups = {
            name: [target.name for target in self.config.targets(members)]
            for name, members in self.config.groups.items()
            if members
        }
        among = self._known.in_full if self._known else None
        return looking.status(self.desk, wanted, None if recorded else self.host, groups, among)

    def since(
        self, start: Resolved, until: Resolved | None, target: str | None = None, *, live: bool = False
    ) -> Since:
        """What changed between two moments, oldest first; `live` asks the hosts for drift, too."""
        from knobledger import looking

        only = self.config.target(target) if target else None
        self._say_if_there_is_nothing()
        drift = None
        if live:
            from knobledger import drifting

            self.decides_on_targets([one.name for one in ((only,) if only else self.config.usual_targets())])
            drift = drifting.drift(self.desk, (only,) if only else self.config.usual_targets(), self.host)
        end = until.instant if until else self.now
        desk = self.excerpt(lambda taken: taken.since(start.instant, end))
        return looking.since(desk, start, until, only.name if only else None, drift)

    def log(self, query: Query) -> Log:
        """Events that match, newest first, by the SQL index. Raises `Unknown` for a kind that nothing can have."""
        from knobledger import looking

        found = looking.matches(self.ledger, query)
        if not found and (said := looking.unmatched(self.ledger, query)):
            self.notes.append(said)
        desk = self.excerpt(lambda taken: taken.plans_of(stored.event for stored in found))
        return looking.log(desk, found)

    def blame(self, target: str, names: Sequence[str] = ()) -> Blame:
        """Each line of a target with the entry that brought it; with `names`, the history of these knobs."""
        from knobledger import blaming

        where, host = self.only(target)
        return blaming.blame(self.excerpt(lambda taken: taken.target(where.name)), where, host, names)

    def diff(self, target: str, a: str | None, b: str | None) -> Difference:
        """The difference of two states of a target (a change, a backup, `live`), or of two targets."""
        from knobledger import looking
        from knobledger.undoing import change_of_backup

        where, _ = self.only(target)
        self._decides_on_versions(where.name, [one for one in (a, b) if one])
        other = None
        if a and "/" in a and change_of_backup(self.state, a) is None:
            other, _ = self.only(a)
            a = "live"
        return looking.diff(self.desk, where, self.host, a, b, other)

    def _decides_on_versions(self, target: str, names: Sequence[str]) -> None:
        """Of a target, and of the changes or other targets that it is compared with."""
        self.decides_on_targets([target])
        for name in names:
            with suppress(KnobError):
                self.decides_on_targets([name]) if "/" in name else self.decides_on_entry(name)

    def backups(self, target: str) -> Backups:
        """The backups of a target, recorded ones and others, as they lie on the host."""
        from knobledger import looking

        where, host = self.only(target)
        self.decides_on_targets([where.name])
        return looking.backups(self.desk, where, host)
