"""Questions to the replica, asked as to the index."""

from __future__ import annotations

from datetime import datetime

from knobledger.ledger.index import Index
from knobledger.ledger.query import selection
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
        from sqlalchemy import text

        said, values = selection(facets, since, until, limit, newest_first=newest_first)
        with self.replica.connected() as connection:
            return [(id_, body) for id_, body in connection.execute(text(said), values)]
