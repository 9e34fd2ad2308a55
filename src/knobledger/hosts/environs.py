"""The fixed program that reads what processes were started with. It only reads, so plan mode may run it.

Its words are data: process ids, files, a unit or a log, names of knobs. It prints sections that begin with a
line of `NONCE NAME`, like `procfs.LOOK`; `services/live.py` reads them.
"""

from __future__ import annotations

import secrets
from collections.abc import Sequence

READ = r"""
nonce=$1 target=$2 unit=$3 log=$4 pids=$5 files=$6
shift 6
mark() { printf '\n%s %s\n' "$nonce" "$1"; }
export LC_ALL=C
mark written
stat -L -c %.Y -- "$target" 2>/dev/null || stat -L -c %Y -- "$target" 2>/dev/null || stat -L -f %m -- "$target" 2>/dev/null
for pid in $pids; do
  mark "stat $pid"
  cat "/proc/$pid/stat" 2>/dev/null || continue
  mark "environ $pid"
  cat "/proc/$pid/environ" 2>/dev/null || mark "closed $pid"
done
while [ "$files" -gt 0 ]; do
  mark "file $1"
  cat -- "$1" 2>/dev/null || mark "nofile $1"
  shift
  files=$((files - 1))
done
complaints() { grep -a -i -F "$@" | grep -a -i -E 'unknown|unrecogni[sz]ed|not recogni[sz]ed|unsupported' | tail -n 200; }
if [ $# -gt 0 ]; then
  mark log
  if [ -n "$log" ]; then
    tail -c 8388608 -- "$log" 2>/dev/null | complaints "$@"
  elif [ -n "$unit" ]; then
    start=$(systemctl show -p InvocationID -- "$unit" 2>/dev/null)
    [ -z "${start#InvocationID=}" ] ||
      journalctl -q --no-pager -o cat "_SYSTEMD_INVOCATION_ID=${start#InvocationID=}" 2>/dev/null | complaints "$@"
  fi
fi
mark end
"""


def read(
    pids: Sequence[int],
    *,
    target: str,
    unit: str = "",
    log: str = "",
    files: Sequence[str] = (),
    names: Sequence[str] = (),
) -> tuple[tuple[str, ...], str]:
    """The words for `Host.run`, and the nonce that begins each section of what comes back.

    `target` is asked for the time of its last write, `files` for their content; the log (else the unit's journal since
    its last start) for lines that call one of `names` unknown.
    """
    nonce = f"knob-{secrets.token_hex(8)}"
    numbers = " ".join(str(int(pid)) for pid in pids)
    wanted = [word for name in names for word in ("-e", name)]
    fixed = ("/bin/sh", "-c", READ, "knobledger", nonce, target, unit, log, numbers, str(len(files)))
    return (*fixed, *files, *wanted), nonce
