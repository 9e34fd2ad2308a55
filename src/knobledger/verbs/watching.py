"""The verbs that look at what runs: processes, metrics, and what hosts can do."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from typing import TYPE_CHECKING

from knobledger.verbs.asking import Asking

if TYPE_CHECKING:
    from knobledger.events.asking import Side
    from knobledger.report.watching import Checked, LiveReport, Observation
    from knobledger.services.sampling import Sampling
    from knobledger.services.scrape import Wanted

# What only some verbs need is imported by these verbs: a change is to be quick.


class Watching(Asking):
    """Live proof, metrics over time, hosts side by side."""

    def live(self, targets: Sequence[str], names: Sequence[str]) -> LiveReport:
        """What the processes of targets have of knobs (default: all that the files decide), recorded as seen."""
        from knobledger import watching

        self.decides_on_targets(targets)
        return watching.live(self.desk, self.config, self.config.targets(targets), self.host, names)

    def observe(
        self,
        target: str,
        wanted: Wanted,
        *,
        for_s: float,
        every_s: float,
        after_restart: bool,
        evidence: tuple[str, Side] | None = None,
        tell: Callable[[Sampling], None],
    ) -> Observation:
        """Samples a metric of a target's service and says what it did; `after_restart`: for its newest change.

        `evidence`: the hypothesis that what was seen is recorded for or against.
        """
        from knobledger import watching

        where, host = self.only(target)
        service = self.config.service(f"{where.host}/{where.service}")
        change = watching.restarted_for(self.desk, where, service, host) if after_restart else None
        if evidence:
            self.find_hypothesis(evidence[0])  # before minutes are spent on watching
        found = watching.observe(
            self.desk, where, service, host, wanted, for_s=for_s, every_s=every_s, change=change, tell=tell
        )
        if evidence and found.id:
            slug, side = evidence
            self.evidence(slug, side, found.event.summary, rests_on=found.id)
        return found

    def check(self, hosts: Sequence[str]) -> Checked:
        """Whether hosts (default: all) can do what a change needs; asked side by side, changes nothing."""
        from knobledger import watching

        return watching.check(self.config, hosts, self.host)
