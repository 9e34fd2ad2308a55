"""The verbs around what was changed by hand: `drift` and `adopt`."""

from __future__ import annotations

from collections.abc import Sequence
from typing import TYPE_CHECKING

from knobledger.verbs.knowing import Knowing

if TYPE_CHECKING:
    from knobledger.report.drift import Adoption, Drift

# What only some verbs need is imported by these verbs: a change is to be quick.


class Adopting(Knowing):
    """What is on the hosts and not in the ledger."""

    def drift(self, targets: Sequence[str], *, strict: bool = False) -> Drift:
        """Compares targets (default: all) with their last recorded bytes; `strict`: drift is exit code 10."""
        from knobledger import drifting

        wanted = self.config.targets(targets) if targets else self.config.usual_targets()
        self.decides_on_targets([target.name for target in wanted])
        return drifting.drift(self.desk, wanted, self.host, strict=strict)

    def adopt(self, targets: Sequence[str], *, backups: bool = False, record: bool = True) -> Adoption:
        """Records what targets hold as observed; `backups` reads their past from copies. Without `record`, a preview.

        Nothing is written on any host, so plan mode allows it.
        """
        from knobledger import adopting

        wanted = self.config.targets(targets)
        self.decides_on_targets([target.name for target in wanted])
        return adopting.adopt(self.desk, wanted, self.host, backups=backups, record=record)
