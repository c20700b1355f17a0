"""One thing to tell a pod, and what makes two of them the same."""

from __future__ import annotations

import re
from dataclasses import dataclass

MOST_BYTES = 1024
"""Events of the newer API may not be longer, and nobody reads more."""
FAILED_SCHEDULING = "FailedScheduling"
SCHEDULED = "Scheduled"

_JOB_ID = re.compile(r"\b[0-9a-hjkmnp-tv-z]{26}\b")
_NUMBER = re.compile(r"\d+(?:[.,]\d+)*(?:\s?(?:us|ms|min|s|m|h|d)(?![A-Za-z]))?")
_SEVERAL = re.compile(r"#(?:[\s:.,-]*#)+")
_PLURAL = re.compile(r"# ([A-Za-z]+?)s\b")


@dataclass(frozen=True, slots=True)
class StatusMessage:
    """``reason`` is one word that people search for; ``message`` is for reading."""

    reason: str
    message: str
    is_warning: bool = True
    is_why: bool = False
    """It is why the pod waits: the condition PodScheduled says so too."""
    gist: str = ""
    """What has to differ for it to be news; empty: the message without its numbers."""

    @property
    def kind(self) -> str:
        return "Warning" if self.is_warning else "Normal"

    @property
    def material(self) -> str:
        return self.gist or without_numbers(self.message)


def without_numbers(text: str) -> str:
    """The text with every number, time and job id as ``#``: what only ticks stays the same."""
    bare = _SEVERAL.sub("#", _NUMBER.sub("#", _JOB_ID.sub("#", text)))
    return _PLURAL.sub(r"# \1", bare)


def shortened(text: str, most_bytes: int = MOST_BYTES) -> str:
    """No longer than that in UTF-8, and on one line."""
    text = " ".join(text.split())
    if len(text.encode()) <= most_bytes:
        return text
    return text.encode()[: most_bytes - 3].decode(errors="ignore").rstrip() + "…"
