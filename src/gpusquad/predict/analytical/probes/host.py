"""What the framework spends on the host for one op: chains of tiny layers, timed while the card waits for them."""

from __future__ import annotations

import time
from collections.abc import Callable, Mapping, Sequence
from statistics import median
from typing import Any

CHAIN = 40
READINGS = 9
ROUNDS = 6
WAYS = ("", ".backward", ".inference")
MIXES = {
    "images": (
        ("conv", "batch_norm", "pointwise", "conv_bias", "max_pool", "add", "depthwise", "batch_norm", "avg_pool"),
    ),
    "rows": (
        ("matmul", "gelu", "layer_norm", "view", "mm", "add", "softmax", "dropout", "copy", "cat"),
        ("attention_fp32", "bmm", "add", "pointwise", "copy"),
    ),
}
"""Rows of different ops, as networks for images and for text have them."""


def measure(torch: Any) -> dict[str, float]:
    """Microseconds by family: forward with gradients on, ``.backward``, and ``.inference``."""
    found: dict[str, float] = {}
    for name, (layers, make_input) in _chains(torch).items():
        forward, backward, inference = _chain_us(torch, layers, make_input)
        found[name] = forward
        found[f"{name}.backward"] = backward
        found[f"{name}.inference"] = inference
    for kind, mixes in MIXES.items():
        for way, factor in _mix(torch, found, mixes).items():
            found[f"mix.{kind}{way}"] = factor
    found["launch"] = _launch_us(torch)
    found["backward"] = max(0.0, _backward_us(torch) - found["pointwise.backward"])
    for name, make in _optimisers(torch).items():
        few, many = (_step_us(torch, make, count) for count in (20, 220))
        found[f"{name}.tensor"] = (many - few) / 200
        found[f"{name}.step"] = max(0.0, few - 20 * found[f"{name}.tensor"])
    return found


def _chains(torch: Any) -> dict[str, tuple[Callable[[int], Any], Callable[[], Any]]]:
    nn = torch.nn

    def flat() -> Any:
        return torch.randn(8, 64, device="cuda")

    def image() -> Any:
        return torch.randn(2, 16, 8, 8, device="cuda")

    def heads() -> Any:
        return torch.randn(2, 4, 16, 32, device="cuda")

    class Call(nn.Module):
        def __init__(self, call: Callable[[Any], Any]) -> None:
            super().__init__()
            self.call = call

        def forward(self, x: Any) -> Any:
            return self.call(x)

    class Autocast(nn.Module):
        def __init__(self, layer: Any) -> None:
            super().__init__()
            self.layer = layer

        def forward(self, x: Any) -> Any:
            with torch.autocast("cuda", torch.bfloat16):
                return self.layer(x)

    def of(make: Callable[[], Any]) -> Callable[[int], Any]:
        return lambda count: nn.Sequential(*(make() for _ in range(count))).cuda()

    def cast(make: Callable[[], Any]) -> Callable[[int], Any]:
        return lambda count: Autocast(of(make)(count))

    attend = nn.functional.scaled_dot_product_attention
    return {
        "pointwise": (of(nn.ReLU), flat),
        "add": (of(lambda: Call(lambda x: x + x)), flat),
        "gelu": (of(nn.GELU), flat),
        "dropout": (of(lambda: nn.Dropout(0.1)), flat),
        "view": (of(lambda: Call(lambda x: x.view(8, 64))), flat),
        "transpose": (of(lambda: Call(lambda x: x.transpose(0, 1))), flat),
        "cast": (of(lambda: Call(lambda x: x.to(torch.float64 if x.dtype == torch.float32 else torch.float32))), flat),
        "copy": (of(lambda: Call(lambda x: x.clone())), flat),
        "cat": (of(lambda: Call(lambda x: torch.cat((x, x), 1)[:, :64])), flat),
        "matmul": (of(lambda: nn.Linear(64, 64)), flat),
        "mm": (of(lambda: nn.Linear(64, 64, bias=False)), flat),
        "bmm": (of(lambda: Call(lambda x: x @ x.transpose(2, 3) @ x)), heads),
        "conv": (of(lambda: nn.Conv2d(16, 16, 3, padding=1, bias=False)), image),
        "conv_bias": (of(lambda: nn.Conv2d(16, 16, 3, padding=1)), image),
        "depthwise": (of(lambda: nn.Conv2d(16, 16, 3, padding=1, groups=16, bias=False)), image),
        "batch_norm": (of(lambda: nn.BatchNorm2d(16)), image),
        "layer_norm": (of(lambda: nn.LayerNorm(64)), flat),
        "group_norm": (of(lambda: nn.GroupNorm(4, 16)), image),
        "max_pool": (of(lambda: nn.MaxPool2d(3, 1, 1)), image),
        "avg_pool": (of(lambda: nn.AvgPool2d(3, 1, 1)), image),
        "softmax": (of(lambda: nn.Softmax(1)), flat),
        "sum": (of(lambda: Call(lambda x: x.sum(0, keepdim=True).expand(8, 64))), flat),
        "attention": (of(lambda: Call(lambda x: attend(x, x, x))), lambda: heads().bfloat16()),
        "attention_fp32": (of(lambda: Call(lambda x: attend(x, x, x))), heads),
        "autocast_matmul": (cast(lambda: nn.Linear(64, 64)), flat),
        "autocast_conv": (cast(lambda: nn.Conv2d(16, 16, 3, padding=1, bias=False)), image),
        "autocast_layer_norm": (cast(lambda: nn.LayerNorm(64)), flat),
        "autocast_pointwise": (cast(nn.ReLU), flat),
    }


def _chain_us(torch: Any, layers: Callable[[int], Any], make_input: Callable[[], Any]) -> tuple[float, float, float]:
    chain, forward, backward, inference = layers(CHAIN), [], [], []
    given = make_input().requires_grad_()
    for _ in range(READINGS):
        torch.cuda.synchronize()
        began = time.perf_counter()
        out = chain(given * 1.0).sum()
        forward.append(time.perf_counter() - began)
        torch.cuda.synchronize()
        began = time.perf_counter()
        out.backward()
        backward.append(time.perf_counter() - began)
        chain.zero_grad()
    chain.eval()
    with torch.inference_mode():
        for _ in range(READINGS):
            torch.cuda.synchronize()
            began = time.perf_counter()
            chain(given * 1.0)
            inference.append(time.perf_counter() - began)
    torch.cuda.synchronize()
    return tuple(1e6 * median(each) / CHAIN for each in (forward, backward, inference))  # pyright: ignore[reportArgumentType]


def _mix(torch: Any, alone: Mapping[str, float], mixes: Sequence[Sequence[str]]) -> dict[str, float]:
    """In a network no op follows its like, so that nothing of it is in the processor's caches: how much more a row of
    different ops takes than the sum of what each does in a row of its own."""
    chains = _chains(torch)
    sums, wholes = [0.0] * 3, [0.0] * 3
    for names in mixes:
        layers = torch.nn.Sequential(*(chains[name][0](1) for _ in range(ROUNDS) for name in names))
        costs = _chain_us(torch, lambda _, layers=layers: layers, chains[names[0]][1])
        for index, way in enumerate(WAYS):
            wholes[index] += costs[index] * CHAIN / ROUNDS
            sums[index] += sum(alone[name + way] for name in names)
    return {way: max(1.0, whole / alone_us) for way, whole, alone_us in zip(WAYS, wholes, sums, strict=True)}


def _launch_us(torch: Any) -> float:
    """Of a kernel that a library launches by itself, without the framework's part."""
    readings = []
    for _ in range(READINGS):
        torch.cuda.synchronize()
        began = time.perf_counter()
        for _ in range(CHAIN):
            torch.cuda._sleep(1)
        readings.append(time.perf_counter() - began)
    return 1e6 * median(readings) / CHAIN


def _backward_us(torch: Any) -> float:
    """Of a backward pass with one op: most of it is waking the thread that runs it."""
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
    for _ in range(READINGS):
        for tensor in tensors:
            tensor.grad = torch.ones_like(tensor)
        torch.cuda.synchronize()
        began = time.perf_counter()
        optimiser.step()
        optimiser.zero_grad(set_to_none=True)
        readings.append(time.perf_counter() - began)
    return 1e6 * median(readings)
