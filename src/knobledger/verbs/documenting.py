"""The verbs of documents: which contradict the record, and the addendum that puts one right."""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from pathlib import Path
from typing import TYPE_CHECKING
from zoneinfo import ZoneInfo

from msgspec.structs import replace

from knobledger.errors import KnobError, PlanMode, Refused
from knobledger.event import moment_of
from knobledger.names import EventId, TargetName, digest_of
from knobledger.verbs.asking import Asking

if TYPE_CHECKING:
    from knobledger.correcting import Values
    from knobledger.events.asking import EvidenceGiven, StaleLine
    from knobledger.folds.asking import Hypothesis
    from knobledger.report.asking import HypothesisReport
    from knobledger.report.changes import ChangeLine
    from knobledger.report.documents import Correction, Stale

# What only some verbs need is imported by these verbs: a change is to be quick.


class Documenting(Asking):
    """The written record outside the ledger."""

    def docs_stale(self, paths: Sequence[Path], *, exit_code: bool = False) -> Stale:
        """Lines of documents that contradict the record or the live values, with why. Raises `Refused`."""
        from knobledger.correcting import content_of, documents_in, name_of, note_check, stale
        from knobledger.report.documents import Stale

        found = {path.resolve(): content_of(path) for path in documents_in(paths)}
        live = self._live_values(found.values())
        out = []
        for path, content in sorted(found.items()):
            name, lines = name_of(self.root, path), stale(self.desk, content, live)
            note_check(self.desk, name, content, lines)
            out.append((name, lines))
        return Stale(tuple(out), 10 if exit_code else 0)

    def verdict_swept(self, report: HypothesisReport) -> HypothesisReport:
        """A verdict with the documents that still name its hypothesis: known ones, and Markdown of the workspace."""
        from knobledger.correcting import documents_in, name_of, stale, values

        known = [self.root / name for name in self.state.asked.documents]
        paths = [path.resolve() for path in (*known, *documents_in([self.root])) if path.is_file()]
        live = values(self.desk, {})
        found = [
            (name_of(self.root, path), item.line, item.why)
            for path in sorted(set(paths))
            for item in stale(self.desk, path.read_bytes(), live)
            if item.hypothesis == report.hypothesis.slug
        ]
        return replace(report, documents=tuple(found))

    def draft_correction(self, path: Path, slug: str) -> Correction:
        """The addendum that a document would get; nothing is written. Raises `Unknown`, `Refused`."""
        from knobledger.correcting import content_of, documents_in, name_of, stale
        from knobledger.documents import enclosed, marked
        from knobledger.ledger.one_file import in_git
        from knobledger.report.documents import Correction
        from knobledger.templates import rendered

        hypothesis = self.find_hypothesis(slug)
        verdict = hypothesis.verdict
        if verdict is None:
            raise Refused(
                f"hypothesis {slug!r} has no verdict yet: there is nothing to correct a document with",
                hint=f"`knob verdict {slug} confirmed|refuted|inconclusive --because TEXT`",
            )
        if path.is_dir():
            raise Refused(
                f"{str(path)!r} is a folder", hint="`knob docs stale` takes folders, `correct` one file"
            )
        [file] = documents_in([path])
        content = content_of(file)
        text = content.decode("utf-8", "replace")
        addendum = ""
        if (slug, verdict.id[:8]) not in {(one, id_[:8]) for _, one, id_ in marked(text)}:
            lines = stale(self.desk, content, self._live_values([content]))
            body = rendered("addendum.md.j2", self._facts(hypothesis, lines), workspace=self.root)
            addendum = enclosed(slug, verdict.id, body)
        return Correction(
            name_of(self.root, file), file, slug, verdict.id, content, addendum, in_git(file.resolve())
        )

    def correct(self, correction: Correction) -> Correction:
        """Appends an addendum, commits that one file if git holds it, and records it. Raises `Drifted`, `PlanMode`."""
        from knobledger.correcting import note_check, replace_document, stale, values
        from knobledger.documents import appended
        from knobledger.events.asking import DocumentCorrected
        from knobledger.ledger.one_file import commit_file

        if not correction.addendum:
            return correction
        if self.planning_only:
            raise PlanMode(
                "plan mode: no document is changed", hint="somebody who may act: `knob docs correct`"
            )
        text = correction.before.decode("utf-8", "surrogateescape")
        after = appended(text, correction.addendum).encode("utf-8", "surrogateescape")
        replace_document(correction.path, correction.before, after)
        actor, subject = self.desk.author.actor, f"{correction.path.name}: addendum on {correction.slug}"
        done = commit_file(correction.path.resolve(), correction.before, after, actor, subject)
        if done.note:
            self.notes.append(done.note)
        self.desk.write(
            DocumentCorrected(
                **self.desk.author.signs(),
                document=correction.document,
                hypothesis=correction.slug,
                verdict=EventId(correction.verdict),
                before=digest_of(correction.before),
                after=digest_of(after),
                commit=done.commit or "",
            )
        )
        note_check(self.desk, correction.document, after, stale(self.desk, after, values(self.desk, {})))
        return replace(correction, written=True, commit=done.commit or "")

    def _live_values(self, contents: Iterable[bytes]) -> Values:
        """The values of the knobs that these documents give values to, live where the host answers."""
        from knobledger.correcting import values
        from knobledger.documents import named_values

        recorded = values(self.desk, {})
        texts = [content.decode("utf-8", "replace") for content in contents]
        named = {name for text in texts for name in named_values(text, recorded)}
        fresh: dict[TargetName, bytes] = {}
        for target in sorted({target for name in named for target in recorded[name]}):
            try:
                where = self.config.target(target)
                fresh[where.name] = self.host(where.host).read(where.path).content
            except KnobError as error:
                self.notes.append(f"{target}: the last recorded values were used: {error.message}")
        return values(self.desk, fresh) if fresh else recorded

    def _facts(self, hypothesis: Hypothesis, lines: Sequence[StaleLine]) -> dict[str, object]:
        """What an addendum may tell."""
        from knobledger.correcting import values
        from knobledger.inquiry import kept, sweep
        from knobledger.report.changes import change_line

        verdict = hypothesis.verdict
        assert verdict is not None
        zone = self.desk.author.zone
        swept = sweep(self.state, hypothesis.slug)
        changes = [(item, change_line(self.state, item.change)) for item in swept]
        knobs = dict.fromkeys(edit.name for _, line in changes for edit in line.edits)
        now = values(self.desk, {})
        return {
            "date": f"{moment_of(verdict.event.at).astimezone(ZoneInfo(zone)):%Y-%m-%d}",
            "zone": zone,
            "slug": hypothesis.slug,
            "claim": hypothesis.claim,
            "ruling": verdict.event.ruling,
            "because": verdict.event.because,
            "cause": verdict.event.cause,
            "contradicting": [_said(item.event) for item in hypothesis.on("contradicts")],
            "supporting": [_said(item.event) for item in hypothesis.on("supports")],
            "changes": [
                {
                    "id": line.change,
                    "target": ", ".join(line.targets),
                    "what": _what(line),
                    "finding": item.finding,
                    "status": line.status,
                    "at": f"{moment_of(line.at).astimezone(ZoneInfo(zone)):%Y-%m-%d %H:%M %Z}",
                    "stays_because": item.stays_because,
                }
                for item, line in changes
            ],
            "kept": [
                {"id": line.change, "target": ", ".join(line.targets), "what": _what(line), "why": item.why}
                for item in kept(self.state)
                for line in [change_line(self.state, item.change)]
            ],
            "values": [
                {"name": name, "value": value, "target": target}
                for name in knobs
                for target, value in sorted(now.get(name, {}).items())
            ],
            "stale": [{"line": line.line, "why": line.why} for line in lines],
            "actor": verdict.event.actor,
            "verdict": verdict.id,
        }


def _what(line: ChangeLine) -> str:
    from knobledger.report.terminal import edit_text

    return "; ".join(map(edit_text, line.edits)) or "lines that hold no knob"


def _said(event: EvidenceGiven) -> dict[str, str]:
    return {"weight": event.weight, "text": event.text}
