"""Reading and editing in process, and `knob scan` of many files, beside tree-sitter's own parse of the same text.

usage: python bench/reading.py [--runs N] [--write]
"""

from __future__ import annotations

import argparse
import statistics
import subprocess
import sys
import tempfile
import time
from collections.abc import Callable
from pathlib import Path

import tree_sitter
import tree_sitter_bash
from run import KNOB, PAGE, environment, machine

from knobledger.knobs import Dialect, Reading, Request, edit

BEGIN, END = "<!-- reading: begin -->", "<!-- reading: end -->"
BLOCKS = [
    ["export SGLANG_KNOB_{i}={i}"],
    ["# export NCCL_OLD_{i}=1", "export NCCL_IB_{i}=mlx5_0,mlx5_1  # both rails"],
    ['export CUDA_VISIBLE_{i}="0,1,2,3"'],
    ["MODEL_{i}=/models/dsv4-{i}", ""],
    ["PORT_{i}=${{PORT_{i}:-3000}}"],
    ['if [ -n "${{DEBUG_{i}:-}}" ]; then', "  export SGLANG_LOG_{i}=debug", "fi"],
    ["ARGS_{i}=(", "  --k-{i} {i}", '  --model "$MODEL_{j}"', ")"],
    ['echo "step {i}: starting with $PORT_{j}"'],
    ["export PATH_{i}=/opt/{i}:$PATH", "# a plain remark on what comes next"],
    ["[[ -d /data/{i} ]] && export DATA_{i}=/data/{i}", "export TAG_{i}='run {i}'", ""],
]
KNOB_NAME = "SGLANG_KNOB_0"
FILES = 2000


def script(lines: int) -> str:
    """A serve script of so many lines, of the shapes that docs/shapes.md calls frequent."""
    out = ["#!/usr/bin/env bash", "set -euo pipefail", 'cd "$(dirname "$0")"']
    number = 0
    while len(out) < lines - 22:
        block = BLOCKS[number % len(BLOCKS)]
        out += [text.format(i=number, j=number - 3) for text in block]
        number += 1
    out += ["exec python3 -m sglang.launch_server \\", '  --model-path "$MODEL_3" \\']
    out += [f"  --flag-{index} {index} \\" for index in range(lines - len(out) - 1)]
    return "\n".join([*out, "  --port 30001"]) + "\n"


def measured(work: dict[str, Callable[[], object]], runs: int) -> dict[str, list[float]]:
    """Milliseconds of each, ascending; they take turns, so that all meet the same machine."""
    taken: dict[str, list[float]] = {name: [] for name in work}
    for _ in range(runs + 1):
        for name, call in work.items():
            begin = time.perf_counter()
            call()
            taken[name].append((time.perf_counter() - begin) * 1000)
    return {name: sorted(times[1:]) for name, times in taken.items()}


def rows(lines: int, runs: int) -> list[str]:
    content = script(lines).encode()
    # A script of its own for each edit: the second reader keeps the tree of the last one.
    contents = [content + b"# run %d\n" % number for number in range(runs + 1)]
    readings = iter([Reading.of(item, Dialect.BASH) for item in contents])
    parser = tree_sitter.Parser(tree_sitter.Language(tree_sitter_bash.language()))
    taken = measured(
        {
            "tree-sitter's parse": lambda: parser.parse(content),
            "read": lambda: Reading.of(content, Dialect.BASH),
            "edit, the result read again": lambda: edit(next(readings), [Request(KNOB_NAME, "77")]),
        },
        runs,
    )
    base = statistics.median(taken["tree-sitter's parse"])
    return [
        f"| {lines:,} lines, {len(content):,} bytes: {name} | {statistics.median(times):.2f} ms | {times[0]:.2f} ms"
        f" | {statistics.median(times) / base:.1f} |"
        for name, times in taken.items()
    ]


def scan_row(files: int) -> list[str]:
    with tempfile.TemporaryDirectory(prefix="bench") as folder:
        size = 0
        for number in range(files):
            content = script(60 + number % 240).encode()
            size += len(content)
            (Path(folder) / f"serve-{number:04}.sh").write_bytes(content)
        paths = sorted(str(path) for path in Path(folder).iterdir())
        parser = tree_sitter.Parser(tree_sitter.Language(tree_sitter_bash.language()))
        begin = time.perf_counter()
        for path in paths:
            parser.parse(Path(path).read_bytes())
        base = time.perf_counter() - begin
        begin = time.perf_counter()
        subprocess.run([str(KNOB), "scan", *paths], env=environment(), stdout=subprocess.DEVNULL, check=True)
        taken = time.perf_counter() - begin
    return [
        f"| `knob scan` of {files:,} scripts, {size / 1e6:.1f} MB | {taken:.1f} s | {size / 1e6 / taken:.2f} MB/s"
        f" | {taken / base:.1f} |"
    ]


def main() -> None:
    parser = argparse.ArgumentParser(prog="bench/reading.py", description=(__doc__ or "").split("\n")[0])
    parser.add_argument("--runs", type=int, default=40, help="runs that count (default 40)")
    parser.add_argument("--write", action="store_true", help="put the result into docs/performance.md")
    options = parser.parse_args()
    lines = [
        *machine(""),
        "",
        "| in process, no network, no `bash -n` | median | fastest | times tree-sitter's parse |",
        "|---|---|---|---|",
        *rows(200, options.runs),
        *rows(10_000, max(3, options.runs // 10)),
        *scan_row(FILES),
    ]
    print("\n".join(lines))
    if options.write:
        head, rest = PAGE.read_text().split(BEGIN)
        command = f"`python bench/reading.py {' '.join(sys.argv[1:])}`"
        PAGE.write_text("\n".join([f"{head}{BEGIN}", command, "", *lines, f"{END}{rest.split(END)[1]}"]))


if __name__ == "__main__":
    main()
