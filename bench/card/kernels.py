"""Lengths of a program's kernels, and the resulting waits: ``python -m bench.card kernels googlenet:64``.

A running kernel cannot be interrupted. A request at a random instant meets a kernel in proportion to its share of the
time, and waits for the rest of it, or of those of its blocks that are in the way.
"""

from __future__ import annotations

import json
import tempfile
from collections import defaultdict
from collections.abc import Mapping, Sequence
from pathlib import Path
from typing import Any

from bench.card.marks import markdown, number
from bench.card.models import EXTRA
from bench.card.place import Lost
from gpusquad.measure.workloads import find
from gpusquad.model.errors import Invalid

STEPS, WARM_UP_STEPS = 5, 8
LONGEST = 5
_PARTS = (0.5, 0.9, 0.99)
_HEADINGS = ("program", "kernels a step", "time of a step in kernels, ms", "mean wait, µs",
             *(f"p{100 * part:.0f} of it, µs" for part in _PARTS), "longest kernel, µs",
             "all of its kind, % of the time", "its blocks", "its name")  # fmt: skip


def kernels(programs: Sequence[str], device: str = "cuda") -> list[dict[str, Any]]:
    """Each by its name, or ``name:batch``."""
    try:
        import torch  # pyright: ignore[reportMissingImports]
    except ImportError:
        raise Lost("PyTorch is not installed, and it says which kernels run") from None
    return [_profiled(torch, one, device) for one in programs]


def _profiled(torch: Any, program: str, device: str) -> dict[str, Any]:
    name, _, batch = program.partition(":")
    if batch and not batch.isdigit():
        raise Invalid("program", f"{program!r} has no whole number behind the colon", "for example googlenet:64")
    workload = EXTRA[name] if name in EXTRA else find(name)
    step = workload.build(torch, device, int(batch) if batch else workload.batch)
    for _ in range(WARM_UP_STEPS):
        step()
    torch.cuda.synchronize()
    with torch.profiler.profile(activities=[torch.profiler.ProfilerActivity.CUDA]) as profile:
        for _ in range(STEPS):
            step()
        torch.cuda.synchronize()
    with tempfile.TemporaryDirectory() as folder:
        trace = Path(folder) / "trace.json"
        profile.export_chrome_trace(str(trace))
        return {"program": program, **summary(json.loads(trace.read_text(encoding="utf-8")), STEPS)}


def summary(trace: Mapping[str, Any], steps: int) -> dict[str, Any]:
    """Summary of a trace of ``steps`` steps, as written by PyTorch's profiler."""
    seen = [event for event in trace["traceEvents"] if event.get("cat") == "kernel"]
    if not seen:
        raise Lost("the trace has no kernels in it")
    lengths_us = sorted(float(event["dur"]) for event in seen)
    total_us = sum(lengths_us)
    return {
        "kernels": len(seen) / steps,
        "step_ms": total_us / steps / 1000,
        "wait_us": {"mean": sum(us * us for us in lengths_us) / (2 * total_us)}
        | {f"p{100 * part:.0f}": waited_us(lengths_us, part) for part in _PARTS},
        "longest": _longest(seen, total_us),
    }


def waited_us(lengths_us: Sequence[float], part: float) -> float:
    """Quantile of the wait of requests that arrive at a random instant while a kernel runs."""
    total_us, low_us, high_us = sum(lengths_us), 0.0, max(lengths_us)
    while high_us - low_us > 0.01:
        middle_us = (low_us + high_us) / 2
        later = sum(max(0.0, us - middle_us) for us in lengths_us) / total_us
        low_us, high_us = (middle_us, high_us) if later > 1 - part else (low_us, middle_us)
    return high_us


def _longest(events: Sequence[Mapping[str, Any]], total_us: float) -> list[dict[str, Any]]:
    """Kinds of kernels by their longest run, with their share of the time. A kind can have short runs too."""
    kinds: dict[tuple[str, tuple[int, ...]], list[float]] = defaultdict(list)
    for event in events:
        kinds[event["name"], tuple(event.get("args", {}).get("grid", ()))].append(float(event["dur"]))
    told = [
        {"name": name, "grid": list(grid), "longest_us": max(all_us), "part": sum(all_us) / total_us}
        for (name, grid), all_us in kinds.items()
    ]
    return sorted(told, key=lambda one: -one["longest_us"])[:LONGEST]


def shown(found: Sequence[Mapping[str, Any]]) -> str:
    lines = []
    for one in found:
        longest = one["longest"][0]
        lines.append((
            one["program"], *map(number, (one["kernels"], one["step_ms"], *one["wait_us"].values())),
            number(longest["longest_us"]), number(100 * longest["part"]), "×".join(map(str, longest["grid"])) or "–",
            longest["name"][:60],
        ))  # fmt: skip
    return markdown(_HEADINGS, lines)
