"""Verbs that look at what runs: hosts are asked side by side, and what was seen is recorded."""

from __future__ import annotations

from collections.abc import Sequence

from knobledger.drafting import Desk
from knobledger.errors import KnobError
from knobledger.hosts.config import Config, Target
from knobledger.hosts.host import Host
from knobledger.looking import HostOf, side_by_side
from knobledger.proving import conclude
from knobledger.report.watching import LiveReport, NotSeen
from knobledger.services.live import Sight, see


def live(
    desk: Desk, config: Config, targets: Sequence[Target], hosts: HostOf, names: Sequence[str]
) -> LiveReport:
    """Looks at every target's processes; hosts that are down do not hide the others."""

    def ask(_desk: Desk, target: Target, host: Host) -> Sight | NotSeen:
        service = config.service(f"{target.host}/{target.service}")
        try:
            return see(host, service, target, names)
        except KnobError as error:
            return NotSeen(target.name, service.full_name, target.path, error.message, error.exit_code)

    # The ledger is written by one thread: only the hosts are asked side by side.
    sights = side_by_side(desk, targets, hosts, ask)
    return LiveReport(tuple(s if isinstance(s, NotSeen) else conclude(desk, s) for s in sights))
