"""The verb `clawback`: what wrongful reverts took, whether it can come back, and what stays."""

from __future__ import annotations

from typing import TYPE_CHECKING

from knobledger.drafting import Options
from knobledger.errors import Conflict, KnobError, Unreachable
from knobledger.event import moment_of
from knobledger.hosts.config import Target
from knobledger.names import EventId, short
from knobledger.opening import Opening
from knobledger.plan import LaterEdit, Verb

if TYPE_CHECKING:
    from knobledger.inquiry import Restorable
    from knobledger.report.clawback import Clawback, Owed


class Clawing(Opening):
    """The debts of refuted hypotheses."""

    def clawback(self) -> Clawback:
        """What could come back, the most valuable first, each looked at on its live host; and what stays."""
        from knobledger.inquiry import kept, wrongful
        from knobledger.report.changes import change_line
        from knobledger.report.clawback import Clawback

        items = sorted(map(self._owed, wrongful(self.state)), key=lambda item: item.rank, reverse=True)
        stays = tuple((item, change_line(self.state, item.change)) for item in kept(self.state))
        return Clawback(tuple(items), stays)

    def _owed(self, change: EventId) -> Owed:
        from knobledger.events.notes import Noted
        from knobledger.inquiry import comparison_of, original
        from knobledger.report.changes import change_line
        from knobledger.report.clawback import Owed

        line = change_line(self.state, change)
        took = original(self.state, change)
        about = {change, took}
        verb: Verb = "restore" if self.state.takes_back(change) else "revert"
        restorable, remark, later = self._restorable(change, verb)
        verdicts = [(slug, self.state.asked.hypotheses[slug].verdict) for slug in line.hypotheses]
        measured = self.state.asked.measured
        comparison = None
        if measured:
            comparison = comparison_of(self.state, took or change)
        back = self.state.events[line.by].at if line.by and line.status != "in effect" else None
        until = moment_of(back) if back else self.now
        return Owed(
            line=line,
            took=took,
            reasons=tuple((slug, v.event.because, v.event.cause) for slug, v in verdicts if v),
            comparison=comparison if comparison and (comparison.cells or comparison.aside) else None,
            notes=tuple(
                event.text
                for event in self.state.events.values()
                if isinstance(event, Noted) and event.about in about
            ),
            restorable=restorable,
            remark=remark,
            later=later,
            gone_s=(until - moment_of(line.at)).total_seconds(),
            command="" if restorable == "restored" else f"knob {verb} {short(change)}",
        )

    def _restorable(self, change: EventId, verb: Verb) -> tuple[Restorable, str, tuple[LaterEdit, ...]]:
        """The worst of what its targets say."""
        if self.state.fate(change)[0] == "reverted":
            return "restored", "", ()
        plan = self.state.plans[change]
        order: list[Restorable] = ["restored", "clean", "later edits", "conflict", "host unknown"]
        found = [
            self._on(change, verb, self.config.target(attempt.started.target))
            for attempt in plan.attempts
            if attempt.succeeded
        ]
        worst = max(found, key=lambda item: order.index(item[0]))
        return worst[0], worst[1], tuple(edit for item in found for edit in item[2])

    def _on(
        self, change: EventId, verb: Verb, target: Target
    ) -> tuple[Restorable, str, tuple[LaterEdit, ...]]:
        from knobledger.undoing import undo_on

        try:
            host = self.host(target.host)
            sketch = undo_on(self.desk, verb, change, target, host.read, Options())
        except Conflict as error:
            if self._back_already(change, target):
                return "restored", "", ()
            return "conflict", error.message, ()
        except Unreachable as error:
            return "host unknown", error.message, ()
        except KnobError as error:
            return "conflict", error.message, ()
        if not sketch.edits:
            return "restored", "", ()
        return ("later edits" if sketch.later else "clean"), "", sketch.later

    def _back_already(self, change: EventId, target: Target) -> bool:
        """Somebody else gave the knobs their old values back; the look that found the conflict recorded it."""
        file = self.state.plans[change].file_of(target.name)
        owners = [self.state.owner(target.name, edit.name) for edit in file.edits] if file else []
        return bool(file and file.edits) and all(
            owner is not None and owner.edit.after == edit.before
            for owner, edit in zip(owners, file.edits if file else (), strict=True)
        )
