"""One measurement on one fresh control plane: pods bound over time, and the CPU time of each program."""

from __future__ import annotations

import os
import time
from collections import Counter
from collections.abc import Iterable
from dataclasses import asdict, dataclass
from typing import Any

import numpy as np

from bench.kubernetes.bars import Bars
from bench.kubernetes.contenders import Contender
from bench.kubernetes.load import CREATORS, GANG, PODS, Size, admin, bindings, cluster, gangs, groups, pod, singles
from bench.kubernetes.metrics import fetch, writes
from bench.kubernetes.usage import Usage
from bench.kubernetes.watcher import BoundPods, Watcher
from bench.kubernetes.wire import Request, send
from tests.kube.plane import ControlPlane

NOBODY = "nobody"  # a scheduler that does not exist


@dataclass(frozen=True)
class Trial:
    """Seconds are wall-clock time unless stated otherwise."""

    kind: str
    asked: int
    bound: int
    span_s: float
    """From the first binding that was seen to the last."""
    cpu_s: dict[str, float]
    """By program, from before the start until the last binding."""
    resident_mib: dict[str, float]
    writes: dict[str, int]
    """Writes of the API server during the measurement, the most frequent first."""
    load: float
    """Average of the last minute before; whatever else the machine did is in it."""
    overfull_nodes: int = 0
    """With more pods than cards."""
    partial_gangs: int = 0
    decision_p99_ms: float | None = None
    created_per_s: float | None = None
    wait_p50_ms: float | None = None
    wait_p99_ms: float | None = None

    @property
    def pods_per_s(self) -> float:
        return self.bound / self.span_s if self.span_s else 0.0

    @property
    def cpu_ms_per_pod(self) -> float:
        """Total over all programs. Other work on the machine changes it less than the rate."""
        return 1e3 * sum(self.cpu_s.values()) / max(1, self.bound)

    def as_json(self) -> dict[str, Any]:
        return {"pods_per_s": self.pods_per_s, "cpu_ms_per_pod": self.cpu_ms_per_pod, **asdict(self)}


def waiting(contender: Contender, size: Size, bars: Bars, *, pods_run: bool = False) -> Trial:
    """All pods are there before the scheduler starts."""
    with cluster(size, bars, pods_run=pods_run) as plane:
        _create(plane, singles(admin(plane), contender.scheduler_name, size.pods), size.pods, bars)
        kind = f"{contender.name}, singles waiting" + (", running" if pods_run else "")
        return _bind_waiting(kind, contender, plane, size, size.pods, bars)


def waiting_gangs(contender: Contender, size: Size, bars: Bars) -> Trial:
    """The same in gangs, marked as the contender reads them."""
    with cluster(size, bars) as plane:
        server, native = admin(plane), contender.native_gangs
        if native:
            _create(plane, groups(server, size.gangs, size.gang), size.gangs, bars)
        pods = gangs(server, contender.scheduler_name, size.gangs, size.gang, native=native)
        _create(plane, pods, size.gangs * size.gang, bars)
        return _bind_waiting(f"{contender.name}, gangs waiting", contender, plane, size, size.gangs * size.gang,
                             bars)  # fmt: skip


def _bind_waiting(kind: str, contender: Contender, plane: ControlPlane, size: Size, count: int,
                  bars: Bars) -> Trial:  # fmt: skip
    ledger = Ledger(plane)
    with Watcher(admin(plane), count) as watcher, bars.bar("bound", count) as bar, contender.at_work(plane):
        bound_pods = watcher.wait(bar.at)
        spent = ledger.close(bound_pods)
        return Trial(kind, count, len(bound_pods.at_s), bound_pods.span_s, **spent, **faults(plane, size),
                     decision_p99_ms=_p99_ms(contender))  # fmt: skip


def arriving(contender: Contender, size: Size, bars: Bars) -> Trial:
    """Pods are made as fast as the API server takes them, while the scheduler runs."""
    created_s: dict[str, float] = {}
    with cluster(size, bars) as plane, contender.at_work(plane):
        server = admin(plane)
        _wait_for_one(plane, contender)
        ledger = Ledger(plane)
        with Watcher(server, size.pods) as watcher, bars.bar("bound", size.pods) as bar:
            began_s = time.monotonic()
            pods = singles(server, contender.scheduler_name, size.pods)
            send(server, pods, CREATORS, lambda name: created_s.setdefault(name, time.monotonic()))
            created_per_s = size.pods / (time.monotonic() - began_s)
            bound_pods = watcher.wait(bar.at)
            spent = ledger.close(bound_pods)
        waits_ms = [1e3 * max(0.0, at_s - created_s[name]) for name, at_s in bound_pods.at_s.items()]
        p50, p99 = (float(value) for value in np.percentile(waits_ms, (50, 99)))
        return Trial(f"{contender.name}, singles arriving", size.pods, len(bound_pods.at_s), bound_pods.span_s, **spent,
                     **faults(plane, size), decision_p99_ms=_p99_ms(contender), created_per_s=created_per_s,
                     wait_p50_ms=p50, wait_p99_ms=p99)  # fmt: skip


def ceiling(size: Size, in_flight: Iterable[int], bars: Bars, *, pods_run: bool = False) -> list[Trial]:
    """Bindings without a scheduler. The pods are divided among the numbers in flight, on one control plane."""
    numbers = list(in_flight)
    with cluster(size, bars, pods_run=pods_run) as plane:
        server = admin(plane)
        _create(plane, singles(server, NOBODY, size.pods), size.pods, bars)
        names = [f"pod-{number}" for number in range(size.pods)]
        each = size.pods // len(numbers)
        parts = [names[begin : begin + each] for begin in range(0, each * len(numbers), each)]
        return [_bind_all(plane, size, part, number, bars, pods_run=pods_run)
                for part, number in zip(parts, numbers, strict=True)]  # fmt: skip


def _bind_all(plane: ControlPlane, size: Size, pods: list[str], in_flight: int, bars: Bars, *,
              pods_run: bool) -> Trial:  # fmt: skip
    server, at_s = admin(plane), {}
    requests = list(bindings(server, pods, size.nodes))
    ledger = Ledger(plane)
    with bars.bar(f"bound, {in_flight} in flight", len(pods)) as bar:
        send(server, requests, in_flight, lambda name: (at_s.setdefault(name, time.monotonic()), bar.one()))
        bound_pods = BoundPods(at_s, None)  # read from the answers, because a watch would distort the measurement
        spent = ledger.close(bound_pods)
    kind = f"bindings alone, {in_flight} in flight" + (", running" if pods_run else "")
    return Trial(kind, len(pods), len(at_s), bound_pods.span_s, **spent)


class Ledger:
    """CPU time of every program between now and ``close``."""

    def __init__(self, plane: ControlPlane) -> None:
        self._plane = plane
        self._load = os.getloadavg()[0]
        self._writes = self._all_writes()
        self._cpu_s = {name: usage.cpu_s for name, usage in self._usages().items()}

    def close(self, bound_pods: BoundPods) -> dict[str, Any]:
        usages = self._usages() | ({"watcher": bound_pods.usage} if bound_pods.usage else {})
        cpu_s = {name: round(usage.cpu_s - self._cpu_s.get(name, 0.0), 2) for name, usage in usages.items()}
        changed = self._all_writes() - self._writes
        return {
            "cpu_s": cpu_s,
            "resident_mib": {name: round(usage.resident_bytes / 2**20, 1) for name, usage in usages.items()},
            "writes": dict(changed.most_common(6)),
            "load": self._load,
        }

    def _usages(self) -> dict[str, Usage]:
        return {"client": Usage.of_self()} | {
            name: Usage.of(daemon.pid) for name, daemon in self._plane.daemons.items()
        }

    def _all_writes(self) -> Counter[str]:
        server = admin(self._plane)
        return writes(fetch(f"{server.url}/metrics", server.tls(), server.token))


def faults(plane: ControlPlane, size: Size) -> dict[str, Any]:
    """Check the placements: the speed of a scheduler that puts two pods on one card or binds part of a gang is
    invalid."""
    on_node, in_gang = Counter(), Counter()
    for item in plane.admin.get(PODS)["items"]:
        if node := item["spec"].get("nodeName"):
            on_node[node] += 1
            in_gang[item["metadata"]["name"].rpartition("-")[0]] += 1
    return {
        "overfull_nodes": sum(count > size.gpus_per_node for count in on_node.values()),
        "partial_gangs": sum(count < size.gang for group, count in in_gang.items() if group.startswith(GANG)),
    }


def _create(plane: ControlPlane, requests: Iterable[Request], count: int, bars: Bars) -> None:
    with bars.bar("created", count) as bar:
        send(admin(plane), requests, CREATORS, bar.one)


def _wait_for_one(plane: ControlPlane, contender: Contender) -> None:
    """A scheduler that has bound a pod is up."""
    with Watcher(admin(plane), 1) as watcher:
        plane.admin.post(PODS, pod("first", contender.scheduler_name))
        assert watcher.wait(lambda count: None).at_s, f"{contender.name} binds nothing"
    plane.admin.delete(f"{PODS}/first", gracePeriodSeconds="0")
    plane.admin.until(PODS, lambda pods: not pods)


def _p99_ms(contender: Contender) -> float | None:
    p99_s = contender.decision_p99_s
    return None if p99_s is None else p99_s * 1e3
