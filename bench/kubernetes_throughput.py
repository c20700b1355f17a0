"""Pods bound per second on a real control plane with fake nodes: schedulers, and the limit of the API server.

Everything runs on one machine: the API server, etcd, KWOK, the controller-manager, the scheduler and the bench's
watcher share its cores. Figures are comparable within one run, not between machines. Every row has a fresh control
plane with 1,500 nodes of eight cards for 10,000 pods of one.

*Waiting*: all pods exist before the scheduler starts; measured from the first binding to the last. *Arriving*: pods are
created as fast as the API server accepts them. *Bindings alone*: prepared binding requests without a scheduler; no
scheduler that binds pod by pod can be faster here. CPU time per pod is reported too, because other work on the machine
changes it less than the rate. Bound pods stay Pending, as if no kubelet had seen them. In the rows *running*, KWOK
writes their status, one more write per pod.
"""

from __future__ import annotations

import os
import statistics
from collections.abc import Callable, Sequence
from functools import partial

from rich import box
from rich.table import Table

from bench._pages import keep
from bench.claims import claim
from bench.kubernetes.bars import Bars
from bench.kubernetes.contenders import CONTENDERS, Contender
from bench.kubernetes.load import Size
from bench.kubernetes.trial import Trial, arriving, ceiling, waiting, waiting_gangs

NAME = "kubernetes-throughput"
SUMMARY = "pods bound per second on a real control plane, beside kube-scheduler and the API server's ceiling"
SLOW = True
SIZE = Size(
    nodes=int(os.environ.get("GPUSQUAD_KUBE_NODES", Size.nodes)),
    pods=int(os.environ.get("GPUSQUAD_KUBE_PODS", Size.pods)),
)
SIZE_IS_FULL = Size() == SIZE
REPEATS = int(os.environ.get("GPUSQUAD_REPEATS", "3"))
IN_FLIGHT = (16, 32, 64, 128)


def run() -> list[dict]:
    with Bars() as bars:
        tried = [_told(one, bars) for one in ceiling(SIZE, IN_FLIGHT, bars)]
        best = IN_FLIGHT[max(range(len(tried)), key=lambda index: tried[index].pods_per_s)]
        bare = [_told(ceiling(SIZE, [best], bars)[0], bars) for _ in range(REPEATS)]
        running = _told(ceiling(SIZE, [best], bars, pods_run=True)[0], bars)
        played = [(kind, _told(one(kind()), bars)) for one in _trials(bars) for kind in CONTENDERS]
        trials = [*tried, *bare, running, *(one for _, one in played)]
        bars.show(costs(trials))
    keep(NAME if SIZE_IS_FULL else f"{NAME}-{SIZE.pods}-pods", [one.as_json() for one in trials])
    claims = [
        claim(f"bindings alone, {best} in flight", median_rate(bare), "pods/s", "higher"),
        claim(f"bindings alone, {best} in flight: CPU of all programs", _all_cpu_ms(bare), "ms/pod", "lower"),
        claim(f"bindings alone, {best} in flight, running", running.pods_per_s, "pods/s", "higher"),
    ]
    baseline: dict[str, list[Trial]] = {}
    for kind in CONTENDERS:
        rows = by_kind([one for who, one in played if who is kind], kind.name)
        claims += _claims(kind.name, rows, baseline)
        baseline = baseline or rows
    return claims


def _trials(bars: Bars) -> list[Callable[[Contender], Trial]]:
    """Every contender runs each case directly after the others, so that a busy period affects all of them."""
    return [
        *(partial(waiting, size=SIZE, bars=bars) for _ in range(REPEATS)),
        *(partial(arriving, size=SIZE, bars=bars) for _ in range(REPEATS)),
        partial(waiting, size=SIZE, bars=bars, pods_run=True),
        partial(waiting_gangs, size=SIZE, bars=bars),
    ]


def by_kind(trials: Sequence[Trial], name: str) -> dict[str, list[Trial]]:
    """``waiting``, ``arriving`` and so on -> its repetitions."""
    found: dict[str, list[Trial]] = {}
    for one in trials:
        found.setdefault(one.kind.removeprefix(f"{name}, "), []).append(one)
    return found


def median_rate(trials: Sequence[Trial]) -> float:
    return statistics.median(one.pods_per_s for one in trials)


def _claims(name: str, rows: dict[str, list[Trial]], baseline: dict[str, list[Trial]]) -> list[dict]:
    """All pods bound, none where it does not fit, and how fast."""
    found = []
    for kind, several in rows.items():
        unbound, wrong = max(one.asked - one.bound for one in several), max(map(_wrong, several))
        rate = median_rate(baseline[kind]) if kind in baseline else None
        found += [
            claim(f"{name}, {kind}", median_rate(several), "pods/s", "higher", bar=rate, baseline=rate),
            claim(f"{name}, {kind}: CPU of all programs", _all_cpu_ms(several), "ms/pod", "lower"),
            claim(f"{name}, {kind}: CPU of the scheduler", _cpu_ms(several, name), "ms/pod", "lower"),
            claim(f"{name}, {kind}: memory", _most(several, name), "MiB", "lower"),
            claim(f"{name}, {kind}: not bound, or wrongly", unbound + wrong, "", "lower", bar=0),
        ]
        decisions = [one.decision_p99_ms for one in several if one.decision_p99_ms is not None]
        if decisions:
            found.append(claim(f"{name}, {kind}: decision, p99", statistics.median(decisions), "ms", "lower"))
        waits = [one.wait_p99_ms for one in several if one.wait_p99_ms is not None]
        if waits:
            found.append(claim(f"{name}, {kind}: created to bound, p99", statistics.median(waits), "ms", "lower"))
    return found


def _wrong(trial: Trial) -> int:
    return trial.overfull_nodes + trial.partial_gangs


def _cpu_ms(trials: Sequence[Trial], program: str) -> float:
    return statistics.median(1e3 * one.cpu_s[program] / max(1, one.bound) for one in trials)


def _all_cpu_ms(trials: Sequence[Trial]) -> float:
    return statistics.median(one.cpu_ms_per_pod for one in trials)


def _most(trials: Sequence[Trial], program: str) -> float:
    return max(one.resident_mib[program] for one in trials)


def costs(trials: Sequence[Trial]) -> Table:
    """Where the cores' time went: milliseconds a pod, by program."""
    programs = list(dict.fromkeys(name for one in trials for name in one.cpu_s))
    table = Table(box=box.SIMPLE_HEAD, pad_edge=False, title="CPU, ms/pod")
    table.add_column("")
    for heading in ("pods/s", "load", "all", *programs):
        table.add_column(heading.removeprefix("kube-"), justify="right")
    for one in trials:
        spent = [f"{1e3 * one.cpu_s[name] / max(1, one.bound):.2f}" if name in one.cpu_s else "" for name in programs]
        table.add_row(one.kind, f"{one.pods_per_s:,.0f}", f"{one.load:.1f}", f"{one.cpu_ms_per_pod:.2f}", *spent)
    return table


def _told(trial: Trial, bars: Bars) -> Trial:
    bars.say(f"{trial.kind}: {trial.bound:,} of {trial.asked:,} pods, {trial.pods_per_s:,.0f} a second")
    return trial
