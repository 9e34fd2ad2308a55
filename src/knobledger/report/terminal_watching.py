"""What was seen of running services, for a person."""

from __future__ import annotations

import shutil
from collections.abc import Iterable, Sequence
from datetime import UTC, datetime
from typing import TYPE_CHECKING

from knobledger.report import terminal_check  # noqa: F401 - registers the rendering of `check`
from knobledger.report.paper import Paper
from knobledger.report.plot import number, plot
from knobledger.report.terminal import line, render
from knobledger.report.watching import LiveReport, NotSeen, Observation
from knobledger.services.live import Live, LiveKnob, Written
from knobledger.services.sampling import Sampling
from knobledger.services.started import Proc, Told

if TYPE_CHECKING:
    from rich.text import Text

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
    if knob.agrees is not None and any(told.state == "unreadable" for told in _counted(knob, procs)):
        verdict += ", as far as can be read"
    line(page, f"  {knob.name}   {verdict}", style)
    line(page, f"      file     {_side(knob.file)}")
    if knob.unit is not None:
        line(page, f"      unit     {_side(knob.unit)}")
    shown = _counted(knob, procs)
    for (state, value, reason), pids in _group(shown).items():
        what = (value or "(no value)") if state == "present" else f"({state})"
        why = f": {reason}" if reason else ""
        line(page, f"      process  {what}   {_where(pids)}{why}")
    said: dict[str, list[int]] = {}
    for told in shown:
        said.setdefault(_kin(told), []).append(told.pid)
    for kin, pids in said.items():
        if kin:
            line(page, f"               for {_where(pids).removeprefix('in ')}: {kin}", "dim")
    if knob.unknown:
        line(page, f"      log      unknown to the program: {knob.unknown}", "red")


def _counted(knob: LiveKnob, procs: Sequence[Proc]) -> list[Told]:
    """The processes that say something of it: no shell that runs the script; of a flag only those that have it, if any."""
    launchers = {proc.pid for proc in procs if proc.launcher}
    counted = [told for told in knob.told if told.pid not in launchers] or list(knob.told)
    having = [told for told in counted if told.state == "present"]
    return having if knob.kind == "flag" and having else counted


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


@render.register
def _(report: Observation, page: Paper) -> None:
    event, seen = report.event, report.seen
    line(page, f"{event.target}   {event.metric}", "bold")
    line(page, f"  {event.type} at {event.source}", "dim")
    line(page, f"  {_summed(report)}", "dim")
    for text in plot(event.values, shutil.get_terminal_size().columns - 2):
        line(page, f"  {text}", "cyan")
    line(page, f"  {_said(report)}", "yellow" if event.shape in ("pinned", "growing") else "green")
    figures = [f"peak {number(seen.peak)}", f"median {number(seen.median)}", f"last {number(seen.last)}"]
    missing = len(event.values) - seen.samples
    figures.append(
        f"{seen.samples} samples, {event.interval_s:g} s apart" + (f", {missing} missing" if missing else "")
    )
    line(page, f"  {'   '.join(figures)}")
    for index in seen.reset_at:
        line(page, f"  reset at {report.at(index)[:19]}Z: it fell back, as a restart makes it do", "yellow")
    if event.plan:
        line(page, f"  part of change {event.plan[:8]}")
    if report.message:
        line(page, f"  {report.message}", "red")


def _summed(report: Observation) -> str:
    """How many series a value is the sum of, and how to pick one."""
    if len(report.series) < 2:
        return f"one series{': ' + report.series[0] if report.series and report.series[0] else ''}"
    parts = [set(text.split(",")) for text in report.series]
    common = set.intersection(*parts)
    own = [",".join(word for word in text.split(",") if word not in common) for text in report.series]
    shown = "; ".join(own[:4]) + ("; ..." if len(own) > 4 else "")
    return f"the sum of {len(own)} series ({shown}); --label picks"


def _said(report: Observation) -> str:
    """The shape in a sentence."""
    seen, event = report.seen, report.event
    for_s = f"{max(0, len(event.values) - 1) * event.interval_s:g} s"
    match event.shape:
        case "idle":
            return f"idle: 0 for all of {for_s}"
        case "rotating":
            times = "once" if seen.returns == 1 else f"{seen.returns} times"
            return f"rotating: came back to {number(seen.floor)} {times} in {for_s}"
        case "pinned":
            return f"pinned: never under {number(seen.floor)} in {for_s}"
        case "growing":
            return f"growing: to {number(seen.last)} in {for_s}, and it did not come back down"
        case "varying":
            return f"varying: between {number(seen.floor)} and {number(seen.peak)} in {for_s}"
        case "counting":
            return f"counting: by {number(seen.increase)} in {for_s}, {number(seen.rate)} per second"
        case "still":
            return f"still: did not rise in {for_s}"
        case "unknown":
            return f"too few samples ({seen.samples}) to say what it does"


def frame(title: str, sampling: Sampling, width: int) -> Text:
    """What is drawn while samples come in, as high from the first sample on as it will be."""
    from rich.text import Text

    seen = sampling.seen()
    left_s = (sampling.planned - len(sampling.samples)) * sampling.interval_s
    now = f"now {number(sampling.values[-1])}   peak {number(seen.peak)}   {left_s:.0f} s left"
    lines = [title, *plot(sampling.values, width - 1), f"{now}   {seen.shape}"]
    return Text("\n".join(text[: width - 1] for text in lines), no_wrap=True)
