"""Runs the networks for real: time of a step, memory at its peak, and on request which ops took the time."""

from __future__ import annotations

import time
from collections.abc import Callable, Iterator
from contextlib import nullcontext
from itertools import pairwise
from statistics import mean, median
from typing import Any

import torch  # pyright: ignore[reportMissingImports]
from torch.nn import functional as f  # pyright: ignore[reportMissingImports]

from bench.analytical_models import Case
from gpusquad.predict.analytical import pace

WARM_UPS = 4
MEASURE_S = 0.3
FEWEST, MAX = 8, 60
ISSUES = 3
PIECES = 4


def measure(name: str, case: Case, precision: str, training: bool, batch: int) -> dict:
    """One row: median step in microseconds, and memory as reported by PyTorch and the card."""
    step = prepare(case, precision, training, batch)
    for _ in range(WARM_UPS):
        step()
    torch.cuda.synchronize()
    torch.cuda.reset_peak_memory_stats()
    times = _timed(step)
    free, total = torch.cuda.mem_get_info()
    return {
        "model": name,
        "precision": precision,
        "training": training,
        "batch": batch,
        **times,
        "held_bytes": torch.cuda.memory_allocated(),
        "peak_allocated_bytes": torch.cuda.max_memory_allocated(),
        "peak_reserved_bytes": torch.cuda.max_memory_reserved(),
        "card_used_bytes": total - free,
    }


def measure_again(case: Case, row: dict) -> dict[str, float]:
    """The same step some time later: hosts change their pace from second to second, and a job runs for longer."""
    step = prepare(case, row["precision"], row["training"], row["batch"])
    for _ in range(WARM_UPS):
        step()
    torch.cuda.synchronize()
    return _timed(step)


def prepare(case: Case, precision: str, training: bool, batch: int) -> Callable[[], Any]:
    """One step of training or inference, as a loop would do it."""
    torch._C._cuda_clearCublasWorkspaces()  # workspaces kept by threads of earlier rows
    torch.cuda.empty_cache()
    torch.manual_seed(1)
    torch.backends.cuda.matmul.allow_tf32 = precision == "tf32"
    with torch.device("cuda"):
        model = case.build().train(training)
    *given, target = case.sample(batch, "cuda")
    if precision == "bf16":
        model = model.bfloat16()
        given = [each.bfloat16() if each.is_floating_point() else each for each in given]

    def numbers() -> Any:
        return torch.autocast("cuda", torch.bfloat16) if precision == "amp-bf16" else nullcontext()

    if not training:

        def infer() -> None:
            with torch.inference_mode(), numbers():
                model(*given)

        return infer
    optimizer = _optimizer(case.optimizer, model)

    def train() -> None:
        optimizer.zero_grad(set_to_none=True)
        with numbers():
            loss = f.cross_entropy(model(*given), target)
        loss.backward()
        optimizer.step()

    return train


def profile(step: Callable[[], Any], steps: int = 2) -> list[list]:
    """Device time by op and shape: [op, shapes, calls a step, microseconds a step]."""
    from torch.profiler import ProfilerActivity  # pyright: ignore[reportMissingImports]
    from torch.profiler import profile as profiled  # pyright: ignore[reportMissingImports]

    step()
    torch.cuda.synchronize()
    with profiled(activities=[ProfilerActivity.CPU, ProfilerActivity.CUDA], record_shapes=True) as found:
        for _ in range(steps):
            step()
        torch.cuda.synchronize()
    rows = []
    for each in found.key_averages(group_by_input_shape=True):
        if each.self_device_time_total > 0:
            rows.append([each.key, str(each.input_shapes), each.count / steps, each.self_device_time_total / steps])
    return sorted(rows, key=lambda row: -row[3])


def _timed(step: Callable[[], Any]) -> dict[str, float]:
    """Median time of steps queued one after another, as in a loop that never waits for its loss; the host time of one
    step; and the host's speed, measured between parts of that loop."""
    began = time.perf_counter()
    step()
    torch.cuda.synchronize()
    count = int(max(FEWEST, min(MAX, MEASURE_S / (time.perf_counter() - began)))) // PIECES
    times, paces, whole_s = [], [pace.reading_us(torch)], 0.0
    for _ in range(PIECES):
        marks = [torch.cuda.Event(enable_timing=True) for _ in range(count + 1)]
        began = time.perf_counter()
        marks[0].record()
        for mark in marks[1:]:
            step()
            mark.record()
        torch.cuda.synchronize()
        whole_s += time.perf_counter() - began
        times += [1e3 * before.elapsed_time(after) for before, after in pairwise(marks)]
        paces.append(pace.reading_us(torch))
    return {
        "step_us": median(times),
        "mean_us": 1e6 * whole_s / len(times),
        "issue_us": median(_issue_us(step) for _ in range(ISSUES)),
        "pace_us": mean(paces),
        "steps": len(times),
    }


def _issue_us(step: Callable[[], Any]) -> float:
    """Host time of a step while the card is otherwise idle."""
    torch.cuda.synchronize()
    began = time.perf_counter()
    step()
    return 1e6 * (time.perf_counter() - began)


def _optimizer(name: str, model: Any) -> Any:
    if name == "adamw":
        return torch.optim.AdamW(model.parameters(), lr=1e-5)
    return torch.optim.SGD(model.parameters(), lr=1e-5, momentum=0.9 if name == "momentum" else 0.0)


def plan(case: Case) -> Iterator[tuple[str, bool, int]]:
    """Precision, training, batch: all batches in the two most common precisions, the middle one in two more."""
    middle = case.batches[len(case.batches) // 2]
    for training in (True, False):
        for precision in ("fp32", "amp-bf16"):
            for batch in case.batches:
                yield precision, training, batch
        for precision in ("tf32", "bf16"):
            yield precision, training, middle
