"""The default transport: fabric (for the operator's ssh_config) on paramiko, in a process of its own (`carrier.py`)."""

from __future__ import annotations

from knobledger.hosts.carried import CarriedHost
from knobledger.hosts.carrier import Line


class FabricHost(CarriedHost):
    """One connection of paramiko's, made in the background, made anew if it died in between."""

    def _start(self) -> Line:
        return Line(self._config)
