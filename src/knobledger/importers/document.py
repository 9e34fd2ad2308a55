"""JSON as benchmark tools write it: one value, or several one after another; bare NaN and Infinity."""

from __future__ import annotations

import csv
import io
import json
from collections.abc import Iterator

from msgspec import Struct

from knobledger.errors import BadBenchmark
from knobledger.measured import Number, stored


def decoded(content: bytes, file: str) -> str:
    """The text of a file, without a byte order mark. Raises `BadBenchmark`."""
    try:
        return content.decode("utf-8-sig")
    except UnicodeDecodeError as error:
        line = content.count(b"\n", 0, error.start) + 1
        raise bad(file, line, f"not UTF-8 text (byte {content[error.start]:#04x})") from error


def documents(text: str, file: str) -> list[tuple[int, object]]:
    """Each JSON value with the line that it begins on. Raises `BadBenchmark` for anything that is no JSON."""
    decoder = json.JSONDecoder()
    found: list[tuple[int, object]] = []
    at = _blank(text, 0)
    while at < len(text):
        line = text.count("\n", 0, at) + 1
        try:
            value, at = decoder.raw_decode(text, at)
        except json.JSONDecodeError as error:
            begun = f", in the value that begins on line {line}" if error.lineno != line else ""
            raise bad(file, error.lineno, f"no JSON: {error.msg}{begun}") from error
        except (RecursionError, ValueError) as error:  # absurdly nested, or a number of thousands of digits
            raise bad(file, line, f"no JSON that can be read: {type(error).__name__}") from error
        found.append((line, value))
        at = _blank(text, at)
    return found


def rows(text: str, file: str) -> list[tuple[int, dict[str, object]]]:
    """The rows of a CSV file with a header, numbers read as numbers. Raises `BadBenchmark`."""
    reader = csv.DictReader(io.StringIO(text), restkey="", strict=True)
    found: list[tuple[int, dict[str, object]]] = []
    try:
        for row in reader:
            if "" in row or None in row.values():
                raise bad(file, reader.line_num, f"{len(reader.fieldnames or ())} columns expected")
            found.append((reader.line_num, {name: _plain(value) for name, value in row.items()}))
    except csv.Error as error:
        raise bad(file, reader.reader.line_num, f"no CSV: {error}") from error
    return found


def bad(file: str, line: int, what: str, hint: str = "") -> BadBenchmark:
    """The error that names file and line."""
    return BadBenchmark(f"{file}:{line}: {what}", hint=hint or _HINT, file=file, line=line)


_HINT = "nothing was imported; docs/bench.md lists the formats"


class Fields(Struct, frozen=True):
    """An object of a file, read key by key; every error names file, line and key."""

    file: str
    line: int
    values: dict[str, object]
    path: str = ""
    """the keys that lead here, each with a dot behind it"""

    def __contains__(self, key: str) -> bool:
        return self.values.get(key) is not None

    def number(self, key: str) -> Number:
        """A number; None where it is absent or null. Raises `BadBenchmark` for anything else."""
        value = self.values.get(key)
        if isinstance(value, str) and value.strip().lower() in ("inf", "infinity"):
            return "unbounded"
        if value is None:
            return None
        if isinstance(value, bool) or not isinstance(value, int | float):
            raise self.wrong(key, "a number")
        try:
            return stored(float(value))
        except OverflowError as error:
            raise self.wrong(key, "a number") from error

    def count(self, key: str) -> int | None:
        """A whole number of things; None where it is absent. Raises `BadBenchmark`."""
        value = self.number(key)
        if value is None:
            return None
        if not isinstance(value, float) or value < 0 or not value.is_integer():
            raise self.wrong(key, "a whole number")
        return int(value)

    def text(self, key: str) -> str:
        """A text; empty where it is absent. Raises `BadBenchmark` for anything but text."""
        value = self.values.get(key)
        if value is None:
            return ""
        if not isinstance(value, str):
            raise self.wrong(key, "a text")
        return value

    def inner(self, key: str) -> Fields:
        """The object under a key; an empty one where it is absent. Raises `BadBenchmark`."""
        value = self.values.get(key)
        if value is None:
            return Fields(self.file, self.line, {}, f"{self.path}{key}.")
        if not isinstance(value, dict):
            raise self.wrong(key, "an object")
        return Fields(self.file, self.line, value, f"{self.path}{key}.")

    def wrong(self, key: str, wanted: str) -> BadBenchmark:
        """The error for a value that is not what it must be."""
        value = self.values.get(key)
        shown = repr(value) if isinstance(value, str | int | float | bool) else f"a {type(value).__name__}"
        return bad(self.file, self.line, f"{self.path}{key} is {shown[:80]}, not {wanted}")

    def scalars(self, leave_out: frozenset[str]) -> Iterator[tuple[str, object]]:
        """What is neither measured nor a list: the settings."""
        for key, value in self.values.items():
            if key not in leave_out and isinstance(value, str | int | float | bool):
                yield key, value


def _blank(text: str, at: int) -> int:
    """The next place that is not white space (or the separator of RFC 7464)."""
    while at < len(text) and text[at] in " \t\r\n\x1e":
        at += 1
    return at


def _plain(value: str) -> object:
    if value == "":
        return None
    try:
        return float(value)
    except ValueError:
        return value
