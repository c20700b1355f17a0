"""The process beside the workers that reads the card and holds memory: ``python -m gpusquad.measure.card.monitor``.

It runs where the workers run, so the series runner may be on another machine. Its ballast leaves as much of a large
card free as a small one would have, so that workers really run out of memory.
"""

from __future__ import annotations

import argparse
import os
import time
from collections.abc import Mapping, Sequence
from typing import Any

from gpusquad.gpu.nvml import CardReader, NvmlError
from gpusquad.measure.card.gpm import counters
from gpusquad.measure.card.memory import chunks_to_hold
from gpusquad.measure.line_server import Answer, serve

CHUNK_BYTES = 64 * 2**20
_POLL_INTERVAL_S = 0.02


class CardMonitor:
    """Reports the card's identity, its activity in a window, and the memory of its processes."""

    def __init__(self, reader: CardReader) -> None:
        self._reader = reader
        self._counters = counters(reader)
        self._torch: Any = None
        self._held: list[Any] = []

    def hello(self, _: Mapping[str, Any]) -> Answer:
        card = {"gpu": self._reader.model(), "driver": self._reader.driver(), "total_bytes": self._reader.total_bytes()}
        return {"pid": os.getpid(), "now_s": time.monotonic(), "used_bytes": self._reader.used_bytes(), **card}

    def memory(self, _: Mapping[str, Any]) -> Answer:
        try:
            by_process = self._reader.by_process()
        except NvmlError:
            by_process = {}
        return {"used_bytes": self._reader.used_bytes(), "by_process": by_process}

    def room(self, request: Mapping[str, Any]) -> Answer:
        """Leave this many bytes of the card free. Negative: release everything. Returns the free bytes."""
        wanted = int(request["free_bytes"])
        if wanted < 0 and self._torch is None:
            return {}
        torch = self._with_torch()
        free, _ = torch.cuda.mem_get_info()
        count = 0 if wanted < 0 else chunks_to_hold(free, len(self._held), wanted, CHUNK_BYTES)
        if count < len(self._held):
            del self._held[count:]
            torch.cuda.empty_cache()
        while len(self._held) < count:
            self._held.append(torch.empty(CHUNK_BYTES, dtype=torch.uint8, device="cuda"))
        return {"free_bytes": torch.cuda.mem_get_info()[0], "held_bytes": len(self._held) * CHUNK_BYTES}

    def watch(self, request: Mapping[str, Any]) -> Answer:
        """Means over a window that may start slightly later."""
        low_s, high_s = float(request["from_s"]), float(request["to_s"])
        time.sleep(max(0.0, low_s - time.monotonic()))
        begun_s, begun_j = time.monotonic(), self._energy_j()
        if self._counters is not None:
            self._counters.begin()
        seen: list[tuple[float, float, float]] = []
        while time.monotonic() < high_s:
            seen.append((*self._reader.busy_ratios(), self._reader.power_w()))
            time.sleep(min(_POLL_INTERVAL_S, max(0.0, high_s - time.monotonic())))
        counted = self._counters.end() if self._counters is not None else {}
        ended_s, ended_j = time.monotonic(), self._energy_j()
        late = seen[len(seen) // 2 :]  # the driver's rates lag, so the first values belong to the time before
        busy, memory, power = (sum(column) / len(late) for column in zip(*late, strict=True)) if late else (0, 0, 0)
        mean_w = (ended_j - begun_j) / (ended_s - begun_s)
        return {
            "utilisation_ratio": counted.get("graphics", busy),
            "bandwidth_ratio": counted.get("dram", memory),
            "power_w": mean_w if mean_w > 0 else power,
            "used_bytes": self._reader.used_bytes(),
            "counters": counted,
            "rates": [busy, memory, power],
        }

    def quit(self, _: Mapping[str, Any]) -> Answer:
        return {}

    def _energy_j(self) -> float:
        try:
            return self._reader.energy_j()
        except NvmlError:
            return 0.0

    def _with_torch(self) -> Any:
        if self._torch is None:
            import torch  # pyright: ignore[reportMissingImports]

            torch.zeros(1, device="cuda")
            self._torch = torch
        return self._torch


def main(arguments: Sequence[str] | None = None) -> None:
    parser = argparse.ArgumentParser(prog="python -m gpusquad.measure.card.monitor", description=__doc__)
    parser.add_argument("--card", default="0")
    monitor = CardMonitor(CardReader(parser.parse_args(arguments).card))
    serve({name: getattr(monitor, name) for name in ("hello", "memory", "room", "watch", "quit")})


if __name__ == "__main__":
    main()
