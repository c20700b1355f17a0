"""Fused attention, forward and backward, as the framework selects it for the type."""

from __future__ import annotations

from typing import Any

from gpusquad.predict.analytical.probes.clock import DeviceTimer
from gpusquad.predict.analytical.probes.shapes import pick

LENGTHS = (16, 64, 128, 197, 256, 512, 512, 1024, 2048, 4096)
HEADS = (8, 16, 48, 96, 192, 384, 768, 1536, 3072)
WIDTHS = (32, 64, 64, 64, 80, 128)
MAX_WORK = 3e11


def measure(torch: Any, clock: DeviceTimer, shapes: int = 56) -> dict[str, list]:
    found: dict[str, list] = {}
    for dtype, kind in (("bf16", torch.bfloat16), ("fp32", torch.float32)):
        for causal in (False, True):
            suffix = ".causal" if causal else ""
            for index in range(shapes if not causal else 2 * shapes // 3):
                length, heads, width = pick(index, 0, LENGTHS), pick(index, 1, HEADS), pick(index, 2, WIDTHS)
                if 4.0 * heads * length**2 * width > MAX_WORK / (1 if dtype == "bf16" else 10):
                    continue
                forward_us, backward_us = _times(torch, clock, kind, causal, heads, length, width)
                row = (heads, length, length, width)
                found.setdefault(f"attention.forward{suffix}.{dtype}", []).append((*row, forward_us))
                found.setdefault(f"attention.backward{suffix}.{dtype}", []).append((*row, backward_us))
    return found


def _times(torch: Any, clock: DeviceTimer, kind: Any, causal: bool, heads: int, length: int, width: int):
    shape = (heads // 8, 8, length, width)
    q, k, v = (torch.randn(shape, device="cuda", dtype=kind, requires_grad=True) for _ in range(3))

    def forward() -> Any:
        return torch.nn.functional.scaled_dot_product_attention(q, k, v, is_causal=causal)

    out = forward()
    gradient = torch.randn_like(out)
    forward_us = clock.us(forward, readings=2)
    return forward_us, clock.us(lambda: torch.autograd.grad(out, (q, k, v), gradient, retain_graph=True), readings=2)
