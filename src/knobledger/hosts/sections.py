"""The sections of `hosts.toml`, each as a frozen model; unknown keys are errors.

Durations are written `"10s"`, `"5m"`, `"1h30m"`, `"500ms"` or as a number of seconds, and are seconds here.
"""

from __future__ import annotations

import re
from collections.abc import Mapping
from typing import Annotated, Literal, get_args

from pydantic import BaseModel, BeforeValidator, ConfigDict, Discriminator, Field, Tag, model_validator

from knobledger.hosts.reach import HostKeys, TransportName, seconds
from knobledger.knobs.occurrence import Dialect

ApprovalPolicy = Literal["confirm", "signed", "two-person"]


def _absolute(value: object) -> object:
    if isinstance(value, str) and not value.startswith("/"):
        raise ValueError(f"{value!r} must be an absolute path on the host")
    return value


Duration = Annotated[float, BeforeValidator(seconds)]
PathOnHost = Annotated[str, BeforeValidator(_absolute)]
NonEmpty = Annotated[str, Field(min_length=1)]


class Section(BaseModel):
    """A table of hosts.toml."""

    model_config = ConfigDict(frozen=True, extra="forbid", defer_build=True)


class WorkspaceSection(Section):
    """`[workspace]`."""

    timezone: str | None = None
    """IANA name; None: the operator's own zone"""
    approval: ApprovalPolicy = "confirm"
    allowed_signers: str | None = None
    break_glass: tuple[str, ...] = ()
    """principals of allowed_signers who may apply without the approvals of the policy, in an emergency"""
    mode: Literal["act", "plan"] = "act"
    backup_dir: NonEmpty = ".knobledger"


class SecretsSection(Section):
    """`[secrets]`: names that are secret, or are not, whatever the built-in rules say. Globs are allowed."""

    add: tuple[str, ...] = ()
    keep: tuple[str, ...] = ()


class LedgerSection(Section):
    """`[ledger]`."""

    replica: str | None = None
    """a PostgreSQL database that gets a copy of every event; SQLAlchemy's URL"""


class HttpHealth(Section):
    """A GET that must answer with `status`, and a body that `body` is found in."""

    http: NonEmpty
    status: int = Field(default=200, ge=100, le=599)
    body: str | None = None
    """a regular expression"""
    through: bool = False
    """the port belongs to something else on purpose, such as a proxy: who answers is not looked at"""
    within: Duration = 300.0

    @model_validator(mode="after")
    def _body_compiles(self) -> HttpHealth:
        if self.body is not None:
            try:
                re.compile(self.body)
            except re.error as error:
                raise ValueError(f"body {self.body!r} is no regular expression: {error}") from None
        return self


class TcpHealth(Section):
    """A port that must accept connections: `ADDRESS:PORT`."""

    tcp: str = Field(pattern=r"^.+:\d{1,5}$")
    through: bool = False
    within: Duration = 300.0


class CommandHealth(Section):
    """A command, run by `sh` on the host, that must end with status 0."""

    command: NonEmpty
    within: Duration = 300.0


class MetricHealth(Section):
    """A metric of the service's `metrics` page that must be above or below a number."""

    metric: NonEmpty
    above: float | None = None
    below: float | None = None
    within: Duration = 300.0

    @model_validator(mode="after")
    def _bounded(self) -> MetricHealth:
        if self.above is None and self.below is None:
            raise ValueError(f"metric {self.metric!r} needs above = N or below = N")
        return self


class CompletionHealth(Section):
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


def _health_kind(entry: object) -> str | None:
    kinds = [
        kind for kind in HEALTH_KINDS if (kind in entry if isinstance(entry, dict) else hasattr(entry, kind))
    ]
    return kinds[0] if len(kinds) == 1 else None


Health = Annotated[
    Annotated[HttpHealth, Tag("http")]
    | Annotated[TcpHealth, Tag("tcp")]
    | Annotated[CommandHealth, Tag("command")]
    | Annotated[MetricHealth, Tag("metric")]
    | Annotated[CompletionHealth, Tag("completion")],
    Discriminator(
        _health_kind,
        custom_error_type="health_kind",
        custom_error_message="a health entry needs exactly one of http, tcp, command, metric, completion",
    ),
]


class FileEntry(Section):
    """One further file of a service: its path, or `{ path = "…", dialect = "env-docker" }`."""

    path: PathOnHost
    dialect: Dialect | None = None


def _file_entry(value: object) -> object:
    return {"path": value} if isinstance(value, str) else value


class ServiceSection(Section):
    """`[hosts.HOST.services.SERVICE]`."""

    script: PathOnHost | None = None
    dialect: Dialect | None = None
    """of the script; None: bash"""
    files: Mapping[str, Annotated[FileEntry, BeforeValidator(_file_entry)]] = Field(default_factory=dict)
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

    @model_validator(mode="after")
    def _has_files(self) -> ServiceSection:
        if self.script is None and not self.files:
            raise ValueError("a service needs a script, or files")
        for key in self.files:
            if key == "script" or not re.fullmatch(r"[A-Za-z0-9][A-Za-z0-9._-]*", key):
                raise ValueError(
                    f"a file can't be called {key!r}; use letters, digits, '.', '_', '-', and not 'script'"
                )
        if self.unit is not None and (self.start or self.stop or self.pid):
            raise ValueError("a service has a unit, or start/stop/pid commands, not both")
        return self


class HostSection(Section):
    """`[hosts.HOST]`."""

    address: NonEmpty | None = None
    """address or alias of ssh_config; None: the host's own name"""
    port: int | None = Field(default=None, ge=1, le=65535)
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
    services: Mapping[str, ServiceSection] = Field(default_factory=dict)


class GroupSection(Section):
    """`[groups.GROUP]`: services as `HOST/SERVICE`, globs allowed."""

    services: tuple[str, ...]
    approval: ApprovalPolicy | None = None


NoticeKind = Literal["planned", "approved", "applied", "failed", "rolled_back", "expiring", "expired"]


class Hook(Section):
    """`[notify.NAME]`: a webhook that is told what happens."""

    url: NonEmpty | None = None
    url_file: NonEmpty | None = None
    """a file that holds the URL, where that is a secret, as Slack's is; relative to the workspace"""
    format: Literal["json", "slack"] = "json"
    on: tuple[NoticeKind, ...] = get_args(NoticeKind)

    @model_validator(mode="after")
    def _has_one_url(self) -> Hook:
        if (self.url is None) == (self.url_file is None):
            raise ValueError("a webhook needs either url or url_file")
        if self.url is not None and not self.url.startswith(("https://", "http://")):
            raise ValueError("url must begin with https:// or http://")
        return self


class HostsFile(Section):
    """The whole of hosts.toml."""

    workspace: WorkspaceSection = Field(default_factory=WorkspaceSection)
    secrets: SecretsSection = Field(default_factory=SecretsSection)
    ledger: LedgerSection = Field(default_factory=LedgerSection)
    hosts: Mapping[str, HostSection] = Field(default_factory=dict)
    groups: Mapping[str, GroupSection] = Field(default_factory=dict)
    notify: Mapping[str, Hook] = Field(default_factory=dict)


def model_at(place: tuple[str | int, ...]) -> type[Section] | None:
    """Which model a place such as `("hosts", "gpu1", "services", "decode")` is checked by."""
    match place:
        case ():
            return HostsFile
        case ("workspace",):
            return WorkspaceSection
        case ("secrets",):
            return SecretsSection
        case ("ledger",):
            return LedgerSection
        case ("hosts", _):
            return HostSection
        case ("groups", _):
            return GroupSection
        case ("notify", _):
            return Hook
        case ("hosts", _, "services", _):
            return ServiceSection
        case ("hosts", _, "services", _, "files", _):
            return FileEntry
        case ("hosts", _, "services", _, "health", int(), str(kind)):
            return HEALTH_KINDS.get(kind)
        case _:
            return None
