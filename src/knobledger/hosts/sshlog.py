"""From what `ssh -v` wrote to the error that it stands for. Pure. The words are those of OpenSSH 8 to 9."""

from __future__ import annotations

import re

from knobledger.errors import HostKeyChanged, Unreachable
from knobledger.hosts.reach import HostConfig, unreachable

_CHATTER = re.compile(
    r"debug\d: |OpenSSH_|Authenticated to |Warning: Permanently added |Connection closed by UNKNOWN "
    r"|Transferred: |Bytes per second: "
)
_SHOWN = 3
"""how many of the last lines are told"""
_STAGES = (
    ("Authentications that can continue", "the host asked for a login"),
    ("SSH2_MSG_NEWKEYS received", "the keys were exchanged"),
    ("Remote protocol version", "the host said that it speaks SSH"),
    ("Connection established", "the TCP connection was made, and then nothing came"),
    ("Connecting to", "the TCP connection was asked for, and nobody answered"),
)


def failure(config: HostConfig, log: str) -> Unreachable:
    """Why ssh made no connection. With a jump host the log is that of both."""
    said = _said(log)
    if "Host key verification failed." in log:
        return _untrusted(config, log, said)
    if re.search(r"^\S+: Permission denied \(|Too many authentication failures", log, re.MULTILINE):
        user = _last(r"Authenticating to \S+ as '(.*)'", log)
        return unreachable(
            config.name,
            f"the login as {user!r} was refused: {said}",
            "`ssh -v` with the same user and key shows which keys are tried; is the key in authorized_keys?",
        )
    if "timed out" in said:
        return too_slow(config, log)
    return unreachable(config.name, said or "ssh ended without a word")


def too_slow(config: HostConfig, log: str) -> Unreachable:
    """The connect time-out was over; the hint says how far it came."""
    so_far = next((f"so far: {said}" for sign, said in _STAGES if sign in log), "")
    said = _said(log)
    reason = f"the connect time-out of {config.connect_timeout_s:g} s was over"
    return unreachable(config.name, f"{reason} ({said})" if said else reason, so_far)


def refused_stream(log: str) -> str:
    """The host's reason not to open the last stream; `connect failed` begins it if the far end is to blame."""
    return _last(r"^channel \d+: open failed: (.*)", log)


def _said(log: str) -> str:
    """The last lines that are meant for people."""
    lines = (line.strip() for line in log.splitlines())
    return "; ".join([line for line in lines if line and not _CHATTER.match(line)][-_SHOWN:])


def _last(pattern: str, log: str) -> str:
    found = re.findall(pattern, log, re.MULTILINE)
    return str(found[-1]).strip() if found else ""


def _untrusted(config: HostConfig, log: str, said: str) -> HostKeyChanged:
    """Of whichever host on the way showed the last key. With the hints that the other transports give."""
    fingerprint = _last(r"Server host key: (\S+ SHA256:\S+)", log)
    file = config.known_hosts or "~/.ssh/known_hosts"
    if changed := _last(r"^Host key for (\S+) has changed", log):
        message = f"({changed}) is not the known one: it shows {fingerprint}"
        hint = (
            f"`ssh-keygen -F '{changed}' -f {file}` shows the known key; if the host was truly set up anew, "
            f"`ssh-keygen -R '{changed}' -f {file}` forgets it"
        )
    elif unknown := _last(r"^No \S+ host key is known for (\S+) and", log):
        message = f"({unknown}) is unknown: it shows {fingerprint}"
        bracketed = re.fullmatch(r"\[(.+)\]:(\d+)", unknown)
        host, port = (bracketed[1], bracketed[2]) if bracketed else (unknown, "22")
        hint = (
            "compare it with `ssh-keygen -lf /etc/ssh/ssh_host_ed25519_key.pub` on the host itself, then "
            f'`ssh-keyscan -p {port} {host} >> {file}`; or host_keys = "accept-new" in hosts.toml'
        )
    else:
        message = f"was not accepted: it shows {fingerprint or 'nothing'}: {said}"
        hint = "a revoked key, or one whose certificate is not valid: ask who looks after the host"
    return HostKeyChanged(
        f"the key of {config.name!r} {message}; no connection was made",
        hint=hint,
        host=config.name,
        fingerprint=fingerprint,
    )
