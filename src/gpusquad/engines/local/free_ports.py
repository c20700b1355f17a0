"""Rendezvous ports for gangs."""

from __future__ import annotations

import random
import socket
from collections.abc import Iterable

FIRST, LAST = 20_000, 32_000
"""Below the kernel's ephemeral range, so that no outgoing connection can take one meanwhile."""


class FreePorts:
    """Not given to two gangs at once. Ports are tested, not held: the tasks themselves must bind them."""

    def __init__(self, first: int = FIRST, last: int = LAST) -> None:
        self._first = first
        self._count = last - first
        self._next = random.randrange(self._count)  # two services on one machine should not try the same ports
        self._given: set[int] = set()

    def give(self, count: int) -> list[int]:
        """OSError if there are not enough."""
        ports: list[int] = []
        for _ in range(self._count):
            if len(ports) == count:
                break
            port = self._first + self._next
            self._next = (self._next + 1) % self._count
            if port not in self._given and _is_free(port):
                ports.append(port)
        if len(ports) < count:
            raise OSError(f"there are no {count} free ports from {self._first} to {self._first + self._count}")
        self._given.update(ports)
        return ports

    def keep(self, ports: Iterable[int]) -> None:
        """Ports of a gang that was started before."""
        self._given.update(ports)

    def take_back(self, ports: Iterable[int]) -> None:
        self._given.difference_update(ports)


def _is_free(port: int) -> bool:
    with socket.socket(socket.AF_INET, socket.SOCK_STREAM) as probe:
        try:
            probe.bind(("", port))
        except OSError:
            return False
    return True
