"""Verbs that look at what runs: hosts are asked side by side, and what was seen is recorded."""

from __future__ import annotations

import time
from collections.abc import Callable, Sequence
from concurrent.futures import ThreadPoolExecutor

from knobledger.drafting import Desk
from knobledger.errors import KnobError, Refused
from knobledger.events.changes import Applied, Settled
from knobledger.events.watching import ObservedMetric
from knobledger.hosts import capabilities
from knobledger.hosts.config import Config, Service, Target
from knobledger.hosts.host import Host
from knobledger.hosts.reach import HOSTS_AT_ONCE, HostConfig
from knobledger.looking import HostOf, side_by_side
from knobledger.names import EventId, short
from knobledger.proving import conclude, moment
from knobledger.report.watching import Checked, Folder, HostCheck, LiveReport, NotSeen, Observation
from knobledger.services import running, sampling
from knobledger.services.live import Sight, see
from knobledger.services.scrape import Wanted
from knobledger.settling import settle_doubts


def live(
    desk: Desk, config: Config, targets: Sequence[Target], hosts: HostOf, names: Sequence[str]
) -> LiveReport:
    """Looks at every target's processes; hosts that are down do not hide the others."""

    def ask(_desk: Desk, target: Target, host: Host) -> Sight | NotSeen:
        service = config.service(f"{target.host}/{target.service}")
        try:
            settle_doubts(desk, target, host)
            return see(host, service, target, names)
        except KnobError as error:
            return NotSeen(target.name, service.full_name, target.path, error.message, error.exit_code)

    # What was seen is written by one thread: only the hosts are asked side by side.
    sights = side_by_side(desk, targets, hosts, ask)
    return LiveReport(tuple(s if isinstance(s, NotSeen) else conclude(desk, s) for s in sights))


def observe(
    desk: Desk,
    target: Target,
    service: Service,
    host: Host,
    wanted: Wanted,
    *,
    for_s: float,
    every_s: float,
    change: EventId | None,
    tell: Callable[[sampling.Sampling], None],
) -> Observation:
    """Samples a metric, records the samples, says what they show. Raises what `sampling.observe` does, and `Refused`."""
    if service.metrics is None:
        raise Refused(
            f"hosts.toml has no metrics address for {service.full_name!r}",
            hint=f'metrics = "http://127.0.0.1:PORT/metrics" in {service.full_name}, as the host itself sees it',
        )
    found = sampling.observe(host, service.metrics, wanted, for_s=for_s, every_s=every_s, tell=tell)
    seen = found.seen()
    mask = desk.masker.text
    event = ObservedMetric(
        **desk.author.signs(),
        target=target.name,
        service=service.full_name,
        metric=found.metric,
        labels=tuple(mask(f"{name}={value}") for name, value in wanted.labels),
        source=mask(service.metrics),
        type=found.kind,
        series=max((len(sample) for sample in found.samples if sample), default=0),
        start=moment(found.start),
        interval_s=found.interval_s,
        values=found.values,
        ended=found.ended or "interrupted",
        shape=seen.shape,
        peak=seen.peak,
        median=seen.median,
        last=seen.last,
        rate=seen.rate,
        resets=seen.resets,
        plan=change,
    )
    message, code = "", 0
    if found.ended == "interrupted":
        message, code = (
            f"interrupted after {len(found.samples)} of {found.planned} samples; these are kept",
            130,
        )
    elif found.failure is not None:
        message, code = f"{found.failure.message}; the samples before that are kept", found.failure.exit_code
    id_ = desk.write(event)
    return Observation(id_, event, seen, tuple(map(mask, found.series)), mask(message), code)


def restarted_for(desk: Desk, target: Target, service: Service, host: Host) -> EventId:
    """The newest change of a target, once its service runs since after it. Raises `Refused` if it does not."""
    for change in reversed(desk.state.changes):
        attempt = desk.state.plans[change].attempt_on(target.name)
        if attempt is None or not attempt.succeeded:
            continue
        outcome = attempt.outcome
        assert isinstance(outcome, Applied | Settled)
        manifest = outcome.receipt.manifest if isinstance(outcome, Applied) else outcome.manifest
        started = running.look(host, service).started
        if started is None:
            raise Refused(
                f"no process of {service.full_name!r} was found, so nobody can tell that it runs with {short(change)}",
                hint=f"`knob live {target.name}`",
            )
        if started < manifest.mtime:
            since = f"runs since {moment(started)[:19]}Z, which is before change {short(change)}"
            raise Refused(
                f"{service.full_name!r} {since}: it is not restarted yet",
                hint=f"`knob restart {service.full_name}`, or leave --after-restart out",
                change=change,
            )
        return change
    raise Refused(f"no change of {target.name!r} is recorded", hint="leave --after-restart out")


CLOCK_SLACK_S = 2.0
"""a host's clock that is further off than this is a problem"""
LEAST_ROOM = 2**20
"""a folder with less room than this is a problem, in bytes"""


def check(config: Config, names: Sequence[str], hosts: HostOf) -> Checked:
    """Whether each host can do what the transaction needs, all at the same time; changes nothing."""
    wanted = [config.host(name) for name in names or config.hosts]
    with ThreadPoolExecutor(max_workers=min(HOSTS_AT_ONCE, max(1, len(wanted)))) as pool:
        return Checked(tuple(pool.map(lambda host: _check(config, host, hosts), wanted)))


def _check(config: Config, wanted: HostConfig, hosts: HostOf) -> HostCheck:
    begun = time.time()
    targets = [target for target in config.targets() if target.host == wanted.name] if config.services else []
    folders = [target.path.rpartition("/")[0] or "/" for target in targets]
    folders += [target.backup_dir for target in targets if target.backup_dir.startswith("/")]
    try:
        host = hosts(wanted.name)
        host.run(("ls", "-d", "/"), timeout_s=wanted.command_timeout_s)
        words, nonce = capabilities.words(tuple(dict.fromkeys(folders)))
        connected = time.time()
        done = host.run(words, timeout_s=wanted.command_timeout_s)
    except KnobError as error:
        return HostCheck(wanted.name, wanted.transport, error.message, error.hint, error.exit_code)
    reply = capabilities.reply(done.stdout, nonce)
    kind, message = reply.outcome() if reply.complete else ("cut off", done.stderr.decode("utf-8", "replace"))
    clock = reply.text("clock.first").partition(".")
    offset = None
    if clock[0].isdigit():
        offset = float("".join(clock) if clock[2].isdigit() else clock[0]) - connected
    uid, _, user = reply.text("user").partition(" ")
    found = HostCheck(
        name=wanted.name,
        transport=wanted.transport,
        connect_s=connected - begun,
        system=reply.text("system"),
        shell=reply.text("shell").rpartition("/")[2],
        digest_tool=reply.text("tool"),
        lock=reply.text("lock"),
        stat={"c": "GNU", "f": "BSD"}.get(reply.text("dialect"), ""),
        user=user or uid,
        root=uid == "0",
        sudo=wanted.sudo,
        systemd=reply.text("systemd"),
        clock_offset_s=offset,
        folders=tuple(map(_folder, reply.all("folder"))),
        problems=(f"{kind}: {message}".strip(": "),) if kind != "ok" else (),
    )
    return found.with_problems(CLOCK_SLACK_S, LEAST_ROOM)


def _folder(text: str) -> Folder:
    there, writable, room, path = text.split(" ", 3)
    return Folder(path, there == "yes", writable == "yes", int(room) * 1024 if room.isdigit() else None)
