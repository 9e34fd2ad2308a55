"""What systemd has in effect for a unit, compared with the files that hosts.toml names.

A drop-in without `[Service]`, one in a folder that systemd does not read, an `EnvironmentFile` that
beats `Environment`: each leaves a file that says one thing and a unit that does another.
"""

from __future__ import annotations

from collections.abc import Iterable, Mapping, Sequence

from msgspec import Struct
from msgspec.structs import replace

from knobledger.errors import Refused
from knobledger.hosts.config import Target
from knobledger.hosts.host import Host
from knobledger.knobs import Dialect, Reading
from knobledger.names import HostPath
from knobledger.services.running import UnitFacts


class Mismatch(Struct, frozen=True):
    """Something that a file says and systemd does not do."""

    target: str
    name: str
    """the knob; empty: the file as a whole"""
    written: str | None
    effective: str | None
    why: str

    @property
    def blocks(self) -> bool:
        """Not even a restart would bring the file into effect."""
        return not self.name


def mismatches(host: Host, unit: UnitFacts, targets: Sequence[Target]) -> tuple[Mismatch, ...]:
    """Reads the unit and env files of a service, and those that systemd names, and compares. Changes nothing.

    Right after a `daemon-reload` only. Raises `Unreachable`, `Refused` (a target can't be read).
    """
    named = [target for target in targets if target.dialect in (Dialect.UNIT, Dialect.ENV_SYSTEMD)]
    if not named:
        return ()
    files = [
        (_as_systemd_names_it(host, unit, target), Reading.of(host.read(target.path).content, target.dialect))
        for target in named
    ]
    env_files: dict[HostPath, Reading | None] = {
        target.path: reading for target, reading in files if target.dialect is Dialect.ENV_SYSTEMD
    }
    for name, _ in unit.environment_files:
        path = HostPath(name)
        if path not in env_files:
            try:
                env_files[path] = Reading.of(host.read(path).content, Dialect.ENV_SYSTEMD)
            except Refused:
                env_files[path] = None  # missing, which its `-` may allow
    return compare(unit, files, env_files)


def _as_systemd_names_it(host: Host, unit: UnitFacts, target: Target) -> Target:
    """The target by the path under which systemd reads the same file: of a linked unit, or /lib for /usr/lib."""
    known = [unit.fragment, *unit.drop_ins, *(path for path, _ in unit.environment_files)]
    known = [path for path in known if path]
    if target.path in known or not known:
        return target
    # One line for each path, missing ones included: -m, where there is one; else nothing is known.
    done = host.run(("readlink", "-m", "--", target.path, *known), timeout_s=30)
    real, *others = done.stdout.decode("utf-8", "surrogateescape").splitlines() or [""]
    if done.status or len(others) != len(known):
        return target
    same = next((path for path, other in zip(known, others, strict=True) if other == real), None)
    return target if same is None else replace(target, path=HostPath(same))


def load_problem(unit: UnitFacts, name: str) -> str:
    """Why systemd can't start a unit at all; empty if it can."""
    if unit.load in ("loaded", ""):
        return ""
    return f"systemd has not loaded {name!r}: {unit.load}" + (
        f", {unit.load_error}" if unit.load_error else ""
    )


def effective(
    unit: UnitFacts, env_files: Mapping[HostPath, Reading | None]
) -> dict[str, tuple[str | None, str]]:
    """Each variable that the unit's process will start with, and where it comes from; the last one wins."""
    found: dict[str, tuple[str | None, str]] = {
        name: (value, "the unit's Environment") for name, value in unit.environment
    }
    for path, _ in unit.environment_files:
        reading = env_files.get(HostPath(path))
        for item in reading.occurrences if reading else ():
            if item.active and item.kind == "env":
                found[item.name] = (item.value, f"EnvironmentFile {path}")
    return found


def compare(
    unit: UnitFacts,
    files: Sequence[tuple[Target, Reading]],
    env_files: Mapping[HostPath, Reading | None],
) -> tuple[Mismatch, ...]:
    """Where the unit and env files of a service say something that systemd will not do."""
    now = effective(unit, env_files)
    return tuple(item for target, reading in files for item in _of_file(unit, target, reading, now))


def _of_file(
    unit: UnitFacts, target: Target, reading: Reading, now: Mapping[str, tuple[str | None, str]]
) -> Iterable[Mismatch]:
    match target.dialect:
        case Dialect.UNIT:
            if any("[Service]" in note.message for note in reading.warnings):
                why = f"{target.path} has no [Service] section, so systemd ignores what stands in it"
                return (Mismatch(target.name, "", None, None, why),)
            if target.path not in (unit.fragment, *unit.drop_ins):
                read = ", ".join(path for path in (unit.fragment, *unit.drop_ins) if path)
                why = f"systemd does not read {target.path}; it reads {read or 'nothing'}"
                return (Mismatch(target.name, "", None, None, why),)
        case Dialect.ENV_SYSTEMD:
            if target.path not in [path for path, _ in unit.environment_files]:
                why = f"the unit has no EnvironmentFile={target.path}"
                return (Mismatch(target.name, "", None, None, why),)
        case _:
            return ()
    return tuple(
        Mismatch(
            target.name,
            item.name,
            item.value,
            now.get(item.name, (None, ""))[0],
            f"{target.path} sets {item.name} to {item.value!r}, but "
            + (
                f"{now[item.name][1]} sets it to {now[item.name][0]!r}, and that is in effect"
                if item.name in now
                else "systemd does not have it"
            ),
        )
        for item in reading.occurrences
        if item.kind == "env" and item.active and item.wins and item.value is not None
        if now.get(item.name, (None, ""))[0] != item.value
    )
