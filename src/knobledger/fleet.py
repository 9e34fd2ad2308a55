"""Many targets at once: hosts side by side, in batches, and none of them hiding the others.

Threads only wait for hosts. What is read arrives in the thread of the command, which alone makes plans of it; an
attempt writes to the ledger from its own thread, through the desk's lock.
"""

from __future__ import annotations

import queue
import re
import threading
from collections import deque
from collections.abc import Callable, Generator, Mapping, Sequence
from typing import TypeVar

from knobledger.apply import Restarts, attempt
from knobledger.drafting import Desk, Seen
from knobledger.errors import Bug, Interrupted, KnobError, Unreachable, Usage, together
from knobledger.events.changes import Observed
from knobledger.folds.plans import Plan
from knobledger.hosts.config import Target
from knobledger.hosts.host import Host, RemoteFile
from knobledger.hosts.reach import HOSTS_AT_ONCE
from knobledger.names import HostPath, TargetName, short
from knobledger.observing import load_readers, look, observation, record
from knobledger.settling import settle_doubts
from knobledger.watch import Watch

HostOf = Callable[..., Host]
"""the connection to a host by its name in hosts.toml; `fresh=True` makes it anew"""

T = TypeVar("T")

_SIZE = re.compile(r"([1-9]\d*)(%?)", re.ASCII)


def sizes(batches: Sequence[str], of: int) -> list[int]:
    """How many of `of` targets each batch takes; the last size is repeated, percents are of all, rounded up.

    `("1", "10%", "100%")` of 50 is `[1, 5, 44]`. Raises `Usage`.
    """
    out: list[int] = []
    left = of
    wanted = deque(batches or ("100%",))
    size = of
    for text in batches:
        _size(text, of)
    while left:
        if wanted:
            size = _size(wanted.popleft(), of)
        out.append(min(size, left))
        left -= out[-1]
    return out


def _size(text: str, of: int) -> int:
    found = _SIZE.fullmatch(text)
    if found is None or (found[2] and int(found[1]) > 100):
        raise Usage(f"{text!r} is no size of a batch", hint="`--batch 1,10%,100%`")
    return -(-of * int(found[1]) // 100) if found[2] else int(found[1])


def side_by_side(
    targets: Sequence[Target], work: Callable[[Target], T], step: str, watch: Watch, *, abandon: bool
) -> Generator[tuple[Target, T | KnobError]]:
    """Each target with what `work` returned or raised, as they finish; those of one host one after the other.

    Closed early (Ctrl-C), no further target is begun, and those under way are waited for unless they may be
    abandoned. One host's work is done in the calling thread.
    """
    by_host: dict[str, list[Target]] = {}
    for target in targets:
        by_host.setdefault(target.host, []).append(target)
    if len(by_host) < 2:
        yield from ((target, _done(target, work, step, watch)) for target in targets)
        return
    waiting = deque(by_host.values())
    answers: queue.SimpleQueue[tuple[Target, T | KnobError]] = queue.SimpleQueue()
    over = threading.Event()

    def serve() -> None:
        while not over.is_set():
            try:
                mine = waiting.popleft()
            except IndexError:
                return
            for target in mine:
                if not over.is_set():
                    answers.put((target, _done(target, work, step, watch)))

    threads = [threading.Thread(target=serve, daemon=True) for _ in range(min(HOSTS_AT_ONCE, len(by_host)))]
    for thread in threads:
        thread.start()
    try:
        for done in range(1, len(targets) + 1):
            answer = answers.get()
            watch.counts(done, len(targets))
            yield answer
    finally:
        over.set()
        for thread in threads if not abandon else ():
            thread.join()


def _done(target: Target, work: Callable[[Target], T], step: str, watch: Watch) -> T | KnobError:
    watch.begins(target.host, step)
    try:
        return work(target)
    except KnobError as error:
        return error
    except Exception as error:
        return Bug(f"a bug in knobledger, on {target.name}: {type(error).__name__}: {error}")
    finally:
        watch.ends(target.host)


def look_at(
    desk: Desk, targets: Sequence[Target], host: HostOf, watch: Watch, *, skip_unreachable: bool
) -> tuple[list[Seen], dict[TargetName, KnobError]]:
    """Reads all targets, and those that could not be reached. What is new there is recorded, as by `look`, once it is
    known what became of earlier attempts.

    Raises what went wrong with any target, unless it is only out of reach and may be skipped.
    """
    if len(targets) == 1:
        [target] = targets
        settle_doubts(desk, target, host(target.host))
        return [look(desk, target, host(target.host))], {}
    seen: dict[TargetName, Seen] = {}
    new: list[tuple[Seen, Observed]] = []
    failed: dict[TargetName, KnobError] = {}
    load_readers(targets)

    def read(target: Target) -> RemoteFile:
        settle_doubts(desk, target, host(target.host))
        return host(target.host).read(target.path)

    for target, answer in side_by_side(targets, read, "reading", watch, abandon=True):
        if isinstance(answer, KnobError):
            failed[target.name] = answer
        else:
            seen[target.name], event = observation(desk, target, answer)
            if event is not None:
                new.append((seen[target.name], event))
    record(desk, new)
    left_out = _left_out(targets, failed, skip_unreachable)
    return [seen[target.name] for target in targets if target.name in seen], left_out


def read_all(
    desk: Desk,
    targets: Sequence[Target],
    paths: Callable[[Target], Sequence[HostPath]],
    host: HostOf,
    watch: Watch,
    *,
    skip_unreachable: bool,
) -> tuple[list[tuple[Target, Callable[[HostPath], RemoteFile]]], dict[TargetName, KnobError]]:
    """Each target with a function that reads its host: these files are read ahead, others when asked for.

    Raises as `look_at`; what was wrong with one file is raised when that is asked for.
    """

    def fetch(target: Target) -> Callable[[HostPath], RemoteFile]:
        there = host(target.host)
        settle_doubts(desk, target, there)
        ahead: dict[HostPath, RemoteFile | KnobError] = {}
        for path in paths(target):
            try:
                ahead[path] = there.read(path)
            except Unreachable:
                raise
            except KnobError as error:
                ahead[path] = error
        return _Ahead(there, ahead)

    found: dict[TargetName, Callable[[HostPath], RemoteFile]] = {}
    failed: dict[TargetName, KnobError] = {}
    for target, answer in side_by_side(targets, fetch, "reading", watch, abandon=True):
        if isinstance(answer, KnobError):
            failed[target.name] = answer
        else:
            found[target.name] = answer
    left_out = _left_out(targets, failed, skip_unreachable)
    return [(target, found[target.name]) for target in targets if target.name in found], left_out


class _Ahead:
    def __init__(self, host: Host, files: Mapping[HostPath, RemoteFile | KnobError]) -> None:
        self._host, self._files = host, files

    def __call__(self, path: HostPath) -> RemoteFile:
        known = self._files.get(path)
        if isinstance(known, KnobError):
            raise known
        return known or self._host.read(path)


def _left_out(
    targets: Sequence[Target], failed: Mapping[TargetName, KnobError], skip_unreachable: bool
) -> dict[TargetName, KnobError]:
    """What may be left out, in the order of the targets. Raises the rest, and all if nothing would be left."""
    ordered = {target.name: failed[target.name] for target in targets if target.name in failed}
    away = {name: error for name, error in ordered.items() if isinstance(error, Unreachable)}
    if not ordered or (skip_unreachable and len(away) == len(ordered) < len(targets)):
        return ordered
    error = together({str(name): each for name, each in ordered.items()}, len(targets))
    if len(away) == len(ordered) < len(targets):
        error.hint = "to plan for the others only, and have it recorded: `--skip-unreachable`"
    raise error


def carry_out(
    desk: Desk,
    plan: Plan,
    targets: Sequence[Target],
    host: HostOf,
    watch: Watch,
    after: Callable[[Target], None],
    restarts: Mapping[TargetName, Restarts],
) -> dict[TargetName, KnobError]:
    """Applies a plan, batch after batch, until too many have failed; what failed, by target.

    Within a batch every target is tried. `after` is done for each target to which it was applied. Raises `Interrupted`
    when those under way have come to their end.
    """
    failures: dict[TargetName, KnobError] = {}
    names = {target.name: target for target in targets}

    def apply(target: Target) -> None:
        there = host(target.host)
        attempt(desk, plan, target, there, lambda: host(target.host, fresh=True), restarts[target.name])
        after(target)

    rest = list(names)
    for size in sizes(plan.planned.batches, len(rest)):
        batch, rest = rest[:size], rest[size:]
        answers = side_by_side([names[name] for name in batch], apply, "applying", watch, abandon=False)
        try:
            for target, answer in answers:
                if isinstance(answer, Interrupted):
                    raise answer
                if isinstance(answer, KnobError):
                    failures[target.name] = answer
        except KeyboardInterrupt:
            answers.close()
            raise _interrupted(plan, len(names)) from None
        if len(failures) > plan.planned.max_failures:
            break
    return failures


def _interrupted(plan: Plan, of: int) -> Interrupted:
    done = sum(attempt.succeeded for attempt in plan.attempts)
    doubt = [attempt.started.target for attempt in plan.attempts if attempt.in_doubt]
    return Interrupted(
        f"interrupted: {short(plan.id)} was applied to {done} of {of} targets, and no further one was begun"
        + (f"; in doubt: {', '.join(doubt)}" if doubt else ""),
        hint="`knob recover` looks at what is in doubt"
        if doubt
        else f"`knob show {short(plan.id)}` lists them",
        change=plan.id,
    )
