"""Something done again and again."""

from __future__ import annotations

import threading

import pytest

from gpusquad.server.periodic import PeriodicTask
from gpusquad.store.database import StoreUnavailable


@pytest.mark.parametrize("error", [StoreUnavailable("away"), OSError("full"), ValueError("wrong")])
def test_one_that_fails_is_not_the_last(error: Exception) -> None:
    times, again = [], threading.Event()

    def do() -> None:
        times.append(1)
        if len(times) == 1:
            raise error
        again.set()

    regularly = PeriodicTask("test", 0.001, do, "it failed")
    regularly.start()
    assert again.wait(30.0)
    regularly.close()


def test_it_can_be_closed_before_it_began() -> None:
    PeriodicTask("test", 0.001, lambda: None, "it failed").close()
