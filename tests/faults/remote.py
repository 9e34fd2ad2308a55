"""The faults on the host and on the way to it, at every point of the transaction."""

from __future__ import annotations

import os
import re
import signal
import subprocess
import time
from collections.abc import Callable
from dataclasses import dataclass
from pathlib import Path

from faults.paused import AT, GO, PASSED
from faults.site import QUOTA, SHORT_LIMITS, SMALL, UID, USER, Ended, Site, ended, violations

Client = subprocess.Popen[bytes]


@dataclass(frozen=True, slots=True)
class Fault:
    """Something that goes wrong while the script waits at a point."""

    name: str
    strikes: Callable[[Site, Client], None]
    """before the script goes on"""
    mended: Callable[[Site], None] = lambda _site: None
    """before `knob recover` looks"""
    user: str = "root"
    disk: str = SMALL
    lasts_s: float = 0
    """how long it goes on after the script did; -1: until the client has ended"""


def _kill_client(_site: Site, client: Client) -> None:
    os.kill(client.pid, signal.SIGKILL)


def _kill_shell(site: Site, _client: Client) -> None:
    # All of its process group: a program that it has started would go on without it.
    site.host.run("kill", "-9", "--", f"-{site.host.at(AT).read_text().strip()}")


def _cut(site: Site, _client: Client) -> None:
    site.host.cut()


def _silence(site: Site, _client: Client) -> None:
    site.host.blackhole()


def _mend_line(site: Site) -> None:
    site.host.line()


def _reboot(site: Site, _client: Client) -> None:
    site.host.reboot()


def _fill(site: Site, _client: Client) -> None:
    site.host.run("sh", "-c", f"cat /dev/zero >{site.filler} 2>/dev/null", check=False)


def _empty(site: Site) -> None:
    site.host.at(site.filler).unlink(missing_ok=True)


def _use_up_quota(site: Site, _client: Client) -> None:
    site.host.quota(used_up=True)


def _raise_quota(site: Site) -> None:
    site.host.quota(used_up=False)


def _read_only(site: Site, _client: Client) -> None:
    site.host.run("mount", "-o", "remount,bind,ro", site.disk)


def _writable(site: Site) -> None:
    site.host.run("mount", "-o", "remount,bind,rw", site.disk)


def _close_folder(site: Site, _client: Client) -> None:
    for folder in (site.app, f"{site.app}/.knobledger"):
        site.host.run(
            "sh", "-c", f"[ ! -d {folder} ] || chown 0:0 {folder}; [ ! -d {folder} ] || chmod 555 {folder}"
        )


def _open_folder(site: Site) -> None:
    for folder, mode in ((site.app, "755"), (f"{site.app}/.knobledger", "700")):
        site.host.run(
            "sh",
            "-c",
            f"[ ! -d {folder} ] || chown {UID}:{UID} {folder}; [ ! -d {folder} ] || chmod {mode} {folder}",
        )


def _immutable(site: Site, _client: Client) -> None:
    site.host.run("chattr", "+i", site.script)


def _mutable(site: Site) -> None:
    site.host.run("sh", "-c", f"chattr -i {site.script} {site.app}/.knobledger/* 2>/dev/null; :")


FAULTS = (
    Fault("client killed", _kill_client),
    Fault("shell killed", _kill_shell),
    Fault("connection cut", _cut),
    Fault("silence, mended", _silence, _mend_line, lasts_s=1),
    Fault("silence", _silence, _mend_line, lasts_s=-1),
    Fault("reboot", _reboot),
    Fault("disk full", _fill, _empty),
    Fault("quota used up", _use_up_quota, _raise_quota, disk=QUOTA),
    Fault("read-only", _read_only, _writable),
    Fault("no permission", _close_folder, _open_folder, user=USER),
    Fault("immutable", _immutable, _mutable),
)
_REFUSALS = ("disk full", "quota used up", "read-only", "no permission", "immutable")
"""faults by which the host only refuses to write"""


@dataclass(frozen=True, slots=True)
class Point:
    """A place in the script: the number of a line, and the step that it belongs to."""

    step: str
    line: str
    """for `faults.paused`"""


TORN = tuple(
    Point(f"{step} torn", f"{way}{count} bytes")
    for step, way in (("swap", ""), ("rollback", "back-"))
    for count in (0, 60)
)
"""in the middle of writing in place: when so many bytes are written"""


def points(site: Site) -> list[Point]:
    """Every point that an undisturbed change passes, and those of one that has to put the backup back."""
    found: list[Point] = []
    for way in ("", "back-"):
        site.put_back()
        end = ended(site.apply(site.workspace("record"), "faults.paused", f"{way}record"))
        assert end.code == (21 if way else 0), end
        passed = site.host.at(PASSED).read_text().split("\n")[:-1]
        waiting: list[str] = []
        verified = False
        for word in passed:
            if word.startswith("step "):
                step = word.removeprefix("step ")
                if not way or verified:
                    found += [Point(step, way + line) for line in dict.fromkeys(waiting)]
                verified |= step == "swap"
                waiting = []
            else:
                waiting.append(word)
        if not way:
            found += [Point("answer", line) for line in dict.fromkeys(waiting)]
    return found


class NotReached(Exception):
    """A test's own trouble: the client never came to the point where it was to be struck."""


def strike(site: Site, point: Point, fault: Fault) -> list[str]:
    """One fault at one point; what is not as it must be afterwards."""
    host = site.host
    root, client = _waiting(site, point, fault)
    waiting = host.at(AT).read_text().strip()
    try:
        fault.strikes(site, client)
        host.at(GO).touch()
        if fault.lasts_s >= 0:
            time.sleep(fault.lasts_s)
            if fault.lasts_s:
                fault.mended(site)
        end = ended(client)
        # What goes on without a client has to come to its end before anybody looks.
        host.run("sh", "-c", f"while kill -0 {waiting} 2>/dev/null; do sleep 0.02; done")
    finally:
        fault.mended(site)
    return violations(site, root, end) + _also(point, fault, end)


def _waiting(site: Site, point: Point, fault: Fault) -> tuple[Path, Client]:
    """A workspace, and a client whose transaction waits at the point.

    A busy machine may be too slow for the short limits: what was not reached was not struck, and is tried again.
    """
    for _ in range(5):
        site.put_back()
        root = site.workspace("cell")
        if fault.lasts_s:
            site.limits(root, SHORT_LIMITS)
        client = site.apply(root, "faults.paused", point.line)
        while client.poll() is None:
            if site.host.at(AT).exists():
                return root, client
            time.sleep(0.005)
        end = ended(client)
    raise NotReached(f"{point}: {end}")


def _also(point: Point, fault: Fault, end: Ended) -> list[str]:
    """What this fault in particular must come to."""
    told = {0, 21}
    torn = point.step.endswith(" torn")
    if (torn and fault.name == "shell killed") or (
        (torn or point.step == "rollback") and fault.name in _REFUSALS
    ):
        # The file is torn; or the proof of the new content failed, and now the old can't be put back.
        told.add(22)
    put_back = point.step.startswith("rollback") and end.code == 21
    named = {"quota used up": "quota exceeded", "disk full": "No space left|disk is full"}.get(fault.name)
    if named and end.code and not put_back and not re.search(named, end.message):
        return [f"exit code {end.code} does not name the cause: {end.message!r}"]
    if fault.name in ("client killed", "silence", "silence, mended", "reboot") or end.code in told:
        return []
    return [f"exit code {end.code} for a host that can be reached: {end.message!r}"]
