"""The optimiser's step over many tensors at once, as the framework does it by default."""

from __future__ import annotations

from typing import Any

from gpusquad.predict.analytical.probes.clock import DeviceTimer

LISTS = ((1 << 10, 20), (1 << 10, 160), (1 << 16, 60), (1 << 18, 160), (1 << 20, 60), (1 << 22, 50), (1 << 25, 8))
"""Numbers per tensor, number of tensors."""


def measure(torch: Any, clock: DeviceTimer) -> dict[str, list]:
    found: dict[str, list] = {}
    makers = {
        "adamw": lambda tensors: torch.optim.AdamW(tensors, lr=1e-4),
        "sgd": lambda tensors: torch.optim.SGD(tensors, lr=1e-4),
        "momentum": lambda tensors: torch.optim.SGD(tensors, lr=1e-4, momentum=0.9),
    }
    for dtype, kind in (("fp32", torch.float32), ("bf16", torch.bfloat16)):
        for name, make in makers.items():
            for numbers, count in LISTS:
                tensors = [torch.randn(numbers, device="cuda", dtype=kind, requires_grad=True) for _ in range(count)]
                for tensor in tensors:
                    tensor.grad = torch.randn_like(tensor)
                us = clock.us(make(tensors).step, readings=2)
                found.setdefault(f"{name}.{dtype}", []).append((numbers * count * tensors[0].element_size(), count, us))
                del tensors
                torch.cuda.empty_cache()
    return found
