"""The cable between a lab's host and this machine: a pair of TUN devices, and the packets on their way between them.

A process of ours carries each packet, so a slow, lossy or cut line needs no netem in the kernel.
"""

from __future__ import annotations

import fcntl
import heapq
import os
import random
import struct
import time
from dataclasses import dataclass, field

_TUNSETIFF = 0x400454CA
_IFF_TUN_NO_PI = 0x1001
_LARGEST = 65536
_IN_FLIGHT = 2000
"""packets; more are lost, as in a full router"""


def tun(pattern: str) -> tuple[int, str]:
    """A new TUN device in the network namespace we are in, gone with its descriptor: descriptor and name."""
    device = os.open("/dev/net/tun", os.O_RDWR | os.O_NONBLOCK | os.O_CLOEXEC)
    request = fcntl.ioctl(device, _TUNSETIFF, struct.pack("16sH22x", pattern.encode(), _IFF_TUN_NO_PI))
    return device, request[:16].rstrip(b"\0").decode()


@dataclass(slots=True)
class Cable:
    """Two ends, and the weather on the line."""

    ends: tuple[int, int]
    one_way_s: float = 0.0
    loss: float = 0.0
    """of each packet, in either direction, 0 to 1"""
    chance: random.Random = field(default_factory=random.Random)
    _flying: list[tuple[float, int, int, bytes]] = field(default_factory=list)
    _sent: int = 0

    def weather(self, one_way_s: float, loss: float, seed: int) -> None:
        """Changes the line; what is on its way still arrives unless the line is dead (a loss of 1)."""
        self.one_way_s, self.loss = one_way_s, loss
        self.chance.seed(seed)
        if loss >= 1:
            self._flying.clear()

    def take(self, end: int) -> None:
        """Everything that waits at one end."""
        other = self.ends[1] if end == self.ends[0] else self.ends[0]
        while True:
            try:
                packet = os.read(end, _LARGEST)
            except BlockingIOError:
                return
            if self.loss and self.chance.random() < self.loss:
                continue
            if not self.one_way_s and not self._flying:
                _put(other, packet)
            elif len(self._flying) < _IN_FLIGHT:
                self._sent += 1
                due = time.monotonic() + self.one_way_s
                heapq.heappush(self._flying, (due, self._sent, other, packet))

    def deliver(self) -> float | None:
        """Hands over what is due; seconds until the next packet is."""
        now = time.monotonic()
        while self._flying and self._flying[0][0] <= now:
            _, _, end, packet = heapq.heappop(self._flying)
            _put(end, packet)
        return self._flying[0][0] - now if self._flying else None


def _put(end: int, packet: bytes) -> None:
    try:
        os.write(end, packet)
    except OSError:
        return  # a full queue or an interface that is down loses it, as a cable would
