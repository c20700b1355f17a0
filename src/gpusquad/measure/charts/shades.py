"""Colours of heat maps: from about the page's background at 0 to the strongest colour at 1, monotonic in brightness."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Literal

Rgb = tuple[int, int, int]
Scale = Literal["loss", "use"]
"""``loss``: loss of speed beside a neighbour, in red. ``use``: use of the card's resources, in blue."""
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
    """Colour of ``level``, from 0 (palest) to 1 (strongest). Values outside are clipped."""
    stops = STOPS[scale, theme]
    position = min(1.0, max(0.0, level)) * (len(stops) - 1)
    index = min(int(position), len(stops) - 2)
    return _interpolate(stops[index], stops[index + 1], position - index)


def ink_on(background: Rgb) -> Rgb:
    """Black or white, whichever has more contrast."""
    return max(_INKS, key=lambda ink: contrast(ink, background))


def contrast(first: Rgb, second: Rgb) -> float:
    """Contrast ratio of WCAG: 1 for equal colours, 21 for black on white. Text is readable from 4.5 on."""
    dark, light = sorted((_luminance(first), _luminance(second)))
    return (light + 0.05) / (dark + 0.05)


def as_hex(colour: Rgb) -> str:
    return "#{:02x}{:02x}{:02x}".format(*colour)


def _interpolate(low: Rgb, high: Rgb, fraction: float) -> Rgb:
    red, green, blue = (round(a + (b - a) * fraction) for a, b in zip(low, high, strict=True))
    return red, green, blue


def _luminance(colour: Sequence[int]) -> float:
    red, green, blue = (_linear(channel / 255) for channel in colour)
    return 0.2126 * red + 0.7152 * green + 0.0722 * blue


def _linear(channel: float) -> float:
    """The sRGB channel as linear light, both 0 to 1."""
    return channel / 12.92 if channel <= 0.04045 else ((channel + 0.055) / 1.055) ** 2.4
