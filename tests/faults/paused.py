"""A real `knob` whose transaction stops at one point of the script, until it is told to go on.

    python -m faults.paused POINT WORDS...

POINT is the number of a line, or `N bytes`: in the middle of writing in place; `back-` before it: while putting back.

The script that is shipped knows nothing of this: points are put into the copy that is sent. POINT `record` stops
nowhere, and leaves the points that were passed, and the steps between them, in `PASSED` on the host.
"""

from __future__ import annotations

import re
import sys
from collections.abc import Iterator

from knobledger.hosts import wire

AT, GO, PASSED = "/var/tmp/knob-at", "/var/tmp/knob-go", "/var/tmp/knob-passed"
"""on the host: `AT` holds the process id of the script that waits, until there is `GO`"""

_IN = {
    *(
        "replace",
        "receive",
        "lock",
        "sweep",
        "sign_lock",
        "make_backup_dir",
        "backup_file",
        "dress",
        "copy_whole",
    ),
    *("swap_rename", "swap_in_place", "verify", "give_up", "roll_back"),
}
"""functions with points: those that write"""
_MIDDLE = re.compile(
    r"(?:else|elif|fi|then|done|do|esac|until|while|for|;;|\}|\)|\|\||&&|.*\) .*;;$|[^ (]*\)$)"
)
_QUIET = re.compile(
    r"(?:frame|say|digest|look|take|keep|extras|same|arrived|case|if \[|"
    r"(?:[a-z_]+=(?!\$\()\S* ?)+$|\[ .*\] \|\| (?:fail|wrong=|return))"
)
"""lines that write nothing: a fault before one of these is a fault before the next"""
_OPEN = re.compile(r"(?:\\|\|\||&&|\||\{|\()$")

FAIL_VERIFY = (
    'verify "$@" || give_up verify "$wrong"',
    'verify "$@"; give_up verify "made to fail by a test"',
)


WRITE_IN_PLACE = 'swap_in_place() { why=$(cat -- "$1" 2>&1 >"$target"); }'


def torn(script: str, count: int) -> str:
    """The script with points, `stage` and `backup` by what is written, in the middle of writing it in place."""
    assert WRITE_IN_PLACE in script
    which = 'case $1 in "$stage") knob_point stage ;; *) knob_point backup ;; esac'
    halves = f'head -c {count} -- "$1" && {{ {which}; }} && tail -c +{count + 1} -- "$1"'
    return script.replace(WRITE_IN_PLACE, f'swap_in_place() {{ why=$({{ {halves}; }} 2>&1 >"$target"); }}')


def with_points(script: str, point: str) -> str:
    """The script with a stop at a point, which is the number of a line, or a name of `torn`."""
    if point == "record":
        stop = f'knob_point() {{ [ "$asked" != replace ] || echo "$1" >>{PASSED}; }}'
    else:
        wait = f"echo $$ >{AT}.tmp; chmod 644 {AT}.tmp; mv {AT}.tmp {AT}; while [ ! -e {GO} ]; do sleep 0.02; done"
        stop = f'knob_point() {{ [ "$asked$1" != replace{point} ] || [ -e {AT} ] || {{ {wait}; }}; }}'
    lines = list(_pointed(script.split("\n")))
    # The script itself uses `mode` for something else later on.
    text = "\n".join([lines[0], "asked=$mode", stop, *lines[1:]])
    if point == "record":
        text = text.replace("\nstep() { ", f'\nstep() {{ [ "$2" = no ] || echo "step $1" >>{PASSED}; ', 1)
    return text


def _pointed(lines: list[str]) -> Iterator[str]:
    function, cases, before = "", 0, ""
    for number, line in enumerate(lines):
        opened = re.fullmatch(r"(\w+)\(\) \{", line)
        if opened:
            function = opened[1]
        elif line == "}":
            function = ""
        cases += (1 if re.match(r"case .* in$", line) else 0) - (1 if re.match(r"esac\b", line) else 0)
        if (
            function in _IN
            and not opened
            and not cases
            and not _MIDDLE.match(line)
            and not _QUIET.match(line)
            and not (_OPEN.search(before) and not re.fullmatch(r"(\w+)\(\) \{", before))
        ):
            yield f"knob_point {number}"
        yield line
        before = line


def main() -> None:
    """Runs the command to its end; its exit code is ours."""
    point, *words = sys.argv[1:]
    shipped = wire.script().decode()
    back = point.startswith("back-")
    if back:
        point = point.removeprefix("back-")
        assert FAIL_VERIFY[0] in shipped
        shipped = shipped.replace(*FAIL_VERIFY)
    if point.endswith(" bytes"):
        shipped = torn(shipped, int(point.removesuffix(" bytes")))
        point = "backup" if back else "stage"
    pointed = with_points(shipped, point).encode()
    wire.script = lambda: pointed  # type: ignore[assignment]
    sys.argv[1:] = words
    from knobledger.cli.start import main as knob

    knob()


if __name__ == "__main__":
    main()
