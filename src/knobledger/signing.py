"""SSH signatures over text, made and checked by `ssh-keygen -Y` as git does.

Format and rules: PROTOCOL.sshsig and ssh-keygen(1) of OpenSSH 8.2 or later. ssh-agent, hardware keys with touch and
certificates work as they do there, because it is ssh-keygen that does it.
"""

from __future__ import annotations

import os
import re
import subprocess
import tempfile
from datetime import datetime
from pathlib import Path

from msgspec import Struct

from knobledger.errors import NotApproved, Refused

_LITERAL = re.compile(r"(key::)?((ssh|ecdsa|sk-ssh|sk-ecdsa)-\S+ \S+.*)", re.ASCII)
"""a public key written out, as git's user.signingkey allows"""


class Signature(Struct, frozen=True):
    """A signature that was checked."""

    principal: str
    """the name that allowed_signers gives to the key"""
    fingerprint: str
    """of the key: `SHA256:...`"""


def sign(text: bytes, namespace: str, key: str) -> str:
    """The armoured signature. `key`: a file (private, or public with the private one in ssh-agent), or a public key.

    Raises `Refused` where ssh-keygen can't or may not.
    """
    with tempfile.TemporaryDirectory(prefix="knob-sign-") as folder:
        path = Path(folder) / "key.pub"
        if literal := _LITERAL.fullmatch(key.strip()):
            path.write_text(literal[2] + "\n", encoding="utf-8")
        else:
            path = Path(key).expanduser()
        # The terminal stays ours: ssh-keygen asks there for a passphrase or a touch.
        done = _keygen("-Y", "sign", "-f", os.fspath(path), "-n", namespace, stdin=text, talk=True)
    if done.returncode != 0 or not done.stdout.startswith(b"-----BEGIN SSH SIGNATURE-----"):
        said = done.stderr.decode("utf-8", "replace").strip().splitlines()
        raise Refused(
            f"{key!r} signed nothing: {said[-1] if said else 'ssh-keygen gave no signature'}",
            hint="`--key FILE` names a private key, or a public one whose private key is in ssh-agent",
        )
    return done.stdout.decode("ascii")


def check(text: bytes, namespace: str, signature: str, signers: bytes, at: datetime) -> Signature:
    """Who signed exactly this text in this namespace, by the lines of an allowed_signers file, valid at that moment.

    Raises `NotApproved` with the reason; never says yes without ssh-keygen's word.
    """
    with tempfile.TemporaryDirectory(prefix="knob-check-") as folder:
        allowed, file = Path(folder) / "allowed_signers", Path(folder) / "signature"
        allowed.write_bytes(signers)
        file.write_text(signature, encoding="ascii", errors="replace")
        when = f"verify-time={at:%Y%m%d%H%M%SZ}"
        found = _keygen("-Y", "find-principals", "-s", str(file), "-f", str(allowed), "-O", when, stdin=b"")
        names = [name for name in found.stdout.decode("utf-8", "replace").splitlines() if name]
        reason = _last(found) or "no such key"
        for principal in (name for line in names for name in line.split(",")):
            done = _keygen(
                *("-Y", "verify", "-f", str(allowed), "-I", principal, "-n", namespace, "-s", str(file)),
                *("-O", when),
                stdin=text,
            )
            if done.returncode == 0:
                mark = re.search(rb"SHA256:\S+", done.stdout)
                return Signature(principal, mark[0].decode() if mark else "")
            reason = _last(done) or reason
    if not names:
        raise NotApproved(
            f"the signature is by no key that allowed_signers knows and holds for valid now: {reason}",
            hint="`knob signers trust` records a change of the file",
        )
    raise NotApproved(
        f"the signature does not fit: {reason}", hint="sign this very plan: `knob approve PLAN`"
    )


def _last(done: subprocess.CompletedProcess[bytes]) -> str:
    said = (done.stderr or done.stdout).decode("utf-8", "replace").strip().splitlines()
    return said[-1] if said else ""


def _keygen(*words: str, stdin: bytes, talk: bool = False) -> subprocess.CompletedProcess[bytes]:
    try:
        return subprocess.run(
            ("ssh-keygen", *words),
            input=stdin,
            capture_output=True,
            check=False,
            timeout=300 if talk else 30,
        )
    except FileNotFoundError:
        raise Refused(
            "there is no ssh-keygen here, which makes and checks signatures", hint="install openssh-client"
        ) from None
    except subprocess.TimeoutExpired:
        raise Refused("ssh-keygen did not answer: the key was not touched, or no passphrase came") from None
