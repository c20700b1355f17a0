"""PeriodicTask: a function called at intervals."""

from __future__ import annotations

import threading

import pytest

from gpusquad.server.periodic import PeriodicTask
from gpusquad.store.database import StoreUnavailable


@pytest.mark.parametrize("error", [StoreUnavailable("away"), OSError("full"), ValueError("wrong")])
def test_task_is_called_again_after_an_error(error: Exception) -> None:
    calls, again = [], threading.Event()

    def do() -> None:
        calls.append(1)
        if len(calls) == 1:
            raise error
        again.set()

    task = PeriodicTask("test", 0.001, do, "it failed")
    task.start()
    assert again.wait(30.0)
    task.close()


def test_task_can_be_closed_before_its_start() -> None:
    PeriodicTask("test", 0.001, lambda: None, "it failed").close()
