"""One layer of an LSTM, forward and backward: the framework passes the whole sequence to one library call."""

from __future__ import annotations

from collections.abc import Iterator
from typing import Any

from gpusquad.predict.analytical.probes.clock import DeviceTimer, arithmetic

ROWS = ((8, 64), (8, 256), (32, 32), (32, 128), (128, 64), (256, 128))
"""Batch, length."""
WIDTHS = {
    "": ((128, 128), (256, 512), (512, 512), (1024, 1024), (640, 1504)),
    ".odd": ((150, 150), (250, 450), (450, 450), (730, 730), (1030, 1030)),
}
"""Widths of input and state. Odd ones are not multiples of 16 bytes, which tensor cores need."""


def measure(torch: Any, clock: DeviceTimer) -> dict[str, list]:
    """Microseconds of the card, and (``issue.``) of the host."""
    found: dict[str, list] = {}
    for dtype in ("bf16", "tf32"):
        with arithmetic(torch, dtype) as kind:
            for odd, widths in WIDTHS.items():
                for batch, length, wide, hidden in ((*rows, *wide) for rows in ROWS for wide in widths):
                    for way, us, issue_us in _times(torch, clock, kind, batch, length, wide, hidden):
                        name, shape = f"lstm.{way}{odd}.{dtype}", (batch, length, wide, hidden)
                        found.setdefault(name, []).append((*shape, us))
                        found.setdefault(f"issue.{name}", []).append((*shape, issue_us))
    return found


def _times(torch: Any, clock: DeviceTimer, kind: Any, batch: int, length: int, wide: int, hidden: int) -> Iterator:
    layer = torch.nn.LSTM(wide, hidden, batch_first=True, device="cuda", dtype=kind)
    layer.flatten_parameters()
    given = torch.randn(batch, length, wide, device="cuda", dtype=kind, requires_grad=True)
    out = layer(given)[0]
    gradient, wanted = torch.randn_like(out), (given, *layer.parameters())
    calls = {
        "forward": lambda: layer(given),
        "backward": lambda: torch.autograd.grad(out, wanted, gradient, retain_graph=True),
    }
    for way, call in calls.items():
        yield way, clock.us(call, readings=2), clock.free_issue_us(call)
