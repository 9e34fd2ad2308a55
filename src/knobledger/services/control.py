"""How a service is started and stopped, over `Host.run`: by systemd, or by plain commands through `sh`.

What runs of it is in `running.py`. Nothing here decides whether a service is well; that is `gates.py`.
"""

from __future__ import annotations

import time
from collections.abc import Callable

from knobledger.errors import Refused, Unhealthy
from knobledger.hosts.config import Service
from knobledger.hosts.host import Completed, Host
from knobledger.quoting import command_line, quote
from knobledger.services.running import Process, Running, look

Say = Callable[[str], None]
"""told each step, as it is taken"""
Wait = Callable[[str, float, float], None]
"""told what is waited for, the elapsed time and the limit, both in seconds"""

PLAIN_GRACE_S = 30.0
"""between SIGTERM and SIGKILL, where neither hosts.toml nor the unit says otherwise"""
_KILLED_S = 10.0
"""how long a process may take to go after SIGKILL"""
_COMMAND_S = 600.0
"""a start command may wait for its service, so it gets long"""


def check_startable(service: Service) -> None:
    """Raises `Refused` for a service that hosts.toml gives no way to restart, or no way to find again."""
    name = service.full_name
    if service.unit:
        return
    if service.start is None:
        raise Refused(
            f"{name!r} can't be restarted: hosts.toml names neither its unit nor a start command",
            hint=f'add unit = "...", or start, stop and pid commands, to the service {name}',
        )
    if service.pid is None:
        raise Refused(
            f"{name!r} has no pid command, so nobody could tell a new process from the old one",
            hint=f'add pid = "..." to the service {name}: a command that prints its process id',
        )


def reload(host: Host, service: Service) -> None:
    """Makes systemd read its files again; always, since `NeedDaemonReload` misses drop-ins. Nothing for others.

    Raises `Unhealthy` where systemd refuses.
    """
    if service.unit:
        _systemctl(host, service, "daemon-reload")


def start(host: Host, service: Service, say: Say) -> None:
    """Orders the start; returns before the service is up. Raises `Unhealthy` if the order fails."""
    if service.unit:
        say(f"systemctl start {service.unit}")
        host.run(("systemctl", "reset-failed", service.unit), timeout_s=_COMMAND_S)
        _systemctl(host, service, "start", "--no-block", service.unit)
        return
    assert service.start is not None, "check_startable comes first"
    say(f"start: {service.start}")
    _order(host, service, service.start, "start")


def stop(host: Host, service: Service, seen: Running, say: Say, wait: Wait) -> Running:
    """Stops a service, and waits until each process of `seen` has gone; the host after that.

    SIGTERM (or the stop command, or systemd's own), the grace period, then SIGKILL, each of them said. May be
    called again. Raises `Unhealthy` if something survives even that.
    """
    if not seen.processes and not (seen.unit and seen.unit.active not in ("inactive", "failed")):
        say("is down already")
        return seen
    grace_s = grace_of(service, seen)
    if service.unit:
        say(f"systemctl stop {service.unit}, at most {grace_s:g} s")
        _systemctl(host, service, "stop", "--no-block", service.unit)
    elif service.stop is not None:
        say(f"stop: {service.stop}")
        _order(host, service, service.stop, "stop")
    else:
        say(f"SIGTERM to {_named(seen.processes)}, at most {grace_s:g} s")
        _signal(host, "TERM", seen.processes)
    now, left = _gone(host, service, seen, wait, grace_s)
    if left and service.stop is not None:
        say(f"{_named(left)} outlived the stop command: SIGTERM")
        _signal(host, "TERM", left)
        now, left = _gone(host, service, seen, wait, min(grace_s, _KILLED_S))
    if left or _stopping(now):
        say(f"{_named(left)} still there after {grace_s:g} s: SIGKILL")
        if service.unit:
            host.run(("systemctl", "kill", "--signal=SIGKILL", service.unit), timeout_s=_COMMAND_S)
        _signal(host, "KILL", left)
        now, left = _gone(host, service, seen, wait, _KILLED_S)
    if left:
        raise Unhealthy(
            f"{service.full_name} can't be stopped: {_named(left)} survived SIGKILL",
            hint="a process in uninterruptible sleep waits for a device; look at `dmesg` on the host",
            service=service.full_name,
        )
    return now


def restart_lines(service: Service) -> tuple[str, ...]:
    """The lines of POSIX sh that restart a service, for a supervisor on the host that has no knobledger.

    Each line is to be run in order, a failing line ends it. They do not wait for health.
    Raises `Refused` where hosts.toml gives no way.
    """
    check_startable(service)
    if service.unit:
        unit = quote(service.unit)
        return (
            "systemctl daemon-reload",
            f"systemctl reset-failed {unit} 2>/dev/null || :",
            f"systemctl restart {unit}",
        )
    assert service.start is not None
    assert service.pid is not None
    pid = f"$(/bin/sh -c {quote(service.pid)} 2>/dev/null || :)"
    grace = max(1, round(PLAIN_GRACE_S if service.grace_s is None else service.grace_s))
    order = (
        f"/bin/sh -c {quote(service.stop)} || :"
        if service.stop
        else '[ -z "$knob_pid" ] || kill -s TERM "$knob_pid" 2>/dev/null || :'
    )
    return (
        f"knob_pid={pid}; knob_left={grace}",
        order,
        'while [ -n "$knob_pid" ] && kill -0 "$knob_pid" 2>/dev/null && [ "$knob_left" -gt 0 ]; '
        "do sleep 1; knob_left=$((knob_left - 1)); done",
        '[ -z "$knob_pid" ] || kill -s KILL "$knob_pid" 2>/dev/null || :',
        f"/bin/sh -c {quote(service.start)} </dev/null",
    )


def grace_of(service: Service, seen: Running) -> float:
    """Seconds between asking a service to stop and SIGKILL: hosts.toml's `grace`, else the unit's own time."""
    if service.grace_s is not None:
        return service.grace_s
    if seen.unit and seen.unit.stop_timeout_s is not None:
        return seen.unit.stop_timeout_s + 5.0  # systemd's own SIGKILL comes first
    return PLAIN_GRACE_S


def _gone(
    host: Host, service: Service, seen: Running, wait: Wait, limit_s: float
) -> tuple[Running, tuple[Process, ...]]:
    """The host once everything of `seen` is gone, or after `limit_s` with what is left."""
    begun = time.monotonic()
    pause = 0.02
    while True:
        now = look(host, service)
        left = now.still_there(seen)
        if (not left and not _stopping(now)) or time.monotonic() - begun > limit_s:
            return now, left
        wait(f"{_named(left)} to end", time.monotonic() - begun, limit_s)
        time.sleep(pause)
        pause = min(0.5, pause * 1.5)


def _stopping(now: Running) -> bool:
    return bool(now.unit and now.unit.active == "deactivating")


def _signal(host: Host, name: str, processes: tuple[Process, ...]) -> None:
    if processes:
        pids = tuple(str(process.pid) for process in processes)
        host.run(("/bin/sh", "-c", 'kill -s "$0" "$@" 2>/dev/null', name, *pids), timeout_s=_COMMAND_S)


def _named(processes: tuple[Process, ...]) -> str:
    pids = ", ".join(str(process.pid) for process in processes)
    return f"{'process' if len(processes) == 1 else 'processes'} {pids}" if processes else "the unit"


def _systemctl(host: Host, service: Service, *words: str) -> None:
    argv = ("systemctl", *words)
    done = host.run(argv, timeout_s=_COMMAND_S)
    if done.status:
        raise _failed(service, command_line(argv), done)


def _order(host: Host, service: Service, line: str, what: str) -> None:
    done = host.run(("/bin/sh", "-c", line), timeout_s=_COMMAND_S)
    if done.status and what == "start":
        raise _failed(service, f"the {what} command", done)


def _failed(service: Service, what: str, done: Completed) -> Unhealthy:
    said = (done.stderr or done.stdout).decode("utf-8", "replace").strip().splitlines()[-3:]
    return Unhealthy(
        f"{service.full_name}: {what} ended with status {done.status}: {' / '.join(said)!r}",
        hint=f"see its log; `knob restart {service.full_name}` tries again",
        service=service.full_name,
    )
