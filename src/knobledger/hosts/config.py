"""`hosts.toml`: read, checked, and asked for targets.

Import of this module is cheap: every command needs it, few need a host.
"""

from __future__ import annotations

import difflib
import fnmatch
import re
import tomllib
from collections.abc import Iterable, Iterator, Mapping, Sequence
from functools import cached_property
from pathlib import Path

from msgspec import Struct

from knobledger.errors import BadConfig, Unknown
from knobledger.hosts.checking import check
from knobledger.hosts.mistakes import FILE_NAME, bad, nearest, no_text, syntax_error
from knobledger.hosts.reach import KEYS, HostConfig
from knobledger.hosts.sections import (
    ApprovalPolicy,
    GroupSection,
    Health,
    HostsFile,
    SecretsSection,
    ServiceSection,
    WorkspaceSection,
)
from knobledger.knobs.occurrence import Dialect
from knobledger.names import HostPath, TargetName
from knobledger.plan import strictest

_NAME = re.compile(r"[A-Za-z0-9][A-Za-z0-9._-]*")


class Service(Struct, frozen=True):
    """One service: what it takes to restart it and to see that it is well."""

    host: str
    name: str
    unit: str | None
    start: str | None
    stop: str | None
    pid: str | None
    health: tuple[Health, ...]
    metrics: str | None
    after: tuple[str, ...]
    """full names, `HOST/SERVICE`"""
    stable_s: float
    log: HostPath | None
    grace_s: float | None = None
    """between SIGTERM and SIGKILL; None: the unit's own time, 30 s without a unit"""

    @property
    def full_name(self) -> str:
        """`HOST/SERVICE`."""
        return f"{self.host}/{self.name}"


class Target(Struct, frozen=True):
    """One file on one host that belongs to a service."""

    name: TargetName
    host: str
    service: str
    key: str
    """`script`, or the file's key in `files`"""
    path: HostPath
    dialect: Dialect
    """as hosts.toml says, else by the file's key and name"""
    backup_dir: str
    """on the host: absolute, or relative to the target's folder"""
    approval: ApprovalPolicy


class Config(Struct, frozen=True, dict=True):
    """A checked hosts.toml."""

    root: Path
    """the workspace"""
    file: HostsFile

    @classmethod
    def load(cls, root: Path) -> Config:
        """Reads `root/hosts.toml`. Raises `BadConfig`, naming the place and the nearest known key."""
        path = root / FILE_NAME
        try:
            text = path.read_text("utf-8")
        except FileNotFoundError:
            raise BadConfig(f"there is no {str(path)!r}", hint="`knob init` makes a workspace here") from None
        except UnicodeDecodeError as error:
            raise no_text(error) from None
        except OSError as error:
            raise BadConfig(f"can't read {str(path)!r}: {error}") from error
        return cls.parse(text, root)

    @classmethod
    def parse(cls, text: str, root: Path) -> Config:
        """The same for a text in memory."""
        try:
            data = tomllib.loads(text)
        except tomllib.TOMLDecodeError as error:
            raise syntax_error(text, error) from None
        file = check(data)
        if isinstance(file, list):
            raise bad(file)
        config = cls(root, file)
        problems = list(_cross_check(config))
        if problems:
            raise bad(problems)
        return config

    @property
    def workspace(self) -> WorkspaceSection:
        """`[workspace]`."""
        return self.file.workspace

    @property
    def secrets(self) -> SecretsSection:
        """`[secrets]`."""
        return self.file.secrets

    @property
    def allowed_signers(self) -> Path | None:
        """The file of those who may sign, if there is one."""
        file = _expanded(self.workspace.allowed_signers)
        return None if file is None else self.root / file

    @property
    def services(self) -> tuple[str, ...]:
        """Every service as `HOST/SERVICE`, in the order of the file."""
        return tuple(
            f"{host}/{service}" for host, section in self.file.hosts.items() for service in section.services
        )

    @property
    def groups(self) -> Mapping[str, tuple[str, ...]]:
        """Every group with its services in full."""
        return {name: self._members(section) for name, section in self.file.groups.items()}

    @cached_property
    def hosts(self) -> Mapping[str, HostConfig]:
        """Every host by its name, in the order of the file."""
        return {name: self.host(name) for name in self.file.hosts}

    def host(self, name: str) -> HostConfig:
        """How to reach a host. Raises `Unknown`."""
        section = self.file.hosts.get(name)
        if section is None:
            raise _unknown("host", name, self.file.hosts)
        return HostConfig.of(name, {key: getattr(section, key) for key in KEYS})

    def service(self, name: str) -> Service:
        """A service by `HOST/SERVICE`. Raises `Unknown`."""
        host, section = self._service(name)
        return Service(
            host=host,
            name=name.partition("/")[2],
            unit=section.unit,
            start=section.start,
            stop=section.stop,
            pid=section.pid,
            health=section.health,
            metrics=section.metrics,
            after=tuple(_full(host, other) for other in section.after),
            stable_s=section.stable,
            log=None if section.log is None else HostPath(section.log),
            grace_s=section.grace,
        )

    def target(self, name: str) -> Target:
        """One target by `HOST/SERVICE` or `HOST/SERVICE:NAME`. Raises `Unknown`."""
        service_name, colon, key = name.partition(":")
        try:
            host, section = self._service(service_name)
        except Unknown:
            raise _unknown("target", name, self._target_names()) from None
        if not colon or key == "script":
            key, path, dialect = "script", section.script, section.dialect or Dialect.BASH
        else:
            entry = section.files.get(key)
            path = None if entry is None else entry.path
            dialect = Dialect.BASH if entry is None else entry.dialect or _dialect(key, entry.path, section)
        if path is None:
            raise _unknown("target", name, self._target_names())
        return Target(
            name=TargetName(service_name if key == "script" else f"{service_name}:{key}"),
            host=host,
            service=service_name.partition("/")[2],
            key=key,
            path=HostPath(path),
            dialect=dialect,
            backup_dir=section.backup_dir or self.file.hosts[host].backup_dir or self.workspace.backup_dir,
            approval=self._approval(service_name, host, section),
        )

    def approval_of(self, service: str) -> ApprovalPolicy:
        """What a restart of a service asks for. Raises `Unknown`."""
        host, section = self._service(service)
        return self._approval(service, host, section)

    @property
    def asks_no_signature(self) -> bool:
        """No line of the file asks for one, and none names who could give it."""
        hosts, groups = self.file.hosts.values(), self.file.groups.values()
        asked = {self.workspace.approval, *(one.approval for one in hosts), *(one.approval for one in groups)}
        asked |= {service.approval for host in hosts for service in host.services.values()}
        return self.allowed_signers is None and asked <= {"confirm", None}

    def targets(self, names: Sequence[str] = ()) -> tuple[Target, ...]:
        """The targets that names, groups and globs stand for, each once, in that order; without names all.

        `gpu*/decode`, a group and a host stand for scripts, `gpu*/decode:*` for the other files.
        Raises `Unknown`.
        """
        found: dict[str, Target] = {}
        for target_name in self._target_names() if not names else self._expand(names):
            target = self.target(target_name)
            found.setdefault(target.name, target)
        return tuple(found.values())

    def is_target(self, word: str) -> bool:
        """Whether a word among others can only be meant as a target: a name or glob of one, a group or a host."""
        return (
            "/" in word
            or any(char in word for char in "*?[")
            or word in {*self.file.groups, *self.file.hosts}
        )

    def usual_targets(self) -> tuple[Target, ...]:
        """What is looked at where nobody names anything: each service's script, or its files where it has no script."""
        found: list[Target] = []
        for service in self.services:
            every = self.targets_of(service)
            found += every[:1] if every[0].key == "script" else every
        return tuple(found)

    def targets_of(self, service: str) -> tuple[Target, ...]:
        """Every target of a service, its script first. Raises `Unknown`."""
        _, section = self._service(service)
        keys = [*(["script"] if section.script is not None else []), *section.files]
        return tuple(self.target(f"{service}:{key}") for key in keys)

    def _expand(self, names: Sequence[str]) -> Iterator[str]:
        for name in names:
            group = self.file.groups.get(name)
            if group is not None:
                yield from self._members(group)
            elif any(char in name for char in "*?["):
                known = [full for full in self._target_names() if (":" in full) == (":" in name)]
                matching = [full for full in known if fnmatch.fnmatchcase(full, name)]
                if not matching:
                    raise _unknown("target", name, self._target_names())
                yield from matching
            elif name in self.file.hosts:
                yield from (
                    full for full in self._target_names() if full.startswith(f"{name}/") and ":" not in full
                )
            elif "/" not in name:
                raise _unknown("target, group or host", name, [*self.file.groups, *self.file.hosts])
            else:
                yield name

    def _target_names(self) -> Iterator[str]:
        for host, section in self.file.hosts.items():
            for service, parts in section.services.items():
                if parts.script is not None:
                    yield f"{host}/{service}"
                yield from (f"{host}/{service}:{key}" for key in parts.files)

    def _service(self, name: str) -> tuple[str, ServiceSection]:
        host, _, service = name.partition("/")
        section = self.file.hosts.get(host)
        if section is None or service not in section.services:
            raise _unknown("service", name, self.services)
        return host, section.services[service]

    def _members(self, group: GroupSection) -> tuple[str, ...]:
        members: dict[str, None] = {}
        for pattern in group.services:
            members.update(
                dict.fromkeys(name for name in self.services if fnmatch.fnmatchcase(name, pattern))
            )
        return tuple(members)

    def _approval(self, service: str, host: str, section: ServiceSection) -> ApprovalPolicy:
        """The service's own word, else the strictest of its groups, else the host's, else the workspace's."""
        if section.approval is not None:
            return section.approval
        of_groups = [
            group.approval
            for group in self.file.groups.values()
            if group.approval is not None and service in self._members(group)
        ]
        if of_groups:
            return strictest(of_groups)
        return self.file.hosts[host].approval or self.workspace.approval


def _expanded(value: str | None) -> Path | None:
    return None if value is None else Path(value).expanduser()


def _full(host: str, service: str) -> str:
    return service if "/" in service else f"{host}/{service}"


def _dialect(key: str, path: str, section: ServiceSection) -> Dialect:
    if key == "unit" or path.endswith((".service", ".conf")):
        return Dialect.UNIT
    if key.startswith("env") or path.endswith(".env"):
        return Dialect.ENV_SYSTEMD if section.unit is not None or "unit" in section.files else Dialect.ENV
    return Dialect.BASH


def _unknown(what: str, name: str, known: Iterable[str]) -> Unknown:
    names = list(known)
    near = difflib.get_close_matches(name, names, n=3, cutoff=0.4)
    message = f"no {what} {name!r} in {FILE_NAME}{nearest(name, names)}"
    return Unknown(
        message, hint="`knob status` lists the targets; groups and globs work too", value=name, nearest=near
    )


def _cross_check(config: Config) -> Iterator[str]:
    services = config.services
    for host, section in config.file.hosts.items():
        yield from _check_name("host", host)
        for name, service in section.services.items():
            yield from _check_name("service", name)
            for other in service.after:
                if _full(host, other) not in services:
                    near = nearest(_full(host, other), services)
                    yield f"hosts.{host}.services.{name}.after: no service {other!r}{near}"
    for name, group in config.file.groups.items():
        yield from _check_name("group", name)
        for pattern in group.services:
            if not any(fnmatch.fnmatchcase(full, pattern) for full in services):
                near = nearest(pattern, services)
                yield f"groups.{name}.services: no service {pattern!r}{near}"
    for name in config.file.notify:
        yield from _check_name("webhook", name)
    yield from _circles(config)


def _check_name(what: str, name: str) -> Iterator[str]:
    if not _NAME.fullmatch(name):
        yield f"{name!r} can't be the name of a {what}; use letters, digits, '.', '_' and '-'"


def _circles(config: Config) -> Iterator[str]:
    after = {
        f"{host}/{name}": [_full(host, other) for other in service.after]
        for host, section in config.file.hosts.items()
        for name, service in section.services.items()
    }
    done: set[str] = set()

    def visit(name: str, path: tuple[str, ...]) -> Iterator[str]:
        if name in path:
            circle = " after ".join((*path[path.index(name) :], name))
            yield f"after goes round in a circle: {circle}"
        elif name not in done:
            for other in after.get(name, []):
                yield from visit(other, (*path, name))
            done.add(name)

    for name in after:
        yield from visit(name, ())
