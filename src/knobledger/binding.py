"""What a plan is bound to beside bytes: how its hosts are reached, and what starts and stops the services it restarts.

A signature under a plan is worth nothing if the plan's host can be pointed elsewhere, or the unit that it restarts
can be another by then. So both are part of the plan, and looked at again before it is applied.
"""

from __future__ import annotations

import json
from collections.abc import Callable, Sequence
from concurrent.futures import ThreadPoolExecutor

from msgspec import Struct

from knobledger.errors import Drifted
from knobledger.events.changes import Planned
from knobledger.hosts.config import Config, Service
from knobledger.hosts.host import Host
from knobledger.hosts.reach import HOSTS_AT_ONCE
from knobledger.names import EventId, digest_of, short
from knobledger.plan import PlannedService, RestartScope

_GREP_TIMEOUT_S = 60.0
_KINDS = ("service", "socket", "timer", "target", "path", "mount", "scope", "slice")
_FOLDERS = (
    *("/etc/systemd/system.control", "/run/systemd/system.control", "/run/systemd/transient"),
    *("/run/systemd/generator.early", "/etc/systemd/system", "/etc/systemd/system.attached"),
    *("/run/systemd/system", "/run/systemd/system.attached", "/run/systemd/generator"),
    *("/usr/local/lib/systemd/system", "/usr/lib/systemd/system", "/lib/systemd/system"),
    "/run/systemd/generator.late",
)


class Binding(Struct, frozen=True):
    """Of one workspace, as hosts.toml and its hosts are now."""

    config: Config
    host: Callable[[str], Host]

    def way(self, host: str) -> str:
        """How hosts.toml says that a host is reached: `fabric root@gpu1.example.org:22`. Its keys are no part of it.

        An alias stays one: what an ssh_config makes of it is each machine's own affair.
        """
        known = self.config.host(host)
        if known.transport == "local":
            return "local with sudo" if known.sudo else "local"
        user = f"{known.user}@" if known.user else ""
        port = f":{known.port}" if known.port else ""
        config = f" by {known.ssh_config}" if known.ssh_config else ""
        return f"{known.transport} {user}{known.address}{port}{config}{' with sudo' if known.sudo else ''}"

    def services(self, targets: Sequence[str], scope: RestartScope) -> tuple[PlannedService, ...]:
        """The services that a restart would take, in the order of their start. Asks a host for its units alone.

        Raises `Unreachable`, `Refused`.
        """
        if scope == "none":
            return ()
        from knobledger.services.graph import in_scope, services_named

        names = in_scope(self.config, services_named(self.config, targets), scope)
        found = [self.config.service(name) for name in names]
        hosts = {service.host: self.host(service.host) for service in found if service.unit}

        def digest(service: Service) -> PlannedService:
            text = _unit_text(hosts[service.host], service.unit) if service.unit else ""
            return PlannedService(service=service.full_name, digest=digest_of(_orders(service, text)))

        if len(hosts) < 2:
            return tuple(map(digest, found))
        with ThreadPoolExecutor(min(HOSTS_AT_ONCE, len(hosts))) as pool:
            return tuple(pool.map(digest, found))

    def objection(self, plan: EventId, planned: Planned) -> tuple[str, str]:
        """Why the plan is void by now, and the hint; two empty texts if it is not. What older plans lack is not asked."""
        name = short(plan)
        again = "make a new plan"
        for file in planned.files:
            host = self.config.target(file.target).host
            if file.way and file.way != self.way(host):
                return (
                    f"{file.target} is reached by {self.way(host)!r} now, and plan {name} was made for {file.way!r}",
                    f"hosts.toml was changed since: {again}",
                )
        if not planned.services:
            return "", ""
        # A plan that only restarts names its services itself: another scope of another hosts.toml changes nothing.
        scope = "service" if planned.only_restarts else planned.restart
        now = self.services(planned.where, scope)
        before = {one.service: one.digest for one in planned.services}
        if [one.service for one in now] != list(before):
            return (
                f"the restart would take {', '.join(one.service for one in now)} now, and plan {name} was made for "
                f"{', '.join(before)}",
                f"hosts.toml was changed since: {again}",
            )
        for one in now:
            if one.digest != before[one.service]:
                service = self.config.service(one.service)
                if service.unit:
                    return (
                        f"the unit {service.unit!r} of {one.service} was changed since plan {name} was made",
                        f"look at `systemctl cat {service.unit}` on the host; then {again}",
                    )
                return (
                    f"the commands that start and stop {one.service} were changed since plan {name} was made",
                    f"look at hosts.toml; then {again}",
                )
        return "", ""

    def check(self, plan: EventId, planned: Planned) -> None:
        """Raises `Drifted` if the plan is void."""
        message, hint = self.objection(plan, planned)
        if message:
            raise Drifted(f"{message}; nothing was written", hint=hint, plan=plan)


def _orders(service: Service, unit: str) -> bytes:
    """What starts, stops and finds a service."""
    orders = [service.unit, unit, service.start, service.stop, service.pid]
    return json.dumps(orders, ensure_ascii=True).encode()


def _unit_text(host: Host, unit: str) -> str:
    """The lines of the unit's files and drop-ins, each behind its path; empty for a unit that is not there.

    From the disk and not from systemd (`systemctl cat`), which knows nothing of a drop-in that was put there since it
    read its files, and reads them anew before a restart. Folders: systemd.unit(5).
    """
    name = unit if unit.rpartition(".")[2] in _KINDS else f"{unit}.service"
    stem, _, kind = name.rpartition(".")
    parts = stem.partition("@")[0].split("-")
    shared = ["-".join(parts[:count]) + "-" for count in range(1, len(parts))]
    names = [stem, *([f"{stem.partition('@')[0]}@"] if "@" in stem else []), *shared]
    places = [f"{one}.{kind}{end}" for one in names for end in ("", ".d")] + [f"{kind}.d"]
    paths = [f"{folder}/{place}" for folder in _FOLDERS for place in places]
    done = host.run(("grep", "-HRs", "", "--", *paths), timeout_s=_GREP_TIMEOUT_S)
    lines = done.stdout.decode("utf-8", "surrogateescape").split("\n")
    # A folder is read in any order, a file from its top.
    return "\n".join(sorted(lines, key=lambda line: line.partition(":")[0]))
