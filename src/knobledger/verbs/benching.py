"""The verbs of benchmarks: bring in runs of both arms of a change, and compare them."""

from __future__ import annotations

from collections.abc import Sequence
from datetime import UTC, datetime
from pathlib import Path
from typing import TYPE_CHECKING
from zoneinfo import ZoneInfo

from knobledger.errors import Refused, Usage
from knobledger.names import EventId
from knobledger.opening import Opening

if TYPE_CHECKING:
    from knobledger.importers.origin import Origin
    from knobledger.measured import Arm, Run
    from knobledger.report.benches import BenchReport

# What only some verbs need is imported by these verbs: statistics take half a second to load.


class Benching(Opening):
    """What a change is worth."""

    def bench_import(
        self,
        files: Sequence[Path],
        change: str,
        arm: Arm,
        *,
        label: str = "",
        start: str = "",
        at: str | None = None,
    ) -> BenchReport:
        """Reads benchmark files of one arm, all or none. Raises `BadBenchmark`, `Refused`, `Usage`."""
        from knobledger.importers import read

        found = self.find_change(change)
        runs: list[Run] = []
        for path in files:
            content, origin = self._file(path, found, arm, label=label, start=start, at=at)
            runs += read(content, origin)
        self._measured(found, runs)
        return self.bench_show(found)

    def bench_table(
        self, file: Path, change: str, *, metric: str = "output_throughput", line: int | None = None
    ) -> BenchReport:
        """Reads both arms from a Markdown table. Raises `BadBenchmark`, `Refused`."""
        from knobledger.importers import table

        found = self.find_change(change)
        content, origin = self._file(file, found, "variant")
        read = table.read(content, origin, metric=metric, line=line)
        self.notes += read.remarks
        self._measured(found, read.runs)
        return self.bench_show(found)

    def bench_show(self, change: str, metric: str | None = None, plot: Path | None = None) -> BenchReport:
        """Compares the arms of a change; `plot` gets the picture, as SVG or PNG by its name. Raises `Usage`, `Refused`."""
        from knobledger.inquiry import comparison_of, origin
        from knobledger.report.benches import BenchReport

        found = origin(self.state, self.find_change(change))
        report = BenchReport(found, self.title_of(found), comparison_of(self.state, found, metric))
        if plot is not None:
            from knobledger.report.plots import bench_svg
            from knobledger.report.vector import png_of

            if plot.suffix.lower() not in (".svg", ".png"):
                raise Usage(f"{plot.name!r} is no name of a picture", hint="`--plot FILE.svg` or FILE.png")
            drawn = bench_svg(report.comparison, report.title, workspace=self.root)
            _write(plot, drawn.encode() if plot.suffix.lower() == ".svg" else png_of(drawn))
        return report

    def title_of(self, change: EventId) -> str:
        """A change in a line: `gpu1/decode  TARGET_CTAS   256 → 512`."""
        from knobledger.report.terminal import edit_text

        planned = self.state.plans[change].planned
        edits = "; ".join(edit_text(edit) for file in planned.files[:1] for edit in file.edits)
        return f"{planned.files[0].target}  {edits}"

    def _file(
        self,
        path: Path,
        change: EventId,
        arm: Arm,
        *,
        label: str = "",
        start: str = "",
        at: str | None = None,
    ) -> tuple[bytes, Origin]:
        from knobledger.importers.origin import Origin

        try:
            content, mtime = path.read_bytes(), path.stat().st_mtime
        except OSError as error:
            raise Refused(f"{str(path)!r} can't be read: {(error.strerror or str(error)).lower()}") from error
        target = self.state.plans[change].planned.files[0].target
        return content, Origin(
            name=str(path),
            arm=arm,
            mask=self.masker.value,
            start=start,
            label=label,
            at=self.moment(at).instant if at else None,
            mtime=datetime.fromtimestamp(int(mtime), UTC),
            host=target.partition("/")[0],
            zone=ZoneInfo(self.desk.author.zone),
        )

    def _measured(self, change: EventId, runs: Sequence[Run]) -> None:
        from knobledger.events.asking import Measured

        entries = self.state.asked.measured.get(change, [])
        known = {(run.arm, run.digest) for entry in entries for run in entry.event.runs}
        fresh = tuple(run for run in runs if (run.arm, run.digest) not in known)
        if fresh:
            self.desk.write(Measured(**self.desk.author.signs(), change=change, runs=fresh))
        if len(fresh) < len(runs):
            self.notes.append(f"{len(runs) - len(fresh)} runs were imported before; they count once")


def _write(path: Path, content: bytes) -> None:
    try:
        path.write_bytes(content)
    except OSError as error:
        raise Refused(f"{str(path)!r} can't be written: {(error.strerror or str(error)).lower()}") from error
