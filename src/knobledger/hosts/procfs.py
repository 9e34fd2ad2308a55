"""The one fixed program that looks at the processes of a host. It only reads, so plan mode may run it.

Its words are data: a unit's name (or nothing) and TCP ports as `/proc/net/tcp` writes them. It starts few programs,
since a busy host starts them slowly. It prints sections that begin with a
line of `NONCE NAME`; `services/running.py` reads them. Any Linux with a POSIX sh will do.
"""

from __future__ import annotations

import secrets

LOOK = r"""
nonce=$1 unit=$2 likely=$3
shift 3
mark() { printf '\n%s %s\n' "$nonce" "$1"; }
export LC_ALL=C
mark hertz
getconf CLK_TCK 2>/dev/null
if [ -n "$unit" ]; then
  mark unit
  shown=$(systemctl show -p LoadState,LoadError,ActiveState,SubState,Result,MainPID,NRestarts,ControlGroup \
    -p Environment,EnvironmentFiles,FragmentPath,DropInPaths,TimeoutStopUSec,KillMode,Type -- "$unit")
  printf '%s\n' "$shown"
  group=$(printf '%s\n' "$shown" | sed -n 's/^ControlGroup=//p')
  mark group
  if [ -n "$group" ]; then
    for base in /sys/fs/cgroup /sys/fs/cgroup/systemd /sys/fs/cgroup/unified; do
      find "$base$group" -name cgroup.procs -exec cat {} + 2>/dev/null
    done
  fi
fi
mark clock
now=$(date '+%s %N')
read -r uptime </proc/uptime
printf '%s\n%s\n' "$now" "$uptime"
case ${now#* } in
  *[!0-9]* | '') grep '^btime' /proc/stat ;;
esac
mark stat
cat /proc/[0-9]*/stat 2>/dev/null
mark command
head -v -c 65536 /proc/[0-9]*/cmdline 2>/dev/null
if [ $# -gt 0 ]; then
  mark listening
  inodes=
  listening=$(awk '$4 == "0A" { print substr($2, length($2) - 3) ":" $10 }' /proc/net/tcp /proc/net/tcp6 2>/dev/null)
  printf '%s\n' "$listening"
  for one in $listening; do
    for port in "$@"; do
      case $one in
        "$port":*) inodes="$inodes -e socket:.${one#*:}." ;;
      esac
    done
  done
  mark sockets
  found= folders=
  # Two folders at least, so that ls names them.
  for pid in $likely; do folders="$folders /proc/$pid/fd"; done
  [ -z "$inodes" ] || [ -z "$folders" ] || found=$(ls -l /proc/self/fd $folders 2>/dev/null | grep -e '^/proc' $inodes)
  case $found in
    *socket:*) printf '%s\n' "$found" ;;
    *) [ -z "$inodes" ] || ls -l /proc/[0-9]*/fd 2>/dev/null | grep -e '^/proc' $inodes ;;
  esac
fi
mark end
"""


_ASK_FIRST = r"""
mark() { printf '\n%s %s\n' "$1" "$2"; }
mark "$2" pid
/bin/sh -c "$1" 2>/dev/null
shift
"""
"""before LOOK: the service's own pid command, which could do anything, so plan mode does not run this"""


def look(
    unit: str | None,
    pid_command: str | None = None,
    ports: tuple[int, ...] = (),
    likely: tuple[int, ...] = (),
) -> tuple[tuple[str, ...], str]:
    """The words for `Host.run`, and the nonce that begins each section of what comes back.

    `likely`: processes that probably hold the ports open. All others are only searched if these do not.
    """
    nonce = f"knob-{secrets.token_hex(8)}"
    ask = () if pid_command is None else (pid_command,)
    return (
        "/bin/sh",
        "-c",
        LOOK if pid_command is None else _ASK_FIRST + LOOK,
        "knobledger",
        *ask,
        nonce,
        unit or "",
        " ".join(str(int(pid)) for pid in likely),
        *(f"{port:04X}" for port in ports),
    ), nonce
