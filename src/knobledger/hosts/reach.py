"""How to reach a host. Cheap to import: connecting ahead needs it before `hosts.toml` is checked."""

from __future__ import annotations

import math
from collections.abc import Mapping
from fnmatch import fnmatchcase
from pathlib import Path
from typing import Any, Literal, NamedTuple, Self

from knobledger.errors import Unreachable, Usage

TransportName = Literal["fabric", "openssh", "local"]
HostKeys = Literal["strict", "accept-new"]


class HostConfig(NamedTuple):
    """How to reach one host; `connect` resolves its paths against the workspace."""

    name: str
    address: str
    port: int | None = None
    user: str | None = None
    identity_file: Path | None = None
    known_hosts: Path | None = None
    host_keys: HostKeys = "strict"
    """`strict`, or `accept-new`: a host seen for the first time is believed and written to known_hosts"""
    ssh_config: Path | None = None
    transport: TransportName = "fabric"
    sudo: bool = False
    connect_timeout_s: float = 10.0
    command_timeout_s: float = 120.0

    @classmethod
    def of(cls, name: str, table: Mapping[str, Any]) -> Self:
        """From the keys of `[hosts.NAME]`; those that are None or not there have their defaults."""
        values = {key: value for key, value in table.items() if value is not None}
        for key in ("identity_file", "known_hosts", "ssh_config"):
            if key in values:
                values[key] = Path(values[key]).expanduser()
        for key in ("connect_timeout", "command_timeout"):
            if key in values:
                values[f"{key}_s"] = seconds(values.pop(key))
        return cls(**{"name": name, "address": name, **values})

    def under(self, root: Path) -> HostConfig:
        """The same with its paths resolved against the workspace."""
        files = (self.identity_file, self.known_hosts, self.ssh_config)
        identity, known, ssh = (None if file is None else root / file for file in files)
        return self._replace(identity_file=identity, known_hosts=known, ssh_config=ssh)

    def table(self) -> dict[str, Any]:
        """The inverse of `of`: plain values by the keys of `[hosts.NAME]`."""
        values = {key: getattr(self, f"{key}_s" if key.endswith("_timeout") else key) for key in KEYS}
        return {key: str(value) if isinstance(value, Path) else value for key, value in values.items()}


KEYS: Mapping[str, type | tuple[type, ...]] = {
    **dict.fromkeys(("address", "user", "identity_file", "known_hosts", "ssh_config"), str),
    **dict.fromkeys(("host_keys", "transport"), str),
    **dict.fromkeys(("connect_timeout", "command_timeout"), (str, int, float)),
    "port": int,
    "sudo": bool,
}
"""what `[hosts.NAME]` says about reaching it, and as which types of TOML"""


HOSTS_AT_ONCE = 32
"""how many hosts are asked side by side"""


class Guesses(NamedTuple):
    """What an unchecked `hosts.toml` says, as it is if nothing is wrong with it."""

    hosts: dict[str, tuple[HostConfig, frozenset[str]]]
    """with the names of their services"""
    groups: dict[str, tuple[str, ...]]
    """with their patterns of services"""

    def called(self, word: str) -> list[str]:
        """The hosts that a word of the command line stands for, if it is a target, a glob of them, a group or a host."""
        if word in self.hosts:
            return [word]
        patterns = self.groups.get(word, (word.partition(":")[0],))
        return [
            host
            for host, (_, services) in self.hosts.items()
            if any(fnmatchcase(f"{host}/{one}", pattern) for one in services for pattern in patterns)
        ]


def guesses(text: str) -> Guesses:
    """The hosts and groups of an unchecked `hosts.toml`.

    A guess is to be compared with the checked configuration before it is used. Raises `ValueError` where
    something is plainly wrong.
    """
    import tomllib  # only we read it before it is checked

    hosts = {}
    try:
        table = tomllib.loads(text)
        for name, section in table.get("hosts", {}).items():
            keys = {key: value for key, value in section.items() if key in KEYS}
            if not all(isinstance(value, KEYS[key]) for key, value in keys.items()):
                raise ValueError(f"host {name!r} has a value of a wrong type")
            hosts[name] = (HostConfig.of(name, keys), frozenset(section.get("services", {})))
        groups = {
            name: tuple(map(str, section["services"])) for name, section in table.get("groups", {}).items()
        }
    except (AttributeError, KeyError, TypeError) as error:
        raise ValueError(f"not as hosts.toml should be: {error}") from error
    return Guesses(hosts, groups)


def seconds(value: object) -> float:
    """A duration in seconds: a number of them, or as `moment.duration` reads it.

    Raises `ValueError` that says how durations are written.
    """
    match value:
        case bool():
            pass
        case int() | float() if math.isfinite(value) and value >= 0:
            return float(value)
        case str():
            from knobledger.moment import duration

            try:
                return duration(value)
            except Usage:
                pass
    raise ValueError(f"{value!r} is no duration; write it like '10s', '5m' or '1h30m'")


def unreachable(host: str, reason: object, hint: str = "") -> Unreachable:
    """No connection to `host`, and why; without a hint of its own it names where the way is written."""
    hint = (
        hint
        or f"the way to it is in [hosts.{host}] of hosts.toml; `ssh -v` with the same shows how far it comes"
    )
    return Unreachable(f"no connection to {host!r}: {reason}", hint=hint, host=host)


def no_file(host: str, what: str, path: Path) -> Unreachable:
    """A file of this machine that is needed for the way to `host`, and is not there; `what` is its key of hosts.toml."""
    return unreachable(
        host,
        f"there is no {what.replace('_file', ' file')} {str(path)!r}",
        f"correct `{what}` in [hosts.{host}] of hosts.toml, or put the file there",
    )
