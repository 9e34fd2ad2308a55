"""One tree of exceptions; each class knows its exit code and its kind.

Only the entry point (`cli.main`) turns an error into output and an exit code. Messages are
lower case and name the offending value by `repr`; the hint names the next command to type.
"""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from typing import ClassVar

RANK = (22, 21, 23, 20, 10, 11, 1)
"""exit codes, the one that says most first: with several outcomes it is the command's own"""


class KnobError(Exception):
    """The root: everything that knobledger raises on purpose.

    `kind` is the machine-readable name in JSON, `exit_code` the process's exit code, and
    `values` are the facts of the failure that a script may want (merged into the JSON error).
    """

    kind: ClassVar[str] = "error"
    exit_code: ClassVar[int] = 70

    def __init__(self, message: str, *, hint: str = "", **values: object) -> None:
        super().__init__(message)
        self.message = message
        self.hint = hint
        self.values = values


class Refused(KnobError):
    """The request is understood and not carried out; nothing was written anywhere."""

    kind = "refused"
    exit_code = 1


class KnobRefused(Refused):
    """An edit that would be a guess. `values["occurrences"]` lists `{line, text, reason}`."""

    kind = "knob_refused"
    absent = False
    """the file sets no such knob, so that there is no place to point at"""

    def listed_by(self, command: str) -> KnobRefused:
        """The same; where the knob is absent, the hint also names the command that lists what the file sets."""
        if self.absent:
            joint = " " if self.hint.endswith("?") else "; " if self.hint else ""
            self.hint += f"{joint}`{command}` shows what the file sets"
        return self


class Contradicted(Refused):
    """Evidence contradicts the hypothesis, and nobody acknowledged it. Values: `objections`, strongest first."""

    kind = "contradicted"


class PlanMode(Refused):
    """Writing was asked for where only looking and planning is allowed."""

    kind = "plan_mode"


class NotApproved(Refused):
    """The plan has no go-ahead that its policy accepts."""

    kind = "not_approved"


class PlanSpent(Refused):
    """The plan was used or rejected, has expired, or a change has overtaken it."""

    kind = "plan_spent"


class Unknown(Refused):
    """A name or id that stands for nothing here, or for several things."""

    kind = "unknown"


class BadConfig(Refused):
    """`hosts.toml` can't be read or says something impossible."""

    kind = "bad_config"


class BadBenchmark(Refused):
    """A benchmark file can't be read; nothing of it was imported. Values: `file`, `line`."""

    kind = "bad_benchmark"


class LedgerUnwritable(Refused):
    """This machine can't write the workspace (disk full, no permission, read-only). Values: `path`."""

    kind = "ledger_unwritable"


class Usage(KnobError):
    """The command line itself is wrong."""

    kind = "usage"
    exit_code = 2


class Drifted(KnobError):
    """The live bytes are not those the plan was made for; nothing was written."""

    kind = "drifted"
    exit_code = 10


class Conflict(KnobError):
    """An undo would touch what a later edit touched; nothing was written."""

    kind = "conflict"
    exit_code = 10


class Overtaken(KnobError):
    """Written and restarted, but somebody else changed the file meanwhile. Values: `holder`, `since`, `base`, `live`."""

    kind = "overtaken"
    exit_code = 10


class Busy(KnobError):
    """Somebody else holds the lock. Values: `holder`, `since`."""

    kind = "busy"
    exit_code = 11


class Unreachable(KnobError):
    """No connection, or the login was refused; nothing was sent to the host."""

    kind = "unreachable"
    exit_code = 20


class HostKeyChanged(Unreachable):
    """The host's key is unknown or not the known one; no connection was made."""

    kind = "host_key"


class NotWritten(KnobError):
    """The transaction failed before the swap: the live file was never touched."""

    kind = "not_written"
    exit_code = 21


class RolledBack(KnobError):
    """The transaction failed after the swap, and the backup is proven to be back."""

    kind = "rolled_back"
    exit_code = 21


class StateUnknown(KnobError):
    """Nobody knows what the live file holds. `values["commands"]` look at it and mend it."""

    kind = "state_unknown"
    exit_code = 22


class Unhealthy(KnobError):
    """Applied, but a service did not become healthy."""

    kind = "unhealthy"
    exit_code = 23


class NoMetrics(KnobError):
    """A service does not serve its metrics: nobody answers, or what answers is no page of metrics. Values: `source`."""

    kind = "no_metrics"
    exit_code = 23


class LedgerBroken(KnobError):
    """The ledger on disk does not verify. Values: `findings`."""

    kind = "ledger"
    exit_code = 30


class Interrupted(KnobError):
    """Ctrl-C. What was under way is said in the message; `recover` settles it."""

    kind = "interrupted"
    exit_code = 130


class Bug(KnobError):
    """A mistake in knobledger itself."""

    kind = "bug"
    exit_code = 70


def worst(codes: Iterable[int]) -> int:
    """The highest-ranking of some exit codes; 0 only if all are."""
    return min(set(codes) - {0}, key=_rank, default=0)


def _rank(code: int) -> int:
    return RANK.index(code) if code in RANK else len(RANK)


def together(errors: Mapping[str, KnobError], of: int) -> KnobError:
    """The error to raise for several targets: the only one as it is, else one of the highest-ranking kind.

    `values["targets"]` lists `{target, kind, exit, message}` of those that failed. `of`: how many there were.
    """
    first = min(errors.values(), key=lambda error: _rank(error.exit_code))
    if of == 1:
        return first
    targets = [
        {"target": name, "kind": error.kind, "exit": error.exit_code, "message": error.message}
        for name, error in errors.items()
    ]
    return type(first)(
        f"{len(errors)} of {of} targets can't be planned, so nothing was planned",
        hint=first.hint,
        targets=targets,
    )
