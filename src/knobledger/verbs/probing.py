"""The verb `probe`: a reproducer becomes evidence."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from typing import TYPE_CHECKING

from knobledger.errors import Interrupted, Usage
from knobledger.quoting import command_line
from knobledger.verbs.asking import Asking

if TYPE_CHECKING:
    from knobledger.events.asking import Outcome, Side
    from knobledger.report.asking import ProbeReport


class Probing(Asking):
    """Experiments on this machine."""

    def probe(
        self,
        slug: str,
        command: Sequence[str],
        *,
        times: int = 1,
        supports_if: Outcome | None = None,
        contradicts_if: Outcome | None = None,
        limit_s: float | None = None,
        text: str = "",
        told: Callable[[str], None] = lambda _text: None,
    ) -> ProbeReport:
        """Runs a command `times` times and records each round; all passing, or one failing, may be evidence.

        After Ctrl-C the finished rounds are kept. Raises `Unknown`, `Usage`, `Refused`, and `Interrupted` if no round
        was finished.
        """
        from knobledger.events.asking import Probed, ProbeRun
        from knobledger.probing import rounds
        from knobledger.report.asking import ProbeReport

        hypothesis = self.find_hypothesis(slug)
        if supports_if is None and contradicts_if is None:
            raise Usage(
                "what would the outcome mean?",
                hint=f"`knob probe {slug} --contradicts-if pass -- COMMAND`, or --supports-if fail",
            )
        if supports_if == contradicts_if:
            raise Usage(f"{supports_if!r} can't both support and contradict {slug!r}")
        if not command:
            raise Usage("no command to run", hint=f"`knob probe {slug} --contradicts-if pass -- COMMAND`")
        for name, value in self.env.items():
            self.masker.value(name, value)  # from here on it knows the secrets that the command is given
        runs = rounds(
            command,
            times,
            env=self.env,
            limit_s=limit_s,
            told=lambda number, one: told(
                f"round {number} of {times}: {'pass' if one.passed else 'fail'}, {one.seconds:.1f} s"
            ),
        )
        if not runs:
            raise Interrupted("interrupted before a round was finished; nothing was recorded")
        event = Probed(
            **self.desk.author.signs(),
            hypothesis=hypothesis.slug,
            command=self.masker.text(command_line(tuple(command))),
            asked=times,
            runs=tuple(
                ProbeRun(
                    exit=one.exit,
                    seconds=one.seconds,
                    output=self.masker.text(one.output.decode("utf-8", "replace")),
                )
                for one in runs
            ),
            passes=sum(one.passed for one in runs),
            supports_if=supports_if,
            contradicts_if=contradicts_if,
        )
        id_ = self.desk.write(event)
        outcome: Outcome = "pass" if event.passes == len(runs) else "fail"
        side: Side | None = (
            "supports" if supports_if == outcome else "contradicts" if contradicts_if == outcome else None
        )
        if side is not None:
            cut = f" (interrupted; {times} were asked for)" if len(runs) < times else ""
            said = f"{event.passes} of {len(runs)} rounds pass{cut}: {text or event.command}"
            self.evidence(slug, side, said, weight="experiment", rests_on=id_)
        return ProbeReport(id_, event, outcome, side)
