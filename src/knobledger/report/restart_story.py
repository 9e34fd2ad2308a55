"""A restart in one sentence, as a post-mortem tells it: what was restarted, in which order, for how long it was out,
whether its processes were seen with what the files say, and how it ended."""

from __future__ import annotations

from collections.abc import Iterator

from knobledger.events.watching import SeenKnob, SeenLive
from knobledger.folds.serving import Chain
from knobledger.names import short
from knobledger.report.terminal import length
from knobledger.state import State


def restart_text(state: State, chain: Chain) -> str:
    """The sentence, from the ledger alone. The services, in the order of their start, stand beside it."""
    why = {"roll back": "to roll back: ", "recover": "to finish what was left in the middle: "}
    return f"{why.get(chain.started.cause, '')}{'; '.join(_parts(state, chain))}"


def _parts(state: State, chain: Chain) -> Iterator[str]:
    ended = chain.ended
    if ended and ended.outcome == "done":
        several = len(chain.services) > 1
        each = "in this order, each healthy before the next" if several else "healthy"
        yield each + (f", out for {_seconds(ended.outage_s)}" if ended.outage_s is not None else "")
    elif ended:
        yield f"failed: {ended.reason}" if ended.reason else "failed"
    elif chain.taken_over_by:
        yield f"left in the middle, and taken over by restart {short(chain.taken_over_by)}"
    else:
        yield "left in the middle: it has no end in the ledger"
    if not (ended and ended.outcome == "done"):
        healthy = [name for name, one in chain.outcomes.items() if one.outcome == "healthy"]
        left = [name for name in chain.services if name not in chain.outcomes]
        if healthy:
            yield f"healthy: {', '.join(healthy)}"
        if left and not (ended and not ended.touched):
            yield f"not reached: {', '.join(left)}"
    if chain.outcomes:
        yield _proof(state, chain)


def _proof(state: State, chain: Chain) -> str:
    """What was seen live after it, before any of its services was restarted again."""
    seen = list(proofs(state, chain))
    if not seen:
        return "nobody looked which values its processes have"
    good, bad = [], []
    for event in seen:
        for knob in event.knobs:
            value = "(absent)" if knob.written is None else knob.written
            where = f"in {event.service}"
            if _agrees(knob):
                good.append(f"{knob.name} = {value} {where}")
            else:
                has = knob.value if knob.state == "present" and knob.value is not None else knob.state
                bad.append(f"{knob.name} is {has}, not {value}, {where}")
    proved = f"proved live: {', '.join(good)}" if good else ""
    return "; ".join(part for part in (proved, f"not proved live: {', '.join(bad)}" if bad else "") if part)


def proofs(state: State, chain: Chain) -> Iterator[SeenLive]:
    """The first look at each target of the chain's services after its end, unless they were restarted again by then."""
    if chain.ended is None:
        return
    end = chain.ended.at
    later = [
        one.started.at
        for one in state.serving.chains.values()
        if one.started.at > end and set(one.services) & set(chain.services)
    ]
    told = set()
    for event in state.events.values():
        if not isinstance(event, SeenLive) or event.service not in chain.services or event.target in told:
            continue
        if event.at >= end and not any(event.at >= at for at in later):
            told.add(event.target)
            yield event


def _agrees(knob: SeenKnob) -> bool:
    if knob.written is None:
        return knob.state == "absent"
    return knob.state == "present" and knob.value == knob.written


def _seconds(seconds: float) -> str:
    return f"{seconds:.1f} s" if seconds < 100 else length(seconds)
