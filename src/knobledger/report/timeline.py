"""The timeline of an inquiry: time runs down, spans of a knob stand left, events right, and no two labels collide.

Geometry here, looks in `templates/timeline.svg.j2`.
"""

from __future__ import annotations

from collections.abc import Sequence
from datetime import UTC, datetime, time, timedelta, tzinfo
from pathlib import Path
from typing import Literal

from msgspec import Struct
from msgspec.structs import replace

from knobledger.report.vector import drawn, number, plain, shortened

AXIS, LANE, ROW = 70.0, 92.0, 26.0
"""x of the axis; width of a target's lane; least distance of two labels; pixels"""
TOP, WIDTH = 100.0, 900.0
BAR = 22.0
_CHARACTER = 6.7
"""average width of a character of a label; pixels"""
_WIDE = 7.1
"""the same of a label beside the axis, where names of knobs are capitals"""
_STEPS = [timedelta(minutes=m) for m in (5, 10, 15, 30, 60, 120, 180, 360, 720, 1440, 2880, 10080)]
_SIGNS = {
    "change": "act",
    "revert": "act",
    "restore": "act",
    "restart": "act",
    "evidence": "thought",
    "hypothesis": "thought",
    "verdict": "thought",
    "note": "thought",
}
"""kinds to what they look like; all others are something seen"""


class Entry(Struct, frozen=True):
    """One event of the timeline."""

    at: datetime
    """aware"""
    kind: str
    """`change revert restore restart hypothesis evidence verdict observation drift note`, shown as it is"""
    label: str
    target: str = ""


class Span(Struct, frozen=True):
    """A time in which a knob had its value, or had been taken out."""

    since: datetime
    until: datetime | None
    """None: it lasts"""
    state: Literal["in", "out"]
    target: str
    label: str = ""
    """such as `512 in effect`"""


def spans_of(entries: Sequence[Entry]) -> tuple[Span, ...]:
    """Spans as the entries imply them: in from a change or restore, out from a revert, per target."""
    found: list[Span] = []
    marks = [one for one in sorted(entries, key=_order) if one.kind in ("change", "revert", "restore")]
    for target in dict.fromkeys(one.target for one in marks):
        own = [one for one in marks if one.target == target]
        for one, following in zip(own, [*own[1:], None], strict=True):
            state: Literal["in", "out"] = "out" if one.kind == "revert" else "in"
            said = {"change": "in", "revert": "out", "restore": "restored"}[one.kind]
            found.append(Span(one.at, following.at if following else None, state, target, said))
    return tuple(found)


def timeline_svg(
    entries: Sequence[Entry],
    zone: tzinfo,
    title: str,
    *,
    spans: Sequence[Span] | None = None,
    ident: str = "timeline",
    workspace: Path | None = None,
) -> str:
    """The timeline as SVG, the same bytes for the same entries. Times are shown in `zone`.

    `spans` None: those of `spans_of`, which knows targets and not knobs. `ident` makes ids unique within one page.
    Raises `ValueError` without an entry.
    """
    ordered = sorted((replace(entry, at=entry.at.astimezone(UTC)) for entry in entries), key=_order)
    shown = spans_of(ordered) if spans is None else tuple(map(_in_utc, spans))
    dated = _several_days(ordered, zone)
    scale = _Scale.of(ordered, shown)
    lanes = list(dict.fromkeys(span.target for span in shown))
    text_x = AXIS + 30 + LANE * len(lanes) + 34
    rows = _placed([scale.y(entry.at) for entry in ordered], TOP, ROW)
    bottom = max([scale.bottom, *(row + ROW / 2 for row in rows)])
    return drawn(
        "timeline.svg.j2",
        {
            "ident": ident,
            "title": plain(title),
            "subtitle": _zone_text(ordered, shown, zone),
            "description": _described(ordered, zone),
            "width": number(WIDTH),
            "height": number(bottom + 24),
            "axis": number(AXIS),
            "top": number(TOP),
            "bottom": number(scale.bottom),
            "grid_end": number(text_x - 30),
            "ticks": [(number(scale.y(at)), text) for at, text in scale.ticks(zone)],
            "lanes": [(number(_lane(index)), shortened(lane, 13)) for index, lane in enumerate(lanes)],
            "bars": [_bar(span, _lane(lanes.index(span.target)), scale, zone) for span in shown],
            "events": [
                {
                    "y": number(scale.y(entry.at)),
                    "row": number(row),
                    "text_x": number(text_x),
                    "sign": _SIGNS.get(entry.kind, "seen"),
                    "time": _local(entry.at, zone, dated),
                    "kind": plain(entry.kind),
                    "label": shortened(entry.label, _room(entry, text_x, dated)),
                    "target": plain(entry.target),
                }
                for entry, row in zip(ordered, rows, strict=True)
            ],
        },
        workspace,
    )


class _Scale(Struct, frozen=True):
    """Instants to pixels, downwards."""

    first: datetime
    last: datetime
    bottom: float

    @classmethod
    def of(cls, entries: Sequence[Entry], spans: Sequence[Span]) -> _Scale:
        instants = [entry.at for entry in entries]
        instants += [at for span in spans for at in (span.since, span.until) if at is not None]
        if not instants:
            raise ValueError("a timeline without an event")
        first, last = min(instants), max(instants)
        spare = max((last - first) * 0.03, timedelta(minutes=2))
        height = min(max(360.0, ROW * (len(entries) + 1)), 4000.0)
        return cls(first - spare, last + spare, TOP + height)

    def y(self, at: datetime) -> float:
        return TOP + (at - self.first) / (self.last - self.first) * (self.bottom - TOP)

    def ticks(self, zone: tzinfo) -> list[tuple[datetime, str]]:
        """Round times by the zone's clock; midnights by their date."""
        wanted = (self.last - self.first) / 9
        step = next((step for step in _STEPS if step >= wanted), None)
        step = step or timedelta(days=-(-wanted // timedelta(days=1)))
        first = self.first.astimezone(zone).replace(tzinfo=None)
        clock = datetime.combine(first.date(), time())
        found: list[tuple[datetime, str]] = []
        while (at := clock.replace(tzinfo=zone).astimezone(UTC)) <= self.last:
            if at >= self.first:
                found.append((at, f"{clock:%H:%M}" if clock.time() != time() else f"{clock:%b} {clock.day}"))
            clock += step
        return found


def _placed(wanted: Sequence[float], top: float, distance: float) -> list[float]:
    """Places as near to the wanted ones as can be, in order, each `distance` below the one before.

    Least squares by pooling neighbours that violate (isotonic regression), then nothing above `top`.
    """
    pools: list[list[float]] = []
    for index, place in enumerate(wanted):
        pools.append([place - index * distance])
        while len(pools) > 1 and _mean(pools[-2]) > _mean(pools[-1]):
            last = pools.pop()
            pools[-1].extend(last)
    free = [max(_mean(pool), top) for pool in pools for _ in pool]
    return [place + index * distance for index, place in enumerate(free)]


def _mean(values: Sequence[float]) -> float:
    return sum(values) / len(values)


def _bar(span: Span, x: float, scale: _Scale, zone: tzinfo) -> dict[str, object]:
    start, end = scale.y(span.since), scale.y(span.until or scale.last)
    words = span.label or span.state
    ended = f" to {span.until.astimezone(zone):%H:%M}" if span.until else ""
    said = f"{words} {_length(span.until - span.since)}" if span.until else words
    room = int((end - start - 6) / _CHARACTER)
    return {
        "state": span.state,
        "open": span.until is None,
        "x": number(x),
        "y": number(start),
        "width": number(BAR),
        "height": number(max(end - start, 2)),
        "middle": number(x + BAR / 2 + 4),
        "centre": number((start + end) / 2),
        "text": next((text for text in (said, words) if len(text) <= room), ""),
        "full": plain(f"{span.target}: {said}, from {span.since.astimezone(zone):%H:%M}{ended}"),
    }


def _in_utc(span: Span) -> Span:
    """Differences of times in one zone forget its clock changes, so nothing is computed in a zone."""
    return replace(span, since=span.since.astimezone(UTC), until=span.until and span.until.astimezone(UTC))


def _length(duration: timedelta) -> str:
    minutes = round(duration.total_seconds() / 60)
    days, minutes = divmod(minutes, 1440)
    hours, minutes = divmod(minutes, 60)
    parts = [f"{days}d" if days else "", f"{hours}h" if hours else "", f"{minutes}m" if minutes else ""]
    return " ".join(part for part in parts if part) or "0m"


def _lane(index: int) -> float:
    return AXIS + 36 + LANE * index


def _room(entry: Entry, text_x: float, dated: bool) -> int:
    """Characters that a label has beside its time, kind and target."""
    head = len(entry.kind) * 1.5 + (13 if dated else 7) + (len(entry.target) + 2 if entry.target else 0)
    # With a target it ends at the edge; without one there is room for what is a little longer.
    return max(int((WIDTH - text_x - 20) / (_WIDE if entry.target else _CHARACTER) - head), 8)


def _local(at: datetime, zone: tzinfo, dated: bool) -> str:
    here = at.astimezone(zone)
    return f"{here:%b} {here.day} {here:%H:%M}" if dated else f"{here:%H:%M}"


def _several_days(entries: Sequence[Entry], zone: tzinfo) -> bool:
    return len({entry.at.astimezone(zone).date() for entry in entries}) > 1


def _zone_text(entries: Sequence[Entry], spans: Sequence[Span], zone: tzinfo) -> str:
    """`Monday, 30 November 2026; times in Europe/Berlin (UTC+01:00)`."""
    first = min([*(entry.at for entry in entries), *(span.since for span in spans)]).astimezone(zone)
    last = max([first, *(entry.at.astimezone(zone) for entry in entries)])
    days = f"{first:%A}, {first.day} {first:%B %Y}"
    if last.date() != first.date():
        days += f" to {last:%A}, {last.day} {last:%B %Y}"
    offsets = sorted({_offset(at) for at in (first, last)})
    return f"{days}; times in {zone} ({', '.join(offsets)})"


def _offset(at: datetime) -> str:
    text = at.strftime("%z")
    return f"UTC{text[:3]}:{text[3:5]}"


def _described(entries: Sequence[Entry], zone: tzinfo) -> str:
    """The timeline in words, uncut, for those who hear it."""
    dated = _several_days(entries, zone)
    return plain(
        " ".join(
            f"{_local(entry.at, zone, dated)} {entry.kind}: {entry.label}"
            + (f" ({entry.target})." if entry.target else ".")
            for entry in entries
        )
    )


def _order(entry: Entry) -> tuple[datetime, str, str]:
    return entry.at, entry.kind, entry.label
