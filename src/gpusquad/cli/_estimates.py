"""Where the simulated scheduler gets its run times from."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass, field
from typing import Any, Literal

from gpusquad import registry
from gpusquad.cli._service import counted
from gpusquad.model.prediction import QuantileLevels
from gpusquad.modes import Mode
from gpusquad.sim.predictor_feed import PredictorFeed
from gpusquad.sim.simulator import exact, user
from gpusquad.sim.traces import TraceJob

Kind = Literal["user", "exact", "predict"]
DEFAULT = "combined"
"""Predictor of the service, unless its configuration names another."""


@dataclass(frozen=True)
class EstimateSource:
    """Kind of run times, and why it was chosen."""

    kind: Kind
    why: str
    predictor: str = DEFAULT
    uses: QuantileLevels = field(default_factory=QuantileLevels)

    def parts(self) -> dict[str, Any]:
        """Fields of a scenario. Each scenario gets an untrained predictor, so that runs can be compared."""
        if self.kind != "predict":
            return {"forecast": user if self.kind == "user" else exact}
        return self.feed().parts()

    def feed(self) -> PredictorFeed:
        """An untrained predictor."""
        return PredictorFeed(self.predictor, self.uses)


def choose_estimates(
    kind: Kind | None,
    predictor: str | None,
    jobs: Sequence[TraceJob],
    mode: Mode | None = None,
    reference: bool = False,
) -> EstimateSource:
    """As requested, otherwise predictions, as in the service. ``reference``: a published schedule is reproduced, so a
    mode without a predictor plans with the users' estimates."""
    if kind is None:
        named = predictor is not None or (mode is not None and bool(mode.predictor))
        kind = "user" if reference and not named else "predict"
    if kind == "predict":
        return _predicted(predictor, mode)
    without = sum(trace.job.estimate_us is None for trace in jobs)
    have = "has" if without == 1 else "have"
    unknown = f"{counted(without, 'job')} {have} no estimate: run time unknown"
    return EstimateSource(kind, unknown if kind == "user" and without else "as requested")


def _predicted(predictor: str | None, mode: Mode | None) -> EstimateSource:
    chosen = predictor or (mode.predictor if mode is not None else "") or DEFAULT
    registry.create("predictor", chosen)  # fail on a wrong name before the simulation starts
    return EstimateSource("predict", f"predictor {chosen}", chosen, mode.uses if mode is not None else QuantileLevels())
