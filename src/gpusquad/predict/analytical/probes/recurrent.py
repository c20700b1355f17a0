"""One layer of an LSTM, forward and backward: the framework hands the whole sequence to one library call."""

from __future__ import annotations

from typing import Any

from gpusquad.predict.analytical.probes.clock import Clock, arithmetic

SHAPES = tuple(
    (batch, length, width, hidden)
    for batch, length in ((8, 64), (8, 256), (32, 32), (32, 128), (128, 64), (256, 128))
    for width, hidden in ((128, 128), (256, 512), (512, 512), (1024, 1024), (640, 1500))
)
"""Batch, length, width of the input, width of the state."""


def measure(torch: Any, clock: Clock) -> dict[str, list]:
    found: dict[str, list] = {}
    for dtype in ("bf16", "tf32"):
        with arithmetic(torch, dtype) as kind:
            for batch, length, wide, hidden in SHAPES:
                layer = torch.nn.LSTM(wide, hidden, batch_first=True, device="cuda", dtype=kind)
                layer.flatten_parameters()
                given = torch.randn(batch, length, wide, device="cuda", dtype=kind, requires_grad=True)
                out = layer(given)[0]
                gradient, wanted = torch.randn_like(out), (given, *layer.parameters())
                calls = {
                    "forward": lambda layer=layer, given=given: layer(given),
                    "backward": lambda out=out, wanted=wanted, gradient=gradient: torch.autograd.grad(
                        out, wanted, gradient, retain_graph=True
                    ),
                }
                for way, call in calls.items():
                    found.setdefault(f"lstm.{way}.{dtype}", []).append(
                        (batch, length, wide, hidden, clock.us(call, readings=2))
                    )
    return found
