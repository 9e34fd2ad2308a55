"""From a host's configuration to a `Host`."""

from __future__ import annotations

from pathlib import Path
from typing import TYPE_CHECKING, assert_never

from knobledger.hosts.reach import HostConfig
from knobledger.hosts.way import Way

if TYPE_CHECKING:
    from knobledger.hosts.host import Host
    from knobledger.hosts.scripted import ScriptedHost
    from knobledger.hosts.waiting import Tell


def begin(config: HostConfig, *, root: Path) -> Way | None:
    """Begins to connect, by what is cheap to import; `connect` takes it over. None: there is nothing to begin.

    Raises `Unreachable` for what is missing on this machine.
    """
    match config.transport:
        case "fabric":
            from knobledger.hosts.carrier import Line

            return Line(config.under(root))
        case "openssh":
            from knobledger.hosts.master import Master

            return Master(config.under(root))
        case "local":
            return None
        case _:
            assert_never(config.transport)


def connect(config: HostConfig, *, root: Path, begun: Way | None = None, tell: Tell | None = None) -> Host:
    """A host by its transport; relative paths are relative to `root`, the workspace.

    Returns at once: connecting goes on in the background, the first use waits for it, and raises what went
    wrong with it. `begun` is what `begin` has begun for the same configuration. `tell` hears what is waited for,
    once that takes longer than a second.
    """
    host = _host(config, root, begun)
    host.tell = tell
    return host


def _host(config: HostConfig, root: Path, begun: Way | None) -> ScriptedHost:
    match config.transport:
        case "fabric":
            from knobledger.hosts.fabric import FabricHost

            return FabricHost(config.under(root), begun)
        case "local":
            from knobledger.hosts.local import LocalHost

            return LocalHost(config.name, sudo=config.sudo, command_timeout_s=config.command_timeout_s)
        case "openssh":
            from knobledger.hosts.openssh import OpenSshHost

            return OpenSshHost(config.under(root), begun)
        case _:
            assert_never(config.transport)
