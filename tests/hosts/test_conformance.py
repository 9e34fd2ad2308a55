from __future__ import annotations

from conformance import Conformance


class TestConformance(Conformance):
    """Against memory, local (dash, bash, busybox ash), the embedded server and a real OpenSSH sshd."""
