"""Converts between the store's rows and the core's objects."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import asdict, dataclass, fields
from typing import Any

import numpy as np

from gpusquad.core.capacity.cluster_arrays import ClusterArrays
from gpusquad.core.ports import PriorAttempts
from gpusquad.core.state.runs import NEVER_US
from gpusquad.core.state.state import UNKNOWN
from gpusquad.model.codec import job_from_dict
from gpusquad.model.job import Job, Role
from gpusquad.model.placement import Placement, ShapePlacement
from gpusquad.model.prediction import NOTHING_KNOWN_US, Quantiles, certain
from gpusquad.model.views import RunTimePrediction
from gpusquad.server.answers import TaskPlace
from gpusquad.spec.convert import placed_roles
from gpusquad.store.jobs import JobRow
from gpusquad.store.run_forecasts import RunForecastRow

_FORECAST = frozenset(field.name for field in fields(RunTimePrediction))
_NOTHING = certain(NOTHING_KNOWN_US, "none")


def job_of(row: JobRow) -> Job:
    return job_from_dict(dict(row.core))


def cards_of(row: JobRow) -> list[str]:
    """Cards of all tasks."""
    return [card for task in (row.placement or {}).get("tasks", ()) for card in task["cards"]]


def past_of(row: JobRow) -> PriorAttempts:
    return PriorAttempts(row.attempt, row.kept_us, row.served_gpu_us, row.preemptions, row.sequence)


def forecast_of(row: JobRow) -> RunTimePrediction:
    if not row.forecast:
        return UNKNOWN
    known = {name: value for name, value in row.forecast.items() if name in _FORECAST}
    known["later_us"] = tuple(known.get("later_us", ()))
    return RunTimePrediction(**known)


def quantiles_of(row: JobRow) -> Quantiles | None:
    """The whole prediction. None if there was none or it was not stored."""
    known = row.forecast or {}
    if not known.get("levels"):
        return None
    return Quantiles(tuple(known["levels"]), tuple(known["values_us"]), known["source"], known["confidence"])


def forecast_record(forecast: RunTimePrediction, run: Quantiles | None = None) -> dict[str, Any] | None:
    """The core's prediction and the quantiles it was made from."""
    if forecast.mid_us >= NEVER_US:
        return None
    record = asdict(forecast) | {"later_us": list(forecast.later_us)}
    if run is None:
        return record
    return record | {"confidence": run.confidence, "levels": list(run.levels), "values_us": list(run.values)}


def run_forecast_row(job: Job, attempt: int, made_us: int, run: Quantiles | None) -> RunForecastRow:
    """Row to compare with the actual run time. An unknown run time is recorded too."""
    run = run or _NOTHING
    known = run is not _NOTHING
    return RunForecastRow(
        job.id, attempt, made_us, job.tenant, job.user, run.source, run.confidence, job.estimate_us,
        levels=list(run.levels) if known else [], values_us=list(run.values) if known else [],
    )  # fmt: skip


@dataclass(frozen=True, slots=True)
class TaskCards:
    """Placement of one task of a gang. Its rank is its index in the list."""

    role: Role
    role_index: int
    node: str
    cards: tuple[str, ...]


def seats_of(job: Job, placement: Placement, fixed: ClusterArrays) -> list[TaskCards]:
    """Tasks by rank, role after role. Roles with equal requests were placed together."""
    left = [iter(zip(part.nodes.tolist(), part.cards.tolist(), strict=True)) for part in placement.parts]
    seats: list[TaskCards] = []
    for role, group, count in placed_roles(job, [len(part.nodes) for part in placement.parts]):
        for index in range(count):
            node, cards = next(left[group])
            seats.append(TaskCards(role, index, fixed.node_ids[node], tuple(fixed.card_ids[card] for card in cards)))
    return seats


def places_of(job: Job, placement: Placement, fixed: ClusterArrays) -> tuple[TaskPlace, ...]:
    return tuple(TaskPlace(rank, seat.node, seat.cards) for rank, seat in enumerate(seats_of(job, placement, fixed)))


def placement_record(job: Job, placement: Placement, fixed: ClusterArrays) -> dict[str, Any]:
    """By name, because indexes change with the cluster. ``tasks`` is by rank for users, ``parts`` restores the
    placement."""
    return {
        "tasks": [
            {"role": seat.role.name, "node": seat.node, "cards": list(seat.cards)}
            for seat in seats_of(job, placement, fixed)
        ],
        "parts": [
            {
                "group": part.request_index,
                "nodes": [fixed.node_ids[node] for node in part.nodes.tolist()],
                "cards": [[fixed.card_ids[card] for card in row] for row in part.cards.tolist()],
            }
            for part in placement.parts
        ],
    }


def placement_of(record: Mapping[str, Any], job: Job, fixed: ClusterArrays) -> Placement | None:
    """None if one of its nodes or cards no longer exists."""
    parts = []
    for part in record["parts"]:
        per_task = job.groups[part["group"]][0].cards
        nodes = [fixed.node_index.get(node) for node in part["nodes"]]
        cards = [[fixed.card_index.get(card) for card in row] for row in part["cards"]]
        if None in nodes or any(None in row for row in cards):
            return None
        parts.append(ShapePlacement(part["group"], np.array(nodes, dtype=np.int64),
                          np.array(cards, dtype=np.int64).reshape(len(nodes), per_task)))  # fmt: skip
    return Placement(tuple(parts))
