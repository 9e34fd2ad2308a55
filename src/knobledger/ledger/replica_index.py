"""Questions to the replica, asked as to the index."""

from __future__ import annotations

from datetime import datetime

from knobledger.ledger.index import Index, select_events
from knobledger.ledger.replica import Replica, ReplicaLedger


class ReplicaIndex(Index):
    """The index's queries on the rows of a replica."""

    def __init__(self, ledger: ReplicaLedger) -> None:
        super().__init__(ledger)
        self.replica: Replica = ledger.replica

    def update(self) -> int:
        """The replica is as it is: other commands write it."""
        return 0

    def _select(
        self,
        facets: list[tuple[str, str]],
        since: datetime | None,
        until: datetime | None,
        limit: int | None,
        newest_first: bool,
    ) -> list[tuple[str, str]]:
        with self.replica.connected() as connection:
            return select_events(connection, facets, since, until, limit, newest_first)
