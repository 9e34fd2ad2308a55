"""Live proof on the record: what was seen in a service's processes becomes an event.

`look_live` is what `knob live` does, and what every restart ends with.
"""

from __future__ import annotations

from collections.abc import Sequence
from datetime import UTC, datetime

from knobledger.drafting import Desk
from knobledger.event import stamp
from knobledger.events.watching import SeenKnob, SeenLive, SeenProcess, SeenValue
from knobledger.hosts.config import Service, Target
from knobledger.hosts.host import Host
from knobledger.observing import see as record
from knobledger.services.live import Live, LiveKnob, Sight, judge, see
from knobledger.settling import settle_doubts


def look_live(desk: Desk, host: Host, service: Service, target: Target, names: Sequence[str] = ()) -> Live:
    """Looks at the processes of a service for knobs of its target (default: all), and records what was seen.

    What became of attempts on the target is found first. Raises what `settling.settle_doubts` and `services.live.see` do.
    """
    settle_doubts(desk, target, host)
    return conclude(desk, see(host, service, target, names))


def conclude(desk: Desk, sight: Sight) -> Live:
    """Records a look: first the file, where its bytes are news, then the processes. A service that is down is no event."""
    record(desk, sight.target, sight.remote)
    live = judge(sight, desk.masker)
    if live.procs:
        desk.write(
            SeenLive(
                **desk.author.signs(),
                target=live.target.name,
                service=live.service.full_name,
                path=live.target.path,
                digest=live.remote.digest,
                written=None if live.written is None else moment(live.written),
                clock_offset_s=round(live.remote.clock_offset_s, 3),
                processes=tuple(
                    SeenProcess(
                        pid=proc.pid,
                        parent=proc.process.parent,
                        started=moment(proc.process.started),
                        command=proc.process.command[0],
                        after_write=proc.after_write,
                    )
                    for proc in live.procs
                ),
                knobs=tuple(map(_seen, live.knobs)),
            )
        )
    return live


def moment(unix: float) -> str:
    """Unix seconds as events write a moment."""
    return stamp(datetime.fromtimestamp(unix, UTC))


def _seen(knob: LiveKnob) -> SeenKnob:
    groups: dict[tuple[str, str | None], list[int]] = {}
    for told in knob.told:
        groups.setdefault((told.state, told.value), []).append(told.pid)
    return SeenKnob(
        name=knob.name,
        kind=knob.kind,
        written=knob.file.value,
        state=knob.state,
        value=knob.value,
        values=tuple(
            SeenValue.of({"state": state, "value": value, "pids": pids})
            for (state, value), pids in groups.items()
        ),
    )
