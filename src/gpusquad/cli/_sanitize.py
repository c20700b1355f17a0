"""Makes untrusted text safe for a terminal.

A job's name, cause or log may contain escape sequences that move the cursor, rewrite the screen or reverse the reading
direction. They are replaced with visible characters.
"""

from __future__ import annotations

import re
from typing import Any

_COLOURS = re.compile("\x1b\\[[0-9;:]*m")
_INVISIBLE = "\u00ad\u061c\u180e\u200b-\u200f\u2028-\u202e\u2060-\u206f\ufeff\ufff9-\ufffb"
"""Invisible formatting characters: reading direction, joiners, line separators."""
_UNSAFE = re.compile(f"[\x00-\x1f\x7f-\x9f{_INVISIBLE}\ud800-\udfff]")
_UNSAFE_BUT_TAB = re.compile(f"[\x00-\x08\x0a-\x1f\x7f-\x9f{_INVISIBLE}\ud800-\udfff]")


def one_line(text: object) -> str:
    """One line without invisible characters: white space becomes a space, other controls ``^[`` or ``\\u202e``."""
    line = str(text)
    if line.isascii() and line.isprintable():  # the usual case
        return line
    return _UNSAFE.sub(_visible, " ".join(_as_one_line(line)))


def value_text(value: Any) -> str:
    """Plain data on one line without brackets: ``priority high, cards n0/0 n0/1``."""
    if isinstance(value, dict):
        return ", ".join(f"{one_line(name)} {value_text(inner)}" for name, inner in value.items())
    if isinstance(value, (list, tuple)):
        return " ".join(map(value_text, value))
    return "–" if value is None else one_line(value)


def log_line(line: str) -> str:
    """A log line without colours. Tabs stay; other control characters become visible."""
    if line.isascii() and line.isprintable():
        return line
    return _UNSAFE_BUT_TAB.sub(_visible, _COLOURS.sub("", line))


def _as_one_line(text: str) -> list[str]:
    return [part for part in re.split("[ \t\n\r\v\f]+", text) if part]


def _visible(match: re.Match[str]) -> str:
    code = ord(match[0])
    if code < 0x20:
        return "^" + chr(code + 0x40)
    return f"\\x{code:02x}" if code < 0x100 else f"\\u{code:04x}"
