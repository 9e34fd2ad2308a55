"""The verbs that share a ledger."""

from __future__ import annotations

from typing import TYPE_CHECKING

from knobledger.ledger.store import Ledger
from knobledger.opening import Opening

if TYPE_CHECKING:
    from knobledger.report.sharing import Synced

# What only some verbs need is imported by these verbs: a change is to be quick.


class Sharing(Opening):
    """Exchange with the other clones."""

    def sync(self) -> Synced:
        """Takes in what the remote has, sends what it lacks; see `ledger.sharing.exchange`."""
        from knobledger.ledger.sharing import exchange
        from knobledger.report.sharing import Synced, counted

        self.watch.begins("git", "pulling and pushing")
        try:
            done = exchange(self.root)
        finally:
            self.watch.ends("git")
        if done.note:
            self.notes.append(done.note)
        self.catch_up()
        heads = len(Ledger(self.root).heads())
        return Synced(done.remote, done.branch, counted(done.received), done.sent, heads)
