"""What changed between two readings of one file."""

from __future__ import annotations

from bisect import bisect_left, bisect_right
from collections.abc import Container, Iterable
from functools import lru_cache
from itertools import zip_longest

from knobledger.knobs.occurrence import Kind, KnobEdit, Occurrence
from knobledger.knobs.reading import Reading

State = dict[str, list[str | None]]


# The same bytes may have become the same others on many hosts; readings are equal where they are the same one.
@lru_cache(16)
def changed_knobs(before: Reading, after: Reading) -> tuple[KnobEdit, ...]:
    """The knobs whose decided value, or whose presence, differs; in the order of the text before, new ones last.

    A dynamic value is told by its raw text. Where several launches see different values, and where the winner hangs
    on a condition, the first difference is told.
    """
    if before.content == after.content and before.sources == after.sources:
        return ()
    # Imported here: it costs 0.3 s, and an edit of named knobs needs no search for what else differs.
    from deepdiff import DeepDiff

    olds, news = _state(before), _state(after)
    # Without the threshold, two states with few names in common would be one change of the whole.
    diff = DeepDiff(olds, news, view="tree", threshold_to_diff_deeper=0)
    touched = {str(level.path(output_format="list")[0]) for levels in diff.values() for level in levels}
    return _edits(olds, news, [name for name in dict.fromkeys([*olds, *news]) if name in touched])


def edits_of(before: Reading, after: Reading, names: Iterable[str]) -> tuple[KnobEdit, ...]:
    """The same for these knobs only, in the order of `names`."""
    wanted = dict.fromkeys(names)
    return _edits(_state(before, wanted), _state(after, wanted), wanted)


def _edits(olds: State, news: State, names: Iterable[str]) -> tuple[KnobEdit, ...]:
    edits = []
    for name in names:
        old, new = olds.get(name, []), news.get(name, [])
        pair = next(((a, b) for a, b in zip_longest(old, new) if a != b), None)
        if pair is not None:
            edits.append(KnobEdit(name, _kind(name), *pair))
    return tuple(edits)


def _kind(name: str) -> Kind:
    return "flag" if name.startswith("--") else "env"


def _state(reading: Reading, names: Container[str] | None = None) -> State:
    """Per name (of `names`) what decides it for each launch; what may decide it, where that depends."""
    state: State = {}
    # A string whose words are knobs themselves is only where they are kept.
    inner = sorted(site.span[0] for site in reading.sites if site.active and site.file is None)
    told = reading.occurrences if names is None else reading.occurrences_of(names)
    occurrences = [found for found in told if found.bare or not _holds(found, inner)]
    for occurrence in occurrences:
        if occurrence.wins:
            state.setdefault(occurrence.name, []).append(_told(occurrence))
    for occurrence in occurrences:
        if occurrence.active and not occurrence.wins and (occurrence.wins_for or occurrence.depends):
            state.setdefault(occurrence.name, []).append(_told(occurrence))
    return state


def _holds(occurrence: Occurrence, starts: list[int]) -> bool:
    """Whether another occurrence begins inside this one."""
    start, end = occurrence.span
    return occurrence.file is None and bisect_left(starts, end) > bisect_right(starts, start)


def _told(occurrence: Occurrence) -> str:
    if occurrence.bare:
        return ""
    return occurrence.raw if occurrence.value is None else occurrence.value
