"""Job ids derived from groups: the same group always gets the same id.

They look like other job ids (26 characters of Crockford's base 32, 128 bits), but do not sort by time.
"""

from __future__ import annotations

import hashlib

from gpusquad.engines.kubernetes.parse.groups import GroupKey

ALPHABET = "0123456789abcdefghjkmnpqrstvwxyz"
LENGTH = 26


def job_id(key: GroupKey, incarnation: int = 0) -> str:
    """``incarnation`` counts the earlier jobs of a group with this name and UID."""
    if not key.uid:
        raise ValueError(f"{key} is provisional")
    text = key.uid if not incarnation else f"{key.uid}#{incarnation}"
    bits = int.from_bytes(hashlib.sha256(text.encode()).digest()[:16], "big")
    return "".join(ALPHABET[bits >> shift & 31] for shift in range(5 * (LENGTH - 1), -1, -5))
