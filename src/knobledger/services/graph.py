"""Which services a restart takes in, and in which order they start. Pure.

`after` edges make the order. Circles and unknown names are refused when hosts.toml is read.
"""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from fnmatch import fnmatchcase

from knobledger.hosts.config import Config
from knobledger.plan import RestartScope


def services_named(config: Config, names: Sequence[str]) -> tuple[str, ...]:
    """The services that targets, groups, hosts and globs stand for, each once. Raises `Unknown`."""
    found: dict[str, None] = {}
    for name in names:
        if name in config.groups:
            found.update(dict.fromkeys(config.groups[name]))
        elif name in config.file.hosts:
            found.update(dict.fromkeys(one for one in config.services if one.startswith(f"{name}/")))
        else:
            service = name.partition(":")[0]
            several = any(char in service for char in "*?[")
            matching = [one for one in config.services if fnmatchcase(one, service)] if several else []
            found.update(dict.fromkeys(matching or [config.service(service).full_name]))
    return tuple(found)


def in_scope(config: Config, services: Iterable[str], scope: RestartScope) -> tuple[str, ...]:
    """The services that a restart of `services` takes in, in the order of their start; `none`: none."""
    wanted = set(services)
    match scope:
        case "none":
            return ()
        case "service":
            pass
        case "dependents":
            wanted |= {one for one in config.services if wanted & _before(config, one)}
        case "group":
            wanted |= {one for members in config.groups.values() if wanted & set(members) for one in members}
    return ordered(config, wanted)


def ordered(config: Config, services: Iterable[str]) -> tuple[str, ...]:
    """Each service after all that it needs, else in the order of hosts.toml."""
    left = [one for one in config.services if one in set(services)]
    done: list[str] = []
    while left:
        ready = next(one for one in left if not _before(config, one) & set(left))
        left.remove(ready)
        done.append(ready)
    return tuple(done)


def _before(config: Config, service: str) -> set[str]:
    """All services that one needs, and those that these need."""
    found: set[str] = set()
    todo = [*config.service(service).after]
    while todo:
        name = todo.pop()
        if name not in found:
            found.add(name)
            todo += config.service(name).after
    return found
