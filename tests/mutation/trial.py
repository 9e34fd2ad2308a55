"""Each mutant in a fork of one pytest session: against the tests that come by its function, the quickest first."""

from __future__ import annotations

import os
import resource
import sys
import time
import tomllib
from collections import defaultdict
from contextlib import suppress
from pathlib import Path

import pytest

from mutation.results import KILLED, SURVIVED, UNREACHED, Results

_CPU_LIMIT_S = 40
"""more than the slowest survivor needs; a mutant that goes round in circles ends there"""
_WALL_LIMIT_S = 600


class Trial:
    """A pytest plugin whose run loop forks. `names`: mutants as mutmut calls them."""

    def __init__(self, names: list[str], results: Results, jobs: int) -> None:
        self.names, self.results, self.jobs = names, results, jobs
        self.tests: dict[str, dict[int, float]] = defaultdict(dict)
        """by function: the tests that come by, by their place in the session, with their seconds"""

    def run(self) -> None:
        settings = tomllib.loads(Path("pyproject.toml").read_text(encoding="utf-8"))["tool"]["mutmut"]
        chosen = settings["pytest_add_cli_args_test_selection"]
        pytest.main(
            ["-q", "-p", "no:cacheprovider", "-s", "--timeout", "0", "--rootdir=.", *chosen], plugins=[self]
        )

    def pytest_runtestloop(self, session: pytest.Session) -> bool:
        if session.testsfailed:
            raise session.Interrupted("the tests can't be collected")
        self._look(session)
        running: dict[int, tuple[str, float]] = {}
        for number, name in enumerate(self.names, 1):
            while len(running) >= self.jobs:
                self._wait(running)
            tests = self.tests[name.rpartition("__mutmut_")[0]]
            if not tests:
                self.results.note(name, UNREACHED)
                continue
            if number % 10 == 0:
                print(f"{number} of {len(self.names)}", file=sys.__stderr__, flush=True)
            child = os.fork()
            if child == 0:
                self._be(session, name, sorted(tests, key=lambda one: tests[one]))
            running[child] = name, time.monotonic()
        while running:
            self._wait(running)
        return True

    def _look(self, session: pytest.Session) -> None:
        """Every test once, unchanged: which functions it comes by, and how long it takes."""
        from mutmut.mutation.trampoline import set_mutant_under_test
        from mutmut.state import state

        set_mutant_under_test("stats")
        for place, item in enumerate(session.items):
            state()._stats.clear()
            begun = time.process_time()
            item.config.hook.pytest_runtest_protocol(item=item, nextitem=None)
            if session.testsfailed:
                raise session.Interrupted(f"{item.nodeid} fails without any change")
            for function in state()._stats:
                self.tests[function][place] = time.process_time() - begun

    def _be(self, session: pytest.Session, name: str, places: list[int]) -> None:
        """In the fork: that mutant; never returns."""
        code = 3
        try:
            resource.setrlimit(resource.RLIMIT_CPU, (_CPU_LIMIT_S, _CPU_LIMIT_S))
            os.dup2(os.open(os.devnull, os.O_WRONLY), 1)
            os.dup2(1, 2)
            from mutmut.mutation.trampoline import set_mutant_under_test

            set_mutant_under_test(name)
            code = SURVIVED
            for item in (session.items[place] for place in places):
                item.config.hook.pytest_runtest_protocol(item=item, nextitem=None)
                if session.testsfailed:
                    code = KILLED
                    break
        finally:
            os._exit(code if code == SURVIVED else KILLED)

    def _wait(self, running: dict[int, tuple[str, float]]) -> None:
        while True:
            for child, (name, begun) in list(running.items()):
                done, status = os.waitpid(child, os.WNOHANG)
                if done:
                    self.results.note(name, SURVIVED if status == 0 else KILLED)
                    del running[child]
                    return
                if time.monotonic() - begun > _WALL_LIMIT_S:
                    with suppress(ProcessLookupError):
                        os.kill(child, 9)
            time.sleep(0.02)
