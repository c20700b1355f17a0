"""Job ids that follow from the group: the same group is the same job, whoever asks and however often.

They look like the ids of other jobs (26 characters of Crockford's base 32, 128 bits), but do not sort by time.
"""

from __future__ import annotations

import hashlib

from gpusquad.engines.kubernetes.parse.groups import GroupKey

ALPHABET = "0123456789abcdefghjkmnpqrstvwxyz"
LENGTH = 26


def job_id(key: GroupKey, life: int = 0) -> str:
    """``life`` counts how often a group of this very name and uid was a job and ended: each time it is another job."""
    if not key.uid:
        raise ValueError(f"{key} is provisional")
    text = key.uid if not life else f"{key.uid}#{life}"
    bits = int.from_bytes(hashlib.sha256(text.encode()).digest()[:16], "big")
    return "".join(ALPHABET[bits >> shift & 31] for shift in range(5 * (LENGTH - 1), -1, -5))
