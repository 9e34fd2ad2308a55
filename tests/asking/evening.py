"""The evening of the incident as a ledger, with its own times and numbers: the same events, and ids, in each run."""

from __future__ import annotations

from datetime import UTC, datetime

from knobledger.events.asking import (
    DocumentChecked,
    DocumentCorrected,
    EvidenceGiven,
    HypothesisOpened,
    Measured,
    StaleLine,
    VerdictGiven,
)
from knobledger.events.notes import Noted
from knobledger.events.serving import Before, RestartEnded, RestartStarted, SeenRunning, ServiceRestarted
from knobledger.events.watching import ObservedMetric, SeenKnob, SeenLive, SeenProcess
from knobledger.importers import table
from knobledger.importers.origin import Origin
from knobledger.names import Digest, EventId
from stories import Story

KNOB = "SGLANG_SM120_MMA_TARGET_CTAS"
SLUG = "knob-hangs-harness"
ZONE = "Europe/Berlin"
TABLE = """\
| concurrency | 256 (baseline) | 512 (variant) | change |
|---|---|---|---|
| C48 | 684.7 | 680.6 | -0.6 % |
| C64 | 719.5 | 811.7 | +12.8 % |
| C80 | 833.0 | 842.7 | +1.2 % |
| C96 | 799.3 | 844.6 | +5.7 % |
"""


class Evening(Story):
    """The incident, told hour by hour; local time is UTC+1."""

    def __init__(self) -> None:
        super().__init__()
        self._tune()
        self._suspect()
        self.to("20:25")
        self.revert = self.apply(
            (KNOB, "512", None),
            verb="unset",
            purpose="mitigation",
            hypotheses=(SLUG,),
            why="the harness hangs since the knob",
            label="pretgt_revert_2025",
        )

    def to(self, clock: str) -> None:
        hour, minute = map(int, clock.split(":"))
        self.clock = datetime(2026, 11, 30, hour - 1, minute, tzinfo=UTC)

    def _tune(self) -> None:
        self.to("14:14")
        self.tune = self.apply((KNOB, "256", "512"), purpose="perf", why="A/B: C64 +12.8 %")
        self.to("14:48")
        origin = Origin("ab.md", "variant", lambda _name, value: value, host="gpu1")
        self.tell(Measured, change=self.tune, runs=table.read(TABLE.encode(), origin).runs)
        self.tell(
            Noted,
            text="exact arithmetic (split-K log-sum-exp combine): no risk for correctness",
            about=self.tune,
        )

    def _suspect(self) -> None:
        self.to("17:40")
        self.tell(
            HypothesisOpened, slug=SLUG, claim="the knob hangs the multi-round harness", about=(self.tune,)
        )
        self.say("supports", "timing", "it worked at noon; the knob is the only deploy since")
        self.to("18:30")
        self.fix = self.apply(
            ("SGLANG_DISAGGREGATION_QUEUE_SIZE", "4", "8"),
            purpose="fix",
            why="requests pinned in the prefill inflight queue",
        )

    def say(self, side: str, weight: str, text: str) -> EventId:
        return self.tell(
            EvidenceGiven, hypothesis=SLUG, side=side, weight=weight, text=text, source="by hand"
        )

    def contradict(self) -> None:
        self.to("21:10")
        self.say("contradicts", "observation", "while a harness hangs, the engines are idle")
        self.say(
            "contradicts", "observation", "the prefill inflight gauge rotates and returns to 0 within 85 s"
        )
        self.watchdog = self.apply(
            ("INFLIGHT_TIMEOUT", None, "60"), purpose="fix", why="watchdog for pinned requests"
        )
        self.to("22:05")
        self.say("contradicts", "experiment", "24 of 24 rounds pass when the proxy is bypassed")

    def refute(self) -> EventId:
        self.to("22:20")
        return self.tell(
            VerdictGiven,
            hypothesis=SLUG,
            ruling="refuted",
            because="it hangs without the knob too, and 24 of 24 rounds pass past the proxy",
            cause="the HTTP proxy between the agents and the router",
        )

    def restore(self) -> None:
        self.to("22:55")
        self.restored = self.apply(
            (KNOB, None, "512"), verb="restore", undoes=self.revert, why="the proxy was at fault"
        )

    def restart(self, clock: str, change: EventId, *, value: str | None, has: str | None = "") -> None:
        """Prefill, decode and router; `value` is in the file, and it or `has` in the new process of decode."""
        has = value if has == "" else has
        self.to(clock)
        names = ("gpu1/prefill", "gpu1/decode", "gpu1/router")
        chain = self.tell(
            RestartStarted,
            cause="change",
            scope="group",
            plan=change,
            services=tuple(Before(service=name) for name in names),
        )
        for number, name in enumerate(names):
            process = SeenRunning(pid=4000 + number, parent=1, started=1796066700.0, command=name)
            self.tell(
                ServiceRestarted,
                chain=chain,
                plan=change,
                service=name,
                outcome="healthy",
                after=(process,),
                stopped_after_s=1.5,
                healthy_after_s=38.0,
            )
        self.tell(RestartEnded, chain=chain, plan=change, outcome="done", outage_s=119.4)
        self.tell(
            SeenLive,
            target="gpu1/decode",
            service="gpu1/decode",
            path="/root/serve.sh",
            processes=(
                SeenProcess(pid=4001, parent=1, started="2026-11-30T22:00:00.000000Z", command="python3"),
            ),
            knobs=(
                SeenKnob(
                    name=KNOB, kind="env", written=value, state="present" if has else "absent", value=has
                ),
            ),
        )

    def watch(self) -> None:
        self.tell(
            ObservedMetric,
            target="gpu1/decode",
            service="gpu1/decode",
            metric="sglang:num_running_reqs",
            source="http://127.0.0.1:30001/metrics",
            type="gauge",
            series=1,
            start="2026-11-30T22:02:00.000000Z",
            interval_s=1.0,
            values=(0.0, 53.0, 48.0, 0.0, 50.0),
            ended="complete",
            shape="rotating",
            peak=53.0,
            median=48.0,
            last=50.0,
        )

    def correct(self, verdict: EventId) -> None:
        self.to("23:20")
        stale = StaleLine(line=3, text="TARGET_CTAS hangs it", why=f"names {KNOB}", hypothesis=SLUG)
        digest = Digest("d" * 64)
        name = "DSV4_PD_DEADLOCK_ISSUE.md"
        self.tell(DocumentChecked, document=name, digest=digest, stale=(stale,))
        self.tell(
            DocumentCorrected,
            document=name,
            hypothesis=SLUG,
            verdict=verdict,
            before=digest,
            after=Digest("e" * 64),
        )
        self.tell(DocumentChecked, document=name, digest=Digest("e" * 64))


def whole() -> Evening:
    """From tuning to addendum."""
    evening = Evening()
    evening.contradict()
    verdict = evening.refute()
    evening.restore()
    evening.restart("22:58", evening.restored, value="512")
    evening.watch()
    evening.correct(verdict)
    return evening
