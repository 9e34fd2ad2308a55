"""What was seen of running services, for a person."""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from datetime import UTC, datetime

from knobledger.report.paper import Paper
from knobledger.report.terminal import line, render
from knobledger.report.watching import LiveReport, NotSeen
from knobledger.services.live import Live, LiveKnob, Written
from knobledger.services.proof import Proc, Told

_FEW = 3
"""so many knobs are shown side by side in full; with more, one that is as written takes one line"""


@render.register
def _(report: LiveReport, page: Paper) -> None:
    for target in report.targets:
        if isinstance(target, NotSeen):
            line(page, f"{target.target}   {target.path}", "bold")
            line(page, f"  not seen: {target.message}", "red")
        else:
            _live(target, page)


def _live(live: Live, page: Paper) -> None:
    line(page, f"{live.target.name}   {live.target.path}", "bold")
    if live.written is not None:
        line(page, f"  written  {_clock(live.written)} by the host's clock", "dim")
    for proc in live.procs:
        _process(proc, page)
    for text in live.remarks:
        line(page, f"  note: {text}", "yellow")
    for knob in live.knobs if live.procs else ():
        if len(live.knobs) > _FEW and _plain(knob):
            told = _group(knob.told)
            line(
                page, f"  {knob.name}   {_value(knob.file)}, as written, {_where(next(iter(told.values())))}"
            )
        else:
            _knob(knob, live.procs, page)
    if live.procs and not live.knobs:
        line(page, "  no knob to look for: the file decides none, and none was named", "dim")


def _process(proc: Proc, page: Paper) -> None:
    marks = ["runs the script itself: what it exports reaches its children"] if proc.launcher else []
    if proc.after_write is False:
        marks.append("started before the file was written: it has the old value")
    style = "yellow" if proc.after_write is False else "dim"
    tail = f"   ({'; '.join(marks)})" if marks else ""
    words = " ".join(proc.process.command) or "(no command line)"
    line(page, f"  pid {proc.pid}  since {_clock(proc.process.started)}  {words}{tail}", style)


def _plain(knob: LiveKnob) -> bool:
    """Nothing about it needs a second look: written once, and every process that counts has it."""
    said = _group(knob.told)
    return bool(
        knob.agrees
        and knob.state == "present"
        and not knob.unknown
        and (knob.unit is None or knob.unit.state == "absent")
        and not any(state == "unreadable" for state, _, _ in said)
    )


def _knob(knob: LiveKnob, procs: Sequence[Proc], page: Paper) -> None:
    verdict, style = {
        True: ("as written", "green"),
        False: ("NOT as written", "red"),
        None: ("can't be told", "yellow"),
    }[knob.agrees]
    line(page, f"  {knob.name}   {verdict}", style)
    line(page, f"      file     {_side(knob.file)}")
    if knob.unit is not None:
        line(page, f"      unit     {_side(knob.unit)}")
    launchers = {proc.pid for proc in procs if proc.launcher}
    shown = [told for told in knob.told if told.pid not in launchers] or list(knob.told)
    for (state, value, reason), pids in _group(shown).items():
        what = (value or "(no value)") if state == "present" else f"({state})"
        why = f": {reason}" if reason else ""
        line(page, f"      process  {what}   {_where(pids)}{why}")
    for told in shown:
        kin = _kin(told)
        if kin:
            line(page, f"               {told.pid}: {kin}", "dim")
    if knob.unknown:
        line(page, f"      log      unknown to the program: {knob.unknown}", "red")


def _group(told: Iterable[Told]) -> dict[tuple[str, str | None, str], list[int]]:
    found: dict[tuple[str, str | None, str], list[int]] = {}
    for one in told:
        found.setdefault((one.state, one.value, one.reason), []).append(one.pid)
    return found


def _where(pids: Sequence[int]) -> str:
    shown = ", ".join(map(str, pids[:6])) + (f" and {len(pids) - 6} more" if len(pids) > 6 else "")
    return f"in {shown}"


def _kin(told: Told) -> str:
    """`parent 41 has 512; 3 siblings have 512`."""
    parts = []
    for relation in ("parent", "child", "sibling"):
        said = [other for kind, other in told.relatives if kind == relation]
        for (state, value, _), pids in _group(said).items():
            what = (value or "(no value)") if state == "present" else "not"
            many = {"parent": "parents", "child": "children", "sibling": "siblings"}[relation]
            whom = f"{relation} {pids[0]} has" if len(pids) == 1 else f"{len(pids)} {many} have"
            parts.append(f"{whom} {what}" if state == "present" else f"{whom} it not")
    return "; ".join(parts)


def _side(written: Written) -> str:
    place = f"   ({written.place})" if written.place else ""
    return f"{_value(written)}{place}"


def _value(written: Written) -> str:
    if written.state != "set":
        return f"({written.state})"
    return written.value or "(no value)"


def _clock(unix: float) -> str:
    return f"{datetime.fromtimestamp(unix, UTC):%Y-%m-%d %H:%M:%S}Z"
