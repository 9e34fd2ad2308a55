"""A workspace with an approved plan for a file on a lab host, and what may be true after something went wrong."""

from __future__ import annotations

import contextlib
import json
import os
import re
import shutil
import subprocess
import sys
from dataclasses import dataclass, field
from pathlib import Path

from faults.paused import AT, GO, PASSED
from knobledger.drafting import Options
from knobledger.founding import found
from knobledger.knobs import Request
from knobledger.names import digest_of
from knobledger.report.plans import NothingToDo
from knobledger.workspace import Workspace
from lab import LabHost

_TESTS = Path(__file__).parents[1]
SMALL, QUOTA = "/srv/app", "/srv/quota"
"""disks of a host that the target may be on: one of 256 KB, and one with a quota"""
USER = "op"
UID = 1600
OLD = b"#!/bin/bash\nexport CUDA_VISIBLE_DEVICES=4,5,6,7\nexport TARGET_CTAS=256\nexec sleep infinity\n"
NEW = OLD.replace(b"=256", b"=512")
ENV = {"KNOBLEDGER_ACTOR": "anna", "TZ": "UTC"}


_LIMITS = {"connect_timeout": "90s", "command_timeout": "180s"}
"""far beyond what a busy machine needs: a time-out shall come of a fault only"""
SHORT_LIMITS = {"connect_timeout": "4s", "command_timeout": "6s"}
"""for a host that is silent, so that it is given up soon"""


@dataclass(frozen=True, slots=True)
class Ended:
    """What a `knob` left: its exit code, and its one JSON document."""

    code: int
    document: dict[str, object]
    stderr: str

    @property
    def message(self) -> str:
        """Of the error, with its hint; empty if there is none."""
        error = self.document.get("error")
        return f"{error['message']}; {error['hint']}" if isinstance(error, dict) else ""


@dataclass
class Site:
    """One lab host with the target on a small disk of its own, and the workspace for it."""

    host: LabHost
    folder: Path
    transport: str = "fabric"
    user: str = "root"
    disk: str = SMALL
    in_place: bool = False
    """a second hard link leads to the target"""
    template: Path = field(init=False)
    plan: str = field(init=False, default="")
    look: tuple[str, ...] = field(init=False, default=())
    """owner, mode, ACL and xattrs of the target as it must stay"""

    def __post_init__(self) -> None:
        self.template = self.folder / "template"
        self.settle_in()
        self.put_back()
        self._make_plan()

    @property
    def app(self) -> str:
        """The target's folder, on the host."""
        return f"{self.disk}/decode"

    @property
    def script(self) -> str:
        """The target, on the host."""
        return f"{self.app}/serve.sh"

    @property
    def link(self) -> str:
        """The other name of a target that is written in place, on the host."""
        return f"{self.disk}/link"

    @property
    def filler(self) -> str:
        """A file for what fills the disk."""
        return f"{self.disk}/filler"

    def settle_in(self) -> None:
        """Once for a host: its small disk, and a user who is not root."""
        passwd = self.host.at("/etc/passwd")
        if f"{USER}:" not in passwd.read_text():
            with passwd.open("a") as file:
                file.write(f"{USER}:x:{UID}:{UID}::/home/{USER}:/bin/sh\n")
            self.host.small_disk(SMALL, "size=256k,mode=755")
            self.host.small_disk("/srv/ws", "size=8m")
        if self.disk == QUOTA and not self.host.at(QUOTA).exists():
            self.host.quota_disk(QUOTA)

    def put_back(self) -> None:
        """The old file with all its attributes, nothing beside it, and no trace of a test before."""
        for name in (AT, GO, PASSED):
            self.host.at(name).unlink(missing_ok=True)
        self.host.run(
            "sh",
            "-c",
            f"chattr -R -ia {self.app} 2>/dev/null; rm -rf {self.app} {self.filler} {self.link}",
            check=False,
        )
        folder = self.host.at(self.app)
        folder.mkdir()
        folder.chmod(0o755)
        target = self.host.at(self.script)
        target.write_bytes(OLD)
        if self.user == USER:
            os.chown(folder, UID, UID)
            os.chown(target, UID, UID)
        target.chmod(0o750)
        os.utime(target, (1_700_000_000, 1_700_000_000))
        with contextlib.suppress(OSError):  # a tmpfs before Linux 6.6 has none
            os.setxattr(target, "user.origin", b"set by hand")
        if self.in_place:
            os.link(target, self.host.at(self.link))
        self.host.run("setfacl", "-m", "u:7:r-x", self.script)
        self.look = self.attributes()

    def attributes(self) -> tuple[str, ...]:
        """Of the target now."""
        shown = self.host.run("getfacl", "-cEpn", "--", self.script).stdout.decode()
        xattrs = self.host.run(
            "getfattr", "-d", "-m", "user", "--absolute-names", self.script
        ).stdout.decode()
        stat = os.stat(self.host.at(self.script))
        return (f"{stat.st_uid}:{stat.st_gid}", f"{stat.st_mode:o}", str(stat.st_nlink), shown, xattrs)

    def _make_plan(self) -> None:
        found(self.template)
        service = f'[hosts.{self.host.name}.services.decode]\nscript = "{self.script}"\n'
        more = {"transport": self.transport, "user": self.user, **_LIMITS}
        (self.template / "hosts.toml").write_text(self.host.toml(service, **more))
        with self.open(self.template) as workspace:
            report = workspace.set(
                [self.target], [Request("TARGET_CTAS", "512")], Options(in_place=self.in_place)
            )
        assert not isinstance(report, NothingToDo)
        self.plan = report.id
        with self.open(self.template) as workspace:
            workspace.approve(self.plan, "flag")
        with self.open(self.template) as workspace:
            workspace.index(rebuild=True)

    @property
    def target(self) -> str:
        """As commands name it."""
        return f"{self.host.name}/decode"

    @property
    def live(self) -> bytes:
        """What is in the file."""
        return self.host.at(self.script).read_bytes()

    def open(self, root: Path) -> Workspace:
        """The workspace in this process."""
        return Workspace.open(root, ENV)

    def workspace(self, name: str) -> Path:
        """A fresh copy, with the plan made and approved."""
        root = self.folder / name
        shutil.rmtree(root, ignore_errors=True)
        shutil.copytree(self.template, root, symlinks=True)
        return root

    def limits(self, root: Path, limits: dict[str, str]) -> None:
        """Other time-outs in its hosts.toml."""
        path = root / "hosts.toml"
        text = path.read_text()
        for key, value in limits.items():
            text = re.sub(rf'{key} = "\w+"', f'{key} = "{value}"', text)
        path.write_text(text)

    def apply(
        self, root: Path | str, *launcher: str, before: tuple[str, ...] = ()
    ) -> subprocess.Popen[bytes]:
        """A real `knob apply PLAN`, started by a launcher of ours (a module and its words)."""
        return self._started(
            *before, sys.executable, "-m", *launcher, "-C", str(root), "--json", "apply", self.plan
        )

    def knob(self, root: Path, *words: str) -> subprocess.Popen[bytes]:
        """A real `knob --json`."""
        return self._started(sys.executable, "-m", "knobledger", "-C", str(root), "--json", *words)

    def _started(self, *argv: str) -> subprocess.Popen[bytes]:
        return subprocess.Popen(
            argv,
            env={
                **os.environ,
                **ENV,
                "PYTHONPATH": os.pathsep.join((str(_TESTS), os.environ.get("PYTHONPATH", ""))),
            },
            stdin=subprocess.DEVNULL,
            stdout=subprocess.PIPE,
            stderr=subprocess.PIPE,
            start_new_session=True,
        )

    def strays(self) -> list[str]:
        """What is beside the target or among the backups and is neither target nor whole backup."""
        folder = self.host.at(self.app)
        left = [str(name) for name in os.listdir(folder) if name not in ("serve.sh", ".knobledger")]
        backups = folder / ".knobledger"
        if backups.exists():
            for path in backups.iterdir():
                if path.name.startswith(".") or path.read_bytes() != OLD:
                    left.append(f".knobledger/{path.name}")
        return left


def ended(process: subprocess.Popen[bytes], timeout_s: float = 600) -> Ended:
    """Waits for a `knob` with --json."""
    stdout, stderr = process.communicate(timeout=timeout_s)
    document = json.loads(stdout) if stdout.strip() else {}
    return Ended(process.returncode, document, stderr.decode())


def violations(site: Site, root: Path, end: Ended) -> list[str]:
    """Everything that is not as it must be after an attempt that was disturbed, and `knob recover`."""
    wrong = []
    live = site.live
    torn = live not in (OLD, NEW)
    if torn and not site.in_place:
        wrong.append(f"the file holds neither the old nor the new bytes: {live!r}")
    if not torn and site.attributes() != site.look:
        wrong.append(f"attributes {site.attributes()} are not {site.look}")
    wrong += _said(end, live)
    site.limits(root, _LIMITS)
    with site.open(root) as workspace:
        recovered = workspace.recover()
    if recovered.exit_code != (22 if torn else 0):
        wrong.append(f"recover ended with {recovered.exit_code}: {recovered}")
    if site.live != live:
        wrong.append("recover changed the file")
    if left := site.strays():
        wrong.append(f"left behind: {left}")
    with site.open(root) as workspace:
        state = workspace.state
        if state.in_doubt():
            wrong.append("an attempt is still in doubt")
        if state.plans[site.plan].is_change != (live == NEW):  # type: ignore[index]
            wrong.append(f"the ledger says changed: {live != NEW}, the file: {live == NEW}")
        if findings := workspace.verify().findings:
            wrong.append(f"verify finds {findings}")
    if not (torn and site.in_place):
        return wrong
    [told] = recovered.torn or [None]
    if told is None or not told.backup or site.host.at(told.backup).read_bytes() != OLD:
        wrong.append(f"recover does not say where the old bytes are: {told}")
    return wrong + _mended(site, root)


def _mended(site: Site, root: Path) -> list[str]:
    """A file that is neither: one command brings back what was before, as the ledger and the backup have it."""
    with site.open(root) as workspace:
        if not workspace.state.plans[site.plan].attempts[-1].torn:  # type: ignore[index]
            return ["the ledger does not say that the file holds neither the old nor the new bytes"]
    words = ("revert", site.plan, "--exact", "--in-place", "--go-ahead")
    end = ended(site.knob(root, *words))
    wrong = [] if end.code == 0 else [f"`knob {' '.join(words)}` ended with {end.code}: {end.message}"]
    if site.live != OLD:
        wrong.append(f"the file could not be brought back: {site.live!r}")
    if site.attributes() != site.look:
        wrong.append(f"attributes after that {site.attributes()} are not {site.look}")
    with site.open(root) as workspace:
        if (status := workspace.state.plans[site.plan].status(workspace.now)) != "used":  # type: ignore[index]
            wrong.append(f"the plan that tore the file is {status}: it could be applied once more")
        if workspace.recover().torn:
            wrong.append("recover still says that it is torn")
        if findings := workspace.verify().findings:
            wrong.append(f"verify finds after that {findings}")
    return wrong


def _said(end: Ended, live: bytes) -> list[str]:
    """Were exit code and message true?"""
    match end.code:
        case -9 | 22:
            told = None
        case 0:
            told = NEW
        case 1 | 10 | 11 | 20 | 21:
            told = OLD
        case _:
            return [f"exit code {end.code}: {end.message or end.stderr}"]
    wrong = []
    if told is not None and live != told:
        wrong.append(f"exit code {end.code} ({end.message!r}) is not true of the file")
    if end.code > 0 and not end.message:
        wrong.append(f"exit code {end.code} without a message")
    if end.code == 22 and not re.search("`knob (recover|revert) ?", end.message):
        wrong.append(f"exit code 22 does not say what to type: {end.message!r}")
    if live == NEW and any(word in end.message for word in ("is as before", "nothing was written")):
        wrong.append(f"the message is not true: {end.message!r}")
    if end.code == 0:
        digest = str(end.document.get("result"))
        if digest != digest_of(live):
            wrong.append(f"the reported result {digest} is not the file's digest")
    return wrong
