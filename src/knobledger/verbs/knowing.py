"""What of the ledger a command has to know before it decides anything.

A verb that says it is given that much; one that says nothing is given the whole ledger, and so is every verb where
the ledger is small.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from typing import TYPE_CHECKING

from knobledger.collecting import no_collection
from knobledger.names import EventId, steps_back
from knobledger.opening import Opening
from knobledger.state import State

if TYPE_CHECKING:
    from knobledger.drafting import Desk
    from knobledger.ledger.excerpt import Excerpt
    from knobledger.ledger.working import WorkingExcerpt


class Knowing(Opening):
    """Has the desk read a part of the ledger. What it knew already, and what it has written, it keeps."""

    def excerpt(self, gather: Callable[[Excerpt], None]) -> Desk:
        """A desk to look from, whose state knows what `gather` takes from the ledger; all where that is as quick."""
        if not self._reads_in_parts():
            return self.desk
        from knobledger.ledger import excerpt

        try:
            with no_collection():
                found = excerpt.Excerpt(self.ledger.index())
                gather(found)
                found.footing()
                self._excerpt = State.of(found.events().items())
        except excerpt.NoExcerpt:
            self.decides_on_all()
            return self.desk
        return self._desk(self._excerpt)

    def _reads_in_parts(self) -> bool:
        """Whether there is anything left to read, and a part of it is quicker than all."""
        if self.from_replica or self._knows_all:
            return False
        from knobledger.ledger import excerpt

        return self._known is not None or excerpt.worthwhile(self.ledger)

    def decides_on(self, gather: Callable[[WorkingExcerpt], object]) -> None:
        """Has the desk know what `gather` takes, and what holds for all commands."""
        if not self._reads_in_parts():
            return
        from sqlite3 import DatabaseError

        from knobledger.ledger import excerpt
        from knobledger.ledger.working import WorkingExcerpt

        try:
            with no_collection():
                found = self._known or WorkingExcerpt(self.ledger.index())
                before = found.size
                gather(found)
                if self._known is None:
                    self.__dict__["desk"] = self._desk(State.of(found.events().items()))
                elif found.size > before:
                    self.desk.state = State.of((self.state.events | found.events()).items())
                self._known = found
        except (excerpt.NoExcerpt, DatabaseError):
            self.decides_on_all()

    def decides_on_all(self) -> None:
        """Has the desk know the whole ledger."""
        if not self._knows_all:
            self._known = None
            self.__dict__["desk"] = self._whole_desk()

    def decides_on_targets(self, names: Sequence[str]) -> None:
        """Has the desk know all of these targets."""
        where = [target.name for target in self.config.targets(names)]
        self.decides_on(lambda taken: taken.targets(where))

    def _named(self, text: str) -> EventId:
        """The id of an entry, as far as the newest changes tell it. Raises `Unknown`."""
        if (back := steps_back(text)) is not None:
            self.decides_on(lambda taken: taken.newest_changes(back + 1))
            if len(self.state.changes) <= back:
                self.decides_on_all()
            return self.find_change(text)
        return self.ledger.resolve(text)

    def decides_on_entry(self, text: str) -> None:
        """Has the desk know an entry, or the plan or change that it is about. Raises `Unknown`."""
        id_ = self._named(text)
        self.decides_on(lambda taken: taken.entry(id_))

    def decides_on_change(self, text: str) -> None:
        """The same with all targets of that plan or change."""
        id_ = self._named(text)
        self.decides_on(lambda taken: taken.targets(taken.entry(id_)))
