"""Alibaba's openb trace of 2023: pods on nodes with shared GPUs."""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass
from pathlib import Path

from gpusquad.model.cluster import Card, Cluster, Node
from gpusquad.model.errors import Invalid
from gpusquad.model.job import Job, Request, Role, Share
from gpusquad.model.units import US_PER_S, WHOLE_MILLI
from gpusquad.registry import register
from gpusquad.sim.traces._base import (
    Lines,
    TraceJob,
    cell_float,
    cell_int,
    cell_us,
    each,
    has_columns,
    open_text,
    table,
    to_us,
)

CARD_MEMORY = 16_000_000_000
"""Nominal memory of every card in bytes. The trace has no card memory: ``gpu_milli`` is a fraction of it.
A multiple of 1000, so that shares are whole bytes.
"""
_MIB = 2**20
_POD_COLUMNS = ("name", "cpu_milli", "memory_mib", "num_gpu", "gpu_milli")
_NODE_COLUMNS = ("sn", "cpu_milli", "memory_mib", "gpu", "model")


@register("reader", "openb")
@dataclass(frozen=True)
class Openb:
    """Alibaba openb pods (2023); gpu_milli is the share of both SMs and memory."""

    card_memory: int = CARD_MEMORY
    """Nominal memory of a card in bytes; the node list must be read with the same."""
    run_s: float = 3600.0
    """Run time where the file has no times (its multigpu variants)."""

    def __post_init__(self) -> None:
        _check_card_memory(self.card_memory)

    def sniff(self, name: str, first_lines: list[str]) -> bool:
        return has_columns(first_lines, *_POD_COLUMNS)

    def rows(self, lines: Lines) -> Iterator[TraceJob]:
        pod_roles = _PodRoles(self.card_memory)

        def make(row: dict[str, str]) -> TraceJob:
            submitted_us, run_us = self._times(row)
            job = Job(id=row["name"], roles=pod_roles.of(row), submitted_us=submitted_us, queue=row.get("qos", ""))
            return TraceJob(job, run_us, "failed" if row.get("pod_phase") == "Failed" else "succeeded")

        return each(lines, table(lines, *_POD_COLUMNS), make)

    def _times(self, row: dict[str, str]) -> tuple[int, int]:
        if not row.get("creation_time"):
            return 0, to_us(self.run_s * US_PER_S, "run_s")
        submitted_us = cell_us(row, "creation_time")
        # The run time of a pod that was never scheduled is unknown. Use the time from its creation to its deletion.
        started_us = cell_us(row, "scheduled_time") if row.get("scheduled_time") else submitted_us
        if not row.get("deletion_time"):
            raise Invalid("deletion_time", "is empty, so the run time is not known")
        run_us = cell_us(row, "deletion_time") - started_us
        if run_us < 0:
            raise Invalid("deletion_time", f"{row['deletion_time']} is before the start")
        return submitted_us, max(run_us, US_PER_S)  # times are whole seconds: 0 means less than one


class _PodRoles:
    """Makes the single role of each pod. Pods with equal requests share one object, which saves memory and time."""

    def __init__(self, card_memory: int) -> None:
        self._bytes_per_milli = card_memory // WHOLE_MILLI
        self._roles: dict[tuple[str, ...], tuple[Role, ...]] = {}
        self._requests: dict[Request, Request] = {}

    def of(self, row: dict[str, str]) -> tuple[Role, ...]:
        key = (*(row[name] for name in _POD_COLUMNS[1:]), row.get("gpu_spec", ""))
        roles = self._roles.get(key)
        if roles is None:
            request = self._request(row)
            # Different texts, such as "4" and "4.0", can be the same request.
            roles = self._roles[key] = (Role("pod", 1, self._requests.setdefault(request, request)),)
        return roles

    def _request(self, row: dict[str, str]) -> Request:
        gpus, milli = cell_int(row, "num_gpu"), cell_int(row, "gpu_milli")
        if gpus and not 0 < milli <= WHOLE_MILLI:
            raise Invalid("gpu_milli", f"{milli} is not in 1 to {WHOLE_MILLI}")
        if gpus > 1 and milli < WHOLE_MILLI:
            raise Invalid("gpu_milli", f"{milli} of {gpus} GPUs: a share is of one")
        is_shared = gpus == 1 and milli < WHOLE_MILLI
        models = dict.fromkeys(filter(None, row.get("gpu_spec", "").split("|"))) if gpus else {}
        return Request(
            gpus=0 if is_shared else gpus,
            share=Share(milli * self._bytes_per_milli, milli) if is_shared else None,
            cpu_milli=cell_int(row, "cpu_milli"),
            memory_bytes=int(cell_float(row, "memory_mib") * _MIB),
            gpu_models=tuple(models),
        )


def is_openb_nodes(first_lines: list[str]) -> bool:
    return has_columns(first_lines, *_NODE_COLUMNS)


def read_openb_nodes(path: str | Path, card_memory: int = CARD_MEMORY) -> Cluster:
    """The cluster of the trace, from its node list. ``card_memory`` must be that of the pods' reader."""
    _check_card_memory(card_memory)
    path = Path(path)
    with open_text(path) as file:
        lines = Lines((line.rstrip("\n") for line in file), path.name, path)
        nodes = []
        for row in table(lines, *_NODE_COLUMNS):
            try:
                nodes.append(_node(row, card_memory))
            except Invalid as error:
                lines.bad(f"{error.field}: {error.problem}", error.cure)
    if not nodes:
        raise Invalid("cluster", f"there is no node in {path.name}")
    return Cluster(tuple(nodes))


def _node(row: dict[str, str], card_memory: int) -> Node:
    name = row["sn"]
    if not name:
        raise Invalid("sn", "is empty")
    model = row["model"] or "generic"
    cards = tuple(Card(f"{name}/{index}", model, card_memory) for index in range(cell_int(row, "gpu")))
    return Node(name, cards, cell_int(row, "cpu_milli"), int(cell_float(row, "memory_mib") * _MIB))


def _check_card_memory(value: int) -> None:
    if value < WHOLE_MILLI or value % WHOLE_MILLI:
        raise Invalid("card_memory", f"{value} is not a multiple of {WHOLE_MILLI}", "so that shares are exact")
