"""Start forecasts of this service and the starts that followed, which later forecasts get their P90 from."""

from __future__ import annotations

import threading
from collections.abc import Iterable

from sqlalchemy import Connection

from gpusquad.predict.start_calibration import PER_TENANT, FirstForecast, StartCalibration, StartRange
from gpusquad.store import start_forecasts
from gpusquad.store.start_forecasts import StartForecastRow


class StartLog:
    """Safe for any thread. Changes with the state of the scheduler, under the same lock."""

    def __init__(self) -> None:
        self._calibration = StartCalibration()
        self._lock = threading.Lock()

    def restore(self, c: Connection) -> None:
        """Continue with what was stored before a restart."""
        with self._lock:
            for row, user in start_forecasts.latest(c, PER_TENANT):
                self._calibration.made(row.job_id, FirstForecast(row.tenant, user, row.made_us, row.mid_us))
                if row.started_us is not None:
                    self._calibration.settle(row.job_id, row.started_us)

    @property
    def open(self) -> frozenset[str]:
        """Jobs with a forecast that have not started."""
        with self._lock:
            return self._calibration.open

    def made(self, row: StartForecastRow, user: str) -> None:
        """A pending job has its first forecast."""
        with self._lock:
            self._calibration.made(row.job_id, FirstForecast(row.tenant, user, row.made_us, row.mid_us))

    def settle(self, job_id: str, started_us: int) -> None:
        """A job has started."""
        with self._lock:
            self._calibration.settle(job_id, started_us)

    def forget(self, job_ids: Iterable[str]) -> None:
        """Jobs have left the queue without a start."""
        with self._lock:
            for job_id in job_ids:
                self._calibration.forget(job_id)

    def at(self, now_us: int) -> StartRange:
        """What is known now."""
        with self._lock:
            return self._calibration.at(now_us)
