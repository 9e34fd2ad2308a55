"""Verbs that look at what runs: hosts are asked side by side, and what was seen is recorded."""

from __future__ import annotations

from collections.abc import Callable, Sequence

from knobledger.drafting import Desk
from knobledger.errors import KnobError, Refused
from knobledger.events.changes import Applied, Settled
from knobledger.events.watching import ObservedMetric
from knobledger.hosts.config import Config, Service, Target
from knobledger.hosts.host import Host
from knobledger.looking import HostOf, side_by_side
from knobledger.names import EventId, short
from knobledger.proving import conclude, moment
from knobledger.report.watching import LiveReport, NotSeen, Observation
from knobledger.services import running, sampling
from knobledger.services.live import Sight, see
from knobledger.services.scrape import Wanted


def live(
    desk: Desk, config: Config, targets: Sequence[Target], hosts: HostOf, names: Sequence[str]
) -> LiveReport:
    """Looks at every target's processes; hosts that are down do not hide the others."""

    def ask(_desk: Desk, target: Target, host: Host) -> Sight | NotSeen:
        service = config.service(f"{target.host}/{target.service}")
        try:
            return see(host, service, target, names)
        except KnobError as error:
            return NotSeen(target.name, service.full_name, target.path, error.message, error.exit_code)

    # The ledger is written by one thread: only the hosts are asked side by side.
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
