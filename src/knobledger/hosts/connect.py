"""From a host's configuration to a `Host`."""

from __future__ import annotations

from pathlib import Path
from typing import assert_never

from knobledger.hosts.config import HostConfig
from knobledger.hosts.host import Host
from knobledger.hosts.scripted import ScriptedHost
from knobledger.hosts.waiting import Tell


def connect(config: HostConfig, *, root: Path, tell: Tell | None = None) -> Host:
    """A host by its transport; relative paths are relative to `root`, the workspace.

    Returns at once: connecting goes on in the background, the first use waits for it, and raises what went
    wrong with it. `tell` hears what is waited for, once that takes longer than a second.
    """
    host = _host(config, root)
    host.tell = tell
    return host


def _host(config: HostConfig, root: Path) -> ScriptedHost:
    match config.transport:
        case "fabric":
            from knobledger.hosts.fabric import FabricHost

            return FabricHost(config.under(root))
        case "local":
            from knobledger.hosts.local import LocalHost

            return LocalHost(config.name, sudo=config.sudo, command_timeout_s=config.command_timeout_s)
        case "openssh":
            from knobledger.hosts.openssh import OpenSshHost

            return OpenSshHost(config.under(root))
        case _:
            assert_never(config.transport)
