"""What every test gets: a home of its own, no settings from outside, and missing programs named."""

from __future__ import annotations

import os
import shutil
import signal
from collections.abc import Iterator
from pathlib import Path

import pytest
from hypothesis import HealthCheck, settings

from lab.fixtures import lab, plain_host, systemd_host

__all__ = ["lab", "plain_host", "systemd_host"]

TOOLS = dict(
    line.split()
    for line in Path(__file__).with_name("tools.txt").read_text(encoding="utf-8").splitlines()
    if line and not line.startswith("#")
)
"""Program to Debian package."""

_CI = os.environ.get("CI") == "true"
_SBIN = os.pathsep.join((os.environ.get("PATH", os.defpath), "/usr/sbin", "/sbin"))
_UNSET_PREFIXES = ("KNOBLEDGER_", "GIT_", "SSH_", "XDG_", "LC_")
_UNSET = {
    *("EDITOR", "VISUAL", "TZ", "NO_COLOR", "FORCE_COLOR", "COLUMNS", "LINES", "LANGUAGE", "BASH_ENV", "ENV"),
    "PYTHONDONTWRITEBYTECODE",  # each command that a test starts would compile the package anew
}
_GIT_CONFIG = """\
[user]
    name = Operator
    email = operator@example.org
[init]
    defaultBranch = main
[commit]
    gpgSign = false
"""

# A shell starts what it runs in the background deaf to Ctrl-C, and so would be every command that a test starts.
if signal.getsignal(signal.SIGINT) is signal.SIG_IGN:
    signal.signal(signal.SIGINT, signal.default_int_handler)

settings.register_profile("dev", deadline=None)
settings.register_profile("ci", deadline=None, derandomize=True, suppress_health_check=[HealthCheck.too_slow])
settings.register_profile("fuzz", deadline=None, max_examples=5000)
settings.load_profile(os.environ.get("HYPOTHESIS_PROFILE", "ci" if _CI else "dev"))


@pytest.hookimpl(tryfirst=True)
def pytest_runtest_setup(item: pytest.Item) -> None:
    """Skips a test marked `tool(program, ...)` whose program is missing; under CI=true it fails."""
    for marker in item.iter_markers("tool"):
        for program in marker.args:
            package = TOOLS[program]
            if shutil.which(program, path=_SBIN) is None:
                reason = f"needs {program}: apt-get install {package}"
                if _CI:
                    pytest.fail(reason, pytrace=False)
                pytest.skip(reason)


def _isolate(patch: pytest.MonkeyPatch, home: Path) -> None:
    for name in tuple(os.environ):
        if name.startswith(_UNSET_PREFIXES) or name in _UNSET:
            patch.delenv(name)
    config = home / ".gitconfig"
    config.write_text(_GIT_CONFIG, encoding="utf-8")
    for name, value in {
        "HOME": str(home),
        "PATH": _SBIN,
        "LC_ALL": "C.UTF-8",
        "GIT_CONFIG_GLOBAL": str(config),
        "GIT_CONFIG_NOSYSTEM": "1",
        "GIT_TERMINAL_PROMPT": "0",
    }.items():
        patch.setenv(name, value)


@pytest.fixture(scope="session", autouse=True)
def _isolated_session(tmp_path_factory: pytest.TempPathFactory) -> Iterator[None]:
    """For fixtures that live longer than one test."""
    with pytest.MonkeyPatch.context() as patch:
        _isolate(patch, tmp_path_factory.mktemp("home"))
        yield


@pytest.fixture(autouse=True)
def home(tmp_path_factory: pytest.TempPathFactory, monkeypatch: pytest.MonkeyPatch) -> Path:
    """An empty home with a git identity; no KNOBLEDGER_, GIT_, SSH_ or TZ setting from outside."""
    folder = tmp_path_factory.mktemp("home")
    _isolate(monkeypatch, folder)
    return folder
