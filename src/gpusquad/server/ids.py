"""Job ids: ULIDs (48 bits of milliseconds, 80 random bits), which sort by creation time."""

from __future__ import annotations

import secrets
import threading
import time

ALPHABET = "0123456789abcdefghjkmnpqrstvwxyz"
LENGTH = 26
_RANDOM_BITS = 80
_lock = threading.Lock()
_last = 0


def new_id() -> str:
    """Larger than every earlier id of this process, even within one millisecond."""
    global _last
    with _lock:
        fresh = (time.time_ns() // 1_000_000 << _RANDOM_BITS) | secrets.randbits(_RANDOM_BITS)
        if fresh >> _RANDOM_BITS <= _last >> _RANDOM_BITS:
            fresh = _last + 1 + secrets.randbits(32)
        _last = fresh
    return "".join(ALPHABET[fresh >> shift & 31] for shift in range(5 * (LENGTH - 1), -1, -5))
