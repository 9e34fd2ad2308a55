"""The system's `ssh` as the transport: whatever the operator's ssh_config can do works here."""

from __future__ import annotations

from knobledger.hosts.carried import CarriedHost
from knobledger.hosts.master import Master


class OpenSshHost(CarriedHost):
    """One connection of the system's ssh, made in the background, made anew if it died in between.

    No terminal, no prompt, no agent or X11 forwarding. Environment settings of ssh_config (SendEnv, SetEnv) and
    its RemoteCommand are not for our commands.
    """

    def _start(self) -> Master:
        return Master(self._config)
