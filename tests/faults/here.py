"""The faults on the operator's own machine, before every write into the workspace."""

from __future__ import annotations

import shutil
import subprocess
from pathlib import Path

from faults.site import Site, ended, violations
from faults.struck import FAULTS as FAULTS

_DISK = "/srv/ws"
_ROOT = f"{_DISK}/ops"


def _fresh(site: Site) -> str:
    """A workspace on a small disk of its own, by the path at which `beside` sees it."""
    site.put_back()
    disk = site.host.at(_DISK)
    for path in disk.iterdir():
        shutil.rmtree(path) if path.is_dir() else path.unlink()
    shutil.copytree(site.template, site.host.at(_ROOT), symlinks=True)
    return site.host.inner(_ROOT)


def writes(site: Site) -> list[str]:
    """What each write of an undisturbed `knob apply` is about, in order: the two events are `started` and `outcome`."""
    root = _fresh(site)
    end = ended(site.apply(root, "faults.struck", "0", "record", root, before=site.host.beside()))
    assert end.code == 0, end
    passed = site.host.at(f"{_DISK}/passed").read_text().split("\n")
    # Both events are written by the same steps.
    events = [n for n, kind in enumerate(passed) if kind == "event"]
    started = set(events[: len(events) // 2])
    return [
        ("started" if n in started else "outcome") if kind == "event" else kind
        for n, kind in enumerate(passed)
    ]


def strike(site: Site, number: int, fault: str) -> list[str]:
    """One fault before one write; what is not as it must be afterwards."""
    root = _fresh(site)
    end = ended(site.apply(root, "faults.struck", str(number), fault, root, before=site.host.beside()))
    subprocess.run(
        [*site.host.beside(), "mount", "-o", "remount,bind,rw", site.host.inner(_DISK)], check=True
    )
    site.host.at(f"{_DISK}/filler").unlink(missing_ok=True)
    seen = site.folder / "seen"
    shutil.rmtree(seen, ignore_errors=True)
    shutil.copytree(site.host.at(_ROOT), seen, symlinks=True)
    lock = Path(seen, ".git/index.lock")
    if fault == "git lock held":
        lock.unlink(missing_ok=True)
    wrong = violations(site, seen, end)
    if fault.startswith(("no git", "git", "caches")) and end.code != 0:
        wrong.append(f"exit code {end.code}, though nothing is wrong with host or ledger: {end.message!r}")
    return wrong
