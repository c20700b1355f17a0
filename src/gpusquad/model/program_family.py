"""Names and commands without what differs between runs of one program."""

from __future__ import annotations

import re

_NUMBERS = re.compile(r"[0-9a-f]{7,}|\d+(?:\.\d+)?(?:e-?\d+)?")


def family(text: str) -> str:
    """A name without its numbers and hashes: ``resnet-lr0.1-run7`` and ``resnet-lr0.01-run8`` are one family."""
    return _NUMBERS.sub("#", text.lower())[:120]
