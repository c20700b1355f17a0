"""GPU clients of a card in tests, and their processes."""

from __future__ import annotations

import json
import os
import subprocess
import sys
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

import pytest

from gpusquad.gpu.region.card_region import CardRegion
from gpusquad.gpu.region.pages import Grant

REAL_DRIVER = os.environ.get("GPUSQUAD_TEST_DRIVER")
"""The folder of a real ``libcuda.so.1`` to test with instead of the stand-in."""
REAL_CARD = os.environ.get("GPUSQUAD_TEST_CARD")
"""The UUID of its card."""


def standin_only(why: str) -> pytest.MarkDecorator:
    """For tests that only make sense over the stand-in driver."""
    return pytest.mark.skipif(bool(REAL_DRIVER), reason=why)


_PEER = Path(__file__).with_name("peer.py")


class Peer:
    """A real process that evaluates the expressions it is sent."""

    def __init__(self, environment: dict[str, str], start: bool = True) -> None:
        self.process = subprocess.Popen(
            [sys.executable, str(_PEER)],
            env=environment,
            stdin=subprocess.PIPE,
            stdout=subprocess.PIPE,
            stderr=subprocess.PIPE,
            text=True,
        )
        self.started = self("start()") if start else None

    def send(self, expression: str) -> None:
        assert self.process.stdin is not None
        self.process.stdin.write(expression + "\n")
        self.process.stdin.flush()

    def answer(self) -> Any:
        assert self.process.stdout is not None
        line = self.process.stdout.readline()
        assert line, f"the process ended: {self._stderr()}"
        answer = json.loads(line)
        assert "value" in answer, answer
        return answer["value"]

    def __call__(self, expression: str) -> Any:
        self.send(expression)
        return self.answer()

    def kill(self) -> None:
        self.process.kill()
        self.process.communicate()

    def end(self) -> str:
        """Wait for the process to exit and return what it wrote to stderr."""
        _, words = self.process.communicate()
        assert self.process.returncode == 0, words
        return words

    def _stderr(self) -> str:
        assert self.process.stderr is not None
        return self.process.stderr.read()


@dataclass
class Card:
    region: CardRegion
    environment: dict[str, str]
    peers: list[Peer] = field(default_factory=list)
    fake_locks: dict[int, int] = field(default_factory=dict)
    """Descriptors that hold the lock of a process that does not exist, by slot; see ``players.fake_client``."""

    def attach(self, slot: int = 0, quota_bytes: int = 0) -> None:
        self.region.attach(slot, quota_bytes=quota_bytes)

    def set_quota(self, slot: int, quota_bytes: int) -> None:
        self.region.write({slot: Grant(quota_bytes=quota_bytes)})

    def of(self, slot: int = 0, **more: str) -> dict[str, str]:
        """The environment of a process of that client."""
        return self.environment | {"GPUSQUAD_TENANT": str(self.region.path(slot))} | more

    def peer(self, slot: int = 0, start: bool = True, **more: str) -> Peer:
        self.peers.append(Peer(self.of(slot, **more), start))
        return self.peers[-1]

    def used(self, slot: int = 0) -> int:
        return self.region.page(slot).used_bytes

    def close(self) -> None:
        for fd in self.fake_locks.values():
            os.close(fd)
        for peer in self.peers:
            if peer.process.poll() is None:
                peer.kill()
