"""The owner's signing key in the demo, and the agent who can't read it: each has an environment of its own."""

from __future__ import annotations

import contextlib
import json
import os
import shutil
import subprocess
import sys
import tempfile
import time
from collections.abc import Mapping
from pathlib import Path
from types import TracebackType
from typing import Any, Self

from msgspec import Struct, field

from knobledger.errors import Refused

OWNER = "anna@example.org"
NAME = "demo-agent"
"""as the agent's client calls itself"""


def check_tools() -> None:
    """Raises `Refused` where this machine can't make signatures."""
    if missing := [name for name in ("ssh-keygen", "ssh-agent", "ssh-add") if shutil.which(name) is None]:
        raise Refused(f"the demo needs {', '.join(missing)}", hint="install openssh-client")


class Owner(Struct):
    """A context manager: the private key is in a running ssh-agent and in no file, and back in its file after."""

    key: Path
    """the private key's file; beside it `.pub`"""
    _folder: Path = field(default_factory=lambda: Path(tempfile.mkdtemp(prefix="knob-demo-owner-")))
    _agent: subprocess.Popen[bytes] | None = None
    _private: bytes = b""

    def __enter__(self) -> Self:
        subprocess.run(
            ("ssh-keygen", "-q", "-t", "ed25519", "-N", "", "-C", OWNER, "-f", self.key), check=True
        )
        self._agent = subprocess.Popen(
            ("ssh-agent", "-D", "-a", self._socket), stdout=subprocess.DEVNULL, stdin=subprocess.DEVNULL
        )
        end = time.monotonic() + 10
        while not self._socket.exists() and time.monotonic() < end:
            time.sleep(0.01)
        environment = {**os.environ, **self.environment}
        subprocess.run(("ssh-add", "-q", self.key), check=True, capture_output=True, env=environment)
        self._private = self.key.read_bytes()
        self.key.unlink()
        return self

    def __exit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        if self._agent:
            self._agent.terminate()
            self._agent.wait()
        # So that the workspace that stays can be explored: what needs the owner's signature can get it.
        with open(self.key, "wb", opener=lambda path, flags: os.open(path, flags, 0o600)) as file:
            file.write(self._private)
        shutil.rmtree(self._folder, ignore_errors=True)

    @property
    def _socket(self) -> Path:
        return self._folder / "agent.sock"

    @property
    def environment(self) -> dict[str, str]:
        """What the owner's commands have, and the agent's have not."""
        return {"SSH_AUTH_SOCK": os.fspath(self._socket)}

    @property
    def public(self) -> str:
        """The public key, as one line of allowed_signers has it behind the name."""
        return " ".join(self.key.with_name(self.key.name + ".pub").read_text("ascii").split()[:2])


class Agent(Struct):
    """A context manager: the agent's session (`agent.py`), begun before it is needed since its client loads for a while."""

    root: Path
    home: Path = field(default_factory=lambda: Path(tempfile.mkdtemp(prefix="knob-demo-agent-")))
    _process: subprocess.Popen[str] | None = None

    @property
    def environment(self) -> dict[str, str]:
        """All that it gets: no ssh-agent, no home of a person's, and whom it works for."""
        kept = {name: os.environ[name] for name in ("PATH", "LANG", "LC_ALL", "TZ") if name in os.environ}
        return {**kept, "HOME": os.fspath(self.home), "KNOBLEDGER_ON_BEHALF_OF": OWNER}

    def __enter__(self) -> Self:
        self._process = subprocess.Popen(
            (sys.executable, "-m", "knobledger.demo.agent", os.fspath(self.root)),
            env=self.environment,
            stdin=subprocess.PIPE,
            stdout=subprocess.PIPE,
            text=True,
        )
        return self

    def __exit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        assert self._process
        assert self._process.stdin
        assert self._process.stdout
        with contextlib.suppress(OSError):
            self._process.stdin.close()
        try:
            self._process.wait(10)
        except subprocess.TimeoutExpired:
            self._process.terminate()
            self._process.wait()
        self._process.stdout.close()
        shutil.rmtree(self.home, ignore_errors=True)

    def ask(self, text: str) -> None:
        """What its principal types."""
        assert self._process
        assert self._process.stdin
        print(text, file=self._process.stdin, flush=True)

    def next(self) -> Mapping[str, Any]:
        """The next tool that it called, with the result; empty if its session is over."""
        assert self._process
        assert self._process.stdout
        line = self._process.stdout.readline()
        return json.loads(line) if line else {}
