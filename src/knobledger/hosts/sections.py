"""The sections of `hosts.toml`, each as a frozen struct; `checking` reads them.

A function in an annotation gets the value as it stands in the file first, and raises `ValueError` if it is none.

Durations are written `"10s"`, `"5m"`, `"1h30m"`, `"500ms"` or as a number of seconds, and are seconds here.
"""

from __future__ import annotations

import re
from collections.abc import Mapping
from typing import Annotated, Literal, get_args
from zoneinfo import ZoneInfo, available_timezones

from msgspec import Meta, Struct, field

from knobledger.hosts.mistakes import nearest
from knobledger.hosts.reach import HostKeys, TransportName, seconds
from knobledger.knobs.occurrence import Dialect

ZONES_LOOK_LIKE = "; write it like 'Europe/Berlin' or 'UTC'"
ApprovalPolicy = Literal["confirm", "signed", "two-person"]


def absolute(value: object) -> object:
    """A path on a host. Raises `ValueError` if it hangs on a current folder."""
    if isinstance(value, str) and not value.startswith("/"):
        raise ValueError(f"{value!r} must be an absolute path on the host")
    return value


def address_and_port(value: object) -> object:
    """`ADDRESS:PORT`. Raises `ValueError`."""
    if isinstance(value, str) and not re.fullmatch(r".+:\d{1,5}", value):
        raise ValueError(f"{value!r} must be ADDRESS:PORT")
    return value


def time_zone(value: object) -> object:
    """An IANA name. Raises `ValueError` with the nearest one."""
    if isinstance(value, str):
        try:
            ZoneInfo(value)
        except (KeyError, OSError, ValueError):  # unknown, a folder of zones, no relative path
            near = nearest(value, available_timezones())
            raise ValueError(f"no time zone is called {value!r}{near or ZONES_LOOK_LIKE}") from None
    return value


Duration = Annotated[float, seconds]
ZoneName = Annotated[str, time_zone]
PathOnHost = Annotated[str, absolute]
NonEmpty = Annotated[str, Meta(min_length=1)]


class Section(Struct, frozen=True):
    """A table of hosts.toml."""


class WorkspaceSection(Section, frozen=True):
    """`[workspace]`."""

    timezone: ZoneName | None = None
    """IANA name; None: the operator's own zone"""
    approval: ApprovalPolicy = "confirm"
    allowed_signers: str | None = None
    break_glass: tuple[str, ...] = ()
    """principals of allowed_signers who may apply without the approvals of the policy, in an emergency"""
    mode: Literal["act", "plan"] = "act"
    backup_dir: NonEmpty = ".knobledger"


class SecretsSection(Section, frozen=True):
    """`[secrets]`: names that are secret, or are not, whatever the built-in rules say. Globs are allowed."""

    add: tuple[str, ...] = ()
    keep: tuple[str, ...] = ()


class LedgerSection(Section, frozen=True):
    """`[ledger]`."""

    replica: str | None = None
    """a PostgreSQL database that gets a copy of every event; SQLAlchemy's URL"""


class HttpHealth(Section, frozen=True):
    """A GET that must answer with `status`, and a body that `body` is found in."""

    http: NonEmpty
    status: Annotated[int, Meta(ge=100, le=599)] = 200
    body: str | None = None
    """a regular expression"""
    through: bool = False
    """the port belongs to something else on purpose, such as a proxy: who answers is not looked at"""
    within: Duration = 300.0

    def __post_init__(self) -> None:
        if self.body is not None:
            try:
                re.compile(self.body)
            except re.error as error:
                raise ValueError(f"body {self.body!r} is no regular expression: {error}") from None


class TcpHealth(Section, frozen=True):
    """A port that must accept connections: `ADDRESS:PORT`."""

    tcp: Annotated[str, address_and_port]
    through: bool = False
    within: Duration = 300.0


class CommandHealth(Section, frozen=True):
    """A command, run by `sh` on the host, that must end with status 0."""

    command: NonEmpty
    within: Duration = 300.0


class MetricHealth(Section, frozen=True):
    """A metric of the service's `metrics` page that must be above or below a number."""

    metric: NonEmpty
    above: float | None = None
    below: float | None = None
    within: Duration = 300.0

    def __post_init__(self) -> None:
        if self.above is None and self.below is None:
            raise ValueError(f"metric {self.metric!r} needs above = N or below = N")


class CompletionHealth(Section, frozen=True):
    """A URL of a completion endpoint that must give a real completion."""

    completion: NonEmpty
    model: str | None = None
    within: Duration = 300.0


HEALTH_KINDS: dict[str, type[Section]] = {
    "http": HttpHealth,
    "tcp": TcpHealth,
    "command": CommandHealth,
    "metric": MetricHealth,
    "completion": CompletionHealth,
}
"""the key that decides what a health entry is"""


Health = HttpHealth | TcpHealth | CommandHealth | MetricHealth | CompletionHealth


class FileEntry(Section, frozen=True):
    """One further file of a service: its path, or `{ path = "…", dialect = "env-docker" }`."""

    path: PathOnHost
    dialect: Dialect | None = None


def file_entry(value: object) -> object:
    """A file's table, where the path alone may stand for it."""
    return {"path": value} if isinstance(value, str) else value


class ServiceSection(Section, frozen=True):
    """`[hosts.HOST.services.SERVICE]`."""

    script: PathOnHost | None = None
    dialect: Dialect | None = None
    """of the script; None: bash"""
    files: Mapping[str, Annotated[FileEntry, file_entry]] = field(default_factory=dict)
    unit: NonEmpty | None = None
    start: NonEmpty | None = None
    stop: NonEmpty | None = None
    pid: NonEmpty | None = None
    health: tuple[Health, ...] = ()
    metrics: NonEmpty | None = None
    after: tuple[str, ...] = ()
    stable: Duration = 0.0
    grace: Duration | None = None
    log: PathOnHost | None = None
    approval: ApprovalPolicy | None = None
    backup_dir: NonEmpty | None = None

    def __post_init__(self) -> None:
        if self.script is None and not self.files:
            raise ValueError("a service needs a script, or files")
        for key in self.files:
            if key == "script" or not re.fullmatch(r"[A-Za-z0-9][A-Za-z0-9._-]*", key):
                raise ValueError(
                    f"a file can't be called {key!r}; use letters, digits, '.', '_', '-', and not 'script'"
                )
        if self.unit is not None and (self.start or self.stop or self.pid):
            raise ValueError("a service has a unit, or start/stop/pid commands, not both")


class HostSection(Section, frozen=True):
    """`[hosts.HOST]`."""

    address: NonEmpty | None = None
    """address or alias of ssh_config; None: the host's own name"""
    port: Annotated[int, Meta(ge=1, le=65535)] | None = None
    user: NonEmpty | None = None
    identity_file: NonEmpty | None = None
    known_hosts: NonEmpty | None = None
    host_keys: HostKeys = "strict"
    ssh_config: NonEmpty | None = None
    """read instead of ~/.ssh/config and /etc/ssh/ssh_config"""
    transport: TransportName = "fabric"
    sudo: bool = False
    connect_timeout: Duration = 10.0
    command_timeout: Duration = 120.0
    approval: ApprovalPolicy | None = None
    backup_dir: NonEmpty | None = None
    services: Mapping[str, ServiceSection] = field(default_factory=dict)


class GroupSection(Section, frozen=True):
    """`[groups.GROUP]`: services as `HOST/SERVICE`, globs allowed."""

    services: tuple[str, ...]
    approval: ApprovalPolicy | None = None


NoticeKind = Literal["planned", "approved", "applied", "failed", "rolled_back", "expiring", "expired"]


class Hook(Section, frozen=True):
    """`[notify.NAME]`: a webhook that is told what happens."""

    url: NonEmpty | None = None
    url_file: NonEmpty | None = None
    """a file that holds the URL, where that is a secret, as Slack's is; relative to the workspace"""
    format: Literal["json", "slack"] = "json"
    on: tuple[NoticeKind, ...] = get_args(NoticeKind)

    def __post_init__(self) -> None:
        if (self.url is None) == (self.url_file is None):
            raise ValueError("a webhook needs either url or url_file")
        if self.url is not None and not self.url.startswith(("https://", "http://")):
            raise ValueError("url must begin with https:// or http://")


class HostsFile(Section, frozen=True):
    """The whole of hosts.toml."""

    workspace: WorkspaceSection = field(default_factory=WorkspaceSection)
    secrets: SecretsSection = field(default_factory=SecretsSection)
    ledger: LedgerSection = field(default_factory=LedgerSection)
    hosts: Mapping[str, HostSection] = field(default_factory=dict)
    groups: Mapping[str, GroupSection] = field(default_factory=dict)
    notify: Mapping[str, Hook] = field(default_factory=dict)
