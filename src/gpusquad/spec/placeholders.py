"""Finds, fills and escapes ``${name}`` in texts. ``$${`` stands for ``${``."""

from __future__ import annotations

import re
from collections.abc import Collection, Iterator, Mapping
from difflib import get_close_matches

from gpusquad.model.errors import Invalid
from gpusquad.spec.paths import join
from gpusquad.spec.texts import MAX_TEXT_CHARS

MARK = "${"
MAX_FILLED_CHARS = 1 << 20
"""Limit for the texts of one job, so that short placeholders cannot expand to gigabytes."""
MAX_EXPANDED_CHARS = 64 << 20
"""Limit for all jobs of one file, to bound memory and store."""

_TOKEN = re.compile(r"\$\$\{|\$\{([^{}$]*)(\}?)")
_MAX_NAMES_SHOWN = 20


def escape(text: str) -> str:
    """Escape a text so that it stays unchanged, for commands from a shell that contain ``${HOME}``."""
    return text.replace(MARK, "$" + MARK)


def marked_texts(value: object, where: str = "") -> Iterator[tuple[str, str]]:
    """All texts in plain data that contain a placeholder or an escaped one, with their paths."""
    if isinstance(value, str):
        if MARK in value:
            yield where, value
    elif isinstance(value, dict):
        for key, item in value.items():
            yield from marked_texts(item, join(where, str(key)))
    elif isinstance(value, (list, tuple)):
        for index, item in enumerate(value):
            yield from marked_texts(item, f"{where}[{index}]")


def check_names(text: str, known: Collection[str]) -> None:
    """Refuse unknown placeholders."""
    for part in _parts(text)[1::2]:
        if part not in known:
            raise Invalid("", f"{MARK}{part[:64]}}} is not a parameter", _cure(part, known))


class Filler:
    """Fills the same texts for many sweep points. Each text is parsed once."""

    def __init__(self) -> None:
        self._parts: dict[str, list[str]] = {}
        self._left = self._left_in_all = MAX_EXPANDED_CHARS

    def fill(self, value: object, values: Mapping[str, str]) -> object:
        """A copy of the plain data with all placeholders filled."""
        self._left = budget = min(MAX_FILLED_CHARS, self._left_in_all)
        filled = self._fill(value, values)
        self._left_in_all -= budget - self._left
        return filled

    def _fill(self, value: object, values: Mapping[str, str]) -> object:
        if isinstance(value, str):
            return self._text(value, values) if MARK in value else value
        if isinstance(value, dict):
            return {key: self._inside(item, values, key) for key, item in value.items()}
        if isinstance(value, (list, tuple)):
            return [self._inside(item, values, f"[{index}]") for index, item in enumerate(value)]
        return value

    def _inside(self, value: object, values: Mapping[str, str], name: str) -> object:
        try:
            return self._fill(value, values)
        except Invalid as error:
            raise Invalid(join(name, error.field), error.problem, error.cure) from None

    def _text(self, text: str, values: Mapping[str, str]) -> str:
        parts = self._parts.get(text)
        if parts is None:
            parts = self._parts[text] = _parts(text)
        filled = list(parts)
        try:
            filled[1::2] = [values[name] for name in parts[1::2]]
        except KeyError:
            check_names(text, values)
            raise
        # Check the size before joining, because joining is the expensive step.
        chars = sum(map(len, filled))
        self._left -= chars
        if chars > MAX_TEXT_CHARS or self._left < 0:
            raise Invalid("", f"grows to {chars} characters with its parameters", "move long texts into separate files")
        return "".join(filled)


def _parts(text: str) -> list[str]:
    """Plain texts and placeholder names, alternating, starting with a plain text."""
    parts, plain, end = [], "", 0
    for token in _TOKEN.finditer(text):
        plain += text[end : token.start()]
        end = token.end()
        if token[1] is None:
            plain += MARK
            continue
        if not token[2]:
            raise Invalid("", f"{MARK} is not closed", f"write {MARK}name}}, or $${{ for the characters {MARK}")
        parts += [plain, token[1].strip()]
        plain = ""
    return [*parts, plain + text[end:]]


def _cure(name: str, known: Collection[str]) -> str:
    close = get_close_matches(name[:64], known, 1)
    if close:
        return f"did you mean {MARK}{close[0]}}}?"
    shown = ", ".join(sorted(known)[:_MAX_NAMES_SHOWN])
    keep = f"write $${{{name[:64]}}} to leave it to the shell"
    return f"known here: {shown}; {keep}" if shown else f"define it under params; {keep}"
