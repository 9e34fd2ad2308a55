"""`hosts.toml` checked: everything that is wrong with it at once, each with its place and value.

Read by the annotations of `sections`: whatever stands there is what the file may say.
"""

from __future__ import annotations

from collections.abc import Mapping
from enum import Enum
from functools import cache
from types import NoneType, UnionType
from typing import Annotated, Any, Literal, Union, get_args, get_origin, get_type_hints

import msgspec

from knobledger.hosts.mistakes import nearest
from knobledger.hosts.sections import HEALTH_KINDS, HostsFile, Section

_NONE = object()
"""in the place of a value that is wrong"""
_WORDS = {str: "text", int: "a whole number", float: "a number", bool: "true or false"}


def check(data: Mapping[str, Any]) -> HostsFile | list[str]:
    """The file whose TOML this is, or what is wrong with it: `PLACE: REASON`, or `unknown key PLACE`."""
    check = _Check()
    file = check.section(HostsFile, "", data)
    return file if isinstance(file, HostsFile) and not check.problems else check.problems


class _Check:
    def __init__(self) -> None:
        self.problems: list[str] = []

    def _wrong(self, place: str, reason: object) -> object:
        self.problems.append(f"{place or 'the file'}: {reason}")
        return _NONE

    def section(self, model: type[Section], place: str, data: object) -> object:
        """The section that a table is."""
        if not isinstance(data, dict):
            return self._wrong(place, f"must be a table, not {data!r}")
        kinds = _kinds(model)
        for key in data:
            if key not in kinds:
                where = nearest(key, kinds) or ("" if place else _belongs(key))
                self.problems.append(f"unknown key {_under(place, key)!r}{where}")
        for key in _required(model):
            if key not in data:
                self._wrong(place, f"{key!r} is missing")
        found = {
            key: self._value(kind, _under(place, key), data[key])
            for key, kind in kinds.items()
            if key in data
        }
        if _NONE in found.values() or not found.keys() >= set(_required(model)):
            return _NONE
        try:
            return model(**found)
        except ValueError as error:
            return self._wrong(place, error)

    def _value(self, kind: Any, place: str, value: object) -> object:
        origin, parts = get_origin(kind), get_args(kind)
        if origin in (Union, UnionType):
            # TOML knows no null, so what is left of an optional value is its one kind; only health has several.
            arms = [part for part in parts if part is not NoneType]
            return self._value(arms[0], place, value) if len(arms) == 1 else self._health(place, value)
        if origin is Annotated and callable(parts[1]):
            try:
                return self._value(parts[0], place, parts[1](value))
            except ValueError as error:
                return self._wrong(place, error)
        if isinstance(kind, type) and issubclass(kind, Section):
            return self.section(kind, place, value)
        if origin is Mapping and isinstance(value, dict):
            found = {key: self._value(parts[1], _under(place, key), item) for key, item in value.items()}
            return _NONE if _NONE in found.values() else found
        if origin is tuple and isinstance(value, list):
            items = [self._value(parts[0], _under(place, n), item) for n, item in enumerate(value)]
            return _NONE if _NONE in items else tuple(items)
        try:
            return msgspec.convert(value, kind)
        except msgspec.ValidationError:
            return self._wrong(place, f"must be {_words(kind)}, not {value!r}")

    def _health(self, place: str, value: object) -> object:
        kinds = [kind for kind in HEALTH_KINDS if isinstance(value, dict) and kind in value]
        if len(kinds) != 1:
            return self._wrong(place, f"a health entry needs exactly one of {', '.join(HEALTH_KINDS)}")
        return self.section(HEALTH_KINDS[kinds[0]], place, value)


@cache
def _kinds(model: type[Section]) -> dict[str, Any]:
    return get_type_hints(model, include_extras=True)


def _belongs(key: str) -> str:
    """The table of its own in which a key would be known."""
    for table, kind in _kinds(HostsFile).items():
        if isinstance(kind, type) and issubclass(kind, Section) and key in _kinds(kind):
            return f"; it belongs under [{table}]"
    return ""


def _required(model: type[Section]) -> tuple[str, ...]:
    names = model.__struct_fields__
    return names[: len(names) - len(model.__struct_defaults__)]


def _under(place: str, key: object) -> str:
    return f"{place}.{key}" if place else str(key)


def _words(kind: Any) -> str:
    """What a value of this kind looks like."""
    origin, parts = get_origin(kind), get_args(kind)
    if origin is Annotated:
        return f"{_words(parts[0])}{_limits(parts[1])}"
    if origin is tuple:
        return "a list"
    if origin is Mapping:
        return "a table"
    if origin is Literal or issubclass(kind, Enum):
        *most, last = map(repr, parts or [str(item.value) for item in kind])
        return f"{', '.join(most)} or {last}" if most else last
    return _WORDS[kind]


def _limits(meta: msgspec.Meta) -> str:
    if meta.min_length:
        return " that is not empty"
    return f" from {meta.ge} to {meta.le}"
