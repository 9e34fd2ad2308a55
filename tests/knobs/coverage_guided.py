"""Coverage-guided bytes for the readers and the edit: `make fuzz-coverage FUZZ_ARGS=-max_total_time=600`.

The first byte picks the dialect, the second what is asked, the rest is the file. An exception other than a refusal, a
byte changed outside an edit's span, and an input that takes longer than `-timeout` end the run; libFuzzer then writes
the input to a file `crash-...` or `timeout-...`, which is given as an argument to run it again.
"""

from __future__ import annotations

import sys
from contextlib import suppress
from pathlib import Path

import atheris

with atheris.instrument_imports(include=["knobledger.knobs"]):
    from knobledger.errors import KnobRefused
    from knobledger.knobs import Dialect, Reading, Request, edit, envfile, unit  # noqa: F401
    from knobledger.knobs.shell import read  # noqa: F401

DIALECTS = list(Dialect)
VALUES = ["7", "a b", "", 'it\'s $(x) `y` "z"\\', "é\n", None]
SHAPES = Path(__file__).parent.parent / "shapes"


def one(data: bytes) -> None:
    """Read the bytes, and edit the first knobs that they decide."""
    if len(data) < 2:
        return
    dialect, content = DIALECTS[data[0] % len(DIALECTS)], data[2:]
    told = Reading.of(content, dialect)
    for found in told.occurrences:
        start, end = found.span
        assert 0 <= start <= end <= len(content)
    wanted = VALUES[data[1] % len(VALUES)]
    for found in list(told.decided().values())[:2]:
        with suppress(KnobRefused):
            edited = edit(told, [Request(found.name, wanted)])
            if wanted is not None:
                start, end = found.span
                tail = content[end:]
                assert edited.content.startswith(content[:start])
                assert edited.content.endswith(tail)
    if told.occurrences or not content:
        with suppress(KnobRefused):
            added = edit(told, [Request("KNEW" if data[1] % 2 else "--k-new", "7")], add=True)
            assert len(added.content) > len(content)


def corpus(folder: Path) -> None:
    """The shapes as a beginning, each in its dialect."""
    folder.mkdir(parents=True, exist_ok=True)
    numbers = {".sh": Dialect.BASH, ".env": Dialect.ENV, ".service": Dialect.UNIT}
    for path in SHAPES.rglob("*"):
        if dialect := numbers.get(path.suffix):
            head = bytes([DIALECTS.index(dialect), len(path.name)])
            (folder / path.name).write_bytes(head + path.read_bytes())


if __name__ == "__main__":
    if len(sys.argv) > 1 and not sys.argv[1].startswith("-"):
        corpus(Path(sys.argv[1]))
    atheris.Setup(sys.argv, one)
    atheris.Fuzz()
