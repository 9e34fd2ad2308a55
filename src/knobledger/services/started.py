"""What a process was started with: its environment and its command line, as `/proc` shows them. Pure.

`/proc/PID/environ` is the memory where the kernel put the environment at exec. A process that sets its title (SGLang's and
vLLM's workers, PostgreSQL, nginx) writes over it: then it reads as zeros, or as text of the title, and says nothing
about what the process has. See proc(5), and py-setproctitle issues 15 and 166.
"""

from __future__ import annotations

import re
from collections.abc import Mapping, Sequence
from typing import Literal

from msgspec import Struct, field

from knobledger.events.watching import Presence
from knobledger.services.running import Process

Closed = Literal["", "overwritten", "no permission"]
"""why something can't be read; empty: it can"""
Relation = Literal["parent", "child", "sibling"]

_ENTRY = re.compile(rb"([A-Za-z_][^\s=]*)=(.*)", re.DOTALL)
_SHORT = re.compile(r"-[A-Za-z]")
_SHELLS = frozenset({"sh", "bash", "dash", "ash", "busybox", "zsh", "ksh", "mksh"})


class Environment(Struct, frozen=True):
    """The environment of one process; `closed` says why names may be missing from `values`."""

    values: Mapping[str, str] = field(default_factory=dict)
    closed: Closed = ""

    @classmethod
    def of(cls, raw: bytes | None) -> Environment:
        """From the bytes of `/proc/PID/environ`; None: they may not be read.

        Where a part is no `NAME=value`, somebody wrote there. What follows such a part may be the rest of a longer
        entry, so it is not believed; entries further on stand as they were.
        """
        if raw is None:
            return cls(closed="no permission")
        if not raw:
            return cls()
        values: dict[str, str] = {}
        closed: Closed = ""
        broken = False
        for entry in raw.removesuffix(b"\0").split(b"\0"):
            match = _ENTRY.fullmatch(entry)
            if match is None:
                closed, broken = "overwritten", True
            elif broken:
                broken = False
            else:
                # The first of two wins: getenv(3) looks from the front.
                values.setdefault(_text(match[1]), _text(match[2]))
        return cls(values, closed)


def _text(raw: bytes) -> str:
    return raw.decode("utf-8", "surrogateescape")


class Proc(Struct, frozen=True):
    """One process of a service with what it was started with."""

    process: Process
    environment: Environment
    after_write: bool | None = None
    """started after the file was last written; None: not known"""
    launcher: bool = False
    """a shell that runs the target itself: what the script exports reaches its children, never its own environment"""

    @property
    def pid(self) -> int:
        """Its number."""
        return self.process.pid

    @property
    def titled(self) -> bool:
        """Its command line is a title, and no longer what it was started with."""
        words = self.process.command
        return len(words) == 1 and (" " in words[0] or self.environment.closed == "overwritten")


class Told(Struct, frozen=True):
    """What one process says of one knob."""

    pid: int
    state: Presence
    value: str | None = None
    reason: Closed = ""
    """why it is unreadable"""
    relatives: tuple[tuple[Relation, Told], ...] = ()
    """of an unreadable one: what its kin that can be read say"""


def is_shell(command: Sequence[str]) -> bool:
    """Whether a command line is that of a shell."""
    return bool(command) and command[0].rpartition("/")[2].lstrip("-") in _SHELLS


def runs(command: Sequence[str], path: str) -> bool:
    """Whether a command line is that of a shell that runs the script at `path`, or one of that name, given relatively."""
    if not is_shell(command):
        return False
    script = next((word for word in command[1:] if not word.startswith("-")), "")
    return script == path or (bool(script) and path.endswith(f"/{script.removeprefix('./')}"))


def flag_value(command: Sequence[str], name: str) -> str | None:
    """A flag's last value on a command line: empty for a bare one, None where it is missing.

    As in scripts, a word behind the flag that is no flag itself is its value.
    """
    found = None
    for i, word in enumerate(command):
        if word == name:
            following = command[i + 1] if i + 1 < len(command) else None
            bare = following is None or following.startswith("--") or _SHORT.match(following)
            found = "" if following is None or bare else following
        elif word.startswith(f"{name}="):
            found = word[len(name) + 1 :]
    return found


def tell(proc: Proc, name: str) -> Told:
    """What one process says of a knob."""
    if name.startswith("-"):
        if proc.titled:
            return Told(proc.pid, "unreadable", reason="overwritten")
        value = flag_value(proc.process.command, name)
        return Told(proc.pid, "absent" if value is None else "present", value)
    value = proc.environment.values.get(name)
    if value is not None:
        return Told(proc.pid, "present", value)
    closed = proc.environment.closed
    return Told(proc.pid, "unreadable", reason=closed) if closed else Told(proc.pid, "absent")


def tell_all(procs: Sequence[Proc], name: str) -> tuple[Told, ...]:
    """What every process says of a knob, and for the unreadable ones what their kin say."""
    told = {proc.pid: tell(proc, name) for proc in procs}
    return tuple(_with_kin(told[proc.pid], proc, procs, told) for proc in procs)


def _with_kin(told: Told, proc: Proc, procs: Sequence[Proc], by_pid: Mapping[int, Told]) -> Told:
    if told.state != "unreadable":
        return told
    kin: list[tuple[Relation, Told]] = []
    for other in procs:
        said = by_pid[other.pid]
        if other.pid == proc.pid or said.state == "unreadable" or other.launcher:
            continue
        if other.pid == proc.process.parent:
            kin.append(("parent", said))
        elif other.process.parent == proc.pid:
            kin.append(("child", said))
        elif other.process.parent == proc.process.parent:
            kin.append(("sibling", said))
    return Told(told.pid, told.state, None, told.reason, tuple(kin))


def summary(told: Sequence[Told], launchers: frozenset[int]) -> tuple[Presence, str | None]:
    """A knob's state over all processes, and its value where those that have it agree.

    `present` in any of them; `absent` where all that are not launchers can be read, and none has it.
    """
    values = {one.value for one in told if one.state == "present" and one.value is not None}
    if values:
        return "present", values.pop() if len(values) == 1 else None
    counted = [one for one in told if one.pid not in launchers] or list(told)
    if counted and all(one.state == "absent" for one in counted):
        return "absent", None
    return "unreadable", None


def agrees(
    told: Sequence[Told], launchers: frozenset[int], expected: str | None, *, flag: bool
) -> bool | None:
    """Whether the processes have what the files say (None: that it is absent); None where that can't be told.

    A flag stands on the command line of the program alone: its workers need not repeat it.
    """
    counted = [one for one in told if one.pid not in launchers]
    readable = [one for one in counted if one.state != "unreadable"]
    present = [one for one in readable if one.state == "present"]
    if not readable:
        return None
    if any(one.value != expected for one in present):
        return False
    if expected is None or (flag and present):
        return True
    if any(one.state == "absent" for one in readable):
        return None if flag and len(readable) < len(counted) else False
    return True
