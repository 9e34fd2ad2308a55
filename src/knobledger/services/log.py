"""The last lines of a service's log, for whoever has to see why it is not well."""

from __future__ import annotations

from knobledger.errors import KnobError
from knobledger.hosts.config import Service
from knobledger.hosts.host import Host

LINES = 20


def last_lines(host: Host, service: Service) -> tuple[str, ...]:
    """From the `log` of hosts.toml, else from the journal of its unit; none where neither is there. Not masked."""
    if service.log is not None:
        argv: tuple[str, ...] = ("tail", "-n", str(LINES), "--", service.log)
    elif service.unit is not None:
        argv = ("journalctl", "-q", "-u", service.unit, "-n", str(LINES), "--no-pager", "-o", "short-iso")
    else:
        return ()
    try:
        done = host.run(argv, timeout_s=30)
    except KnobError as error:
        return (f"(its log could not be read: {error.message})",)
    if done.status:
        return (f"(its log could not be read: {done.stderr.decode('utf-8', 'replace').strip()})",)
    return tuple(done.stdout.decode("utf-8", "surrogateescape").splitlines())
