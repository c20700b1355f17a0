"""Predicted remaining time of real training programs from their own output, compared with the usual methods.

Four programs (a compiled convolutional network, a language model with evaluations and checkpoints, a network that waits
for its data, a language model whose text grows longer), alone and with a neighbour on the card that starts and stops.
The agent's code observes them once per second. The observations are stored, so that the figures can be computed again
without a card: set ``GPUSQUAD_RECORDINGS`` to the file. ``python -m bench.progress FOLDER`` records; it needs only
PyTorch and NumPy.
"""

from __future__ import annotations

import json
import os
import sys
import tempfile
import time
from collections.abc import Sequence
from math import exp
from pathlib import Path
from statistics import NormalDist

from bench.claims import claim
from bench.progress_jobs.draw import svg
from bench.progress_jobs.record import Case, Recording, load, record
from bench.progress_jobs.replay import OURS, WAYS, Replay, replay
from gpusquad.model.prediction import LEVELS, Quantiles

NAME = "progress"
SUMMARY = "the remaining time of real training runs from their steps, beside progress bars"
NEEDS_GPU = True

SPANS = ("20-34", "44-52")
CASES = (
    Case("cnn", 30), Case("gpt", 42), Case("longer", 40), Case("loader", 34),
    Case("cnn", 30, ("34-46", "54-59")), Case("gpt", 42, SPANS), Case("longer", 40, SPANS),
)  # fmt: skip
WITH_NEIGHBOUR = "+neighbour"
PRIOR_SPREAD, PRIOR_CONFIDENCE = 0.2, 0.8
"""Weight of the prior: that of one earlier run of the same program."""
PARTS = (0.05, 0.10, 0.25, 0.50, 0.75, 0.90)
LONGEST_S = 400.0
"""Time after which no further program is started."""


def run() -> list[dict]:
    given = os.environ.get("GPUSQUAD_RECORDINGS")
    if given:
        recordings = [load(one) for one in json.loads(Path(given).read_text(encoding="utf-8"))]
    else:
        with tempfile.TemporaryDirectory() as folder:
            recordings = record_all(Path(folder))
    return claims([replay(one) for one in recordings], replays_with_prior(recordings))


def replays_with_prior(recordings: list[Recording]) -> list[Replay]:
    """Runs beside a neighbour again, with the solo run of the same program as prior."""
    took_us = {one.name: one.ended_us - one.started_us for one in recordings}
    found = []
    for one in recordings:
        before_us = took_us.get(one.name.removesuffix(WITH_NEIGHBOUR))
        if one.name.endswith(WITH_NEIGHBOUR) and before_us is not None:
            values = (before_us * exp(PRIOR_SPREAD * NormalDist().inv_cdf(level)) for level in LEVELS)
            prior = Quantiles(LEVELS, tuple(round(value) for value in values), "history", PRIOR_CONFIDENCE)
            found.append(replay(one, prior))
    return found


def claims(replays: list[Replay], with_prior: Sequence[Replay] = ()) -> list[dict]:
    """Over all seconds of all runs in which every method had a prediction."""
    errors = {way: mean_error(replays, way) for way in WAYS}
    found = [
        claim("error of the remaining time, part of the whole run, mean", round(errors[OURS], 4), "", "lower",
              bar=round(min(errors[way] for way in WAYS if way != OURS), 4), baseline=round(errors["elapsed"], 4)),
        claim("the truth lies between P10 and P90, part of all seconds", round(coverage(replays), 3), "", "higher",
              bar=0.7),
    ]  # fmt: skip
    for one in replays:
        ours, naive = (mean_error([one], way) for way in (OURS, "elapsed"))
        found.append(claim(f"{one.name}: error", round(ours, 4), "", "lower", baseline=round(naive, 4)))
    without = {one.name: mean_error([one], OURS) for one in replays}
    for one in with_prior:
        name = f"{one.name}: error, knowing a run alone, beside not knowing it"
        ours = round(mean_error([one], OURS), 4)
        found.append(claim(name, ours, "", "lower", baseline=round(without[one.name], 4)))
    return found


def mean_error(replays: Sequence[Replay], way: str) -> float:
    parts = [(m.error_s(way) or 0.0) / one.run_s for one in replays for m in one.moments if m.all_spoke]
    return sum(parts) / max(len(parts), 1)


def coverage(replays: list[Replay]) -> float:
    told = [m for one in replays for m in one.moments if m.low_s is not None and m.high_s is not None]
    return sum((m.low_s or 0) <= m.left_s <= (m.high_s or 0) for m in told) / max(len(told), 1)


def table(replays: list[Replay]) -> str:
    """The error at some points of each run (parts of the time since its first report): as part of the true remaining
    time / of the whole run."""
    lines = [f"{'run':<18}{'way':<10}" + "".join(f"{part:>14.0%}" for part in PARTS) + f"{'mean':>9}{'covered':>9}"]
    for one in replays:
        for way in WAYS:
            cells = "".join(f"{_cell(one, way, part):>14}" for part in PARTS)
            covered = f"{coverage([one]):9.2f}" if way == OURS else ""
            lines.append(f"{one.name:<18}{way:<10}{cells}{mean_error([one], way):9.4f}{covered}")
    for way in WAYS:
        covered = f"{coverage(replays):9.2f}" if way == OURS else ""
        lines.append(f"{'all':<18}{way:<10}{'':{14 * len(PARTS)}}{mean_error(replays, way):9.4f}{covered}")
    return "\n".join(lines)


def _cell(one: Replay, way: str, part: float) -> str:
    moment = one.at(part)
    error_s = moment.error_s(way)
    return "–" if error_s is None else f"{error_s / max(moment.left_s, 0.1):.2f} / {error_s / one.run_s:.3f}"


def record_all(folder: Path) -> list[Recording]:
    """One after the other: two at a time would measure each other."""
    totals: dict[str, int | None] = {}
    recordings: list[Recording] = []
    began_s = time.monotonic()
    for case in CASES:
        if time.monotonic() - began_s > LONGEST_S:
            break
        with tempfile.TemporaryDirectory() as cache:
            recording = record(case, totals.get(case.program), cache)
        totals.setdefault(case.program, recording.total)
        took_s = (recording.ended_us - recording.started_us) / 1e6
        print(f"{case.name}: {recording.total} steps in {took_s:.1f} s", file=sys.stderr, flush=True)
        if recording.code == 0 and recording.total:
            recordings.append(recording)
        (folder / "recordings.json").write_text(json.dumps([one.dump() for one in recordings]), encoding="utf-8")
    return recordings


def main(folder: Path) -> None:
    """Recorded, unless that was done; then the table, and the picture beside it."""
    there = folder / "recordings.json"
    known = [load(one) for one in json.loads(there.read_text(encoding="utf-8"))] if there.exists() else None
    recordings = known or record_all(folder)
    replays = [replay(one) for one in recordings]
    (folder / "progress.svg").write_text(svg(replays), encoding="utf-8")
    found = json.dumps(claims(replays, replays_with_prior(recordings)), indent=2)
    (folder / "progress.txt").write_text(f"{table(replays)}\n{found}\n", encoding="utf-8")
    print(table(replays), found, sep="\n")


if __name__ == "__main__":
    main(Path(sys.argv[1]))
