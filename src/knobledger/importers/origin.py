"""What the caller knows of a benchmark file beside its bytes, and how a run is made of both."""

from __future__ import annotations

import json
from collections.abc import Callable, Mapping
from datetime import UTC, datetime, timedelta, tzinfo

from msgspec import Struct

from knobledger.importers.document import bad
from knobledger.measured import Arm, Measure, Number, Pairs, Run, TimeFrom, better, unit_of
from knobledger.names import digest_of


class Origin(Struct, frozen=True):
    """A file, and what the operator says about it."""

    name: str
    """as typed; stands in errors and in `Run.source`"""
    arm: Arm
    mask: Callable[[str, str | None], str | None]
    """`Masker.value`: (name, value) to what may be stored"""
    start: str = ""
    """the start of the server, by `--start`; empty: derived from the file"""
    label: str = ""
    """the operating point, by `--label`; empty: as the file says"""
    at: datetime | None = None
    """when it was measured, by `--at`; aware"""
    mtime: datetime | None = None
    """of the file; aware"""
    host: str = ""
    """where the server runs, as in hosts.toml"""
    zone: tzinfo = UTC
    """of times that a file states without an offset"""


class Found(Struct, frozen=True):
    """One run as an importer read it: names and values, not yet a `Run`."""

    format: str
    line: int
    measures: Mapping[str, Number]
    load: Number
    label: str
    """empty where the file does not say it"""
    conditions: Mapping[str, object]
    arguments: Mapping[str, object]
    faults: tuple[str, ...] = ()
    version: str = ""
    began: datetime | None = None
    """aware"""
    duration_s: Number = None
    start: str = ""
    """what tells the starts within one file apart"""
    place: str = ""
    """where the file itself is not one start: the folder of a sweep's runs"""


def run_of(found: Found, origin: Origin) -> Run:
    """The value that is stored. Raises `BadBenchmark` if neither the file nor the caller says the label."""
    label = origin.label or found.label
    if not label:
        raise bad(
            origin.name,
            found.line,
            "the file does not say at which concurrency it was measured",
            "say it: `--label C64`",
        )
    if isinstance(found.duration_s, float) and not 0 <= found.duration_s <= _LONGEST_S:
        raise bad(origin.name, found.line, f"a run of {found.duration_s:g} seconds")
    if not any(better(name) for name in found.measures):
        raise bad(origin.name, found.line, "no metric that is known")
    at, at_from = _time(found, origin)
    conditions = {**found.conditions, **({"host": origin.host} if origin.host else {})}
    measures = tuple(
        Measure(name=name, unit=unit_of(name) or "", value=value)
        for name, value in sorted(found.measures.items())
    )
    derived = (found.place or origin.name) + (f"#{found.start}" if found.start else "")
    return Run(
        arm=origin.arm,
        format=found.format,
        version=found.version,
        source=origin.name,
        line=found.line,
        digest=digest_of(_measured(found, label, origin.start)),
        start=origin.start or derived,
        start_from="given" if origin.start else "file",
        at=None if at is None else utc_text(at),
        at_from=at_from,
        duration_s=found.duration_s,
        label=label,
        load=found.load if not origin.label else load_of(origin.label),
        measures=measures,
        conditions=_pairs(conditions, origin),
        arguments=_pairs(found.arguments, origin),
        faults=found.faults,
    )


def load_of(label: str) -> Number:
    """The number in a label such as `C64`; "unbounded" where it is called so, None where there is none."""
    digits = label.lstrip("CBR ")
    try:
        return float(digits) if digits.replace(".", "", 1).isdecimal() else None
    except ValueError:
        return None


def utc_text(instant: datetime) -> str:
    """An instant as a run stores it; microseconds only where there are some."""
    return instant.astimezone(UTC).isoformat().replace("+00:00", "Z")


def local_instant(text: str, form: str, origin: Origin) -> datetime:
    """A time from a file: its own offset where it has one, else the caller's zone. Raises `ValueError`."""
    instant = datetime.fromisoformat(text) if form == "iso" else datetime.strptime(text, form)
    return instant if instant.tzinfo else instant.replace(tzinfo=origin.zone)


def began(ended: datetime, duration_s: Number) -> datetime:
    """When a run began whose file says when it ended."""
    return ended - timedelta(seconds=duration_s) if isinstance(duration_s, float) else ended


def _time(found: Found, origin: Origin) -> tuple[datetime | None, TimeFrom]:
    if found.began is not None:
        return found.began, "file"
    if origin.at is not None:
        return origin.at, "given"
    return (origin.mtime, "mtime") if origin.mtime is not None else (None, "none")


def _measured(found: Found, label: str, start: str) -> bytes:
    """The bytes that identify a run: what was measured, not where it was found.

    A cell of a table is one rounded number, and equal ones are no surprise: column and named start tell them apart.
    """
    own = [found.start, start] if found.format == "table" else []
    return json.dumps([found.label or label, own, sorted(found.measures.items())]).encode()


def _pairs(values: Mapping[str, object], origin: Origin) -> Pairs:
    shown = ((name, text_of(value)) for name, value in sorted(values.items()))
    masked = ((name, origin.mask(name.rpartition(".")[2], text)) for name, text in shown if text is not None)
    return tuple((name, text) for name, text in masked if text is not None)


def text_of(value: object) -> str | None:
    """A setting as text, equal for equal settings (`64`, `64.0`); None for what is no plain value or too long."""
    match value:
        case None:
            return None
        case bool():
            return "true" if value else "false"
        case int() | float():
            if value in (float("inf"), float("-inf")):
                return "unbounded"
            return str(int(value)) if value == value and float(value).is_integer() else str(value)
        case str():
            if value.lower() in ("inf", "infinity"):
                return "unbounded"
            return value if len(value) <= _LONG else None
        case _:
            return None


_LONG = 300
"""Text longer than this is no setting (a prompt, a list of lengths); characters."""

_LONGEST_S = 1e8
"""no benchmark ran for three years"""
