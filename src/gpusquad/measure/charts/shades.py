"""Colours of heat maps: from the page's background at 0 to the strongest colour at 1, monotonic in brightness."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Literal

Rgb = tuple[int, int, int]
Scale = Literal["loss", "use"]
SCALES: tuple[Scale, ...] = ("loss", "use")
Theme = Literal["light", "dark"]

STOPS: dict[tuple[Scale, Theme], tuple[Rgb, ...]] = {
    ("loss", "light"): ((250, 246, 238), (250, 214, 140), (238, 142, 66), (196, 62, 52), (104, 14, 52)),
    ("loss", "dark"): ((34, 39, 47), (92, 52, 34), (172, 80, 36), (238, 142, 66), (255, 228, 168)),
    ("use", "light"): ((243, 247, 250), (188, 217, 236), (112, 172, 214), (38, 112, 168), (10, 54, 94)),
    ("use", "dark"): ((34, 39, 47), (30, 68, 100), (40, 112, 164), (104, 172, 220), (206, 232, 250)),
}
_INKS: tuple[Rgb, Rgb] = ((0, 0, 0), (255, 255, 255))
"""Pure black and white, because any softer colour is hard to read on a medium background."""


def shade(scale: Scale, level: float, theme: Theme = "light") -> Rgb:
    """``level``: 0 for the palest, 1 for the strongest. Values outside are clipped."""
    stops = STOPS[scale, theme]
    at = min(1.0, max(0.0, level)) * (len(stops) - 1)
    index = min(int(at), len(stops) - 2)
    return _between(stops[index], stops[index + 1], at - index)


def ink_on(background: Rgb) -> Rgb:
    """Black or white, whichever has more contrast."""
    return max(_INKS, key=lambda ink: contrast(ink, background))


def contrast(one: Rgb, other: Rgb) -> float:
    """Contrast by the web accessibility guidelines: 1 for equal colours, 21 for black on white, 4.5 if readable."""
    dark, light = sorted((_luminance(one), _luminance(other)))
    return (light + 0.05) / (dark + 0.05)


def as_hex(colour: Rgb) -> str:
    return "#{:02x}{:02x}{:02x}".format(*colour)


def _between(low: Rgb, high: Rgb, part: float) -> Rgb:
    red, green, blue = (round(a + (b - a) * part) for a, b in zip(low, high, strict=True))
    return red, green, blue


def _luminance(colour: Sequence[int]) -> float:
    red, green, blue = (_linear(channel / 255) for channel in colour)
    return 0.2126 * red + 0.7152 * green + 0.0722 * blue


def _linear(channel: float) -> float:
    return channel / 12.92 if channel <= 0.04045 else ((channel + 0.055) / 1.055) ** 2.4
