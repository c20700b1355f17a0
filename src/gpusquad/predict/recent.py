"""A user's last run times predict better than the user's estimates (Tsafrir, Etsion and Feitelson, TPDS 2007)."""

from __future__ import annotations

from collections import defaultdict, deque
from dataclasses import dataclass

from gpusquad.model.errors import Invalid
from gpusquad.model.job import Job
from gpusquad.model.prediction import NOTHING_KNOWN_US, PastRun, Quantiles, certain
from gpusquad.predict.base import OnlinePredictor
from gpusquad.registry import register

_LEVELS = (0.5, 0.9)


@register("predictor", "recent")
@dataclass
class Recent(OnlinePredictor):
    """The mean of the user's last run times (the tenant's, if no user is named), at most the user's estimate."""

    last: int = 2

    def __post_init__(self) -> None:
        if self.last < 1:
            raise Invalid("predictor.recent.last", f"{self.last} is less than one")
        self._runs: defaultdict[tuple[str, str], deque[int]] = defaultdict(lambda: deque(maxlen=self.last))
        self._tenants: defaultdict[str, list[int]] = defaultdict(lambda: [0, 0])

    def predict(self, job: Job) -> Quantiles:
        """The recent runs. Until there are enough, the estimate, then the tenant's mean, then none."""
        runs = self._runs.get((job.tenant, job.user), ())
        if len(runs) == self.last:
            return _capped(sum(runs) // len(runs), max(runs), job.estimate_us)
        if job.estimate_us is not None:
            return certain(job.estimate_us, "user")
        count, total_us = self._tenants.get(job.tenant, (0, 0))
        if count:
            return certain(total_us // count, "tenant")
        return certain(NOTHING_KNOWN_US, "none")

    def learn(self, run: PastRun) -> None:
        if run.was_cut:
            return
        job = run.job
        self._runs[job.tenant, job.user].append(run.run_us)
        tenant = self._tenants[job.tenant]
        tenant[0] += 1
        tenant[1] += run.run_us

    def dump(self) -> dict:
        return {
            "runs": [[*who, list(runs)] for who, runs in self._runs.items()],
            "tenants": [[name, *sums] for name, sums in self._tenants.items()],
        }

    def load(self, dumped: dict) -> None:
        runs = {(tenant, user): [int(u) for u in found] for tenant, user, found in dumped["runs"]}
        tenants = {name: [int(count), int(total_us)] for name, count, total_us in dumped["tenants"]}
        self.__post_init__()
        for who, found in runs.items():
            self._runs[who].extend(found)
        self._tenants.update(tenants)


def _capped(mid_us: int, high_us: int, estimate_us: int | None) -> Quantiles:
    """Apply the estimate as an upper bound. A job with an estimate is backfilled by that estimate, so that a
    reservation does not fail because the last two runs were short.
    """
    if estimate_us is None:
        return Quantiles(_LEVELS, (mid_us, high_us), "history")
    return Quantiles(_LEVELS, (min(mid_us, estimate_us), estimate_us), "history")
