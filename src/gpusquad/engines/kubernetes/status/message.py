"""A status message for a pod, and when two of them count as the same."""

from __future__ import annotations

import re
from dataclasses import dataclass

MAX_BYTES = 1024
"""Limit of the events.k8s.io API, and enough to read."""
FAILED_SCHEDULING = "FailedScheduling"
SCHEDULED = "Scheduled"

_JOB_ID = re.compile(r"\b[0-9a-hjkmnp-tv-z]{26}\b")
_NUMBER = re.compile(r"\d+(?:[.,]\d+)*(?:\s?(?:us|ms|min|s|m|h|d)(?![A-Za-z]))?")
_SEVERAL = re.compile(r"#(?:[\s:.,-]*#)+")
_PLURAL = re.compile(r"# ([A-Za-z]+?)s\b")
_ARE = re.compile(r"\bare\b")


@dataclass(frozen=True, slots=True)
class StatusMessage:
    """``reason`` is a word to search for; ``message`` is the text."""

    reason: str
    message: str
    is_warning: bool = True
    is_why: bool = False
    """The message says why the pod is pending. It is written to the condition PodScheduled too."""
    gist: str = ""
    """Two messages with the same gist count as the same. Empty: the message without its numbers."""

    @property
    def kind(self) -> str:
        return "Warning" if self.is_warning else "Normal"

    @property
    def material(self) -> str:
        return self.gist or without_numbers(self.message)


def without_numbers(text: str) -> str:
    """The text with every number, time and job id replaced by ``#``, and plurals by singulars."""
    bare = _SEVERAL.sub("#", _NUMBER.sub("#", _JOB_ID.sub("#", text)))
    return _PLURAL.sub(r"# \1", _ARE.sub("is", bare))


def shortened(text: str, max_bytes: int = MAX_BYTES) -> str:
    """The text on one line, cut to ``max_bytes`` of UTF-8."""
    text = " ".join(text.split())
    if len(text.encode()) <= max_bytes:
        return text
    return text.encode()[: max_bytes - 3].decode(errors="ignore").rstrip() + "…"
