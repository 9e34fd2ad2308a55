"""A Markdown table of both arms: a column of operating points and two columns of numbers, as people write them.

`| concurrency | 256 (baseline) | 512 (variant) | change |`; a column of percentages is only compared with
what the numbers say.
"""

from __future__ import annotations

import re
from collections.abc import Sequence

from msgspec import Struct
from msgspec.structs import replace

from knobledger.importers.document import bad, decoded
from knobledger.importers.origin import Found, Origin, load_of, run_of
from knobledger.measured import Arm, Run, unit_of

_RULE = re.compile(r":?-{2,}:?")
_LABEL = re.compile(
    r"(?:(?:c|conc|concurrency|streams|batch|b|bs|r|rate)\s*[=: ]?\s*)?(\d+(?:\.\d+)?)", re.IGNORECASE
)
_NUMBER = re.compile(r"([-+−]?(?:\d{1,3}(?:,\d{3})+|\d+)(?:\.\d+)?)\s*([^\d\s.,][^\d]*)?")
_EMPTY = {"", "-", "–", "—", "n/a", "na", "?", "..."}
_NAMED: dict[Arm, re.Pattern[str]] = {
    "baseline": re.compile(r"\b(?:baseline|before|control|old|without|off)\b", re.IGNORECASE),
    "variant": re.compile(r"\b(?:variant|after|treatment|new|candidate|with|on)\b", re.IGNORECASE),
}
_UNITS = {"tokens/s": "tok/s", "token/s": "tok/s", "toks/s": "tok/s", "tps": "tok/s", "requests/s": "req/s"}
_SLACK = 0.06
"""how far a printed percentage of one decimal may be from the computed one; percentage points"""


class Table(Struct, frozen=True):
    """What a table holds."""

    metric: str
    headings: tuple[str, str]
    """of the baseline's and of the variant's column"""
    runs: tuple[Run, ...]
    """row by row, the baseline's first"""
    remarks: tuple[str, ...] = ()
    """what a reader should know: columns taken by their order, empty cells, wrong percentages"""


class _Lines(Struct, frozen=True):
    heading: tuple[str, ...]
    rows: tuple[tuple[int, tuple[str, ...]], ...]
    line: int


def read(
    content: bytes, origin: Origin, *, metric: str = "output_throughput", line: int | None = None
) -> Table:
    """The one table of a document that has a column of labels and two of numbers.

    `line` points into the table that is meant, where several fit. Each column is one start of the server
    (`origin.start` with the arm behind it, where it is given).
    `origin.arm` is not used. Raises `BadBenchmark` for no table, several, or a number that can't be read.
    """
    text = decoded(content, origin.name)
    fitting = [one for one in _tables(text) if len(_numeric(one)) >= 2 and _labelled(one)]
    if line is not None:
        fitting = [one for one in fitting if one.line <= line <= one.rows[-1][0]]
    if not fitting:
        raise bad(
            origin.name,
            line or 1,
            "no table with a column of labels (C48, 64, conc=64) and two columns of numbers",
        )
    if len(fitting) > 1:
        lines = ", ".join(str(one.line) for one in fitting)
        raise bad(
            origin.name, fitting[1].line, f"several tables fit, on lines {lines}", "say which: `--line N`"
        )
    return _read(fitting[0], origin, metric)


def _read(table: _Lines, origin: Origin, metric: str) -> Table:
    wanted = unit_of(metric)
    if wanted is None:
        raise bad(origin.name, table.line, f"{metric!r} is no metric", "one is `output_throughput`")
    columns, remarks = _arms(table, origin)
    runs: list[Run] = []
    for number, cells in table.rows:
        label, both = _label(cells[0], origin, number), []
        for arm, column in columns.items():
            value = _value(cells[column], wanted, metric, origin, number)
            if value is None:
                remarks.append(f"line {number}: {label} has no {arm}")
                continue
            both.append(value)
            found = Found(
                format="table",
                line=number,
                measures={metric: value},
                load=load_of(label),
                label=label,
                conditions={},
                arguments={},
                start=f"column {column + 1}",
            )
            start = f"{origin.start} {arm}" if origin.start else ""
            runs.append(run_of(found, replace(origin, arm=arm, label="", start=start)))
        remarks.extend(_percentage(cells, both, label, number))
    headings = (table.heading[columns["baseline"]], table.heading[columns["variant"]])
    return Table(metric, headings, tuple(runs), tuple(remarks))


def _arms(table: _Lines, origin: Origin) -> tuple[dict[Arm, int], list[str]]:
    """The column of each arm: as the headings name them, else the first two with numbers."""
    numeric = _numeric(table)
    named = {
        arm: [column for column in numeric if pattern.search(table.heading[column])]
        for arm, pattern in _NAMED.items()
    }
    if all(len(columns) == 1 for columns in named.values()) and named["baseline"] != named["variant"]:
        return {arm: columns[0] for arm, columns in named.items()}, []
    if len(numeric) != 2:
        heads = ", ".join(repr(table.heading[column]) for column in numeric)
        raise bad(
            origin.name,
            table.line,
            f"{len(numeric)} columns hold numbers: {heads}",
            "name one heading `baseline` and one `variant`",
        )
    first, second = numeric
    remark = (
        f"taken by order: {table.heading[first]!r} is the baseline, {table.heading[second]!r} the variant"
    )
    return {"baseline": first, "variant": second}, [remark]


def _tables(text: str) -> list[_Lines]:
    """Every table outside of code fences, in block quotes and lists too."""
    found: list[_Lines] = []
    lines = text.splitlines()
    fence = ""
    for index, raw in enumerate(lines):
        opened = re.match(r"[\s>]*(```+|~~~+)", raw)
        if opened:
            fence = "" if fence and opened[1].startswith(fence) else fence or opened[1]
        cells = _cells(raw)
        if fence or index == 0 or not cells or not all(_RULE.fullmatch(cell) for cell in cells):
            continue
        heading = _cells(lines[index - 1])
        rows = []
        for number in range(index + 1, len(lines)):
            row = _cells(lines[number])
            if not row:
                break
            rows.append((number + 1, (*row, *[""] * (len(heading) - len(row)))))
        if rows and len(heading) == len(cells) and len(heading) >= 2:
            found.append(_Lines(tuple(heading), tuple(rows), index))
    return found


def _cells(raw: str) -> list[str]:
    """The cells of a row, without their markup; none for a line that is no row."""
    line = raw.strip().lstrip("> ").strip()
    if "|" not in line:
        return []
    line = line.removeprefix("|")
    line = line[:-1] if line.endswith("|") and not line.endswith("\\|") else line
    return [re.sub(r"[*_`]", "", cell).replace("\\|", "|").strip() for cell in re.split(r"(?<!\\)\|", line)]


def _numeric(table: _Lines) -> list[int]:
    """The columns behind the first that hold numbers and no percentages: at least one cell reads as one."""
    columns = []
    for column in range(1, len(table.heading)):
        filled = [row[column] for _, row in table.rows if row[column].lower() not in _EMPTY]
        if any(_NUMBER.match(cell) for cell in filled) and not any(cell.endswith("%") for cell in filled):
            columns.append(column)
    return columns


def _labelled(table: _Lines) -> bool:
    return any(_LABEL.fullmatch(row[0]) for _, row in table.rows)


def _label(cell: str, origin: Origin, line: int) -> str:
    found = _LABEL.fullmatch(cell)
    if found is None:
        raise bad(origin.name, line, f"{cell!r} is no operating point", "write C48, 48 or conc=48")
    letter = {"b": "B", "r": "R"}.get(cell[:1].lower(), "C")
    return f"{letter}{float(found[1]):g}"


def _value(cell: str, wanted: str, metric: str, origin: Origin, line: int) -> float | None:
    if cell.lower() in _EMPTY:
        return None
    found = _NUMBER.fullmatch(cell)
    if found is None:
        raise bad(
            origin.name, line, f"{cell!r} is no number", "write 1024.5 or 1,024.5, with or without its unit"
        )
    unit = (found[2] or "").strip()
    if unit and _UNITS.get(unit.lower(), unit.lower()) != wanted:
        raise bad(
            origin.name,
            line,
            f"{cell!r} is not in {wanted}, the unit of {metric}",
            "name it: `--metric NAME`",
        )
    return float(found[1].replace(",", "").replace("−", "-"))


def _percentage(cells: Sequence[str], both: Sequence[float], label: str, line: int) -> list[str]:
    """What to say where a printed percentage is not what the two numbers give."""
    if len(both) != 2 or both[0] == 0:
        return []
    change = (both[1] / both[0] - 1) * 100
    for cell in cells[1:]:
        found = re.fullmatch(r"([-+−]?)\s*(\d+(?:\.\d+)?)\s*%", cell)
        if found:
            printed = float(found[2]) * (-1 if found[1] in ("-", "−") else 1)
            places = len(found[2].partition(".")[2])
            if abs(printed - change) > max(_SLACK, 0.6 * 10**-places):
                return [f"line {line}: the table says {cell} at {label}, its numbers give {change:+.1f} %"]
    return []
