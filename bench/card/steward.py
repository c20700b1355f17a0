"""The card's own counters over a window, where it has any."""

from __future__ import annotations

import contextlib
import time
from types import TracebackType
from typing import Any

from bench.card.place import Place
from gpusquad.measure.channel import Channel, WorkerGone
from gpusquad.measure.launcher import LocalLauncher

_MODULE = "gpusquad.measure.card.monitor"
_WITHIN_S = 30.0


class Watcher:
    """Reads counters in a separate process. Without a card it returns nothing."""

    def __init__(self, place: Place) -> None:
        self._place = place
        self._channel: Channel | None = None

    def __enter__(self) -> Watcher:
        if self._place.device != "cpu":
            self._channel = LocalLauncher(self._place.logs).start("steward", _MODULE, ["--card", self._place.card], {})
        return self

    def __exit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        if self._channel is not None:
            self._channel.close()

    def watch(self, from_s: float, to_s: float) -> dict[str, Any]:
        """Wait until the window has ended."""
        if self._channel is None:
            return {}
        with contextlib.suppress(WorkerGone):
            timeout_s = max(0.0, to_s - time.monotonic()) + _WITHIN_S
            return self._channel.ask("watch", timeout_s, from_s=from_s, to_s=to_s)
        self._channel = None  # the process has ended or is out of step
        return {}
