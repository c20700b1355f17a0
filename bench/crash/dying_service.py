"""``gpusquad`` with a time bomb: the process kills itself, as the kernel would, at the n-th passing of a point.

``GPUSQUAD_DIES_AT=write-after:7`` dies after the seventh transaction. Nothing in the product knows of this.
"""

from __future__ import annotations

import functools
import os
import signal
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from typing import Any

POINTS = (
    "write-before", "write-inside", "write-after", "launch-before", "launch-after", "stop-before", "stop-after",
    "report-before", "report-after",
)  # fmt: skip


class Bomb:
    """Counts how often one point is passed."""

    def __init__(self, point: str, nth: int) -> None:
        self._point = point
        self._left = nth

    def passes(self, point: str) -> None:
        if point == self._point:
            self._left -= 1
            if self._left == 0:
                os.kill(os.getpid(), signal.SIGKILL)


def arm(bomb: Bomb) -> None:
    from gpusquad.engines.local.engine import LocalEngine
    from gpusquad.server.services.jobs.outcomes import Outcomes
    from gpusquad.store.database import Database

    for kind, name, point in ((LocalEngine, "launch", "launch"), (LocalEngine, "stop", "stop"),
                              (Outcomes, "report", "report")):  # fmt: skip
        setattr(kind, name, _around(getattr(kind, name), bomb, point))
    Database.write = _write(Database.write, bomb)


def _around(method: Callable[..., Any], bomb: Bomb, point: str) -> Callable[..., Any]:
    @functools.wraps(method)
    def dying(*args: Any, **kwargs: Any) -> Any:
        bomb.passes(f"{point}-before")
        result = method(*args, **kwargs)
        bomb.passes(f"{point}-after")
        return result

    return dying


def _write(method: Callable[..., Any], bomb: Bomb) -> Callable[..., Any]:
    @contextmanager
    def dying(self: Any) -> Iterator[Any]:
        bomb.passes("write-before")
        with method(self) as connection:
            yield connection
            bomb.passes("write-inside")
        bomb.passes("write-after")

    return dying


def main() -> None:
    point, _, nth = os.environ.pop("GPUSQUAD_DIES_AT", "").partition(":")
    if point:
        arm(Bomb(point, int(nth)))
    from gpusquad.cli import main as gpusquad

    gpusquad()


if __name__ == "__main__":
    main()
