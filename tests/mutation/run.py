"""`make mutants`: changes the code of attempts and of the ledger in small ways, and lists what no test noticed.

python -m mutation.run [--sample N] [--seed N] [--jobs N] [--again] [--without-git] [--tests PATH] [--report] [MODULE ...]

mutmut makes the changes; a module is named as below `src/knobledger/`: `apply`, `ledger.store`. What `mypy --strict`
refuses is not run: `make check` finds it. The tests are collected once and each mutant is a fork of that process, which
costs a tenth of mutmut's own runs. Ends with 1 if a mutant survived for which `kept.toml` gives no reason.
"""

from __future__ import annotations

import argparse
import os
import random
import sys

from mutation.results import MADE, ROOT, Results, refused_by_types
from mutation.trial import Trial


def make() -> None:
    """Writes the changed code to `mutants/`; functions that are as they were keep their results."""
    from mutmut.__main__ import create_mutants
    from mutmut.utils.file_utils import copy_also_copy_files, copy_src_dir

    MADE.mkdir(exist_ok=True)
    for path in (MADE / "src").rglob("*.py"):
        if not path.stat().st_size:
            path.unlink()  # a run that was ended in the middle leaves such, and mutmut would take it for done
    copy_src_dir()
    copy_also_copy_files()
    create_mutants(max_children=2)


def main() -> int:
    asked = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    asked.add_argument("modules", nargs="*", metavar="MODULE", help="these first to last; none: all")
    asked.add_argument("--sample", type=int, help="run only so many, drawn by chance")
    asked.add_argument("--seed", type=int, default=1)
    asked.add_argument("--jobs", type=int, default=2)
    asked.add_argument("--again", action="store_true", help="also those that survived without a reason")
    asked.add_argument("--without-git", action="store_true", help="twice as quick; then --again with it")
    asked.add_argument(
        "--tests", action="append", default=[], metavar="PATH", help="these only; may be repeated"
    )
    asked.add_argument("--report", action="store_true", help="run nothing, tell what earlier runs found")
    told = asked.parse_args()
    os.chdir(ROOT)
    if not told.report:
        make()
    refused = refused_by_types(told.modules)
    results = Results.load()
    if not told.report:
        names = [
            name
            for name in results.open(refused, again=told.again)
            if not told.modules or results.module(name) in told.modules
        ]
        if told.modules:
            names.sort(key=lambda name: told.modules.index(results.module(name)))
        if told.sample is not None and told.sample < len(names):
            names = random.Random(told.seed).sample(sorted(names), told.sample)
        os.chdir(MADE)
        sys.path[:0] = [str(MADE / "src"), str(MADE / "tests")]
        Trial(names, results, told.jobs, with_git=not told.without_git, paths=told.tests).run()
        os.chdir(ROOT)
    return 1 if results.report(refused, told.modules) else 0


if __name__ == "__main__":
    sys.exit(main())
