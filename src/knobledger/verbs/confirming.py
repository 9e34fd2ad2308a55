"""The verbs around changes that put themselves back: `confirm` and `pending`."""

from __future__ import annotations

import math
from collections.abc import Callable, Sequence
from typing import TYPE_CHECKING, TypeVar

from knobledger.errors import KnobError, PlanMode, Refused, worst
from knobledger.fleet import side_by_side
from knobledger.names import EventId, TargetName, short
from knobledger.quoting import command_line
from knobledger.verbs.serving import Serving

if TYPE_CHECKING:
    from knobledger.apply import Restarts
    from knobledger.drafting import Options
    from knobledger.folds.arming import Pending
    from knobledger.folds.plans import Plan
    from knobledger.hosts.config import Target
    from knobledger.plan import PlannedFile
    from knobledger.report.pending import PendingLine, PendingReport

# What only some verbs need is imported by these verbs: a change is to be quick.

T = TypeVar("T")


class Confirming(Serving):
    """Armed changes: kept, or looked at."""

    def check_window(self, targets: Sequence[str], options: Options) -> None:
        """Refuses a window that its own restart would use up: at least twice the slowest recorded start."""
        if not options.confirm_within_s or options.restart == "none":
            return
        for name in self._in_scope(targets, options.restart):
            slowest = self.state.serving.slowest_start_s(name)
            if slowest is not None and options.confirm_within_s < 2 * slowest:
                raise Refused(
                    f"{name} has taken {slowest:.0f} s to start, so a window of {options.confirm_within_s} s would "
                    "be over before anybody could judge it",
                    hint=f"`--confirm-within {math.ceil(2 * slowest)}s` or more",
                )

    def restarts_of(self, plan: Plan, file: PlannedFile) -> Restarts:
        """What the deadline of an armed change restarts on the target's host: what the change itself restarts.

        With several targets on one host the last one does it, since its deadline is the last. Raises `Refused` where a
        service of the scope runs on a host on which nothing is armed.
        """
        planned = plan.planned
        if not planned.confirm_within_s or planned.restart == "none":
            return ()
        from knobledger.services.control import restart_lines

        hosts = {self.config.target(one.target).host: one.target for one in planned.files}
        services = [
            self.config.service(name)
            for name in self._in_scope([f.target for f in planned.files], planned.restart)
        ]
        for service in services:
            if service.host not in hosts:
                raise Refused(
                    f"{service.full_name} is restarted by this change, and nothing on {service.host!r} could restart it "
                    "again at the deadline",
                    hint="without --confirm-within, or with a scope that stays on the hosts of the targets",
                )
        host = self.config.target(file.target).host
        if hosts[host] != file.target:
            return ()
        return tuple((one.full_name, restart_lines(one)) for one in services if one.host == host)

    def confirm(self, change: str) -> PendingReport:
        """Lets an armed change stay on its targets, over fresh connections to all hosts at once.

        Raises `Refused` if it was too late for any; what was wrong with one host among several stands in its line.
        """
        from knobledger.confirming import confirm
        from knobledger.report.pending import PendingLine, PendingReport, ending, promises_not_kept

        if self.planning_only:
            raise PlanMode("plan mode: nothing is confirmed", hint="somebody who may act: `knob confirm`")
        self.decides_on_change(change)
        id_ = self.find_change(change)
        waiting = [pending for pending in self.state.pending() if pending.plan == id_]
        if not waiting and (stands := [one for one in promises_not_kept(self.state) if one.plan == id_]):
            return self._kept(stands)
        if not waiting:
            raise self._nothing_to_confirm(id_)

        def keep(pending: Pending, target: Target) -> bool:
            return confirm(self.desk, pending, target, self.host(target.host, fresh=True))

        answers = self.at_each_armed(waiting, keep, "confirming")
        failed = {name: answer for name, answer in answers.items() if isinstance(answer, KnobError)}
        late = [pending for pending in waiting if answers[pending.target] is False]
        if late:
            said = [
                f"{item.target}: {ending(item.end)}"
                if item.end
                else f"{item.target}: it is being put back right now"
                for item in late
            ]
            said += [f"{name}: {error.message}" for name, error in failed.items()]
            raise Refused(
                f"{short(id_)} can't be confirmed any more. {'; '.join(said)}",
                hint=_after(id_, late),
                change=id_,
            )
        if failed and len(waiting) == 1:
            raise failed[waiting[0].target]
        errors = {name: error.message for name, error in failed.items()}
        lines = tuple(PendingLine(item, self.now, error=errors.get(item.target, "")) for item in waiting)
        return PendingReport(lines, True, worst(error.exit_code for error in failed.values()))

    def _kept(self, stands: Sequence[Pending]) -> PendingReport:
        """Changes that their hosts could not put back, confirmed on purpose: nothing waits on a host any more."""
        from knobledger.events.arming import Confirmed
        from knobledger.report.pending import PendingLine, PendingReport

        for one in stands:
            self.desk.write(Confirmed(**self.desk.author.signs(), plan=one.plan, target=one.target))
        return PendingReport(tuple(PendingLine(one, self.now) for one in stands), looked=False)

    def at_each_armed(
        self, waiting: Sequence[Pending], work: Callable[[Pending, Target], T], step: str
    ) -> dict[TargetName, T | KnobError]:
        """What came of each armed change, hosts side by side; there is one for each target."""
        by_target = {pending.target: pending for pending in waiting}
        known: list[Target] = []
        answers: dict[TargetName, T | KnobError] = {}
        for name in by_target:
            try:
                known.append(self.config.target(name))
            except KnobError as error:
                answers[name] = error
        found = side_by_side(
            known, lambda target: work(by_target[target.name], target), step, self.watch, abandon=False
        )
        return answers | {target.name: answer for target, answer in found}

    def _nothing_to_confirm(self, change: EventId) -> Refused:
        from knobledger.report.pending import ending

        known = self.state.armings.of(change)
        if not known:
            return Refused(
                f"{short(change)} was made without --confirm-within: it stays without a confirmation",
                hint="`knob pending` shows what waits",
            )
        said = "; ".join(f"{item.target}: {ending(item.end)}" for item in known if item.end)
        return Refused(
            f"{short(change)} waits for nothing any more. {said}", hint="`knob pending`", change=change
        )

    def pending(self, *, recorded: bool = False) -> PendingReport:
        """What is armed, by a look at each host, with the end of what has ended meanwhile; `recorded` asks no host."""
        from knobledger.report.pending import PendingLine, PendingReport

        look = not (recorded or self.planning_only)
        self.decides_on(lambda taken: taken.armed())
        waiting = self.state.pending()
        if not look:
            if waiting and not recorded:
                self.notes.append("plan mode: the hosts were not asked")
            lines = [PendingLine(item, self.now) for item in waiting]
            return PendingReport((*lines, *self._not_put_back(())), looked=False)
        answers = self.at_each_armed(waiting, self._look, "looking")
        lines, codes = [], []
        for pending in waiting:
            answer = answers[pending.target]
            if isinstance(answer, KnobError):
                line, code = PendingLine(pending, self.now, error=answer.message), answer.exit_code
            else:
                line, code = answer
            lines.append(line)
            codes.append(code)
        standing = self._not_put_back(waiting)
        codes += [22 for _ in standing]
        return PendingReport((*lines, *standing), True, next(filter(None, codes), 0))

    def _not_put_back(self, told: Sequence[Pending]) -> list[PendingLine]:
        """Those that were found earlier to be still in the file, beside the ones that are told of already."""
        from knobledger.report.pending import PendingLine, promises_not_kept

        return [
            PendingLine(one, self.now, commands=_take_back(one))
            for one in promises_not_kept(self.state)
            if one not in told
        ]

    def _look(self, pending: Pending, target: Target) -> tuple[PendingLine, int]:
        from knobledger.confirming import settle
        from knobledger.report.pending import PendingLine

        watch = settle(self.desk, pending, target, self.host(target.host))
        if pending.not_put_back:
            return PendingLine(pending, self.now, commands=_take_back(pending)), 22
        return PendingLine(pending, self.now, watch.watched), 0


def _take_back(pending: Pending) -> tuple[str, ...]:
    """The command that keeps what others have written since; a copy over the live file would not."""
    return (command_line(("knob", "revert", short(pending.plan))),)


def _after(change: EventId, late: Sequence[Pending]) -> str:
    """What to type after a confirmation that came too late."""
    name = short(change)
    if any(item.not_put_back for item in late):
        return (
            f"the change is still in the file: `knob revert {name}` takes it back and keeps later edits, "
            f"`knob confirm {name}` once more keeps it"
        )
    return f"`knob pending`; to make the change again: see `knob show {name}`"
