"""Benchmark files to runs: one module per format, detected by content. Pure; docs/bench.md lists the formats.

Everything in a file is read, or nothing is imported: any error names the file and the line.
"""

from __future__ import annotations

import re
from types import ModuleType

from knobledger.importers import aiperf, guidellm, sglang_one_batch, sglang_serving, vllm_serve
from knobledger.importers.document import Fields, bad, decoded, documents, rows
from knobledger.importers.origin import Origin, run_of
from knobledger.measured import Run

FORMATS: tuple[ModuleType, ...] = (guidellm, aiperf, vllm_serve, sglang_one_batch, sglang_serving)
"""Each has `fits(object)` and `read(objects, origin)`; no two fit the same object."""


def read(content: bytes, origin: Origin) -> tuple[Run, ...]:
    """The runs of a benchmark file, in its order. Raises `BadBenchmark`; a table is read by `table.read`."""
    text = decoded(content, origin.name)
    if re.search(r"^[ \t>]*\|?[ \t]*:?-{2,}:?[ \t]*\|", text, re.MULTILINE) and text.lstrip()[:1] not in "{[":
        raise bad(
            origin.name, 1, "a Markdown table", "import it with `knob bench table FILE.md --change CHANGE`"
        )
    found = _objects(text, origin.name)
    if not found:
        raise bad(origin.name, 1, "the file is empty")
    objects = [_object(value, line, origin.name) for line, value in found]
    formats = [_format(one) for one in objects]
    for one, format_ in zip(objects, formats, strict=True):
        if format_ is not formats[0]:
            names = [module.__name__.rpartition(".")[2] for module in (formats[0], format_)]
            raise bad(origin.name, one.line, f"{names[1]} after {names[0]}: a file holds one format")
    return tuple(run_of(run, origin) for run in formats[0].read(objects, origin))


def _objects(text: str, name: str) -> list[tuple[int, object]]:
    head = text.lstrip()
    if (
        head
        and head[0] not in "{["
        and "," in head.partition("\n")[0]
        and "model_id" in head.partition("\n")[0]
    ):
        return list(rows(text, name))
    found = documents(text, name)
    return [
        (line, entry)
        for line, value in found
        for entry in (value if isinstance(value, list) else [value])  # a sweep's summary is a list
    ]


def _object(value: object, line: int, name: str) -> Fields:
    if not isinstance(value, dict):
        raise bad(name, line, f"an object is expected, not {str(value)[:40]!r}")
    return Fields(name, line, value)


def _format(one: Fields) -> ModuleType:
    for module in FORMATS:
        if module.fits(one.values):
            return module
    keys = ", ".join(sorted(one.values)[:6]) or "none"
    raise bad(one.file, one.line, f"no benchmark format that is known; its keys begin with: {keys}")
