"""The verbs that look at what runs: processes, metrics, and what hosts can do."""

from __future__ import annotations

from collections.abc import Sequence
from typing import TYPE_CHECKING

from knobledger.opening import Opening

if TYPE_CHECKING:
    from knobledger.report.watching import LiveReport

# What only some verbs need is imported by these verbs: a change is to be quick.


class Watching(Opening):
    """Live proof, metrics over time, hosts side by side."""

    def live(self, targets: Sequence[str], names: Sequence[str]) -> LiveReport:
        """What the processes of targets have of knobs (default: all that the files decide), recorded as seen."""
        from knobledger import watching

        return watching.live(self.desk, self.config, self.config.targets(targets), self.host, names)
