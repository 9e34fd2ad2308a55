"""What the shells installed here say of a file's syntax: a first check, before the host makes its own."""

from __future__ import annotations

import shutil
import subprocess

from knobledger.knobs import Dialect

_SHELLS = {Dialect.BASH: "bash", Dialect.SH: "sh", Dialect.ENV: "sh"}


def complaint(content: bytes, dialect: Dialect) -> str:
    """What `bash -n` or `sh -n` complains of; empty if nothing, if the dialect has no such check, or no shell is here.

    Line numbers stay in the text; the name of the shell does not.
    """
    shell = shutil.which(_SHELLS.get(dialect, ""))
    if shell is None:
        return ""
    try:
        done = subprocess.run(
            (shell, "-n"), input=content, capture_output=True, timeout=10, check=False, env={"LC_ALL": "C"}
        )
    except subprocess.TimeoutExpired:
        return "the syntax check took more than 10 s"
    text = done.stderr.decode("utf-8", "backslashreplace")
    return text.replace(f"{shell}: ", "").strip() or (
        "" if done.returncode == 0 else f"exit {done.returncode}"
    )
