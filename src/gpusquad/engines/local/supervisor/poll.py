"""One poll for everything: signals, reports of starting tasks, logs."""

from __future__ import annotations

import select
from collections.abc import Iterable

_READABLE = select.POLLIN | select.POLLHUP | select.POLLERR


def wait(handles: Iterable[int], timeout_s: float | None) -> set[int]:
    """Which of these can be read or have closed."""
    poll = select.poll()
    for handle in handles:
        poll.register(handle, select.POLLIN)
    timeout_ms = None if timeout_s is None else max(0, int(timeout_s * 1000) + 1)
    return {handle for handle, event in poll.poll(timeout_ms) if event & _READABLE}
