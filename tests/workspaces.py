"""A workspace on a host in memory, for tests of what happens above the transports."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass, field
from pathlib import Path

from knobledger.drafting import Options
from knobledger.founding import found
from knobledger.hosts.memory import MemoryHost
from knobledger.knobs import Request
from knobledger.report.plans import NothingToDo, PlanReport
from knobledger.workspace import Workspace

SCRIPT = "/root/serve_dsv4_decode.sh"
KNOB = "SGLANG_SM120_MMA_TARGET_CTAS"
SERVE = b"""\
#!/usr/bin/env bash
# decode on GPU 4-7
set -euo pipefail
export CUDA_VISIBLE_DEVICES=4,5,6,7
export SGLANG_SM120_MMA_TARGET_CTAS=256
export NCCL_DEBUG=WARN
exec python3 -m sglang.launch_server --port 30001 \\
  --mem-fraction-static 0.85
"""
HOSTS = f"""\
[hosts.gpu1]
address = "127.0.0.1"
[hosts.gpu1.services.decode]
script = "{SCRIPT}"
"""


@dataclass
class Bench:
    """Opens the workspace anew for each command, as separate processes would."""

    root: Path
    host: MemoryHost = field(default_factory=lambda: MemoryHost("gpu1"))
    env: dict[str, str] = field(default_factory=lambda: {"KNOBLEDGER_ACTOR": "anna", "TZ": "UTC"})

    def __post_init__(self) -> None:
        found(self.root)
        (self.root / "hosts.toml").write_text(HOSTS, encoding="utf-8")
        self.host.put(SCRIPT, SERVE, mode="0755")

    def open(self, **env: str) -> Workspace:
        return Workspace.open(self.root, {**self.env, **env}, connect=lambda _config, _root: self.host)

    @property
    def live(self) -> bytes:
        return self.host.files[SCRIPT].content

    def plan(self, *requests: tuple[str, str | None], **options: object) -> PlanReport:
        with self.open() as workspace:
            report = workspace.set(
                ["gpu1/decode"],
                [Request(*pair) for pair in requests],
                Options(**options),  # type: ignore[arg-type]
            )
        assert not isinstance(report, NothingToDo)
        return report

    def apply(self, plan: str) -> PlanReport:
        with self.open() as workspace:
            workspace.approve(plan, "flag")
        with self.open() as workspace:
            return workspace.apply(plan)

    def set(self, *requests: tuple[str, str | None], **options: object) -> PlanReport:
        return self.apply(self.plan(*requests, **options).id)

    def undo(self, verb: str, what: str, **options: object) -> PlanReport | NothingToDo:
        with self.open() as workspace:
            report = getattr(workspace, verb)(what, Options(**options))  # type: ignore[arg-type]
        return report if isinstance(report, NothingToDo) else self.apply(report.id)

    def kinds(self) -> Sequence[str]:
        with self.open() as workspace:
            return [event.kind for event in workspace.state.events.values()]
