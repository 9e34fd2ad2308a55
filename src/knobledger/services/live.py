"""Live proof: what the processes of a service have of the knobs of its file.

`see` asks the host and changes nothing; `judge` compares file, unit and processes, and masks what is secret.
The words are those of docs/watching.md.
"""

from __future__ import annotations

import re
from collections.abc import Iterator, Mapping, Sequence
from typing import Literal

from msgspec import Struct
from msgspec.structs import replace

from knobledger.errors import Refused, StateUnknown
from knobledger.events.watching import Presence
from knobledger.hosts.config import Service, Target
from knobledger.hosts.environs import read as environs_words
from knobledger.hosts.host import Host, RemoteFile
from knobledger.knobs import Dialect, Masker, Reading
from knobledger.knobs.occurrence import Kind
from knobledger.services.running import LOOK_TIMEOUT_S, Process, Running
from knobledger.services.running import look as look_running
from knobledger.services.started import Environment, Proc, Told, agrees, is_shell, runs, summary, tell_all

COMMAND_LENGTH = 200
"""characters of a command line that are shown and kept"""
_CLOCK_SLACK_S = 0.05
"""a process's start is known to this"""


class Sight(Struct, frozen=True):
    """What one look at a host brought: nothing is judged yet, and nothing masked."""

    target: Target
    service: Service
    remote: RemoteFile
    running: Running
    procs: tuple[Proc, ...]
    written: float | None
    """when the file was last written, unix seconds by the host's clock"""
    files: Mapping[str, bytes | None]
    """the unit's environment files; None: can't be read"""
    complaints: tuple[str, ...]
    """lines of the log that call something unknown"""
    names: tuple[str, ...]


class Written(Struct, frozen=True):
    """What a file, or systemd, says of a knob."""

    state: Literal["set", "absent", "dynamic"]
    """`dynamic`: only running the file could tell the value"""
    value: str | None = None
    """None unless set; an empty string is an empty value or a bare flag"""
    place: str = ""
    """a line of the file, or what the unit takes it from"""


class LiveKnob(Struct, frozen=True):
    """One knob: in the file, in the unit, in each process."""

    name: str
    kind: Kind
    file: Written
    unit: Written | None
    """None: the service has no unit, or the knob is a flag"""
    state: Presence
    value: str | None
    told: tuple[Told, ...]
    agrees: bool | None
    """the processes that could be read have what is written; None: that can't be told"""
    unknown: str
    """a line of the log that calls it unknown to the program; else empty"""


class Live(Struct, frozen=True):
    """The processes of a service, and what they have of a target's knobs; secrets masked."""

    target: Target
    service: Service
    remote: RemoteFile
    running: Running
    written: float | None
    procs: tuple[Proc, ...]
    """with their commands masked and cut; without their environments"""
    knobs: tuple[LiveKnob, ...]
    remarks: tuple[str, ...] = ()


def see(host: Host, service: Service, target: Target, names: Sequence[str] = ()) -> Sight:
    """Reads the target, finds the processes of its service, and reads all of these in one exec.

    Without `names`: every knob that the file decides. Raises `Refused` for a service that hosts.toml gives no way to
    find, and what `Host.read` and `running.look` raise.
    """
    if service.unit is None and service.pid is None:
        raise Refused(
            f"{service.full_name!r} has neither a unit nor a pid command, so its processes can't be found",
            hint=f'add unit = "...", or pid = "..." (a command that prints a process id), to {service.full_name}',
        )
    remote = host.read(target.path, running=True)
    running = look_running(host, service)
    reading = Reading.of(remote.content, target.dialect)
    wanted = tuple(dict.fromkeys(names)) or tuple(reading.decided())
    paths = [path for path, _ in running.unit.environment_files] if running.unit else []
    words, nonce = environs_words(
        running.pids,
        target=remote.manifest.resolved or target.path,
        unit=service.unit or "",
        log=service.log or "",
        files=paths,
        names=wanted,
    )
    done = host.run(words, timeout_s=LOOK_TIMEOUT_S)
    sections = dict(_sections(done.stdout, nonce))
    if "end" not in sections:
        said = done.stderr.decode("utf-8", "replace").strip()
        raise StateUnknown(
            f"the look at the processes of {service.full_name} was cut off: {said!r}", commands=[]
        )
    written, exact = _written(sections["written"])
    # A shell that has the script open runs it, whatever its command line calls it.
    shells = {
        p.pid
        for p in running.processes
        if is_shell(p.command) and (p.pid in remote.manifest.running or runs(p.command, target.path))
    }
    procs = [_proc(process, sections, shells, written, exact) for process in running.processes]
    return Sight(
        target=target,
        service=service,
        remote=remote,
        running=running,
        procs=tuple(proc for proc in procs if proc is not None),
        written=written,
        files={p: None if f"nofile {p}" in sections else sections.get(f"file {p}") for p in paths},
        complaints=tuple(sections.get("log", b"").decode("utf-8", "surrogateescape").splitlines()),
        names=wanted,
    )


def _sections(stdout: bytes, nonce: str) -> Iterator[tuple[str, bytes]]:
    for part in stdout.split(f"\n{nonce} ".encode())[1:]:
        name, _, content = part.partition(b"\n")
        yield name.decode("utf-8", "surrogateescape"), content


def _written(section: bytes) -> tuple[float | None, bool]:
    """The file's time, and whether it is known to fractions of a second."""
    found = re.search(rb"^\d+(\.\d+)?$", section, re.MULTILINE)
    return (float(found[0]), found[1] is not None) if found else (None, False)


def _proc(
    process: Process, sections: Mapping[str, bytes], shells: set[int], written: float | None, exact: bool
) -> Proc | None:
    """None for a process that has ended meanwhile; its number may be another's by now."""
    stat = sections.get(f"stat {process.pid}", b"").rpartition(b") ")[2].split()
    if len(stat) < 20 or int(stat[19]) != process.ticks:
        return None
    closed = f"closed {process.pid}" in sections
    raw = None if closed else sections.get(f"environ {process.pid}")
    return Proc(
        process,
        Environment.of(raw),
        after_write=_after(process.started, written, exact),
        launcher=process.pid in shells,
    )


def _after(started: float, written: float | None, exact: bool) -> bool | None:
    if written is None:
        return None
    if started > written + (0 if exact else 1) + _CLOCK_SLACK_S:
        return True
    return False if started < written - _CLOCK_SLACK_S else None


def judge(sight: Sight, masker: Masker) -> Live:
    """Compares file, unit and processes. The masker must know the file (`Masker.content`). Pure but for that."""
    reading = Reading.of(sight.remote.content, sight.target.dialect)
    launchers = frozenset(proc.pid for proc in sight.procs if proc.launcher)
    unit = _unit_values(sight)
    knobs = tuple(_knob(sight, name, reading, unit, launchers, masker) for name in sight.names)
    procs = tuple(
        replace(proc, environment=Environment(closed=proc.environment.closed), process=_shown(proc, masker))
        for proc in sight.procs
    )
    return Live(
        target=sight.target,
        service=sight.service,
        remote=sight.remote,
        running=sight.running,
        written=sight.written,
        procs=procs,
        knobs=knobs,
        remarks=tuple(_remarks(sight)),
    )


def _knob(
    sight: Sight,
    name: str,
    reading: Reading,
    unit: Mapping[str, Written] | None,
    launchers: frozenset[int],
    masker: Masker,
) -> LiveKnob:
    flag = name.startswith("-")
    in_file = _file_value(reading, name)
    in_unit = None if flag or unit is None else unit.get(name, Written("absent"))
    told = tell_all(sight.procs, name)
    state, value = summary(told, launchers)
    decides = in_file if in_file.state != "absent" else in_unit or in_file
    complaint = re.compile(rf"(?<![\w-]){re.escape(name)}(?![\w-])", re.IGNORECASE)
    return LiveKnob(
        name=name,
        kind="flag" if flag else "env",
        file=replace(in_file, value=masker.value(name, in_file.value)),
        unit=in_unit and replace(in_unit, value=masker.value(name, in_unit.value)),
        state=state,
        value=masker.value(name, value),
        told=tuple(_masked(one, name, masker) for one in told),
        agrees=None if decides.state == "dynamic" else agrees(told, launchers, decides.value, flag=flag),
        unknown=next((masker.text(line.strip()) for line in sight.complaints if complaint.search(line)), ""),
    )


def _file_value(reading: Reading, name: str) -> Written:
    found = reading.decided().get(name)
    if found is None:
        return Written("absent")
    place = f"line {found.line}"
    if found.bare:
        return Written("set", "", place)
    if found.value is None or found.depends:
        return Written("dynamic", None, place)
    return Written("set", found.value, place)


def _unit_values(sight: Sight) -> dict[str, Written] | None:
    """What systemd gives the unit's processes: `Environment=`, beaten by each environment file in turn."""
    facts = sight.running.unit
    if facts is None:
        return None
    found = {name: Written("set", value, "Environment=") for name, value in facts.environment}
    for path, _ in facts.environment_files:
        content = sight.files.get(path)
        if content is not None:
            for name, item in Reading.of(content, Dialect.ENV_SYSTEMD).decided().items():
                found[name] = Written("set", item.value or "", path)
    return found


def _masked(told: Told, name: str, masker: Masker) -> Told:
    kin = tuple((relation, _masked(other, name, masker)) for relation, other in told.relatives)
    return replace(told, value=masker.value(name, told.value), relatives=kin)


def _shown(proc: Proc, masker: Masker) -> Process:
    text = masker.text(" ".join(proc.process.command))
    cut = text if len(text) <= COMMAND_LENGTH else f"{text[: COMMAND_LENGTH - 1]}…"
    return replace(proc.process, command=(cut,))


def _remarks(sight: Sight) -> Iterator[str]:
    facts = sight.running.unit
    if facts is not None and facts.load != "loaded":
        yield f"systemd says of unit {sight.service.unit!r}: {facts.load} {facts.load_error}".rstrip()
    if not sight.procs:
        state = f"systemd calls its unit {facts.active}" if facts else "its pid command names no live process"
        yield f"no process of {sight.service.full_name} runs: {state}"
    for path, optional in facts.environment_files if facts else ():
        if sight.files.get(path) is None and not optional:
            yield f"the unit's environment file {path!r} can't be read"
    if facts is not None and facts.restarts:
        yield f"systemd has restarted it {facts.restarts} times by itself"
