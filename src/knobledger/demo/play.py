"""The incident, lived through: the product's own commands against real processes on a real SSH server.

Nothing that is shown is scripted text but the narration. What a person would type on the host is run
there over SSH (`gpu1$`); what a person would type at home is run here (`$`). Times are today's.
"""

from __future__ import annotations

import json
import os
import re
import subprocess
import sys
import tempfile
import time
from collections.abc import Mapping
from pathlib import Path

from msgspec import Struct, field
from rich.console import Console
from rich.text import Text

from knobledger.demo import handover, inquest
from knobledger.demo.commands import Commands
from knobledger.demo.load import load
from knobledger.demo.owner import Agent, Owner, check_tools
from knobledger.demo.stage import KNOB, Stage
from knobledger.hosts.config import Config
from knobledger.hosts.connect import connect
from knobledger.hosts.host import Host
from knobledger.quoting import command_line

RUNNING = "sglang:num_running_reqs"
CLIENTS = 53
"""as many as decode ran at once on that evening"""
WATCHDOG = "SGLANG_DISAGGREGATION_INFLIGHT_TIMEOUT"
_HARNESS = Path(__file__).parent / "harness.py"


class Play(Struct):
    """One performance: it runs commands, shows them, and keeps count of the proofs."""

    stage: Stage
    host: Host
    console: Console
    commands: Commands = field(default_factory=Commands)
    environment: dict[str, str] = field(default_factory=dict)
    """what the person's commands get beside ours"""
    proofs: list[tuple[str, bool]] = field(default_factory=list)

    def tell(self, text: str) -> None:
        """Narration."""
        self.console.print()
        self.console.print(Text(f"# {text}", style="italic cyan"))

    def knob(
        self, *words: str, expect: int = 0, env: Mapping[str, str] | None = None, prompt: str = "$"
    ) -> str:
        """Runs one of the product's commands as a person would, or in another's environment; what it printed."""
        self.console.print(Text(f"{prompt} knob {command_line(words)}", style="bold"))
        done = self.commands.run(("-C", os.fspath(self.stage.root), *words), self._environment(env))
        return self._shown(done.output, done.status, f"knob {words[0]}", expect)

    def facts(self, *words: str) -> dict[str, object]:
        """A command's JSON, for the proofs; not shown."""
        argv = ("-C", os.fspath(self.stage.root), *words, "--json")
        found: dict[str, object] = json.loads(self.commands.run(argv, os.environ, apart=True).output)
        return found

    def here(self, *words: str, shown: str = "", expect: int = 0) -> str:
        """Runs a program on this machine."""
        self.console.print(Text(f"$ {shown or command_line(words)}", style="bold"))
        return self._run(words, words[0], expect)

    def there(self, line: str, expect: int = 0) -> str:
        """Runs a line of shell on the host, over SSH."""
        self.console.print(Text(f"gpu1$ {line}", style="bold"))
        done = self.host.run(("/bin/sh", "-c", line), timeout_s=60)
        text = (done.stdout + done.stderr).decode()
        self._show(text)
        self.prove(f"exit code {expect} of `{line}`", done.status == expect)
        return text

    def begin_picture(self) -> None:
        """What was shown so far is not on the picture, if one is made."""
        if self.console.record:
            self.console.export_text(clear=True)

    def prove(self, what: str, held: bool) -> None:
        """Counts a proof, and says at once if it does not hold."""
        self.proofs.append((what, held))
        if not held:
            self.console.print(Text(f"PROOF FAILED: {what}", style="bold red"))

    def _run(self, argv: tuple[str, ...], name: str, expect: int) -> str:
        done = subprocess.run(
            argv,
            stdout=subprocess.PIPE,
            stderr=subprocess.STDOUT,
            stdin=subprocess.DEVNULL,
            env=self._environment(),
            check=False,
        )
        return self._shown(done.stdout, done.returncode, name, expect)

    def _environment(self, env: Mapping[str, str] | None = None) -> dict[str, str]:
        environment = dict(env) if env is not None else {**os.environ, **self.environment}
        if self.console.is_terminal or self.console.record:
            environment["FORCE_COLOR"] = "1"
        return environment | {"GIT_PAGER": "cat", "COLUMNS": str(self.console.width)}

    def _shown(self, output: bytes, status: int, name: str, expect: int) -> str:
        text = output.decode()
        self._show(text)
        self.prove(f"exit code {expect} of `{name}`", status == expect)
        return Text.from_ansi(text).plain

    def _show(self, text: str) -> None:
        self.console.print(Text.from_ansi(text.rstrip("\n")), soft_wrap=not self.console.record)


def play(directory: Path | None, picture: Path | None = None) -> int:
    """Performs the incident; 0 only if each proof held. `picture` gets the restore as an SVG."""
    check_tools()
    root = directory.resolve() if directory else Path(tempfile.mkdtemp(prefix="knob-demo-")) / "workspace"
    begun = time.monotonic()
    console = Console(highlight=False, record=picture is not None, width=110 if picture else None)
    with Stage.new(root) as stage:
        stage.start_proxy()
        host = connect(Config.load(root).hosts["gpu1"], root=root)
        try:
            acts = Play(stage, host, console)
            _tune(acts)
            inquest.measure(acts)
            _suspect(acts)
            with Owner(root / "keys" / "anna") as owner, Agent(root) as agent:
                inquest.weigh(acts)
                handover.entrust(acts, owner)
                handover.restore(acts, agent)
                if picture:
                    console.save_svg(os.fspath(picture), title="knob restore")
                _after(acts)
                inquest.correct(acts)
        finally:
            host.close()
    return _close(acts, root, time.monotonic() - begun)


def host_again(directory: Path) -> int:
    """Wakes the host of an earlier demo until Ctrl-C, so that its workspace can be explored."""
    with Stage.again(directory.resolve()) as stage:
        print(f"gpu1 answers on 127.0.0.1 port {stage.sshd.port}; Ctrl-C ends it", file=sys.stderr)
        try:
            while True:
                time.sleep(3600)
        except KeyboardInterrupt:
            return 0


def _tune(play: Play) -> None:
    play.tell("One host, three services: prefill, decode, router. Started by serve scripts, over SSH.")
    play.there("for s in prefill decode router; do ./service.sh start $s; done")
    play.there(f"grep -n TARGET_CTAS {play.stage.script('decode').name}")
    play.tell("14:14  Tuning: an A/B test says the knob is worth more at 512 (C64: 719.5 -> 811.7 tokens/s).")
    play.knob(
        "set", "gpu1/decode", f"{KNOB}=512", "--kind", "perf", "--why", "A/B: C64 +12.8 %", "--restart", "service",
        "--go-ahead",
    )  # fmt: skip
    play.prove("decode runs with 512", _live(play) == "512")


def _suspect(play: Play) -> None:
    proxy, router = (f"http://127.0.0.1:{play.stage.ports[name]}" for name in ("proxy", "router"))
    play.tell("Afternoon: the agents' harnesses hang. 'It worked at noon' - what changed?")
    play.here(sys.executable, str(_HARNESS), proxy, shown=f"harness {proxy}", expect=1)
    play.knob("since", "noon")
    inquest.suppose(play)
    play.tell("20:25  The newest knob is suspected, and taken out. A backup comes first, under a label.")
    play.knob(
        "unset", "gpu1/decode", KNOB, "--label", "pretgt_revert_2025", "--kind", "mitigation",
        "--for", inquest.SLUG, "--why", "harnesses hang since the knob", "--restart", "service", "--go-ahead",
    )  # fmt: skip
    play.prove("decode runs without the knob", _live(play) == "")
    play.tell("Other work goes on: a watchdog for requests that stay in flight at prefill. A real fix.")
    play.knob(
        "set", "gpu1/prefill", f"{WATCHDOG}=60", "--add", "--kind", "fix",
        "--why", "watchdog for pinned requests", "--go-ahead",
    )  # fmt: skip
    play.tell(
        "But the harness still hangs. Past the proxy, straight to the router, it does not: the proxy is at fault."
    )
    play.here(sys.executable, str(_HARNESS), proxy, shown=f"harness {proxy}", expect=1)
    passed = play.here(sys.executable, str(_HARNESS), router, shown=f"harness {router}")
    play.prove("24 of 24 rounds pass past the proxy", "24 of 24 rounds pass" in passed)


def _after(play: Play) -> None:
    play.tell("The value out of the running process.")
    live = play.there(f"tr '\\0' '\\n' </proc/$(./service.sh pid decode)/environ | grep {KNOB}")
    play.prove("the running decode process has 512", live.strip() == f"{KNOB}=512")
    _watched(play)
    play.tell(
        "A backup copied back by hand would drop what others added since. An undo of the knob keeps it."
    )
    play.knob("set", "gpu1/decode", f"{WATCHDOG}=60", "--add", "--kind", "fix", "--go-ahead")
    kept = play.knob("revert", "@-", "--plan")
    play.prove("the later edit would be kept", f"keeps the later edit  +export {WATCHDOG}=60" in kept)
    play.tell("What the ledger says now: the tuning is restored, the revert is reverted, the fixes stayed.")
    play.knob("since", "1h", "--live")
    since = play.facts("since", "1h")["changes"]
    assert isinstance(since, list)
    play.prove(
        "each change has its true status",
        [change["status"] for change in since]
        == ["restored", "reverted", "in effect", "in effect", "in effect"],
    )
    play.knob("verify")
    play.here("git", "-C", os.fspath(play.stage.root), "log", "--oneline", shown="git log --oneline")


def _watched(play: Play) -> None:
    play.tell(f"Under load: {CLIENTS} clients at the router, and how many requests decode runs at once.")
    with load(f"http://127.0.0.1:{play.stage.ports['router']}", CLIENTS, tokens=25):
        words = ("gpu1/decode", RUNNING, "--for", "4s", "--every", "0.2s", "--after-restart")
        play.knob("observe", *words)
    entries = play.facts("log", "--kind", "observed_metric")["entries"]
    assert isinstance(entries, list)
    peak = re.search(r"peak (\d+)", entries[0]["text"]) if entries else None
    play.prove(
        f"decode was seen with up to {CLIENTS} requests", peak is not None and 0 < int(peak[1]) <= CLIENTS + 1
    )


def _live(play: Play) -> str:
    line = f"tr '\\0' '\\n' </proc/$(./service.sh pid decode)/environ | sed -n 's/^{KNOB}=//p'"
    return play.host.run(("/bin/sh", "-c", line), timeout_s=30).stdout.decode().strip()


def _close(play: Play, root: Path, seconds: float) -> int:
    held = sum(ok for _, ok in play.proofs)
    total = len(play.proofs)
    play.console.print()
    play.console.print(
        Text(
            f"{held} of {total} proofs held, in {seconds:.0f} s",
            style="bold green" if held == total else "bold red",
        )
    )
    shown = command_line((os.fspath(root),))
    play.console.print(Text(f"The workspace stays in {shown}. To explore it:"))
    for line in (
        f"knob demo --host {shown}      wakes the host; leave it running, and in another terminal:",
        f"cd {shown}",
        "knob status                    the knobs, who set them and why",
        "knob restore @ --plan          what would taking the restore back mean?",
        "knob log; git log              every step",
        "postmortem.html                the story, for a browser",
    ):
        play.console.print(Text(f"  {line}"), soft_wrap=True)
    return 0 if held == total else 1
