"""The command that makes a plan once more: with the same wishes, on the bytes that are there by then. Pure."""

from __future__ import annotations

from collections.abc import Iterator

from knobledger.events.changes import Planned
from knobledger.names import short
from knobledger.plan import Ask
from knobledger.quoting import command_line


def again(planned: Planned) -> str:
    """A line to type. A secret's value stands there as `VALUE`; `--line` is left out, since lines may have moved."""
    return command_line(("knob", *_words(planned)))


def _words(planned: Planned) -> Iterator[str]:
    unset = planned.verb == "unset"
    yield planned.verb
    if planned.verb in ("revert", "restore"):
        yield short(planned.undoes) if planned.undoes else "CHANGE"
    else:
        yield from planned.where
    # Behind `--` stands what looks like an option; what a `set` takes out beside it has an option of its own.
    behind = [ask for ask in planned.asks if ask.name.startswith("-") and (ask.value is not None or unset)]
    yield from (_asked(ask, unset) for ask in planned.asks if ask not in behind)
    for option, wanted in (
        ("--add", planned.add),
        ("--force", planned.force),
        ("--exact", planned.exact),
        ("--in-place", planned.in_place),
        ("--roll-back-on-failure", planned.roll_back_on_failure),
    ):
        if wanted:
            yield option
    for option, value in (
        ("--scope" if planned.only_restarts else "--restart", planned.restart.replace("none", "")),
        ("--confirm-within", f"{planned.confirm_within_s}s" if planned.confirm_within_s else ""),
        ("--batch", ",".join(planned.batches)),
        ("--max-failures", str(planned.max_failures or "")),
        ("--label", planned.label),
        ("--kind", planned.purpose.replace("other", "")),
        *(("--for", slug) for slug in planned.hypotheses),
        ("--despite", planned.despite),
        ("--why", planned.why),
    ):
        if value:
            yield from (option, value)
    if behind:
        yield "--"
    yield from (_asked(ask, unset) for ask in behind)


def _asked(ask: Ask, unset: bool) -> str:
    if ask.value is None:
        return ask.name if unset else f"--unset={ask.name}"
    if not ask.value and ask.name.startswith("-"):
        return ask.name
    return f"{ask.name}={'VALUE' if ask.secret else ask.value}"
