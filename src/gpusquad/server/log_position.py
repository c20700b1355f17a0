"""Position of a log stream as an event id, from which a new stream continues."""

from __future__ import annotations

import re
from dataclasses import dataclass, field

from gpusquad.model.errors import Invalid

MAX_FOLLOWED = 256
"""Tasks in one stream."""
_PLACE = re.compile(r"([0-9]{1,9});((?:[0-9]{1,9}:[0-9]{1,15})?(?:,[0-9]{1,9}:[0-9]{1,15}){0,255})")


@dataclass
class LogPosition:
    """Next byte of each task of one attempt."""

    attempt: int
    offsets: dict[int, int] = field(default_factory=dict)

    def __str__(self) -> str:
        values = ",".join(f"{task}:{offset}" for task, offset in sorted(self.offsets.items()))
        return f"{self.attempt};{values}"

    @classmethod
    def parse(cls, text: str) -> LogPosition:
        found = _PLACE.fullmatch(text)
        if found is None:
            raise Invalid("Last-Event-ID", "is not an id of this stream", "leave it out")
        pairs = [part.split(":") for part in found[2].split(",") if part]
        return cls(int(found[1]), {int(task): int(offset) for task, offset in pairs})
