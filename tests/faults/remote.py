"""The faults on the host and on the way to it, at every point of the transaction."""

from __future__ import annotations

import os
import signal
import subprocess
import time
from collections.abc import Callable
from dataclasses import dataclass

from faults.paused import AT, GO, PASSED
from faults.site import FILLER, FOLDER, SCRIPT, SHORT_LIMITS, UID, Ended, Site, ended, violations
from lab import LabHost

Client = subprocess.Popen[bytes]


@dataclass(frozen=True, slots=True)
class Fault:
    """Something that goes wrong while the script waits at a point."""

    name: str
    strikes: Callable[[LabHost, Client], None]
    """before the script goes on"""
    mended: Callable[[LabHost], None] = lambda _host: None
    """before `knob recover` looks"""
    user: str = "root"
    lasts_s: float = 0
    """how long it goes on after the script did; -1: until the client has ended"""


def _kill_client(_host: LabHost, client: Client) -> None:
    os.kill(client.pid, signal.SIGKILL)


def _kill_shell(host: LabHost, _client: Client) -> None:
    host.run("kill", "-9", host.at(AT).read_text().strip())


def _cut(host: LabHost, _client: Client) -> None:
    host.cut()


def _silence(host: LabHost, _client: Client) -> None:
    host.blackhole()


def _mend_line(host: LabHost) -> None:
    host.line()


def _reboot(host: LabHost, _client: Client) -> None:
    host.reboot()


def _fill(host: LabHost, _client: Client) -> None:
    host.run("sh", "-c", f"cat /dev/zero >{FILLER} 2>/dev/null", check=False)


def _empty(host: LabHost) -> None:
    host.at(FILLER).unlink(missing_ok=True)


def _read_only(host: LabHost, _client: Client) -> None:
    host.run("mount", "-o", "remount,bind,ro", "/srv/app")


def _writable(host: LabHost) -> None:
    host.run("mount", "-o", "remount,bind,rw", "/srv/app")


def _close_folder(host: LabHost, _client: Client) -> None:
    for folder in (FOLDER, f"{FOLDER}/.knobledger"):
        host.run(
            "sh", "-c", f"[ ! -d {folder} ] || chown 0:0 {folder}; [ ! -d {folder} ] || chmod 555 {folder}"
        )


def _open_folder(host: LabHost) -> None:
    for folder, mode in ((FOLDER, "755"), (f"{FOLDER}/.knobledger", "700")):
        host.run(
            "sh",
            "-c",
            f"[ ! -d {folder} ] || chown {UID}:{UID} {folder}; [ ! -d {folder} ] || chmod {mode} {folder}",
        )


def _immutable(host: LabHost, _client: Client) -> None:
    host.run("chattr", "+i", SCRIPT)


def _mutable(host: LabHost) -> None:
    host.run("sh", "-c", f"chattr -i {SCRIPT} {FOLDER}/.knobledger/* 2>/dev/null; :")


FAULTS = (
    Fault("client killed", _kill_client),
    Fault("shell killed", _kill_shell),
    Fault("connection cut", _cut),
    Fault("silence, mended", _silence, _mend_line, lasts_s=1),
    Fault("silence", _silence, _mend_line, lasts_s=-1),
    Fault("reboot", _reboot),
    Fault("disk full", _fill, _empty),
    Fault("read-only", _read_only, _writable),
    Fault("no permission", _close_folder, _open_folder, user="op"),
    Fault("immutable", _immutable, _mutable),
)


@dataclass(frozen=True, slots=True)
class Point:
    """A place in the script: the number of a line, and the step that it belongs to."""

    step: str
    line: str
    """for `faults.paused`"""


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


def strike(site: Site, point: Point, fault: Fault) -> list[str]:
    """One fault at one point; what is not as it must be afterwards."""
    host = site.host
    site.put_back()
    root = site.workspace("cell")
    if fault.lasts_s:
        site.limits(root, SHORT_LIMITS)
    client = site.apply(root, "faults.paused", point.line)
    at = host.at(AT)
    while not at.exists():
        if client.poll() is not None:
            return [f"{point} was not reached: {ended(client)}"]
        time.sleep(0.005)
    waiting = at.read_text().strip()
    try:
        fault.strikes(host, client)
        host.at(GO).touch()
        if fault.lasts_s >= 0:
            time.sleep(fault.lasts_s)
            if fault.lasts_s:
                fault.mended(host)
        end = ended(client)
        # What goes on without a client has to come to its end before anybody looks.
        host.run("sh", "-c", f"while kill -0 {waiting} 2>/dev/null; do sleep 0.02; done")
    finally:
        fault.mended(host)
    return violations(site, root, end) + _also(point, fault, end)


def _also(point: Point, fault: Fault, end: Ended) -> list[str]:
    """What this fault in particular must come to."""
    told = {0, 21}
    if point.step == "rollback" and fault.name in ("disk full", "read-only", "no permission", "immutable"):
        # The proof of the new content failed, and now the old can't be put back.
        told.add(22)
    if fault.name in ("client killed", "silence", "silence, mended", "reboot") or end.code in told:
        return []
    return [f"exit code {end.code} for a host that can be reached: {end.message!r}"]
