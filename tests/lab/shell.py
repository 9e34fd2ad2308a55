"""`make lab`: a shell with two hosts, one of them with systemd, and a workspace that knows them.

    python -m lab.shell [COMMAND...]

When the shell ends, the hosts and the workspace are gone.
"""

from __future__ import annotations

import os
import shutil
import subprocess
import sys
import tempfile
from pathlib import Path

from lab.lab import Lab, LabError, LabHost

_SCRIPT = """\
#!/bin/bash
export CUDA_VISIBLE_DEVICES=4,5,6,7
export TARGET_CTAS=256
exec sleep infinity
"""
_UNIT = """\
[Service]
ExecStart=/srv/serve.sh
[Install]
WantedBy=basic.target
"""
_SSH_CONFIG = """\
Host {name}
    HostName {host.address}
    User {host.user}
    IdentityFile {host.identity_file}
    IdentitiesOnly yes
    UserKnownHostsFile {host.known_hosts}
"""


def furnish(host: LabHost) -> str:
    """A service `decode` on the host, running if it has a systemd; its section of hosts.toml."""
    script = host.at("/srv/serve.sh")
    script.write_text(_SCRIPT)
    script.chmod(0o755)
    lines = [f"[hosts.{host.name}.services.decode]", 'script = "/srv/serve.sh"']
    if host.systemd:
        host.at("/etc/systemd/system/decode.service").write_text(_UNIT)
        host.run("systemctl", "daemon-reload")
        host.run("systemctl", "enable", "--now", "decode.service")
        lines += [
            'files = { unit = "/etc/systemd/system/decode.service" }',
            'unit = "decode.service"',
        ]
    return "\n".join(lines)


def main() -> int:
    """The exit status of the shell, or of the command instead of it."""
    folder = Path(tempfile.mkdtemp(prefix="knoblab-"))
    try:
        with Lab(folder / "lab") as lab:
            hosts = [lab.host("gpu1", systemd=True), lab.host("gpu2")]
            workspace = folder / "ops"
            knob = Path(sys.executable).with_name("knob")
            subprocess.run([knob, "init", str(workspace)], check=True, stdout=subprocess.DEVNULL)
            (workspace / "hosts.toml").write_text("".join(host.toml(furnish(host)) for host in hosts))
            config = folder / "ssh_config"
            config.write_text("".join(_SSH_CONFIG.format(name=host.name, host=host) for host in hosts))
            programs = f"{Path(sys.executable).parent}{os.pathsep}{os.environ['PATH']}"
            for host in hosts:
                inside = f"nsenter -t {host.init} -a"
                print(f"{host.name}: ssh -F {config} {host.name}, or without ssh: {inside}", file=sys.stderr)
            print("try: knob status; knob set gpu1/decode TARGET_CTAS=512 --why trying", file=sys.stderr)
            command = sys.argv[1:] or [os.environ.get("SHELL", "/bin/sh")]
            return subprocess.call(command, cwd=workspace, env={**os.environ, "PATH": programs})
    except LabError as error:
        print(f"no lab here: {error}", file=sys.stderr)
        return 1
    finally:
        shutil.rmtree(folder, ignore_errors=True)


if __name__ == "__main__":
    sys.exit(main())
