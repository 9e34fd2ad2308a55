"""When an A/B result may be called a gain: Welch intervals on the log ratio, n counted by starts of the server.

Pure. "not enough data" and "inconclusive" are never shown like "no difference"; docs/bench.md tells how a call is made.
"""

from __future__ import annotations

from collections.abc import Collection, Mapping, Sequence

from knobledger.comparison.dips import dips
from knobledger.comparison.groups import grouped
from knobledger.comparison.live import Live, Misplaced, misplaced
from knobledger.comparison.trial import called, tried
from knobledger.comparison.values import Aside, Call, Cell, Comparison, Dip, Side
from knobledger.comparison.welch import holm
from knobledger.errors import Usage
from knobledger.measured import Run, better, unit_of
from knobledger.names import Digest

__all__ = ["Aside", "Call", "Cell", "Comparison", "Dip", "Live", "Misplaced", "Side", "compare", "misplaced"]

MARGIN = 0.02
"""the smallest change that matters, of every metric, fixed before the data"""


def compare(
    runs: Sequence[Run],
    *,
    metric: str = "output_throughput",
    margin: float = MARGIN,
    knobs: Collection[str] = (),
    discarded: Mapping[Digest, str] | None = None,
    alike: Sequence[Run] = (),
    live: Sequence[Live] | None = None,
) -> Comparison:
    """Both arms of a change at each operating point.

    `knobs` are the names under test, which are no confounds; `discarded` says why a run does not count, by its
    digest; `alike` are further runs with one same setting (A/A), for their spread only; `live` is when a process
    ran with the new value, None where that is not known. Raises `Usage` for a metric that has no better side.
    """
    side = better(metric)
    if side is None:
        raise Usage(
            f"no metric that can be compared: {metric!r}",
            hint="one is `output_throughput` or `median_ttft_ms`",
        )
    kept, aside, warnings = _kept(runs, discarded or {}, live)
    trials = [tried(group, metric, margin, knobs, alike) for group in grouped(kept)]
    effects = [trial.effect for trial in trials if trial.effect]
    differ, flat = holm([one.p_differ for one in effects]), holm([one.p_flat for one in effects])
    adjusted = iter(zip(differ, flat, strict=True))
    sign = 1 if side == "higher" else -1
    cells = tuple(
        called(trial, sign, margin, next(adjusted) if trial.effect else None, len(effects))
        for trial in trials
    )
    return Comparison(
        metric=metric,
        unit=unit_of(metric) or "",
        better=side,
        margin_pct=margin * 100,
        cells=cells,
        dips=dips(cells, margin) if side == "higher" else (),
        aside=aside,
        warnings=warnings,
    )


def _kept(
    runs: Sequence[Run], discarded: Mapping[Digest, str], live: Sequence[Live] | None
) -> tuple[list[Run], tuple[Aside, ...], tuple[str, ...]]:
    """The runs that count, those that do not, and what can't be told of those that do."""
    kept: dict[tuple[str, str], Run] = {}
    aside: list[Aside] = []
    warnings: list[str] = []
    for run in runs:
        out_of_place = misplaced(run, live) if live is not None else None
        if run.digest in discarded:
            aside.append(Aside(run, discarded[run.digest], "discarded"))
        elif (run.arm, run.digest) in kept:
            aside.append(Aside(run, "imported before; it counts once", "repeated"))
        elif out_of_place and out_of_place.certain:
            aside.append(Aside(run, out_of_place.why, "rejected"))
        else:
            kept[run.arm, run.digest] = run
            if out_of_place:
                warnings.append(f"{run.label} {run.arm}, {run.source}:{run.line}: {out_of_place.why}")
    return list(kept.values()), tuple(aside), tuple(warnings)
