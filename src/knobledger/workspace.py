"""The composition root: one method per verb, put together from `verbs/`."""

from __future__ import annotations

from knobledger.verbs.adopting import Adopting
from knobledger.verbs.changing import Changing
from knobledger.verbs.clawing import Clawing
from knobledger.verbs.documenting import Documenting
from knobledger.verbs.looking import Looking
from knobledger.verbs.probing import Probing
from knobledger.verbs.reporting import Reporting
from knobledger.verbs.sharing import Sharing
from knobledger.verbs.signers import Signers
from knobledger.verbs.upkeep import Upkeep
from knobledger.verbs.watching import Watching


class Workspace(
    Changing,
    Looking,
    Signers,
    Sharing,
    Watching,
    Probing,
    Clawing,
    Documenting,
    Reporting,
    Adopting,
    Upkeep,
):
    """A folder with `hosts.toml`, `ledger/` and `templates/`, and what can be done with it.

    Methods return report values; they print nothing and ask nothing.
    """
