"""The verbs of asking why: hypotheses, evidence, verdicts, and the gate before something is taken away."""

from __future__ import annotations

import re
from collections.abc import Sequence
from typing import TYPE_CHECKING

from msgspec.structs import replace

from knobledger.errors import Contradicted, Refused, Unknown, Usage
from knobledger.hosts.mistakes import nearest
from knobledger.names import EventId, TargetName, short
from knobledger.plan import Verb
from knobledger.verbs.knowing import Knowing

if TYPE_CHECKING:
    from knobledger.drafting import Options
    from knobledger.events.asking import Ruling, Side, Weight
    from knobledger.events.entry import Event
    from knobledger.folds.asking import Hypothesis
    from knobledger.report.asking import Hypotheses, HypothesisReport

# What only some verbs need is imported by these verbs: a change is to be quick.

_SLUG = r"[a-z0-9][a-z0-9._-]{0,79}"

Taken = Sequence[tuple[TargetName, str, str | None]]
"""per target a knob and the value that it is to have; None takes it out"""


class Asking(Knowing):
    """Why something was done, and whether that still holds."""

    def open_hypothesis(self, slug: str, claim: str, about: Sequence[str]) -> HypothesisReport:
        """Opens a hypothesis about a cause; `about` are the suspected changes. Raises `Refused`, `Usage`."""
        from knobledger.events.asking import HypothesisOpened

        if not re.fullmatch(_SLUG, slug):
            raise Usage(
                f"{slug!r} is no name of a hypothesis",
                hint="small letters, digits and hyphens: `knob hypothesis open knob-hangs-harness CLAIM`",
            )
        known = self.state.asked.hypotheses.get(slug)
        if known and known.openings:
            raise Refused(
                f"hypothesis {slug!r} is there already: {known.claim}",
                hint=f"`knob hypothesis show {slug}`; another claim needs another name",
            )
        suspects = tuple(dict.fromkeys(self.find_change(text) for text in about))
        text = self._said(claim, "claim", f"knob hypothesis open {slug} CLAIM")
        self.desk.write(HypothesisOpened(**self.desk.author.signs(), slug=slug, claim=text, about=suspects))
        return self.hypothesis(slug)

    def hypotheses(self) -> Hypotheses:
        """All hypotheses, open ones first, each group in the order in which they came up."""
        from knobledger.report.asking import hypotheses

        return hypotheses(self.state)

    def hypothesis(self, slug: str) -> HypothesisReport:
        """One hypothesis with all that was said about it and every change made under it. Raises `Unknown`."""
        from knobledger.report.asking import hypothesis_report

        return hypothesis_report(self.state, self.find_hypothesis(slug))

    def evidence(
        self,
        slug: str,
        side: Side,
        text: str,
        *,
        weight: Weight | None = None,
        rests_on: str | None = None,
        supersedes: str | None = None,
    ) -> HypothesisReport:
        """Records what speaks for or against a hypothesis; it may correct earlier evidence. Raises `Unknown`, `Refused`."""
        from knobledger.events.asking import EvidenceGiven

        hypothesis = self.find_hypothesis(slug)
        on = self._entry(rests_on) if rests_on else None
        corrected = self._earlier(hypothesis, supersedes) if supersedes else None
        found = self.state.events[on] if on else None
        self.desk.write(
            EvidenceGiven(
                **self.desk.author.signs(),
                hypothesis=hypothesis.slug,
                side=side,
                text=self._said(text, "evidence", f"knob evidence {slug} --{side} TEXT"),
                weight=weight or _weight(found),
                source=found.kind if found else "by hand",
                rests_on=on,
                supersedes=corrected,
            )
        )
        return self.hypothesis(slug)

    def verdict(self, slug: str, ruling: Ruling, because: str, cause: str = "") -> HypothesisReport:
        """Records what was found of a hypothesis, in place of an earlier verdict; findings follow. Raises `Unknown`."""
        from knobledger.events.asking import VerdictGiven

        hypothesis = self.find_hypothesis(slug)
        earlier = hypothesis.verdict
        self.desk.write(
            VerdictGiven(
                **self.desk.author.signs(),
                hypothesis=hypothesis.slug,
                ruling=ruling,
                because=self._said(because, "reason", f"knob verdict {slug} {ruling} --because TEXT"),
                cause=self.masker.text(cause),
                supersedes=earlier.id if earlier else None,
            )
        )
        return self.hypothesis(slug)

    def find_hypothesis(self, slug: str) -> Hypothesis:
        """A hypothesis by its name. Raises `Unknown`, with the nearest one."""
        known = self.state.asked.hypotheses
        if slug in known and known[slug].openings:
            return known[slug]
        raise Unknown(
            f"no hypothesis has the name {slug!r}{nearest(slug, known)}",
            hint=f"`knob hypothesis list`, or open it: `knob hypothesis open {slug} CLAIM`",
        )

    def weighed(self, verb: Verb, options: Options, taken: Taken = ()) -> Options:
        """The options of a change after a look at its hypotheses. Raises `Unknown`, `Contradicted`.

        What takes something away under a hypothesis counts as a mitigation unless its kind was named.
        """
        if not options.hypotheses:
            return options
        from knobledger.inquiry import objections, turns_back

        for slug in options.hypotheses:
            self.find_hypothesis(slug)
        takes_away = verb in ("revert", "unset") or (
            verb == "set" and any(turns_back(self.state, *item) for item in taken)
        )
        if takes_away and options.purpose is None:
            options = replace(options, purpose="mitigation")
        found = objections(self.state, options.hypotheses)
        if found and not options.despite.strip() and (takes_away or options.purpose == "mitigation"):
            slugs = ", ".join(dict.fromkeys(item.hypothesis for item in found))
            timing = [s for s in options.hypotheses if self.state.asked.hypotheses[s].timing_alone]
            alone = f"; what supports {timing[0]} is timing alone" if timing else ""
            raise Contradicted(
                f"{verb} under {slugs!r}: {len(found)} {'entries contradict' if len(found) > 1 else 'entry contradicts'} "
                f"it{alone}; nothing was planned",
                hint="to do it all the same, say why: `--despite TEXT`; it becomes part of the entry",
                objections=[
                    {
                        "hypothesis": item.hypothesis,
                        "entry": item.entry,
                        "weight": item.weight,
                        "text": item.text,
                        "at": item.at,
                        "actor": item.actor,
                    }
                    for item in found
                ],
            )
        return options

    def _said(self, text: str, what: str, usage: str) -> str:
        if not text.strip():
            raise Usage(f"the {what} is empty", hint=f"`{usage}`")
        return self.masker.text(text)

    def _entry(self, text: str) -> EventId:
        return self.find_change(text) if text.startswith("@") else self.desk.ledger.resolve(text)

    def _earlier(self, hypothesis: Hypothesis, text: str) -> EventId:
        id_ = self._entry(text)
        if id_ not in {item.id for item in hypothesis.evidence}:
            raise Unknown(
                f"{short(id_)} is no evidence on {hypothesis.slug!r}",
                hint=f"`knob hypothesis show {hypothesis.slug}` lists it with its ids",
            )
        return id_


def _weight(rests_on: Event | None) -> Weight:
    """What evidence weighs if nobody says: by what it rests on."""
    match rests_on.kind if rests_on else "":
        case "probed" | "measured":
            return "experiment"
        case "planned" | "applied":
            return "timing"
        case _:
            return "observation"
