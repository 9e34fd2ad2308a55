"""A long run of generated edits: `make fuzz FUZZ_ARGS="--seed 1 --count 100000"`.

Each edit must leave every byte outside its span, be read back as the value that was asked for with all other
occurrences as before, and, set back, give the old bytes (where docs/shapes.md says so). Every `--oracle`th edit is run,
before and after, and the launches must have seen what the readings say. Ends with 1 if anything was wrong.
"""

from __future__ import annotations

import argparse
import multiprocessing
import os
import sys
import time
from collections import Counter
from collections.abc import Iterator
from random import Random

from agreement import Trial, back_differs, edit_disagrees, edit_strays, reading_disagrees, trials
from launches import run
from serve_scripts import Builder

from knobledger.knobs import Dialect, Reading

EDITS = 8
"""How many edits are tried on one script."""
BACK = 10
"""One of so many edits is set back."""
CHUNK = 200
"""How many scripts one task makes."""


def task(seed: int, first: int, oracle: int) -> tuple[Counter[str], list[str]]:
    """The counts, and what was wrong, of the scripts `first` to `first + CHUNK`; each is a function of its number."""
    counts: Counter[str] = Counter()
    wrong: list[str] = []
    sample: list[Trial] = []
    for number in range(first, first + CHUNK):
        random = Random(f"{seed} {number}")
        posix = number % 5 == 0
        content = Builder(random, posix=posix).script()
        if number % 7 == 0:
            content = content.replace(b"\n", b"\r\n") if b"<<" not in content else content
        reading = Reading.of(content, Dialect.SH if posix else Dialect.BASH)
        counts["scripts"] += 1
        for trial in trials(reading, random, EDITS):
            if not isinstance(trial, Trial):
                counts["refused"] += 1
                continue
            counts["edits"] += 1
            again = Reading.of(trial.after, reading.dialect)
            found = edit_strays(trial, again)
            if counts["edits"] % BACK == 0:
                counts["set back"] += 1
                found += back_differs(trial, again)
            if counts["edits"] % oracle == 0 and not posix and b"\r" not in content:
                sample.append(trial)
            wrong += [f"seed {seed}, script {number}: {text}" for text in found]
    befores = run([trial.before for trial in sample])
    afters = run([trial.after for trial in sample])
    for trial, before, after in zip(sample, befores, afters, strict=True):
        if before is not None:
            counts["run"] += 1
            found = reading_disagrees(trial.before, Dialect.BASH, before) + edit_disagrees(
                trial, before, after
            )
            wrong += [f"seed {seed}, run by bash: {text}" for text in found]
    return counts, wrong


def _task(arguments: tuple[int, int, int]) -> tuple[Counter[str], list[str]]:
    return task(*arguments)


def main() -> int:
    parser = argparse.ArgumentParser(
        prog="tests/knobs/fuzz.py", description=(__doc__ or "").partition("\n")[0]
    )
    parser.add_argument("--seed", type=int, default=int.from_bytes(os.urandom(4)), help="default: a new one")
    parser.add_argument("--count", type=int, default=20_000, help="edits to carry out (default 20000)")
    parser.add_argument(
        "--first", type=int, default=0, help="number of the first script (default 0), to go on with a run"
    )
    parser.add_argument("--oracle", type=int, default=100, help="run every Nth edit with bash (default 100)")
    parser.add_argument(
        "--jobs", type=int, default=os.cpu_count() or 1, help="processes (default: one per core)"
    )
    options = parser.parse_args()
    print(f"seed {options.seed}", flush=True)
    counts: Counter[str] = Counter()
    begin = shown = time.monotonic()
    failures = 0

    def numbers() -> Iterator[tuple[int, int, int]]:
        first = options.first
        while counts["edits"] < options.count:
            yield options.seed, first, options.oracle
            first += CHUNK

    # Tasks are handed out only as they are finished, so that the run ends soon behind the count.
    with multiprocessing.Pool(options.jobs) as pool:
        waiting = []
        for arguments in numbers():
            waiting.append(pool.apply_async(_task, (arguments,)))
            if len(waiting) <= options.jobs:
                continue
            done, wrong = waiting.pop(0).get()
            counts += done
            failures += len(wrong)
            print(*wrong, sep="\n", end="\n" if wrong else "", flush=True)
            if time.monotonic() - shown > 60:
                shown = time.monotonic()
                print(f"{shown - begin:.0f} s: {dict(counts)}, {failures} wrong", file=sys.stderr, flush=True)
        for task_left in waiting:
            done, wrong = task_left.get()
            counts += done
            failures += len(wrong)
            print(*wrong, sep="\n", end="\n" if wrong else "", flush=True)
    print(
        f"{counts['edits']} edits of {counts['scripts']} scripts, {counts['refused']} refused,"
        f" {counts['set back']} set back, {counts['run']} run by bash, {failures} wrong;"
        f" {time.monotonic() - begin:.0f} s on {options.jobs} processes"
    )
    return 1 if failures else 0


if __name__ == "__main__":
    sys.exit(main())
