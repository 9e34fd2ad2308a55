"""A workspace under a policy that wants signatures, with real keys, on this machine as its host."""

from __future__ import annotations

import json
import os
import subprocess
import sys
from collections.abc import Callable
from pathlib import Path

import pytest

from knobledger.drafting import Options
from knobledger.errors import Drifted, KnobError, NotApproved, PlanSpent
from knobledger.event import encode, id_of
from knobledger.events.entry import Event
from knobledger.knobs import Request
from knobledger.ledger.days import day_of
from knobledger.names import EventId
from knobledger.report.plans import PlanReport
from knobledger.workspace import Workspace

OLD = b"#!/bin/sh\nexport KNOB=256\nexport OTHER=1\n"


class Desk:
    """A workspace under `signed` with one owner, and an agent who has no key."""

    def __init__(self, folder: Path, policy: str = "signed") -> None:
        self.root, self.keys = folder / "ws", folder / "keys"
        self.script = folder / "host" / "serve.sh"
        self.policy = policy
        for path in (self.root, self.keys, self.script.parent):
            path.mkdir()
        self.script.write_bytes(OLD)
        self.owner, self.other, self.mallory = (self.key(name) for name in ("owner", "other", "mallory"))
        self.hosts()
        self.signers("owner", "other")
        with self.open() as workspace:
            workspace.trust_signers("", "")

    def key(self, name: str) -> str:
        path = self.keys / name
        subprocess.run(
            ("ssh-keygen", "-q", "-t", "ed25519", "-N", "", "-C", name, "-f", str(path)), check=True
        )
        return str(path)

    def hosts(self, policy: str = "", more: str = "", path: Path | None = None) -> None:
        (self.root / "hosts.toml").write_text(
            f'[workspace]\napproval = "{policy or self.policy}"\nallowed_signers = "allowed_signers"\n{more}\n'
            '[hosts.gpu1]\ntransport = "local"\n[hosts.gpu1.services.decode]\n'
            f"script = {json.dumps(str(path or self.script))}\n"
        )

    def signers(self, *names: str, options: str = "") -> None:
        lines = []
        for name in names:
            kind, key = (self.keys / f"{name}.pub").read_text().split()[:2]
            lines.append(f"{name}@example.org {options}{kind} {key}\n")
        (self.root / "allowed_signers").write_text("".join(lines))

    def open(self, actor: str = "agent", **env: str) -> Workspace:
        return Workspace.open(self.root, {"KNOBLEDGER_ACTOR": actor, "TZ": "UTC", **env})

    def plan(self, value: str = "512", actor: str = "agent", **options: object) -> PlanReport:
        with self.open(actor) as workspace:
            plan = workspace.set(["gpu1/decode"], [Request("KNOB", value)], Options(**options))  # type: ignore[arg-type]
        assert isinstance(plan, PlanReport)
        return plan

    def approve(self, plan: str, key: str, actor: str = "owner", **more: str) -> None:
        with self.open(actor) as workspace:
            workspace.approve(plan, "flag", key=key, **more)

    def apply(self, plan: str) -> PlanReport:
        with self.open() as workspace:
            return workspace.apply(plan)

    def forge(self, event: Event) -> EventId:
        """Puts an event into the ledger as somebody would who can write files."""
        content = encode(event)
        path = self.root / "ledger" / "events" / day_of(event.at) / f"{id_of(content)}.json"
        path.parent.mkdir(parents=True, exist_ok=True)
        path.write_bytes(content)
        return id_of(content)

    def knob(self, *words: str, **env: str) -> subprocess.CompletedProcess[str]:
        return subprocess.run(
            (sys.executable, "-m", "knobledger", *words),
            cwd=self.root,
            env={**os.environ, "KNOBLEDGER_ACTOR": "agent", "TZ": "UTC", **env},
            capture_output=True,
            text=True,
            input="y\n" * 50,
            check=False,
        )

    @property
    def untouched(self) -> bool:
        return self.script.read_bytes() == OLD


def refused(act: Callable[[], object], *words: str) -> None:
    with pytest.raises(KnobError) as caught:
        act()
    assert isinstance(caught.value, NotApproved | PlanSpent | Drifted), caught.value.message
    for word in words:
        assert word in caught.value.message
