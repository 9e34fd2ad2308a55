"""Each mutant in a fork of one pytest session: against the tests that come by the changed lines.

Those that told a change of the same function come first, then the quickest.
"""

from __future__ import annotations

import gc
import os
import resource
import sys
import time
import tomllib
from collections import Counter, defaultdict
from contextlib import suppress
from dataclasses import dataclass, field
from pathlib import Path

import pytest
from coverage import Coverage

from mutation.results import KILLED, MADE, SURVIVED, UNREACHED, Results, changed_lines, file_of

_CPU_LIMIT_S = 40
"""more than the slowest survivor needs; a mutant that goes round in circles ends there"""
_WALL_LIMIT_S = 600


@dataclass(frozen=True, slots=True)
class _Running:
    name: str
    places: list[int]
    """of its tests in the session, in the order in which it meets them"""
    begun: float = field(default_factory=time.monotonic)


class Trial:
    """A pytest plugin whose run loop forks. `names`: mutants as mutmut calls them.

    `with_git`: False makes no repositories of the tests' workspaces, which is twice as quick; tests that need one are
    left out. `paths`: the tests instead of those in pyproject.toml.
    """

    def __init__(
        self, names: list[str], results: Results, jobs: int, *, with_git: bool = True, paths: list[str]
    ) -> None:
        self.names, self.results, self.jobs = names, results, jobs
        self.with_git, self.paths = with_git, paths
        self.passing: dict[str, dict[int, set[int]]] = {}
        """by file and line: the tests that come by, by their place in the session"""
        self.seconds: list[float] = []
        """of each test, with the programs that it starts"""
        self.told: dict[str, Counter[int]] = defaultdict(Counter)
        """by function: the tests that told its changes"""

    def run(self) -> None:
        settings = tomllib.loads(Path("pyproject.toml").read_text(encoding="utf-8"))["tool"]["mutmut"]
        chosen = settings["pytest_add_cli_args_test_selection"]
        if self.paths:
            chosen = self.paths + chosen[chosen.index("-k") :]
        if not self.with_git:
            os.environ["PATH"] = _without_git(MADE / "programs")
        pytest.main(
            ["-q", "-p", "no:cacheprovider", "-s", "--tb=native", "--timeout", "0", "--rootdir=.", *chosen],
            plugins=[self],
        )

    def pytest_runtestloop(self, session: pytest.Session) -> bool:
        if session.testsfailed:
            raise session.Interrupted("the tests can't be collected")
        self._look(session)
        gc.freeze()
        running: dict[int, _Running] = {}
        for number, name in enumerate(self.names, 1):
            while len(running) >= self.jobs:
                self._wait(running)
            places = self._tests_of(name)
            if not places:
                self.results.note(name, UNREACHED)
                continue
            if number % 10 == 0:
                print(f"{number} of {len(self.names)}", file=sys.__stderr__, flush=True)
            child = os.fork()
            if child == 0:
                self._be(session, name, places)
            running[child] = _Running(name, places)
        while running:
            self._wait(running)
        return True

    def _look(self, session: pytest.Session) -> None:
        """Every test once, unchanged: which lines it comes by, and how long it takes."""
        from mutmut.mutation.trampoline import set_mutant_under_test

        set_mutant_under_test("")
        files = {str(Path(file_of(name)).absolute()) for name in self.names}
        coverage = Coverage(data_file=None, config_file=False, include=sorted(files))
        coverage.start()
        left_out = {""}
        for place, item in enumerate(session.items):
            coverage.switch_context(str(place))
            begun = sum(os.times()[:4])
            item.config.hook.pytest_runtest_protocol(item=item, nextitem=None)
            if session.testsfailed and self.with_git:
                raise session.Interrupted(f"{item.nodeid} fails without any change")
            if session.testsfailed:
                session.testsfailed = 0
                left_out.add(str(place))
            self.seconds.append(sum(os.times()[:4]) - begun)
        coverage.stop()
        for file in files:
            lines = coverage.get_data().contexts_by_lineno(file).items()
            self.passing[file] = {
                line: {int(place) for place in {*places} - left_out} for line, places in lines
            }
        print(f"{len(session.items) - len(left_out) + 1} tests", file=sys.__stderr__, flush=True)

    def _tests_of(self, name: str) -> list[int]:
        """Places of the tests in the session, those first that are most likely to tell."""
        passing = self.passing[str(Path(file_of(name)).absolute())]
        places = set[int]().union(*(passing.get(line, ()) for line in changed_lines(name)))
        told = self.told[name.rpartition("__mutmut_")[0]]
        return sorted(places, key=lambda place: (-told[place], self.seconds[place]))

    def _be(self, session: pytest.Session, name: str, places: list[int]) -> None:
        """In the fork: that mutant; never returns. Its code tells which of the tests told it, from 1; 255: none of them."""
        code = 255
        try:
            resource.setrlimit(resource.RLIMIT_CPU, (_CPU_LIMIT_S, _CPU_LIMIT_S))
            os.dup2(os.open(os.devnull, os.O_WRONLY), 1)
            os.dup2(1, 2)
            from mutmut.mutation.trampoline import set_mutant_under_test

            set_mutant_under_test(name)
            for nth, place in enumerate(places, 1):
                item = session.items[place]
                item.config.hook.pytest_runtest_protocol(item=item, nextitem=None)
                if session.testsfailed:
                    code = min(nth, 255)
                    break
            else:
                code = SURVIVED
        finally:
            os._exit(code)

    def _wait(self, running: dict[int, _Running]) -> None:
        while True:
            for child, one in list(running.items()):
                done, status = os.waitpid(child, os.WNOHANG)
                if done:
                    code = os.waitstatus_to_exitcode(status)
                    if 0 < code < 255:
                        self.told[one.name.rpartition("__mutmut_")[0]][one.places[code - 1]] += 1
                    self.results.note(one.name, KILLED if code else SURVIVED)
                    del running[child]
                    return
                if time.monotonic() - one.begun > _WALL_LIMIT_S:
                    with suppress(ProcessLookupError):
                        os.kill(child, 9)
            time.sleep(0.02)


def _without_git(folder: Path) -> str:
    """A PATH with every program but git's: links, in that folder."""
    folder.mkdir(exist_ok=True)
    for place in map(Path, os.get_exec_path()):
        for program in place.iterdir() if place.is_dir() else ():
            if not program.name.startswith("git"):
                with suppress(FileExistsError):
                    (folder / program.name).symlink_to(program)
    return str(folder)
