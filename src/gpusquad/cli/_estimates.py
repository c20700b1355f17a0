"""Which run times the scheduler may believe."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import dataclass, field
from typing import Literal

from gpusquad import registry
from gpusquad.core.state import UNKNOWN
from gpusquad.model.prediction import PastRun, Predictor, Uses
from gpusquad.model.views import Forecast
from gpusquad.sim.simulator import exact, user
from gpusquad.sim.traces import TraceJob

Kind = Literal["user", "exact", "predict"]
Learn = Callable[[PastRun], None]


@dataclass(frozen=True)
class Believed:
    """A kind of estimate, and why it was taken."""

    kind: Kind
    why: str
    predictor: str = "recent"
    uses: Uses = field(default_factory=Uses)

    def start(self) -> tuple[Callable[[TraceJob], Forecast], Learn | None]:
        """For one run: a predictor learns anew in each, so that runs can be compared."""
        if self.kind == "user":
            return user, None
        if self.kind == "exact":
            return exact, None
        predictor = registry.create("predictor", self.predictor)
        return _predict(predictor, self.uses), _learn(predictor)


def believe(kind: Kind | None, predictor: str, jobs: Sequence[TraceJob]) -> Believed:
    """As asked; else the users' estimates if every job has one, else the truth."""
    if kind == "predict":
        registry.create("predictor", predictor)  # a wrong one is to be found before the work starts
        return Believed(kind, f"by {predictor}", predictor)
    without = sum(trace.job.estimate_us is None for trace in jobs)
    if kind is not None:
        unknown = f"{without:,} jobs have none and count as unknown" if kind == "user" and without else "as asked"
        return Believed(kind, unknown)
    if not without:
        return Believed("user", "every job has an estimate")
    return Believed(
        "exact", f"{without:,} of {len(jobs):,} jobs have no estimate, so true run times are taken as known"
    )


def _predict(predictor: Predictor, uses: Uses) -> Callable[[TraceJob], Forecast]:
    def forecast(trace: TraceJob) -> Forecast:
        found = predictor.predict(trace.job)
        return UNKNOWN if found.source == UNKNOWN.source else uses.forecast(found)

    return forecast


def _learn(predictor: Predictor) -> Learn:
    def learn(run: PastRun) -> None:
        predictor.learn(run)
        if predictor.is_due():
            predictor.train()

    return learn
