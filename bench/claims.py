"""A claim: a figure, which way is better, the bar it must clear and the baseline it is seen against."""

from __future__ import annotations

from typing import Literal


def claim(name: str, value: float, unit: str, better: Literal["higher", "lower"], *, bar: float | None = None,
          baseline: float | None = None, ok: bool | None = None) -> dict:  # fmt: skip
    """``ok`` follows from the bar unless given. A claim without a bar is only reported."""
    if ok is None and bar is not None:
        ok = value <= bar if better == "lower" else value >= bar
    return {"name": name, "value": value, "unit": unit, "better": better, "bar": bar, "baseline": baseline, "ok": ok}
