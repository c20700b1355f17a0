"""Two ways in which a pod cannot be taken: its text cannot be read, or what it says cannot be honoured."""

from __future__ import annotations

from gpusquad.model.errors import Invalid

_SHOWN = 80


class MalformedField(Invalid):
    """A value that does not read as what it has to be. The field is its path in the object."""


class UnsupportedField(Invalid):
    """Well written, and yet nothing here could carry it out. It is refused, never ignored."""


def short(value: object) -> str:
    """A value of somebody else's, fit for a message."""
    text = repr(value)
    return text if len(text) <= _SHOWN else text[: _SHOWN - 1] + "…"
