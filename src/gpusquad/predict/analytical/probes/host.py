"""Host time of the framework for one op: rows of tiny layers, timed while the card waits for them."""

from __future__ import annotations

import time
from collections.abc import Callable, Mapping, Sequence
from statistics import mean, median
from typing import Any

from gpusquad.predict.analytical import pace

COUNT = 30
"""Layers in a row."""
READINGS = 5
PACE_INTERVAL = 3
ROUNDS = 6
WAYS = ("", ".backward", ".inference")
MIXES = {
    "images": (
        ("conv", "batch_norm", "inplace", "conv_bias", "pointwise", "max_pool", "add", "depthwise", "avg_pool"),
    ),
    "rows": (
        ("matmul", "gelu", "layer_norm", "view", "mm", "add", "softmax", "dropout", "copy", "cat"),
        ("attention_fp32", "transpose", "add", "pointwise", "copy"),
    ),
}
"""Rows of different ops, as in networks for images and for text."""
Costs = tuple[float, float, float]
"""Microseconds by ``WAYS``: forward with gradients, backward, and forward without gradients."""


def measure(torch: Any) -> dict[str, float]:
    """Microseconds by family and way, each as one layer in a row of equal ones, and the costs once per step. ``pace``:
    the pace of the host meanwhile.
    """
    found: dict[str, float] = {}
    paces = []
    for index, (name, (make, make_input)) in enumerate(_layers(torch).items()):
        if index % PACE_INTERVAL == 0:
            paces.append(pace.reading_us(torch))
        costs = row_us(torch, [make() for _ in range(COUNT)], make_input, name.startswith("autocast_"))
        found |= {name + way: us / COUNT for way, us in zip(WAYS, costs, strict=True)}
    found["module.backward"] = 0.0  # backward has no module calls
    for kind, mixes in MIXES.items():
        found |= {f"mix.{kind}{way}": factor for way, factor in _mix(torch, found, mixes).items()}
    found["launch"] = _launch_us(torch)
    found["backward"] = max(0.0, _backward_us(torch) - found["pointwise.backward"])
    for name, make in _optimisers(torch).items():
        few, many = (_step_us(torch, make, count) for count in (20, 120))
        found[f"{name}.tensor"] = (many - few) / 100
        found[f"{name}.step"] = max(0.0, few - 20 * found[f"{name}.tensor"])
        paces.append(pace.reading_us(torch))
    return found | {"pace": mean(paces)}


def _layers(torch: Any) -> dict[str, tuple[Callable[[], Any], Callable[[], Any]]]:
    """The layer of each family, and its input."""
    nn = torch.nn

    def flat() -> Any:
        return torch.randn(8, 64, device="cuda")

    def image() -> Any:
        return torch.randn(2, 16, 8, 8, device="cuda")

    def heads() -> Any:
        return torch.randn(2, 4, 16, 32, device="cuda")

    def matrices() -> Any:
        return torch.randn(8, 16, 32, device="cuda")

    class Call(nn.Module):
        def __init__(self, call: Callable[[Any], Any]) -> None:
            super().__init__()
            self.call = call

        def forward(self, x: Any) -> Any:
            return self.call(x)

    def of(call: Callable[[Any], Any]) -> Callable[[], Any]:
        return lambda: Call(call)

    def turned(x: Any) -> Any:
        return x.to(torch.float64 if x.dtype == torch.float32 else torch.float32)

    attend = nn.functional.scaled_dot_product_attention
    return {
        "module": (nn.Identity, flat),
        "pointwise": (nn.ReLU, flat),
        "inplace": (of(lambda x: x.mul_(0.5)), flat),
        "add": (of(lambda x: x + x), flat),
        "gelu": (nn.GELU, flat),
        "dropout": (lambda: nn.Dropout(0.1), flat),
        "view": (of(lambda x: x.view(8, 64)), flat),
        "transpose": (of(lambda x: x.transpose(0, 1)), flat),
        "cast": (of(turned), flat),
        "copy": (of(lambda x: x.clone()), flat),
        "cat": (of(lambda x: torch.cat((x, x), 1)[:, :64]), flat),
        "matmul": (lambda: nn.Linear(64, 64), flat),
        "mm": (lambda: nn.Linear(64, 64, bias=False), flat),
        "bmm": (of(lambda x: torch.bmm(torch.bmm(x, x.transpose(1, 2)), x)), matrices),
        "conv": (lambda: nn.Conv2d(16, 16, 3, padding=1, bias=False), image),
        "conv_bias": (lambda: nn.Conv2d(16, 16, 3, padding=1), image),
        "depthwise": (lambda: nn.Conv2d(16, 16, 3, padding=1, groups=16, bias=False), image),
        "batch_norm": (lambda: nn.BatchNorm2d(16), image),
        "layer_norm": (lambda: nn.LayerNorm(64), flat),
        "group_norm": (lambda: nn.GroupNorm(4, 16), image),
        "max_pool": (lambda: nn.MaxPool2d(3, 1, 1), image),
        "avg_pool": (lambda: nn.AvgPool2d(3, 1, 1), image),
        "softmax": (lambda: nn.Softmax(1), flat),
        "sum": (of(lambda x: x.sum(0, keepdim=True).expand(8, 64)), flat),
        "attention": (of(lambda x: attend(x, x, x)), lambda: heads().bfloat16()),
        "attention_fp32": (of(lambda x: attend(x, x, x)), heads),
        "autocast_matmul": (lambda: nn.Linear(64, 64), flat),
        "autocast_conv": (lambda: nn.Conv2d(16, 16, 3, padding=1, bias=False), image),
        "autocast_layer_norm": (lambda: nn.LayerNorm(64), flat),
        "autocast_pointwise": (nn.ReLU, flat),
    }


def row_us(torch: Any, layers: Sequence[Any], make_input: Callable[[], Any], cast: bool = False) -> Costs:
    """Time of the layers in sequence, less that of an empty row. ``cast``: under autocast."""
    whole, none = (
        _readings(torch, torch.nn.Sequential(*each).cuda(), make_input().requires_grad_(), cast)
        for each in (layers, ())
    )
    return tuple(max(0.0, all_us - none_us) for all_us, none_us in zip(whole, none, strict=True))  # pyright: ignore[reportReturnType]


def _readings(torch: Any, chain: Any, given: Any, cast: bool) -> list[float]:
    forward, backward, inference = [], [], []
    for _ in range(1 + READINGS):
        torch.cuda.synchronize()
        began = time.perf_counter()
        with torch.autocast("cuda", torch.bfloat16, cast):
            out = chain(given * 1.0)
        out = out.sum()
        forward.append(time.perf_counter() - began)
        torch.cuda.synchronize()
        began = time.perf_counter()
        out.backward()
        backward.append(time.perf_counter() - began)
        chain.zero_grad()
    chain.eval()
    for _ in range(1 + READINGS):
        torch.cuda.synchronize()
        began = time.perf_counter()
        with torch.inference_mode(), torch.autocast("cuda", torch.bfloat16, cast):
            chain(given * 1.0)
        inference.append(time.perf_counter() - began)
    torch.cuda.synchronize()
    return [1e6 * median(each[1:]) for each in (forward, backward, inference)]


def _mix(torch: Any, alone: Mapping[str, float], mixes: Sequence[Sequence[str]]) -> dict[str, float]:
    """Ratio of the time of a row of different ops to the sum of their times in rows of equal ops.

    In a network no op follows an equal one, so the processor's caches are cold. Module calls are not ops.
    """
    layers = _layers(torch)
    sums, wholes = [0.0] * 3, [0.0] * 3
    for names in mixes:
        row = [layers[name][0]() for _ in range(ROUNDS) for name in names]
        costs = row_us(torch, row, layers[names[0]][1])
        for index, way in enumerate(WAYS):
            module_us = len(names) * alone[f"module{way}"]
            wholes[index] += costs[index] / ROUNDS - module_us
            sums[index] += sum(alone[name + way] for name in names) - module_us
    return {way: whole / alone_us for way, whole, alone_us in zip(WAYS, wholes, sums, strict=True)}


def _launch_us(torch: Any) -> float:
    """Host time of a launch, without the framework."""
    readings = []
    for _ in range(READINGS):
        torch.cuda.synchronize()
        began = time.perf_counter()
        for _ in range(COUNT):
            torch.cuda._sleep(1)
        readings.append(time.perf_counter() - began)
    return 1e6 * median(readings) / COUNT


def _backward_us(torch: Any) -> float:
    """Host time of a backward pass with one op. Most of it wakes the thread that runs it."""
    number, readings = torch.ones((), device="cuda", requires_grad=True), []
    for _ in range(READINGS):
        loss = number * 2.0
        torch.cuda.synchronize()
        began = time.perf_counter()
        loss.backward()
        readings.append(time.perf_counter() - began)
        number.grad = None
    return 1e6 * median(readings)


def _optimisers(torch: Any) -> dict[str, Callable[[Any], Any]]:
    return {
        "adamw": lambda tensors: torch.optim.AdamW(tensors, lr=1e-4),
        "sgd": lambda tensors: torch.optim.SGD(tensors, lr=1e-4),
        "momentum": lambda tensors: torch.optim.SGD(tensors, lr=1e-4, momentum=0.9),
    }


def _step_us(torch: Any, make: Callable[[Any], Any], count: int) -> float:
    tensors = [torch.randn(64, device="cuda", requires_grad=True) for _ in range(count)]
    optimiser, readings = make(tensors), []
    for _ in range(1 + READINGS):
        for tensor in tensors:
            tensor.grad = torch.ones_like(tensor)
        torch.cuda.synchronize()
        began = time.perf_counter()
        optimiser.step()
        optimiser.zero_grad(set_to_none=True)
        readings.append(time.perf_counter() - began)
    return 1e6 * median(readings[1:])
