"""Restarts, planned and done, as people and scripts see them. The JSON is described in docs/services.md."""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Sequence
from datetime import UTC, datetime
from typing import TYPE_CHECKING, Any, Literal

from msgspec import Struct

from knobledger.folds.serving import NAMED, Chain, Serving
from knobledger.hosts.config import Config
from knobledger.names import EventId
from knobledger.plan import RestartScope

if TYPE_CHECKING:
    from knobledger.events.serving import ServiceRestarted
    from knobledger.report.watching import LiveReport


class ServiceToRestart(Struct, frozen=True):
    """One service of a restart that is planned; None: never recorded."""

    service: str
    expected_stop_s: float | None
    expected_start_s: float | None
    gates: tuple[str, ...]

    def to_json(self) -> dict[str, Any]:
        """One entry of `services`."""
        return {
            "service": self.service,
            "expected_stop_s": self.expected_stop_s,
            "expected_start_s": self.expected_start_s,
            "gates": list(self.gates),
        }


class RestartPreview(Struct, frozen=True):
    """A restart before anybody touches a host: services in the order of their start."""

    scope: RestartScope
    services: tuple[ServiceToRestart, ...]

    @property
    def expected_outage_s(self) -> float | None:
        """From the first stop to the last green gate, by recorded times; None where one is not known."""
        parts = [part for one in self.services for part in (one.expected_stop_s, one.expected_start_s)]
        known = [part for part in parts if part is not None]
        return round(sum(known), 3) if len(known) == len(parts) else None

    def to_json(self) -> dict[str, Any]:
        """The JSON of a restart that waits for a go-ahead."""
        return {
            "scope": self.scope,
            "services": [one.to_json() for one in self.services],
            "expected_outage_s": self.expected_outage_s,
        }


def owed_notes(services: Sequence[str], config: Config) -> Iterator[str]:
    """Services that run with old bytes, for the footer: by the command that restarts them, or that sees it done."""
    kinds: dict[str, list[str]] = {}
    for name in services:
        kinds.setdefault(_way_of(name, config), []).append(name)
    for way, names in kinds.items():
        some = " ".join(names[:NAMED])
        match way:
            case "restart":
                then = f"`knob restart {some}`"
            case "live":
                then = f"restart it yourself; `knob live {some}` then sees the new process"
            case _:
                then = (
                    "restart it yourself; with `unit`, or `start` and `pid`, in hosts.toml, `knob restart` could, "
                    "and `knob live` would see it"
                )
        yield f"restart owed: {', '.join(names[:NAMED])}{', ...' if len(names) > NAMED else ''}; {then}"


def _way_of(name: str, config: Config) -> Literal["restart", "live", "none"]:
    """What this tool can do about a service: restart it, look at its processes, or nothing."""
    if name not in config.services:
        return "none"
    service = config.service(name)
    if service.unit or (service.start and service.pid):
        return "restart"
    return "live" if service.pid else "none"


def preview(
    serving: Serving, scope: RestartScope, services: Iterable[tuple[str, Sequence[str]]]
) -> RestartPreview:
    """A preview from the recorded times; `services` with their gates, in the order of their start."""
    return RestartPreview(
        scope,
        tuple(
            ServiceToRestart(
                name, serving.expected_stop_s(name), serving.expected_start_s(name), tuple(gates)
            )
            for name, gates in services
        ),
    )


class RestartReport(Struct, frozen=True):
    """A chain of restarts as the ledger has it."""

    chain: Chain
    live: LiveReport | None = None
    """the knobs that the ledger knows, in the processes that were started; None: it knows none, or nobody looked"""

    @property
    def failed(self) -> ServiceRestarted | None:
        """The service that ended the chain."""
        return next((one for one in self.chain.outcomes.values() if one.outcome != "healthy"), None)

    @property
    def done(self) -> bool:
        """Every service came up and proved itself."""
        return self.chain.ended is not None and self.chain.ended.outcome == "done"

    @property
    def at(self) -> str:
        """When it was begun, UTC."""
        return self.chain.started.at

    @property
    def outcome(self) -> str:
        """`done`, `failed`, `taken over` by a later chain, or `in the middle`."""
        if self.chain.ended:
            return self.chain.ended.outcome
        return "taken over" if self.chain.taken_over_by else "in the middle"

    @property
    def exit_code(self) -> int:
        """0 for a chain that is done."""
        return 0 if self.done else 23

    def to_json(self) -> dict[str, Any]:
        """The JSON of `restart`, and `restart` in that of a change."""
        started, ended = self.chain.started, self.chain.ended
        return {
            "restart": self.chain.id,
            "scope": started.scope,
            "cause": started.cause,
            "change": None if started.cause == "asked" else started.plan,
            "plan": started.plan,
            "at": started.at,
            "actor": started.actor,
            "on_behalf_of": started.on_behalf_of,
            "done": self.done,
            "outcome": self.outcome,
            "reason": ended.reason if ended else "",
            "outage_s": ended.outage_s if ended else None,
            "services": [self._service(name) for name in self.chain.services],
            **({"live": self.live.to_json()["targets"]} if self.live else {}),
        }

    def _service(self, name: str) -> dict[str, Any]:
        outcome = self.chain.outcomes.get(name)
        before = next(one for one in self.chain.started.services if one.service == name)
        out: dict[str, Any] = {
            "service": name,
            "outcome": outcome.outcome if outcome else "not reached",
            "pids_before": [process.pid for process in before.processes],
            "pids": [process.pid for process in outcome.after] if outcome else [],
        }
        if outcome:
            out |= outcome.plain(
                "stopped_after_s",
                "healthy_after_s",
                "down_s",
                "restarts",
                "steps",
                "reason",
                "log",
                "gates",
            )
            out["started"] = outcome.after[0].started if outcome.after else None
        return out


def restart_of(serving: Serving, change: EventId) -> RestartReport | None:
    """The newest restart that belongs to a change."""
    found = [chain for chain in serving.chains.values() if chain.started.plan == change]
    return RestartReport(found[-1]) if found else None


def restarts_between(
    serving: Serving, start: str, end: str, service: str | None = None
) -> list[RestartReport]:
    """The restarts begun from `start` (included) to `end` (excluded), oldest first."""
    return [
        RestartReport(chain)
        for chain in serving.chains.values()
        if start <= chain.started.at < end and (service is None or service in chain.services)
    ]


def clock_text(unix: float) -> str:
    """A moment of a host's clock, to hundredths of a second, UTC."""
    return f"{datetime.fromtimestamp(unix, UTC):%Y-%m-%d %H:%M:%S.%f}"[:-4] + "Z"
