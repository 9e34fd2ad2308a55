"""What runs of a service: its processes with start times and command lines, and what systemd says of it.

`look` asks the host once; the rest is pure. Only reading: plan mode may do it, but for a service that is found by
a `pid` command of its own, which could do anything.
"""

from __future__ import annotations

import re

from msgspec import Struct

from knobledger.errors import StateUnknown
from knobledger.hosts.config import Service
from knobledger.hosts.host import Host
from knobledger.hosts.procfs import look as look_words

LOOK_TIMEOUT_S = 60.0


class Process(Struct, frozen=True):
    """One process of a host."""

    pid: int
    parent: int
    ticks: int
    """its start in clock ticks since boot: with the pid, nothing else is ever the same process"""
    since_boot: float
    """its start in seconds since the host's boot; no step of the host's clock changes it"""
    started: float
    """its start in unix seconds by the host's clock, to about 10 ms"""
    command: tuple[str, ...]
    """its words, at most 64 KiB of them; empty for a zombie"""
    zombie: bool = False

    @property
    def identity(self) -> tuple[int, int]:
        """Pid and start: a pid alone is used again."""
        return self.pid, self.ticks


class UnitFacts(Struct, frozen=True):
    """What systemd says of a unit (`systemctl show`)."""

    load: str
    """`loaded`, `not-found`, `bad-setting`, `masked`, ..."""
    load_error: str
    active: str
    """`active`, `activating`, `deactivating`, `inactive`, `failed`"""
    sub: str
    result: str
    restarts: int
    """how often systemd itself has restarted it since it was last started by somebody"""
    environment: tuple[tuple[str, str], ...]
    """of all `Environment=` lines that are in effect, in order"""
    environment_files: tuple[tuple[str, bool], ...]
    """path, and whether a missing file is ignored; in order, each beats those before and all of `environment`"""
    fragment: str
    drop_ins: tuple[str, ...]
    stop_timeout_s: float | None
    """None: for ever"""


class Listener(Struct, frozen=True):
    """A process that holds a listening TCP port open."""

    port: int
    process: Process


class Running(Struct, frozen=True):
    """A service at one moment."""

    service: str
    main: int | None
    """systemd's main process, or what the `pid` command printed; None while it is down"""
    processes: tuple[Process, ...]
    """the main process first, then by their start; without zombies"""
    clock: float
    """the host's clock, unix seconds"""
    uptime: float
    """the host's seconds since boot, the same as in `Process.since_boot`"""
    unit: UnitFacts | None = None
    listeners: tuple[Listener, ...] = ()
    """of the ports that were asked for, as far as this login may see them; processes of any service"""
    everything: tuple[Process, ...] = ()
    """all processes of the host, for `still_there`"""

    @property
    def pids(self) -> tuple[int, ...]:
        """Of its processes, the main one first."""
        return tuple(process.pid for process in self.processes)

    @property
    def started(self) -> float | None:
        """The start of its main process, unix seconds by the host's clock."""
        return self.processes[0].started if self.processes else None

    def still_there(self, earlier: Running) -> tuple[Process, ...]:
        """The processes of an earlier look that are alive still, whatever became of the service."""
        before = {process.identity for process in earlier.processes}
        return tuple(p for p in self.everything if p.identity in before and not p.zombie)

    def new(self, earlier: Running) -> tuple[Process, ...]:
        """Its processes that started after an earlier look."""
        before = {process.identity for process in earlier.everything}
        return tuple(p for p in self.processes if p.identity not in before)


def look(host: Host, service: Service, ports: tuple[int, ...] = (), likely: tuple[int, ...] = ()) -> Running:
    """What runs of a service now, and who listens on `ports`. Changes nothing.

    If any of the processes `likely` listens there, others that do are not searched for.

    Raises `Unreachable`, `StateUnknown` (the look was cut off), `PlanMode` (a `pid` command in plan mode).
    """
    words, nonce = look_words(service.unit, None if service.unit else service.pid, ports, likely)
    done = host.run(words, timeout_s=LOOK_TIMEOUT_S)
    sections = _sections(done.stdout.decode("utf-8", "surrogateescape"), nonce)
    if "end" not in sections:
        said = done.stderr.decode("utf-8", "replace").strip()
        raise StateUnknown(
            f"the look at the processes of {service.full_name} was cut off: {said!r}", commands=[]
        )
    clock, uptime = _clock(sections["clock"])
    hertz = int(sections["hertz"].strip() or 100)
    table = _table(sections, clock, uptime, hertz)
    unit = main = None
    if service.unit:
        shown = _shown(sections["unit"])
        unit = unit_facts(shown)
        main = int(shown.get("MainPID", ["0"])[0] or 0) or None
        mine = {int(pid) for pid in sections["group"].split() if pid.isdigit()} | ({main} if main else set())
    else:
        number = re.search(r"\b[1-9]\d*\b", sections.get("pid", ""))
        main = int(number[0]) if number else None
        mine = _tree(table, main)
    found = [table[pid] for pid in mine if pid in table and not table[pid].zombie]
    found.sort(key=lambda p: (p.pid != main, p.ticks, p.pid))
    return Running(
        service=service.full_name,
        main=main if any(p.pid == main for p in found) else None,
        processes=tuple(found),
        clock=clock,
        uptime=uptime,
        unit=unit,
        listeners=_listeners(sections, table, ports),
        everything=tuple(table.values()),
    )


def _sections(text: str, nonce: str) -> dict[str, str]:
    found: dict[str, str] = {}
    for part in text.split(f"\n{nonce} ")[1:]:
        name, _, content = part.partition("\n")
        found[name] = content
    return found


def _clock(text: str) -> tuple[float, float]:
    """Unix time and uptime at one moment. Where `date` has no nanoseconds, the time is made from `btime`."""
    date, uptime_line, *btime = text.splitlines()
    whole, _, nano = date.partition(" ")
    uptime = float(uptime_line.split()[0])
    if nano.isdigit():
        return int(whole) + int(nano) / 1e9, uptime
    return float(btime[0].split()[1]) + uptime, uptime


_STAT = re.compile(r"^(\d+) \((.*?)\) (\S) (-?\d+(?: -?\d+)+)$", re.DOTALL | re.MULTILINE)
"""proc(5): pid, name (which may hold anything), state, then numbers from the parent's pid on"""
_COMMAND = re.compile(r"^==> /proc/(\d+)/cmdline <==\n", re.MULTILINE)
_START_FIELD = 18
"""`starttime` is field 22; the numbers of `_STAT` begin with field 4"""


def _table(sections: dict[str, str], clock: float, uptime: float, hertz: int) -> dict[int, Process]:
    parts = _COMMAND.split(sections["command"])[1:]
    commands = {int(pid): text for pid, text in zip(parts[::2], parts[1::2], strict=True)}
    found = {}
    for pid, _name, state, numbers in _STAT.findall(sections["stat"]):
        fields = numbers.split()
        ticks = int(fields[_START_FIELD])
        raw = commands.get(int(pid), "").removesuffix("\n")
        found[int(pid)] = Process(
            pid=int(pid),
            parent=int(fields[0]),
            ticks=ticks,
            since_boot=ticks / hertz,
            started=clock - uptime + ticks / hertz,
            command=tuple(raw.rstrip("\0").split("\0")) if raw.strip("\0\n") else (),
            zombie=state in "ZX",
        )
    return found


def _tree(table: dict[int, Process], root: int | None) -> set[int]:
    """A process and its descendants."""
    if root is None or root not in table:
        return set()
    children: dict[int, list[int]] = {}
    for process in table.values():
        children.setdefault(process.parent, []).append(process.pid)
    found: set[int] = set()
    todo = [root]
    while todo:
        pid = todo.pop()
        if pid not in found:
            found.add(pid)
            todo += children.get(pid, [])
    return found


def _shown(text: str) -> dict[str, list[str]]:
    """`systemctl show`: each property with its lines (`EnvironmentFiles` has one for each file)."""
    found: dict[str, list[str]] = {}
    for line in text.splitlines():
        name, equals, value = line.partition("=")
        if equals and name.isalnum():
            found.setdefault(name, []).append(value)
    return found


def unit_facts(shown: dict[str, list[str]]) -> UnitFacts:
    """The properties of `systemctl show` that matter here."""

    def one(name: str) -> str:
        return shown.get(name, [""])[0]

    files = [
        re.fullmatch(r"(.*) \(ignore_errors=(yes|no)\)", line) for line in shown.get("EnvironmentFiles", [])
    ]
    return UnitFacts(
        load=one("LoadState"),
        load_error=one("LoadError"),
        active=one("ActiveState"),
        sub=one("SubState"),
        result=one("Result"),
        restarts=int(one("NRestarts") or 0),
        environment=tuple(
            (name, value) for word in _words(one("Environment")) for name, _, value in [word.partition("=")]
        ),
        environment_files=tuple((file[1], file[2] == "yes") for file in files if file),
        fragment=one("FragmentPath"),
        drop_ins=tuple(one("DropInPaths").split()),
        stop_timeout_s=_span(one("TimeoutStopUSec")),
    )


_ESCAPES = {"n": "\n", "t": "\t", "r": "\r"}


def _words(text: str) -> list[str]:
    """The words that systemd prints: bare, in double quotes with backslashes, or as `$'...'`."""
    words, word, at, quote = [], "", 0, ""
    begun = False
    while at < len(text):
        char = text[at]
        if char == "\\" and at + 1 < len(text):
            at += 1
            word += _ESCAPES.get(text[at], text[at]) if quote == "'" else text[at]
            begun = True
        elif quote:
            if char == quote:
                quote = ""
            else:
                word += char
        elif text.startswith("$'", at):
            quote, begun, at = "'", True, at + 1
        elif char in "\"'":
            quote, begun = char, True
        elif char == " ":
            if begun:
                words.append(word)
            word, begun = "", False
        else:
            word += char
            begun = True
        at += 1
    return [*words, word] if begun else words


_SPANS = {"us": 1e-6, "ms": 1e-3, "s": 1.0, "min": 60.0, "h": 3600.0, "d": 86400.0, "w": 604800.0}


def _span(text: str) -> float | None:
    """A time span of systemd such as `1min 30s`, in seconds; None for `infinity`."""
    parts = re.findall(r"([\d.]+)(us|ms|s|min|h|d|w)\b", text)
    return sum(float(number) * _SPANS[unit] for number, unit in parts) if parts else None


_LISTEN = re.compile(r"^([0-9A-F]{4}):(\d+)$", re.MULTILINE)
"""a port and the inode of a socket that listens on it"""


def _listeners(
    sections: dict[str, str], table: dict[int, Process], ports: tuple[int, ...]
) -> tuple[Listener, ...]:
    inodes = {
        inode: int(port, 16)
        for port, inode in _LISTEN.findall(sections.get("listening", ""))
        if int(port, 16) in ports
    }
    found: dict[tuple[int, int], Listener] = {}
    pid = 0
    for line in sections.get("sockets", "").splitlines():
        if folder := re.fullmatch(r"/proc/(\d+)/fd:", line):
            pid = int(folder[1])
        elif (socket := re.search(r"socket:\[(\d+)\]$", line)) and socket[1] in inodes and pid in table:
            port = inodes[socket[1]]
            found[port, pid] = Listener(port, table[pid])
    return tuple(found.values())
