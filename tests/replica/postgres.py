"""A PostgreSQL of the tests' own: Debian's binaries, a socket and data in a temporary folder, no TCP."""

from __future__ import annotations

import os
import pwd
import signal
import subprocess
import tempfile
import time
from collections.abc import Iterator
from contextlib import contextmanager
from dataclasses import dataclass
from pathlib import Path


def binaries() -> Path | None:
    """Debian keeps them out of PATH, one folder for each version."""
    found = sorted(Path("/usr/lib/postgresql").glob("*/bin"))
    return found[-1] if found else None


@dataclass
class Postgres:
    folder: Path
    bin: Path

    @property
    def url(self) -> str:
        return f"postgresql+psycopg://ops@/ledger?host={self.folder}"

    def run(self, *argv: str) -> str:
        """As the user that owns the data: PostgreSQL refuses root."""
        done = subprocess.run(
            [str(self.bin / argv[0]), *argv[1:]],
            capture_output=True,
            text=True,
            check=False,
            cwd=self.folder,
            env={"PATH": os.defpath, "LC_ALL": "C.UTF-8"},
            **_as_postgres(),
        )
        assert done.returncode == 0, done.stderr + done.stdout
        return done.stdout

    def start(self) -> None:
        options = f"-c listen_addresses= -k {self.folder} -c fsync=off"
        self.run(
            "pg_ctl", "-D", f"{self.folder}/data", "-l", f"{self.folder}/log", "-o", options, "-w", "start"
        )

    def stop(self) -> None:
        self.run("pg_ctl", "-D", f"{self.folder}/data", "-m", "immediate", "-w", "stop")

    def kill(self) -> None:
        """SIGKILL to the postmaster, by its id; its children notice and end."""
        pid = int((self.folder / "data/postmaster.pid").read_text().split()[0])
        os.kill(pid, signal.SIGKILL)
        deadline = time.monotonic() + 30
        while Path(f"/proc/{pid}").exists() and time.monotonic() < deadline:
            time.sleep(0.02)

    def ask(self, sql: str) -> str:
        return self.run("psql", "-h", str(self.folder), "-U", "ops", "-d", "ledger", "-Atc", sql).strip()


def _as_postgres() -> dict[str, object]:
    if os.geteuid():
        return {}
    who = pwd.getpwnam("postgres")
    return {"user": who.pw_uid, "group": who.pw_gid, "extra_groups": []}


@contextmanager
def postgres() -> Iterator[Postgres]:
    """A running server with the database `ledger`, stopped at the end."""
    where = binaries()
    assert where is not None
    # a socket's path has room for some 100 bytes
    with tempfile.TemporaryDirectory(prefix="knob-pg-", ignore_cleanup_errors=True) as name:
        folder = Path(name)
        if not os.geteuid():
            who = pwd.getpwnam("postgres")
            os.chown(folder, who.pw_uid, who.pw_gid)
        folder.chmod(0o755)
        server = Postgres(folder, where)
        server.run("initdb", "-D", f"{folder}/data", "-U", "ops", "-A", "trust", "-E", "UTF8", "--no-sync")
        server.start()
        try:
            server.run("createdb", "-h", str(folder), "-U", "ops", "ledger")
            yield server
        finally:
            server.stop()
