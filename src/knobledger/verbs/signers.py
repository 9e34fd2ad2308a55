"""The verbs about who may approve."""

from __future__ import annotations

from pathlib import Path
from typing import TYPE_CHECKING

from knobledger.errors import NotApproved, PlanMode, Usage
from knobledger.opening import Opening
from knobledger.who import signing_key

if TYPE_CHECKING:
    from knobledger.report.signers import SignersReport

# What only some verbs need is imported by these verbs: a change is to be quick.


class Signers(Opening):
    """Trust in allowed_signers."""

    def trust_signers(self, file: str, key: str) -> SignersReport:
        """Records the allowed_signers file and the policies as they are."""
        from knobledger import approving
        from knobledger.report.signers import signers_report

        if self.planning_only:
            raise PlanMode(
                "plan mode: nobody is trusted anew", hint="somebody who may act: `knob signers trust`"
            )
        wanted = self.config.allowed_signers
        if file and wanted is not None and Path(file).resolve() != wanted.resolve():
            raise Usage(
                f"{file!r} is not the file that hosts.toml names: {str(wanted)!r}",
                hint="`knob signers trust` without a file takes that one",
            )
        event, first = approving.trust(self.desk, self.config, key or signing_key(self.root))
        return signers_report(event, first=first)

    def signers(self) -> SignersReport:
        """Who may sign, by the file as it was recorded."""
        from knobledger import approving
        from knobledger.report.signers import signers_report

        problem = ""
        try:
            approving.trusted(self.desk, self.config)
        except NotApproved as error:
            problem = error.message
        event = approving.recorded(self.desk)
        if event is None:
            raise NotApproved(problem or "nobody is recorded", hint="`knob signers trust`")
        return signers_report(event, problem=problem)
