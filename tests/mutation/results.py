"""What became of each mutant, kept where mutmut keeps it, and told as the tables of docs/reliability.md."""

from __future__ import annotations

import ast
import hashlib
import json
import re
import subprocess
import sys
import tomllib
from collections import Counter, defaultdict
from collections.abc import Collection
from dataclasses import dataclass
from difflib import SequenceMatcher, unified_diff
from functools import cache
from pathlib import Path
from typing import Any

ROOT = Path(__file__).parents[2]
MADE = ROOT / "mutants"
"""mutmut's folder: the changed code, and beside each module what became of its mutants, so that a run can go on"""
KILLED, SURVIVED, UNREACHED = 1, 0, 33
"""as mutmut's exit codes"""
_KEPT = Path(__file__).with_name("kept.toml")
_WORDING = "only the words of a message differ"
_LETTERS = "the same: SQL makes no difference between small and capital letters there"
_BY_RULE = (_WORDING, _LETTERS)
"""reasons that are seen by the change itself; all others stand in `kept.toml`"""
_SQL = re.compile(r"\b(SELECT|FROM|WHERE|JOIN|INSERT|DELETE|PRAGMA|LIMIT|AND|OR|ON|IN|NULL)\b")
_QUOTED = re.compile(r'("[^"]*")')
_SQL_DATA = re.compile(r"('[^']*'|:\w+)")
"""texts, and the names of parameters"""


@dataclass(frozen=True, slots=True)
class Survivor:
    """A change that no test noticed: the lines taken out and those put in, without indentation."""

    name: str
    was: str
    now: str

    @property
    def place(self) -> str:
        """The function, such as `ledger.store.Ledger.append`."""
        module, _, mangled = self.name.rpartition("__mutmut_")[0].rpartition(".")
        function = mangled.removeprefix("x_").removeprefix("xǁ").replace("ǁ", ".")
        return f"{module.removeprefix('knobledger.')}.{function}"

    @property
    def only_words(self) -> bool:
        """Several words between quotes were put into other letters; what is in braces is code, what is yielded is data."""
        if self.was.startswith(("case ", "yield ")) or _SQL.search(self.was) or not self._same_code:
            return False
        was, now = (
            re.sub(r'"[^"]* [^"]*"', lambda text: text[0].replace("XX", "").casefold(), line)
            for line in (self.was, self.now)
        )
        return was == now

    @property
    def only_letters_of_sql(self) -> bool:
        """Keywords and names of a text in SQL were put into other letters; the data in it is the same."""
        old, new = _QUOTED.split(self.was), _QUOTED.split(self.now)
        return (
            self._same_code
            and len(old) == len(new)
            and all(
                was == now or (_SQL.search(was) and _without_letters(was) == _without_letters(now))
                for was, now in zip(old, new, strict=True)
            )
        )

    @property
    def _same_code(self) -> bool:
        """The code in f-strings."""
        return re.findall("{.*?}", self.was) == re.findall("{.*?}", self.now)


@dataclass(slots=True)
class Results:
    """Mutants by name with their exit codes; None: not run."""

    codes: dict[str, int | None]

    @classmethod
    def load(cls) -> Results:
        codes: dict[str, int | None] = {}
        for path in _metas():
            codes.update(json.loads(path.read_bytes())["exit_code_by_key"])
        return cls(codes)

    @staticmethod
    def module(name: str) -> str:
        return name.rpartition(".")[0].removeprefix("knobledger.")

    def note(self, name: str, code: int) -> None:
        self.codes[name] = code
        path = MADE / f"{file_of(name)}.meta"
        told = json.loads(path.read_bytes())
        told["exit_code_by_key"][name] = code
        path.write_text(json.dumps(told), encoding="utf-8")

    def open(self, refused: set[str], *, again: bool) -> list[str]:
        """Those that no test met; with `again` also those that survived without a reason."""
        known = _reasons()
        return [
            name
            for name, code in self.codes.items()
            if name not in refused
            and (
                code is None or (again and code in (SURVIVED, UNREACHED) and not _why(known, survivor(name)))
            )
        ]

    def report(self, refused: set[str], modules: Collection[str] = ()) -> int:
        """Prints both tables, of these modules or of all; how many survived without a reason."""
        known, counts = _reasons(), defaultdict[str, Counter[str]](Counter)
        told = {
            name: code for name, code in self.codes.items() if not modules or self.module(name) in modules
        }
        for name, code in told.items():
            counts[self.module(name)][_word(name, code, refused)] += 1
        columns = ("types", "killed", "survived", "not run")
        print(
            "\n| module | mutants | refused by mypy | killed | survived | not run |\n|---|---|---|---|---|---|"
        )
        for module, count in counts.items():
            print(
                f"| {module} | {count.total()} | " + " | ".join(str(count[word]) for word in columns) + " |"
            )
        unknown, rows = 0, Counter[tuple[str, str, str, str]]()
        for one in (survivor(n) for n, code in told.items() if _word(n, code, refused) == "survived"):
            why = _why(known, one)
            if not why:
                unknown += 1
                print(
                    f"\n[[kept]]  # {one.name}\nwhere = {json.dumps(one.place)}\nwas = {json.dumps(one.was)}"
                )
                print(f'now = {json.dumps(one.now)}\nwhy = ""')
            row = (one.place, one.was, one.now) if why not in _BY_RULE else (self.module(one.name), "", "")
            rows[(*row, why)] += 1
        print("\n| where | was | became | why it stays |\n|---|---|---|---|")
        for (place, was, now, why), count in sorted(rows.items()):
            cells = (_cell(text) if why not in _BY_RULE else f"{count} strings" for text in (was, now))
            print(f"| {place} | {' | '.join(cells)} | {why} |")
        return unknown


def _without_letters(sql: str) -> list[str]:
    return [part if _SQL_DATA.fullmatch(part) else part.casefold() for part in _SQL_DATA.split(sql)]


def _word(name: str, code: int | None, refused: set[str]) -> str:
    if name in refused:
        return "types"
    return {None: "not run", SURVIVED: "survived", UNREACHED: "survived"}.get(code, "killed")


def _cell(text: str) -> str:
    return "`" + text.replace("|", "\\|") + "`" if text else "nothing"


def _metas() -> list[Path]:
    return sorted((MADE / "src").rglob("*.py.meta"))


def _reasons() -> dict[tuple[str, str, str], str]:
    kept = tomllib.loads(_KEPT.read_text(encoding="utf-8")).get("kept", [])
    return {(one["where"], one["was"], one["now"]): one["why"] for one in kept}


def _why(known: dict[tuple[str, str, str], str], one: Survivor) -> str:
    """The reason why a survivor is right; empty: there is none."""
    if one.only_words:
        return _WORDING
    return _LETTERS if one.only_letters_of_sql else known.get((one.place, one.was, one.now), "")


@cache
def functions(file: str) -> dict[str, tuple[int, list[str]]]:
    """The functions in a changed file: their first line and their text; the original is `..._orig`."""
    text = (MADE / file).read_text(encoding="utf-8")
    lines = text.splitlines()
    return {
        node.name: (
            node.lineno,
            [line.strip().replace(node.name, "") for line in lines[node.lineno - 1 : node.end_lineno]],
        )
        for node in ast.walk(ast.parse(text))
        if isinstance(node, ast.FunctionDef) and "__mutmut_" in node.name
    }


def refused_by_types(modules: Collection[str] = ()) -> set[str]:
    """The mutants that mypy finds errors in; kept for each changed file while it is the same.

    `modules`: of these only; none: of all.
    """
    kept = MADE / "refused.json"
    known: dict[str, dict[str, Any]] = json.loads(kept.read_bytes()) if kept.exists() else {}
    digests = {
        str(path.relative_to(MADE).with_suffix("")): hashlib.sha256(
            path.with_suffix("").read_bytes()
        ).hexdigest()
        for path in _metas()
        if not modules or Results.module(f"{_dotted(path)}.") in modules
    }
    fresh = [file for file, digest in digests.items() if known.get(file, {}).get("of") != digest]
    if fresh:
        found = _asked_of_mypy(fresh)
        known |= {
            file: {"of": digests[file], "names": sorted(name for name in found if file_of(name) == file)}
            for file in fresh
        }
        kept.write_text(json.dumps(known), encoding="utf-8")
    return {name for file in digests for name in known[file]["names"]}


def _asked_of_mypy(files: list[str]) -> set[str]:
    """mutmut's own filter takes ten times as long."""
    told = subprocess.run(
        (
            *(sys.executable, "-m", "mypy", "--output", "json", "--disable-error-code", "unused-ignore"),
            *files,
        ),
        cwd=MADE,
        check=False,
        stdout=subprocess.PIPE,
        text=True,
    ).stdout
    wrong: dict[str, set[int]] = defaultdict(set)
    for error in map(json.loads, told.splitlines()):
        if error["severity"] == "error":
            wrong[error["file"]].add(error["line"])
    return {
        f"{file.removeprefix('src/').removesuffix('.py').replace('/', '.')}.{name}"
        for file, lines in wrong.items()
        for name, (first, text) in functions(file).items()
        if not lines.isdisjoint(range(first, first + len(text)))
    }


def _dotted(meta: Path) -> str:
    return ".".join(meta.relative_to(MADE / "src").parts).removesuffix(".py.meta")


def file_of(name: str) -> str:
    """The changed file with that mutant, below mutmut's folder."""
    return f"src/{name.rpartition('.')[0].replace('.', '/')}.py"


def _both(name: str) -> tuple[int, list[str], list[str]]:
    """The first line of the function in the changed file, its text, and its text in that mutant."""
    made, mangled = functions(file_of(name)), name.rpartition(".")[2]
    first, text = made[f"{mangled.rpartition('__mutmut_')[0]}__mutmut_orig"]
    return first, text, made[mangled][1]


def changed_lines(name: str) -> set[int]:
    """The lines of the unchanged function, in the changed file, of which each test comes by one that can tell the mutant.

    The lines that changed, with the rest of their statement, or up to its block: Python does not come by each line of it.
    """
    first, old, new = _both(name)
    lines = {
        first + min(line, len(old) - 1)  # what was added at the end comes by where the last line does
        for tag, start, end, _, _ in SequenceMatcher(None, old, new, autojunk=False).get_opcodes()
        if tag != "equal"
        for line in range(start, max(end, start + 1))
    }
    inner = _statements(file_of(name))
    function = range(first, first + len(old))
    around = [min((one for one in inner if line in one[0]), key=lambda one: len(one[0])) for line in lines]
    return lines.union(*(function if whole == function else head for whole, head in around))


@cache
def _statements(file: str) -> list[tuple[range, range]]:
    """The lines of each statement of a changed file, and those of them before its block."""
    found = []
    for node in ast.walk(ast.parse((MADE / file).read_text(encoding="utf-8"))):
        if isinstance(node, ast.stmt):
            whole = range(node.lineno, (node.end_lineno or node.lineno) + 1)
            block = getattr(node, "body", None) or [case.body[0] for case in getattr(node, "cases", ())]
            found.append((whole, range(node.lineno, block[0].lineno) if block else whole))
    return found


def survivor(name: str) -> Survivor:
    """What was changed, from the changed file: `mutmut show` would take a second for each."""
    _, old, new = _both(name)
    changes = [
        line for line in unified_diff(old, new, n=0, lineterm="") if not line.startswith(("---", "+++", "@@"))
    ]
    was, now = (" ".join(line[1:] for line in changes if line.startswith(sign)) for sign in "-+")
    return Survivor(name, was, now)
