"""Measures a card with short microbenchmarks of single ops, never of whole networks, and their cost on the host.

Needs PyTorch and a GPU. ``python -m gpusquad.predict.analytical.calibrate --out card.json`` takes a minute or two. The
file is valid for all estimates on cards of that model in such a machine.
"""

from __future__ import annotations

import argparse
import json
import time
from collections.abc import Callable, Iterator, Mapping, Sequence
from functools import partial
from math import log
from pathlib import Path
from statistics import mean
from typing import Any

from gpusquad.model.errors import Invalid
from gpusquad.predict.analytical import pace
from gpusquad.predict.analytical.card import known
from gpusquad.predict.analytical.host import ELASTICITY
from gpusquad.predict.analytical.measured import MeasuredCard, Samples
from gpusquad.predict.analytical.probes import attention, convs, elementwise, matmuls, optimisers, recurrent
from gpusquad.predict.analytical.probes import host as probes_host
from gpusquad.predict.analytical.probes.clock import DeviceTimer

CONV_PARTS = 4


def calibrate(say: Callable[[str], None] = lambda _: None, thoroughness: float = 1.0) -> MeasuredCard:
    """Measure the current card. A higher ``thoroughness`` measures more shapes and takes longer."""
    torch = _torch()
    workspace_bytes = _workspace_bytes(torch)
    clock = DeviceTimer(torch)
    clock.warm_up()
    probes_host.measure(torch)  # the first call of everything takes longer
    host_readings = [probes_host.measure(torch)]
    samples: dict[str, Samples] = {}
    for title, probe in _probes(torch, clock, thoroughness):
        began = time.perf_counter()
        found = probe()
        for name, rows in found.items():
            samples[name] = (*samples.get(name, ()), *(tuple(map(float, row)) for row in rows))
        say(f"{title}: {sum(map(len, found.values()))} measurements in {time.perf_counter() - began:.0f} s")
        host_readings.append(
            probes_host.measure(torch)
        )  # the pace of a host varies, so take many readings, some time apart
    host_us = typical(host_readings)
    constants = {"context_bytes": _context_bytes(torch), "product_workspace_bytes": workspace_bytes}
    return _card(torch, clock, samples, host_us, constants)


def _probes(torch: Any, clock: DeviceTimer, thoroughness: float) -> Iterator[tuple[str, Callable[[], dict[str, list]]]]:
    yield "elementwise", lambda: elementwise.measure(torch, clock)
    yield "optimisers", lambda: optimisers.measure(torch, clock)
    yield "attention", lambda: attention.measure(torch, clock)
    yield "recurrent", lambda: recurrent.measure(torch, clock)
    for dtype in matmuls.DTYPES:
        yield f"matrix products in {dtype}", partial(matmuls.measure, torch, clock, dtype, round(130 * thoroughness))
    for shapes in convs.parts(round(300 * thoroughness), CONV_PARTS):
        for dtype in convs.DTYPES:
            yield f"convolutions in {dtype}", partial(convs.measure, torch, clock, dtype, shapes)


def typical(readings: Sequence[Mapping[str, float]]) -> dict[str, float]:
    """The means of the host's readings, and the power of the host's pace by which they differ."""
    found = {name: mean(each[name] for each in readings) for name in readings[0]}
    chains = [name for name in found if name.endswith(probes_host.WAYS[1:]) and found[name] > 0 and "mix" not in name]
    paces = [log(each["pace"] / found["pace"]) for each in readings]
    costs = [mean(log(max(each[name], 0.1) / found[name]) for name in chains) for each in readings]
    mean_pace, mean_cost = mean(paces), mean(costs)
    spread = sum((one - mean_pace) ** 2 for one in paces)
    together = sum((one - mean_pace) * (cost - mean_cost) for one, cost in zip(paces, costs, strict=True))
    return found | {ELASTICITY: min(1.0, max(0.0, together / spread)) if spread else 1.0}


def _workspace_bytes(torch: Any) -> float:
    """Memory that the matrix library keeps from its first call on."""
    ones = torch.ones(64, 64, device="cuda")
    held = torch.cuda.memory_allocated()
    torch.nn.functional.linear(ones @ ones, ones, ones[0])
    return float(torch.cuda.memory_allocated() - held)


def _context_bytes(torch: Any) -> float:
    """Card memory that a process takes beside its tensors: driver context, and the libraries once they are loaded."""
    torch.cuda.synchronize()
    torch.cuda.empty_cache()
    free, total = torch.cuda.mem_get_info()
    return float(total - free - torch.cuda.memory_reserved())


def _card(torch: Any, clock: DeviceTimer, samples: dict, host_us: dict, constants: dict) -> MeasuredCard:
    facts = torch.cuda.get_device_properties(torch.cuda.current_device())
    sheet = known(facts.name)
    return MeasuredCard(
        name=facts.name,
        memory_bytes=facts.total_memory,
        sms=facts.multi_processor_count,
        bandwidth=clock.bandwidth(),
        l2_bytes=facts.L2_cache_size,
        matmul_flops={dtype: clock.product_flops(dtype) for dtype in ("fp32", "tf32", "bf16", "fp16")},
        vector_flops=sheet.vector_flops if sheet else 2.0 * 128 * facts.multi_processor_count * 1.5e9,
        launch_us=clock.launch_us(),
        host_op_us=host_us["pointwise"],
        link_bandwidth=sheet.link_bandwidth if sheet else 12e9,
        measured=True,
        samples=samples,
        host=host_us,
        constants=constants,
        processor=pace.processor(),
    )


def _torch() -> Any:
    try:
        import torch  # pyright: ignore[reportMissingImports]
    except ImportError as error:
        raise Invalid("card", "calibration needs PyTorch", "run it where torch is installed") from error
    if not torch.cuda.is_available():
        raise Invalid("card", "PyTorch finds no GPU; calibration needs one")
    return torch


def main(arguments: list[str] | None = None) -> int:
    parser = argparse.ArgumentParser(prog="python -m gpusquad.predict.analytical.calibrate", description=__doc__)
    parser.add_argument("--out", type=Path, required=True, help="where to write the card (JSON)")
    parser.add_argument("--thoroughness", type=float, default=1.0, help="1: a minute or two; 0.5: half the shapes")
    asked = parser.parse_args(arguments)
    card = calibrate(lambda line: print(line, flush=True), asked.thoroughness)
    asked.out.write_text(json.dumps(card.to_dict()), encoding="utf-8")
    print(f"{card.name}: {card.bandwidth / 1e12:.2f} TB/s, " + ", ".join(
        f"{dtype} {flops / 1e12:.0f} TFLOP/s" for dtype, flops in card.matmul_flops.items()))  # fmt: skip
    return 0


if __name__ == "__main__":
    raise SystemExit(main())
