"""The verbs that keep the ledger in order, and notes."""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from datetime import timedelta
from typing import TYPE_CHECKING

from msgspec.structs import replace

from knobledger.apply import way_back
from knobledger.errors import KnobError, PlanMode, Refused
from knobledger.events.changes import Settled
from knobledger.fleet import side_by_side
from knobledger.hosts.config import Target
from knobledger.ledger.store import Ledger
from knobledger.names import EventId, TargetName
from knobledger.settling import settle
from knobledger.verbs.confirming import Confirming
from knobledger.verbs.recovering import Recovering, Settling

if TYPE_CHECKING:
    from knobledger.folds.arming import Pending
    from knobledger.folds.plans import Attempt
    from knobledger.pruning import Choice
    from knobledger.report.changes import Log
    from knobledger.report.upkeep import Indexed, Prunable, Recovered, TornFile, Verified

# What only some verbs need is imported by these verbs: a change is to be quick.


class Upkeep(Recovering, Confirming):
    """Settling, verifying, indexing."""

    def recover(self, restarts: Settling = "look") -> Recovered:
        """Settles every attempt in doubt by a fresh look at its host, and removes what failed ones left there.

        Of restarts that were left in the middle it says what is up and what is down; `finish` and `roll back` settle them.
        """
        from knobledger.report.upkeep import Recovered

        if self.planning_only:
            raise PlanMode("plan mode: nothing is settled", hint="somebody who may act: `knob recover`")
        settled: list[tuple[EventId, TargetName, str]] = []
        unsettled: list[tuple[EventId, TargetName, str, int]] = []
        self._settle_doubts(settled, unsettled)
        self._settle_armed(settled, unsettled)
        self._sweep()
        self.desk.ledger.tidy()
        return Recovered(
            tuple(settled), tuple(unsettled), self.recover_restarts(restarts), self._torn_files()
        )

    def _torn_files(self) -> tuple[TornFile, ...]:
        """What the newest attempt on a target left as neither old nor new, as long as nobody has written since."""
        from knobledger.report.upkeep import TornFile

        found = []
        for name, attempt in self._newest_attempts().items():
            outcome, plan = attempt.outcome, self.state.plans.get(attempt.started.plan)
            if plan is None or not attempt.torn or not isinstance(outcome, Settled):
                continue
            try:
                target = self.config.target(name)
                if self.host(target.host).read(target.path).digest == outcome.digest:
                    found.append(
                        TornFile(plan.id, name, outcome.backup, way_back(plan), plan.planned.in_place)
                    )
            except KnobError as error:
                self.notes.append(
                    f"can't look whether {name} still holds neither old nor new: {error.message}"
                )
        return tuple(found)

    def _newest_attempts(self) -> dict[TargetName, Attempt]:
        return {one.started.target: one for one in self.state.attempts.values()}

    def _settle_doubts(
        self,
        settled: list[tuple[EventId, TargetName, str]],
        unsettled: list[tuple[EventId, TargetName, str, int]],
    ) -> None:
        """Hosts side by side, in the order of the attempts."""
        doubts: dict[TargetName, list[Attempt]] = {}
        for one in self.state.in_doubt():
            doubts.setdefault(one.started.target, []).append(one)
        done: dict[EventId, str] = {}
        failed: dict[EventId, KnobError] = {}

        def decide(target: Target) -> None:
            for one in doubts[target.name]:
                try:
                    done[one.id] = settle(self.desk, one, target, self.host(target.host)).outcome
                except KnobError as error:
                    failed[one.id] = error

        known, unknown = self._still_known(doubts)
        answers = side_by_side(known, decide, "looking", self.watch, abandon=False)
        bugs = {target.name: answer for target, answer in answers if isinstance(answer, KnobError)}
        for name, mine in doubts.items():
            for one in mine:
                about = one.started.plan, name
                if one.id in done:
                    settled.append((*about, done[one.id]))
                elif error := failed.get(one.id) or bugs.get(name) or unknown.get(name):
                    unsettled.append((*about, error.message, error.exit_code))

    def _still_known(self, names: Iterable[TargetName]) -> tuple[list[Target], dict[TargetName, KnobError]]:
        """Those that hosts.toml still has, and what is wrong with the others."""
        known, unknown = [], {}
        for name in names:
            try:
                known.append(self.config.target(name))
            except KnobError as error:
                unknown[name] = error
        return known, unknown

    def _sweep(self) -> None:
        """Files that a failed attempt could not take away: the disk was read-only, or its shell was killed."""
        known, unknown = self._still_known(
            name for name, one in self._newest_attempts().items() if one.untidy
        )

        def tidy(target: Target) -> Sequence[str]:
            return self.host(target.host).tidy(target.path, target.backup_dir)

        answers: dict[TargetName, Sequence[str] | KnobError] = {**unknown}
        for target, answer in side_by_side(known, tidy, "tidying", self.watch, abandon=False):
            answers[target.name] = answer
        for name, answer in sorted(answers.items()):
            if isinstance(answer, KnobError):
                self.notes.append(f"can't look for what failed attempts left: {answer.message}")
            else:
                host = name.partition("/")[0]
                self.notes += [f"removed {path!r} on {host!r}, left by a failed attempt" for path in answer]

    def _settle_armed(
        self,
        settled: list[tuple[EventId, TargetName, str]],
        unsettled: list[tuple[EventId, TargetName, str, int]],
    ) -> None:
        """Armed changes that were never made are disarmed, those whose deadline came get their end; hosts side by side."""
        waiting = self.state.pending()
        if not waiting:
            return
        from knobledger import confirming

        def decide(pending: Pending, target: Target) -> None:
            host = self.host(target.host)
            attempt = self.state.plans[pending.plan].attempt_on(pending.target)
            confirming.settle(self.desk, pending, target, host)
            if pending.end is None and (attempt is None or not attempt.succeeded):
                confirming.disarm(self.desk, pending, target, host, "the change was not made")

        answers = self.at_each_armed(waiting, decide, "looking")
        for pending in waiting:
            error = answers[pending.target]
            if error is not None:
                unsettled.append((pending.plan, pending.target, error.message, error.exit_code))
            elif pending.end is not None:
                settled.append((pending.plan, pending.target, pending.end.kind))

    def prunable(self, target: str, older_than_s: float) -> Prunable:
        """The backups of a target that nothing needs any more, and those that stay."""
        return self._prunable(self._choice(target, older_than_s))

    def prune(self, target: str, older_than_s: float) -> Prunable:
        """Removes them from the host, after one more look."""
        from knobledger import pruning

        if self.planning_only:
            raise PlanMode(
                "plan mode: no backup is removed", hint="somebody who may act: `knob backups prune`"
            )
        choice = self._choice(target, older_than_s)
        where, host = choice.target, self.host(choice.target.host)
        pruning.prune(self.desk, choice, host)
        there = {item.path for item in host.backups(where.path, where.backup_dir)} if choice.go else set()
        left = tuple(item.path for item, _ in choice.go if item.path in there)
        return replace(self._prunable(choice), done=True, left=left)

    def _choice(self, target: str, older_than_s: float) -> Choice:
        from knobledger import pruning

        where, host = self.only(target)
        return pruning.choose(self.desk, where, host, timedelta(seconds=older_than_s))

    def _prunable(self, choice: Choice) -> Prunable:
        from knobledger.report.upkeep import Backup, Prunable

        go = tuple(
            Backup(item.path, item.digest, item.size, "ok", change, self.state.applied_at[change], "")
            for item, change in choice.go
        )
        stay = tuple((keep.path, keep.why) for keep in choice.stay)
        return Prunable(choice.target.name, go, stay, done=False)

    def verify(self, *, hosts: bool = False) -> Verified:
        """Whether the ledger on disk, its snapshots and its git history are what was written; `hosts`: the hosts, too."""
        from knobledger.ledger.verify import TAIL_NOTE, verify
        from knobledger.report.upkeep import Verified

        findings = verify(Ledger(self.root))
        if hosts and self.config.hosts:
            from knobledger import looking

            findings += looking.host_findings(self.desk, self.config.targets(), self.host)
        return Verified(findings, TAIL_NOTE)

    def index(self, *, rebuild: bool) -> Indexed:
        """Brings the SQL index up to date, or makes it anew; event files that only the replica has are made first."""
        from knobledger.ledger.index import Index
        from knobledger.report.upkeep import Indexed

        if self.from_replica:
            fresh = self.replica().rebuild_files(Ledger(self.root))
            self.notes.append(f"{fresh} event files were made anew from the replica")
        index = Index(Ledger(self.root))
        return Indexed(index.rebuild() if rebuild else index.update(), rebuild)

    def note(self, text: str, about: str | None) -> Log:
        """Free text in the ledger, about an entry or about nothing."""
        from knobledger import looking
        from knobledger.events.notes import Noted

        if not text.strip():
            raise Refused("the note is empty", hint="`knob note TEXT`")
        if about:
            self.decides_on_entry(about)
        else:
            self.decides_on(lambda _: None)
        on = self.find_change(about) if about and about.startswith("@") else None
        on = on or (self.desk.ledger.resolve(about) if about else None)
        id_ = self.desk.write(Noted(**self.desk.author.signs(), text=self.masker.text(text), about=on))
        return looking.entry(self.state, id_)
