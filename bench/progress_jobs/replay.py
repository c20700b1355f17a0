"""Replays a recorded run second by second: each method's prediction compared with the actual remaining time."""

from __future__ import annotations

from dataclasses import dataclass

from bench.progress_jobs.baselines import Baseline, Elapsed, Smoothed, Window
from bench.progress_jobs.record import Recording
from gpusquad.model.prediction import Quantiles
from gpusquad.model.units import US_PER_S
from gpusquad.predict.progress import ProgressPredictor

OURS = "progress"
BASELINES: dict[str, type[Baseline]] = {"elapsed": Elapsed, "window": Window, "smoothed": Smoothed}
WAYS = (OURS, *BASELINES)


@dataclass(frozen=True, slots=True)
class Moment:
    """One second of a run: the actual remaining time, and the predictions."""

    at_s: float
    left_s: float
    said_s: dict[str, float | None]
    low_s: float | None
    high_s: float | None

    @property
    def all_spoke(self) -> bool:
        return None not in self.said_s.values()

    def error_s(self, way: str) -> float | None:
        said_s = self.said_s[way]
        return None if said_s is None else abs(said_s - self.left_s)


@dataclass(frozen=True, slots=True)
class Replay:
    name: str
    run_s: float
    moments: list[Moment]

    def at(self, part: float) -> Moment:
        """The second nearest to this fraction of the time from the first report to the end: no method predicts
        before."""
        first_s = next((moment.at_s for moment in self.moments if any(moment.said_s.values())), 0.0)
        at_s = first_s + part * (self.run_s - first_s)
        return min(self.moments, key=lambda moment: abs(moment.at_s - at_s))


def replay(recording: Recording, prior: Quantiles | None = None) -> Replay:
    progress, others = ProgressPredictor(), {name: make() for name, make in BASELINES.items()}
    started_us, moments = recording.started_us, []
    for now_us, step, total, moved_us in recording.looks:
        now_s = (now_us - started_us) / US_PER_S
        if step is not None and moved_us is not None:
            progress.see(moved_us, step, total)
            for other in others.values():
                other.see((moved_us - started_us) / US_PER_S, step)
        ours = progress.remaining(now_us, prior, started_us)
        said_s: dict[str, float | None] = {OURS: None if ours is None else ours.at(0.5) / US_PER_S}
        for name, other in others.items():
            said_s[name] = None if total is None else other.left_s(now_s, total)
        low_s, high_s = (None if ours is None else ours.at(level) / US_PER_S for level in (0.1, 0.9))
        moments.append(Moment(now_s, (recording.ended_us - now_us) / US_PER_S, said_s, low_s, high_s))
    return Replay(recording.name, (recording.ended_us - started_us) / US_PER_S, moments)
