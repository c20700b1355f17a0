"""What the same person ran last says more than what they say (Tsafrir, Etsion and Feitelson, TPDS 2007)."""

from __future__ import annotations

from collections import defaultdict, deque
from dataclasses import dataclass

from gpusquad.model.errors import Invalid
from gpusquad.model.job import Job
from gpusquad.model.views import Forecast
from gpusquad.registry import register

_NOTHING_KNOWN_US = 1 << 60


@register("predictor", "recent")
@dataclass
class Recent:
    """The mean of the user's last run times (the tenant's, where no user is named), at most the user's estimate."""

    last: int = 2

    def __post_init__(self) -> None:
        if self.last < 1:
            raise Invalid("predictor.recent.last", f"{self.last} is less than one")
        self._runs: defaultdict[tuple[str, str], deque[int]] = defaultdict(lambda: deque(maxlen=self.last))
        self._tenants: defaultdict[str, list[int]] = defaultdict(lambda: [0, 0])

    def predict(self, job: Job) -> Forecast:
        """The recent runs; before there are enough, the estimate, then the tenant's mean, then nothing."""
        runs = self._runs.get((job.tenant, job.user), ())
        if len(runs) == self.last:
            return _capped(sum(runs) // len(runs), max(runs), job.estimate_us)
        if job.estimate_us is not None:
            return Forecast(job.estimate_us, job.estimate_us, "user")
        count, total_us = self._tenants.get(job.tenant, (0, 0))
        if count:
            return Forecast(total_us // count, total_us // count, "tenant")
        return Forecast(_NOTHING_KNOWN_US, _NOTHING_KNOWN_US, "none")

    def learn(self, job: Job, run_us: int) -> None:
        """A job has ended."""
        self._runs[job.tenant, job.user].append(run_us)
        tenant = self._tenants[job.tenant]
        tenant[0] += 1
        tenant[1] += run_us


def _capped(mid_us: int, high_us: int, estimate_us: int | None) -> Forecast:
    """Nobody needs longer than they say. Who wants to slip in must fit by their own estimate, where there is one:
    a promise is not to break because the last two runs were short."""
    if estimate_us is None:
        return Forecast(mid_us, high_us, "history")
    return Forecast(min(mid_us, estimate_us), estimate_us, "history")
