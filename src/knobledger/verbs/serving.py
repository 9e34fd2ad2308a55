"""The verbs that restart services, and what a change needs of them."""

from __future__ import annotations

from collections.abc import Collection, Iterable, Sequence
from contextlib import suppress
from functools import partial
from typing import TYPE_CHECKING

from knobledger.errors import Busy, KnobError, Refused, RolledBack, Unhealthy
from knobledger.names import EventId, TargetName, short
from knobledger.plan import RestartScope
from knobledger.services.working import worked_on
from knobledger.verbs.knowing import Knowing

if TYPE_CHECKING:
    from knobledger.events.serving import Cause
    from knobledger.folds.plans import Plan
    from knobledger.hosts.config import Target
    from knobledger.hosts.host import Host
    from knobledger.report.serving import RestartPreview, RestartReport
    from knobledger.report.watching import LiveReport
    from knobledger.services.chain import ChainResult, Hands
    from knobledger.services.live import Live

# What only some verbs need is imported by these verbs: a change is to be quick.


class Serving(Knowing):
    """Restarts in order, each service proven before the next."""

    def _in_scope(self, names: Sequence[str], scope: RestartScope) -> tuple[str, ...]:
        from knobledger.services.graph import in_scope, services_named

        found = in_scope(self.config, services_named(self.config, names), scope)
        if not found:
            raise Refused(
                f"{', '.join(names)!r} stands for no service", hint="`knob status` lists the targets"
            )
        return found

    def decides_on_restart(self, names: Sequence[str], scope: RestartScope) -> None:
        """Has the desk know all services that are restarted after a change of these targets, with all their targets."""
        if scope == "none":
            return
        with suppress(KnobError):
            services = self._in_scope(names, scope)
            where = [target.name for name in services for target in self.config.targets_of(name)]
            self.decides_on(lambda taken: taken.targets(where))

    def _plan_to_act_on(self, text: str) -> Plan:
        """A plan by id or prefix, when the desk knows all that it may do. Raises `Unknown`."""
        self.decides_on_change(text)
        plan = self.find_plan(text).planned
        self.decides_on_restart(plan.where, plan.restart)
        return self.find_plan(text)

    def _preview(self, services: Sequence[str], scope: RestartScope) -> RestartPreview:
        from knobledger.report.serving import preview
        from knobledger.services.control import check_startable
        from knobledger.services.gates import asked_of, kind_of

        found = [self.config.service(name) for name in services]
        for service in found:
            check_startable(service)
        gates = [[f"{kind_of(gate)} {asked_of(gate)}" for gate in service.health] for service in found]
        return preview(self.state.serving, scope, zip(services, gates, strict=True))

    def _chain(
        self,
        services: Sequence[str],
        cause: Cause,
        scope: RestartScope,
        *,
        plan: EventId | None = None,
        resumes: EventId | None = None,
        wanted: Collection[str] = (),
    ) -> ChainResult:
        from knobledger.services.chain import run

        return run(
            self._hands(),
            [self.config.service(name) for name in services],
            cause=cause,
            scope=scope,
            plan=plan,
            resumes=resumes or self._taken_over(services),
            files={name: self.config.targets_of(name) for name in services},
            wanted=wanted,
        )

    def _taken_over(self, services: Sequence[str]) -> EventId | None:
        """The dead chain that a restart of all its services settles. Raises `Busy` if it is not dead."""
        for chain in self.state.serving.in_the_middle():
            shared = sorted(set(chain.services) & set(services))
            if shared and worked_on(chain.started):
                started = chain.started
                raise Busy(
                    f"{', '.join(shared)} is being restarted by {started.actor} (process {started.process} here)",
                    hint="wait until it is done",
                    holder=started.actor,
                    since=started.at,
                )
            if shared and set(chain.services) <= set(services):
                return chain.id
        return None

    def _hands(self) -> Hands:
        from knobledger.services.chain import Hands

        return Hands(self.host, self.desk.write, self.desk.author.signs, self.masker.text, self.progress)

    def _restarted(self, result: ChainResult) -> RestartReport:
        from knobledger.report.serving import RestartReport

        return RestartReport(self.state.serving.chains[result.id])

    def _unhealthy(self, result: ChainResult, before: str) -> Unhealthy:
        """The error of a chain that failed: which service, why, and the last lines of its log."""
        failed = result.failed
        name = failed.service if failed else ""
        return Unhealthy(
            f"{before}{name}: {result.ended.reason}" if name else f"{before}{result.ended.reason}",
            hint=f"`knob restart {name}` tries again; `knob show {short(result.id)}` shows each step",
            service=name,
            log=list(failed.log) if failed else [],
            restart=self._restarted(result).to_json(),
        )

    def seen_live(self, looks: Iterable[tuple[TargetName, Sequence[str]]]) -> LiveReport:
        """Knobs of targets in the processes that were just started. What can't be seen is said, and fails nothing."""
        from knobledger.proving import look_live
        from knobledger.report.watching import LiveReport, NotSeen

        seen: list[Live | NotSeen] = []
        for name, knobs in looks:
            target = self.config.target(name)
            service = self.config.service(f"{target.host}/{target.service}")
            try:
                seen.append(look_live(self.desk, self.host(target.host), service, target, knobs))
            except KnobError as error:
                seen.append(
                    NotSeen(target.name, service.full_name, target.path, error.message, error.exit_code)
                )
        return LiveReport(tuple(seen))

    def recorded_live(self, services: Sequence[str]) -> LiveReport | None:
        """The knobs of which the ledger tells, in the processes of services that were just started."""
        knobs: dict[TargetName, list[str]] = {}
        for target, name in self.state.edits:
            knobs.setdefault(target, []).append(name)
        targets = [
            target.name for service in dict.fromkeys(services) for target in self.config.targets_of(service)
        ]
        looks = [(target, knobs[target]) for target in targets if target in knobs]
        return self.seen_live(looks) if looks else None

    def check_restart(self, plan: Plan) -> None:
        """Whether the restart of a plan could be begun now, before its files are written.

        Raises `Refused`, `Busy`, `Drifted`.
        """
        if plan.planned.restart != "none":
            from knobledger.restarting import restarted_by

            services = restarted_by(self.config, plan.planned)
            self._preview(services, plan.planned.restart)
            self._taken_over(services)

    def restart_after(self, plan: Plan, *, cause: Cause = "change", resumes: EventId | None = None) -> None:
        """Restarts what the plan of a change names, once its files are written.

        Raises `Unhealthy` (23), `RolledBack` (21) where the plan says to roll back, and that is proven, or `Overtaken` (10)
        where somebody else changed a file while the services were being restarted.
        """
        scope = plan.planned.restart
        if scope == "none":
            return
        services = self._in_scope(_written(plan), scope)
        wanted = {edit.name for file in plan.planned.files for edit in file.edits if edit.after is not None}
        result = self._chain(services, cause, scope, plan=plan.id, wanted=wanted, resumes=resumes)
        if result.ended.outcome == "done":
            if cause == "change":
                self._check_meanwhile(plan)
            return
        error = self._unhealthy(result, f"change {short(plan.id)} is applied, but ")
        error.values["change"] = plan.id
        if not plan.planned.roll_back_on_failure:
            error.hint = f"`knob revert {short(plan.id)} --restart {scope}` takes it back; {error.hint}"
            raise error
        back = self.roll_back(plan, services if result.touched else (), error.message)
        as_before = (
            "all services are" if result.touched else "no service was touched, and the file is proven to be"
        )
        raise RolledBack(
            f"{error.message}; it was rolled back: {as_before} as before",
            hint=f"`knob show {short(plan.id)}`; the roll back is change {short(back)}",
            **{**error.values, "rolled_back_by": back},
        )

    def _check_meanwhile(self, plan: Plan) -> None:
        from knobledger.verbs import meanwhile

        for name in _written(plan):
            target, file = self.config.target(name), plan.file_of(name)
            if file is not None:
                meanwhile.check(self.ledger, plan, file, target, self.host(target.host))

    def roll_back(
        self, plan: Plan, services: Sequence[str], why: str, *, resumes: EventId | None = None
    ) -> EventId:
        """Undoes a change on its targets in reverse order, then restarts services on the old bytes; the undo's id.

        It is a change like any other, so later edits by others survive. Raises `Conflict`, `StateUnknown`,
        `Unhealthy` where even the old bytes do not make a service healthy.
        """
        from knobledger.apply import attempt
        from knobledger.drafting import Options
        from knobledger.events.changes import ROLLS_BACK, Approved
        from knobledger.undoing import draft_undo

        targets = self.targets(list(reversed(_written(plan))))
        options = Options(
            why=f"rolled back: {why}", purpose=plan.planned.purpose, hypotheses=plan.planned.hypotheses
        )
        draft = draft_undo(
            self.desk, "revert", plan.id, [(target, host.read) for target, host in targets], options
        )
        if draft.plan is None:
            return plan.id
        undo = self.state.plans[draft.plan]
        self.desk.write(
            Approved(**self.desk.author.signs(), plan=undo.id, source=f"{ROLLS_BACK}{short(plan.id)}")
        )
        for file in undo.planned.files:
            target = self.config.target(file.target)
            self.progress.took(target.name, "rolling the file back")
            again = partial(self.host, target.host, fresh=True)
            attempt(self.desk, undo, target, self.host(target.host), again)
        if not services:
            self._reload_units(targets)
        else:
            result = self._chain(services, "roll back", plan.planned.restart, plan=undo.id, resumes=resumes)
            if result.ended.outcome != "done":
                raise self._unhealthy(result, f"change {short(plan.id)} was rolled back, and still ")
            self.recorded_live(services)
        return undo.id

    def _reload_units(self, targets: Sequence[tuple[Target, Host]]) -> None:
        """systemd has read the files that were taken back; it has to forget them."""
        from knobledger.services.control import reload

        for target, host in targets:
            reload(host, self.config.service(f"{target.host}/{target.service}"))


def _written(plan: Plan) -> list[TargetName]:
    """The targets that a plan was applied to."""
    return [attempt.started.target for attempt in plan.attempts if attempt.succeeded]
