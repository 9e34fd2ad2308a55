"""Real `knob` processes that are killed at random moments, one after the other, in one workspace."""

from __future__ import annotations

import math
import os
import random
import re
import subprocess
import sys
import time
from collections import Counter
from collections.abc import Callable
from dataclasses import dataclass, field
from pathlib import Path

from faults.site import ENV, NEW, OLD, Site
from knobledger.names import digest_of

_SHAPE = re.compile(re.escape(OLD).replace(b"256", rb"\d+"))
_KNOB = Path(sys.executable).with_name("knob")


@dataclass
class Kills:
    """Rounds of `set`, `revert` and `restore`, each killed with SIGKILL after a random time."""

    site: Site
    seed: int
    violations: list[str] = field(default_factory=list)
    ended: Counter[str] = field(default_factory=Counter)
    """rounds by how they came out: `old`, `new` bytes, or `too late` to be killed"""

    def run(
        self, count: int, told: Callable[[str], None] = lambda _: None, until_s: float = math.inf
    ) -> None:
        """So many kills that found their process alive; none after `until_s` (monotonic)."""
        self.site.put_back()
        root = self.site.workspace("kills")
        chance = random.Random(self.seed)
        seen: set[str] = {digest_of(OLD), digest_of(NEW)}
        for command in (("set", self.site.target, "TARGET_CTAS=300"), ("revert", "@")):
            begun = time.monotonic()
            assert self._start(root, *command).wait(60) == 0
            usual_s = time.monotonic() - begun
            seen.add(digest_of(self.site.live))
        number = killed = 0
        while killed < count and time.monotonic() < until_s:
            number += 1
            command = chance.choice(
                (("set", self.site.target, f"TARGET_CTAS={1000 + number}"), ("revert", "@"), ("restore", "@"))
            )
            before = self.site.live
            process = self._start(root, *command)
            try:
                process.wait(chance.uniform(0.3, 1.1) * usual_s)
                self.ended["too late"] += 1
            except subprocess.TimeoutExpired:
                process.kill()
                process.wait()
                self._quiet()
                self.ended["old" if self.site.live == before else "new"] += 1
                killed += 1
            seen |= self._look(root, f"round {number}, {' '.join(command)}", before, seen)
            told(f"{killed} of {count} kills, {len(self.violations)} violations")

    def _start(self, root: Path, *words: str) -> subprocess.Popen[bytes]:
        return subprocess.Popen(
            [_KNOB, "-C", str(root), "--json", *words, "--go-ahead"],
            env={**os.environ, **ENV},
            stdin=subprocess.DEVNULL,
            stdout=subprocess.DEVNULL,
            stderr=subprocess.DEVNULL,
            start_new_session=True,
        )

    def _quiet(self) -> None:
        """Until nothing runs on the host any more for the client that is gone."""
        deadline = time.monotonic() + 30
        while len(self.site.host.processes("sshd")) > 1:
            if time.monotonic() > deadline:
                self.violations.append("a connection outlived its client by 30 s")
                return
            time.sleep(0.02)

    def _look(self, root: Path, where: str, before: bytes, seen: set[str]) -> set[str]:
        """Records what is not as it must be; the digests that the file may have had in this round."""
        wrong = self.violations
        live = self.site.live
        with self.site.open(root) as workspace:
            recovered = workspace.recover()
        if recovered.exit_code:
            wrong.append(f"{where}: recover ended with {recovered.exit_code}: {recovered}")
        with self.site.open(root) as workspace:
            state = workspace.state
            results = {file.result for plan in state.plans.values() for file in plan.planned.files}
            if state.in_doubt():
                wrong.append(f"{where}: an attempt is still in doubt")
            recorded = state.files[self.site.target].digest  # type: ignore[index]
            if recorded != digest_of(live):
                wrong.append(f"{where}: the ledger's last word is {recorded}, the file is {digest_of(live)}")
            if findings := workspace.verify().findings:
                wrong.append(f"{where}: verify finds {findings}")
        if live != before and digest_of(live) not in results:
            wrong.append(f"{where}: bytes that nobody planned: {live!r}")
        if not _SHAPE.fullmatch(live) or self.site.live != live:
            wrong.append(f"{where}: the file is {live!r}")
        if self.site.attributes() != self.site.look:
            wrong.append(f"{where}: attributes {self.site.attributes()}")
        folder = self.site.host.at(self.site.script).parent
        left = [name for name in os.listdir(folder) if name not in ("serve.sh", ".knobledger")]
        left += [
            path.name
            for path in (folder / ".knobledger").iterdir()
            if path.name.startswith(".") or digest_of(path.read_bytes()) not in seen | {digest_of(before)}
        ]
        if left:
            wrong.append(f"{where}: left behind {left}")
        return {digest_of(live)}
