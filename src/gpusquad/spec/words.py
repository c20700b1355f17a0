"""Words that stand for a number."""

from __future__ import annotations

AUTO = "auto"
"""The service chooses, by what it knows of such jobs."""
