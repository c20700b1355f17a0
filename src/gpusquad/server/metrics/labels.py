"""Label values. Each new value is a permanent time series, so their number must not depend on users."""

from __future__ import annotations

import threading

from gpusquad.server.safe_text import one_line

OTHER = "other"


class BoundedLabels:
    """Passes the first names and replaces all later ones by "other"."""

    def __init__(self, most: int) -> None:
        self._most = most
        self._known: set[str] = set()
        self._lock = threading.Lock()

    def of(self, name: str) -> str:
        """The label for a name."""
        name = one_line(name, 64)
        with self._lock:
            if name not in self._known and len(self._known) < self._most:
                self._known.add(name)
            return name if name in self._known else OTHER


def among(name: str, known: frozenset[str]) -> str:
    """The name, if it is one that we know."""
    return name if name in known else OTHER
