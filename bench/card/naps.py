"""Lateness of a thread that this machine wakes from sleep, compared with a spinning one: ``python -m bench.card
naps``."""

from __future__ import annotations

import json
import subprocess
import tempfile
from collections.abc import Mapping
from pathlib import Path
from typing import Any

from bench.card.host import stolen_ms
from bench.card.marks import markdown
from bench.card.programs import built
from gpusquad.model.errors import Invalid

_SOURCE = Path(__file__).with_name("naps.c")


def naps(seconds: float) -> dict[str, Any]:
    """For each way: polls, lateness in millionths of the time, the longest pause, and the time stolen by the host."""
    if not seconds > 0:
        raise Invalid("seconds", f"is {seconds:g}", "more than none are needed")
    with tempfile.TemporaryDirectory() as folder:
        program, before_ms = built(_SOURCE, Path(folder)), stolen_ms()
        done = subprocess.run([str(program), str(seconds)], check=True, capture_output=True, text=True)
        return {**json.loads(done.stdout), "stolen_ms": stolen_ms() - before_ms}


def shown(found: Mapping[str, Any]) -> str:
    headings = ("between two looks", "looks", "late, millionths of the time", "longest pause, µs")
    lines = [
        (way, *(f"{found[way][what]:,.0f}" for what in ("looks", "late_ppm", "longest_us"))) for way in ("nap", "spin")
    ]
    return f"{markdown(headings, lines)}\n\nprocessor time that the host gave to others: {found['stolen_ms']:,.0f} ms"
