"""Decodes log bytes without cutting characters."""

from __future__ import annotations

LONGEST_CHARACTER = 4


def whole_text(data: bytes, is_last: bool = False) -> tuple[str, int]:
    """The text and the number of bytes used. An incomplete character is left for later, if there is a later."""
    used = len(data) if is_last else len(data) - _unfinished(data)
    return data[:used].decode("utf-8", errors="replace"), used


def _unfinished(data: bytes) -> int:
    """Bytes at the end that start a character without completing it."""
    for back in range(1, min(LONGEST_CHARACTER, len(data) + 1)):
        byte = data[-back]
        if byte & 0b1100_0000 == 0b1000_0000:  # inside a character: its start is further back
            continue
        return back if _length(byte) > back else 0
    return 0


def _length(first: int) -> int:
    if 0xC2 <= first <= 0xDF:
        return 2
    if 0xE0 <= first <= 0xEF:
        return 3
    return 4 if 0xF0 <= first <= 0xF4 else 1
