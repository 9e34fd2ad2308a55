"""Which runs may be compared with which: same label, same conditions; everything else that differs is named."""

from __future__ import annotations

from collections.abc import Collection, Iterator, Sequence
from math import inf

from msgspec import Struct

from knobledger.measured import Arm, Number, Pairs, Run


class Group(Struct, frozen=True):
    """The runs of one operating point."""

    label: str
    settings: str
    load: Number
    baseline: tuple[Run, ...]
    variant: tuple[Run, ...]
    unequal: tuple[str, ...] = ()
    """conditions that differ, `input_len: 1024 against 2048`; not empty: these runs can't be compared"""


def grouped(runs: Sequence[Run]) -> list[Group]:
    """Runs by label and, where a label has several configurations, by these; ordered by load.

    Only conditions that every run of a label records are compared. A configuration that one arm lacks stands
    alone, unless the other arm has one alone as well, or it differs in the number of prompts only: then they are
    shown side by side as unequal.
    """
    groups: list[Group] = []
    for label in sorted({run.label for run in runs}):
        groups.extend(_of_label(label, [run for run in runs if run.label == label]))
    return sorted(groups, key=lambda group: (_order(group.load), group.label, group.settings))


def confounds(group: Group, knobs: Collection[str]) -> tuple[str, ...]:
    """Arguments that differ between the arms, but for the knobs under test, and what only one arm records."""
    tested = {_plain(knob) for knob in knobs}
    found: list[str] = []
    lone: dict[Arm, list[str]] = {"baseline": [], "variant": []}
    for key in sorted({key for run in (*group.baseline, *group.variant) for key, _ in _all(run)}):
        if _plain(key.rpartition(".")[2]) in tested:
            continue
        before, after = (_values(side, key) for side in (group.baseline, group.variant))
        if not before or not after:
            lone["baseline" if before else "variant"].append(key)
        elif before != after and not any(line.startswith(f"{key}: ") for line in group.unequal):
            found.append(f"{key}: {_listed(before)} against {_listed(after)}")
    if group.baseline and group.variant:
        found.extend(f"only the {arm} records: {', '.join(keys)}" for arm, keys in lone.items() if keys)
    return tuple(found)


def _of_label(label: str, runs: list[Run]) -> Iterator[Group]:
    recorded = set.intersection(*({key for key, _ in _fixed(run)} for run in runs))
    configurations: dict[Pairs, list[Run]] = {}
    for run in runs:
        configurations.setdefault(tuple(pair for pair in _fixed(run) if pair[0] in recorded), []).append(run)
    alone = [pairs for pairs, its in configurations.items() if len({run.arm for run in its}) == 1]
    arms = {configurations[pairs][0].arm for pairs in alone}
    unequal = set(alone) if len(arms) == 2 else set()
    for (
        one
    ) in alone:  # fewer requests at else equal conditions: some were lost, where a tool counts no failures
        alike = {pairs for pairs in configurations if _but_prompts(pairs) == _but_prompts(one)}
        unequal |= alike if len(alike) > 1 else set()
    several = len(configurations) - max(len(unequal) - 1, 0) > 1
    varying = {key for key in recorded if len({dict(pairs).get(key) for pairs in configurations}) > 1}
    for pairs, its in sorted(configurations.items()):
        if pairs not in unequal:
            said = ", ".join(f"{key} {value}" for key, value in pairs if key in varying)
            yield _group(label, said if several else "", its)
    if unequal:
        together = [run for pairs in sorted(unequal) for run in configurations[pairs]]
        yield _group(label, "unequal" if several else "", together, _unequal(together, varying))


def _group(label: str, settings: str, runs: list[Run], unequal: tuple[str, ...] = ()) -> Group:
    sides: dict[Arm, tuple[Run, ...]] = {
        "baseline": tuple(run for run in runs if run.arm == "baseline"),
        "variant": tuple(run for run in runs if run.arm == "variant"),
    }
    return Group(label, settings, runs[0].load, sides["baseline"], sides["variant"], unequal)


def _unequal(runs: list[Run], keys: Collection[str]) -> tuple[str, ...]:
    sides = [[run for run in runs if run.arm == arm] for arm in ("baseline", "variant")]
    found = []
    for key in sorted(keys):
        before, after = (_values(side, key) for side in sides)
        if before != after or len(before) > 1:
            found.append(f"{key}: {_listed(before)} against {_listed(after)}")
    return tuple(found)


def _but_prompts(pairs: Pairs) -> Pairs:
    return tuple(pair for pair in pairs if pair[0] != "num_prompts")


def _fixed(run: Run) -> Pairs:
    """The conditions; a format is one, since tools count differently."""
    return (*run.conditions, ("format", run.format))


def _all(run: Run) -> Pairs:
    return (*run.conditions, *run.arguments, *((("version", run.version),) if run.version else ()))


def _values(runs: Sequence[Run], key: str) -> set[str]:
    return {value for run in runs for name, value in (*_all(run), ("format", run.format)) if name == key}


def _listed(values: set[str]) -> str:
    return ", ".join(sorted(values)) or "not recorded"


def _plain(name: str) -> str:
    return name.lstrip("-").replace("-", "_").lower()


def _order(load: Number) -> float:
    return inf if load is None or isinstance(load, str) else load
