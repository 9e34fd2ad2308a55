"""Whether somebody is at work on a chain of restarts, or it was left in the middle."""

from __future__ import annotations

import os
import socket
from typing import TYPE_CHECKING

if TYPE_CHECKING:
    from knobledger.events.serving import RestartStarted


def worked_on(started: RestartStarted) -> bool:
    """The process that began a chain is alive, on this machine. Another machine's can't be told, and counts as dead."""
    if started.machine != socket.gethostname() or started.process in (0, os.getpid()):
        return False
    try:
        os.kill(started.process, 0)
    except ProcessLookupError:
        return False
    except PermissionError:
        return True
    return True
