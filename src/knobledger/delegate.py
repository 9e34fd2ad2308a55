"""A workspace in the hands of an agent: it looks and plans, and applies what a person has signed.

A wrapper like the read-only host: what an agent may not do is refused here, whatever front end it comes through.
"""

from __future__ import annotations

from collections.abc import Sequence
from typing import NoReturn

from knobledger.apply import ready
from knobledger.drafting import Desk
from knobledger.errors import KnobError, NotApproved, PlanMode, Refused
from knobledger.events.asking import Ruling
from knobledger.events.changes import Planned
from knobledger.folds.plans import Plan
from knobledger.knobs import Reading
from knobledger.names import short
from knobledger.plan import RestartScope
from knobledger.report.asking import HypothesisReport
from knobledger.report.behind import Standing
from knobledger.report.changes import Log
from knobledger.report.documents import Correction
from knobledger.report.drift import Adoption
from knobledger.report.pending import PendingReport
from knobledger.report.plans import Decided, PlanReport
from knobledger.report.scanned import Scan, ScannedFile
from knobledger.report.serving import RestartReport
from knobledger.report.sharing import Synced
from knobledger.report.signers import SignersReport
from knobledger.report.status import occurrence_json
from knobledger.report.upkeep import Prunable, Recovered
from knobledger.state import State
from knobledger.verbs.recovering import Settling
from knobledger.workspace import Workspace


class Delegate(Workspace):
    """What an agent may do. Each refusal raises `Refused` and names who may."""

    def _desk(self, state: State) -> Desk:
        desk = super()._desk(state)
        desk.settles = False  # as `recover`
        return desk

    def scan(self, target: str) -> Scan:
        """Every knob of a target's live file, commented and losing ones too."""
        where, host = self.only(target)
        reading = Reading.of(host.read(where.path).content, where.dialect)
        self.masker.content(reading)
        return Scan(
            (
                ScannedFile(
                    where.path,
                    reading.dialect,
                    tuple(occurrence_json(item, self.masker) for item in reading.occurrences),
                    tuple((note.line, self.masker.text(note.message)) for note in reading.warnings),
                ),
            )
        )

    def show_plan(self, plan: str) -> PlanReport | Log:
        """A plan or change in full, by it or by an entry about it."""
        self.decides_on_entry(plan)
        return self.show(self.find_plan(plan).id)

    def standing(self, plan: str) -> Standing:
        """Whether an agent may apply a plan now, and what is missing."""
        found = self._plan_to_act_on(plan)
        status = found.status(self.now)
        try:
            by = self._signed_go(found)
        except KnobError as error:
            return Standing(found.id, status, False, missing=error.message)
        return Standing(found.id, status, True, by)

    def apply(self, plan: str) -> PlanReport:
        """Applies a plan that carries the signatures its policy asks for. A mere confirmation is none."""
        found = self._plan_to_act_on(plan)
        self._signed_go(found)
        return super().apply(found.id)

    def _signed_go(self, plan: Plan) -> str:
        from knobledger import approving

        name = short(plan.id)
        if self.planning_only:
            raise PlanMode(
                "plan mode: looking and planning is allowed, applying is not",
                hint=f"somebody who may act: `knob approve {name}`, then `knob apply {name}`",
            )
        ready(self.desk, plan)
        go = approving.require(self.desk, self.config, plan)
        if not go.principal:
            raise NotApproved(
                f"plan {name} has only a go-ahead of the kind {go.source!r}, which proves no person: an agent "
                "applies what is signed",
                hint=f"a person types `knob apply {name}`; or the policy becomes 'signed' in hosts.toml",
                plan=plan.id,
            )
        return go.source

    def _signed(self, planned: Planned) -> Planned:
        """Never with the key of the person in whose session the agent runs: it would count as one of two persons."""
        self.notes.append("the plan is not signed, because an agent made it: it needs two approvers")
        return planned

    # -- what an agent may not do --------------------------------------------

    def approve(self, plan: str, source: str, *, key: str = "", break_glass: str = "") -> Decided:
        """Refused."""
        del source, key, break_glass
        _refuse("gives no go-ahead", f"knob approve {plan}")

    def reject(self, plan: str, why: str) -> Decided:
        """Refused."""
        del why
        _refuse("turns no plan down", f"knob reject {plan}")

    def confirm(self, change: str) -> PendingReport:
        """Refused."""
        _refuse("confirms no change", f"knob confirm {change}")

    def trust_signers(self, file: str, key: str) -> SignersReport:
        """Refused."""
        del file, key
        _refuse("trusts nobody", "knob signers trust")

    def prune(self, target: str, older_than_s: float) -> Prunable:
        """Refused."""
        del older_than_s
        _refuse("removes no backup", f"knob backups prune {target}")

    def recover(self, restarts: Settling = "look") -> Recovered:
        """Refused."""
        del restarts
        _refuse("settles nothing", "knob recover")

    def restart(self, names: Sequence[str], scope: RestartScope) -> RestartReport:
        """Refused."""
        del scope
        _refuse("restarts nothing", f"knob restart {' '.join(names)}")

    def verdict(self, slug: str, ruling: Ruling, because: str, cause: str = "") -> HypothesisReport:
        """Refused: an agent gives evidence, a person rules."""
        del ruling, because, cause
        _refuse("gives no verdict", f"knob verdict {slug} confirmed|refuted|inconclusive --because TEXT")

    def adopt(self, targets: Sequence[str], *, backups: bool = False, record: bool = True) -> Adoption:
        """Refused."""
        del backups, record
        _refuse("adopts nothing", f"knob adopt {' '.join(targets)}")

    def correct(self, correction: Correction) -> Correction:
        """Refused."""
        del correction
        _refuse("corrects no document", "knob docs correct FILE --hypothesis SLUG")

    def sync(self) -> Synced:
        """Refused."""
        _refuse("exchanges nothing with other clones", "knob sync")


def _refuse(what: str, command: str) -> NoReturn:
    raise Refused(f"an agent {what}", hint=f"a person types `{command}`")
