"""Real hosts for the tests: each its own root file system, processes, address and sshd. See docs/lab.md."""

from lab.lab import Lab, LabHost

__all__ = ["Lab", "LabHost"]
