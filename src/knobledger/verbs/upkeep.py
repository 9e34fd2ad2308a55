"""The verbs that keep the ledger in order, and notes."""

from __future__ import annotations

from typing import TYPE_CHECKING

from knobledger.apply import settle
from knobledger.errors import KnobError, PlanMode, Refused
from knobledger.events.notes import Noted
from knobledger.ledger.store import Ledger
from knobledger.verbs.recovering import Recovering, Settling

if TYPE_CHECKING:
    from knobledger.report.changes import Log
    from knobledger.report.upkeep import Indexed, Recovered, Verified

# What only some verbs need is imported by these verbs: a change is to be quick.


class Upkeep(Recovering):
    """Settling, verifying, indexing."""

    def recover(self, restarts: Settling = "look") -> Recovered:
        """Settles every attempt in doubt by a fresh look at its host.

        Of restarts that were left in the middle it says what is up and what is down; `finish` and `roll back` settle them.
        """
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
        self.desk.ledger.tidy()
        return Recovered(tuple(settled), tuple(unsettled), self.recover_restarts(restarts))

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
