"""The composition root: one method per verb, put together from `verbs/`."""

from __future__ import annotations

from knobledger.verbs.changing import Changing
from knobledger.verbs.confirming import Confirming
from knobledger.verbs.looking import Looking
from knobledger.verbs.sharing import Sharing
from knobledger.verbs.signers import Signers
from knobledger.verbs.upkeep import Upkeep


class Workspace(Changing, Confirming, Looking, Sharing, Signers, Upkeep):
    """A folder with `hosts.toml`, `ledger/` and `templates/`, and what can be done with it.

    Methods return report values; they print nothing and ask nothing.
    """
