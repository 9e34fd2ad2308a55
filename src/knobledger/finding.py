"""Which folder is the workspace. Cheap to import, since connecting ahead needs it before all else."""

from __future__ import annotations

import os
from collections.abc import Mapping
from pathlib import Path

from knobledger.errors import Unknown


def workspace_folder(directory: Path | None, env: Mapping[str, str]) -> Path:
    """The folder named, else `KNOBLEDGER_WORKSPACE`, else the nearest one upwards with a `hosts.toml`.

    Raises `Unknown` if there is none.
    """
    named = directory or (Path(env["KNOBLEDGER_WORKSPACE"]) if env.get("KNOBLEDGER_WORKSPACE") else None)
    if named is not None:
        if not (named / "hosts.toml").is_file():
            raise Unknown(
                f"{os.fspath(named)!r} is no workspace: it has no hosts.toml", hint=f"`knob init {named}`"
            )
        return named.resolve()
    here = Path.cwd()
    for folder in (here, *here.parents):
        if (folder / "hosts.toml").is_file():
            return folder
    raise Unknown(
        f"no workspace here: neither {os.fspath(here)!r} nor a folder above it has a hosts.toml",
        hint="`knob init` makes one here; `knob -C DIR ...` names another",
    )
