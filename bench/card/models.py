"""Workloads beyond the catalogue of ``gpusquad.measure``: services, a residual network, and tiny ones.

A service answers one request: its input comes from pinned host memory and its answer goes back there. Batch norms are
folded into the preceding convolutions, as in deployed networks. The tiny ones are for a rehearsal on a machine without
a card and are no benchmark.
"""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass
from functools import partial
from typing import Any

from gpusquad.measure.workloads.training import CLASSES, IMAGE_PIXELS, images, training_step
from gpusquad.measure.workloads.workload import Step, Workload

_STAGES_OF_50 = ((64, 3, 1), (128, 4, 2), (256, 6, 2), (512, 3, 2))
"""Width, blocks and first stride of ResNet-50's stages."""
_STAGES_MOBILE = (
    (1, 16, 1, 1), (6, 24, 2, 2), (6, 32, 3, 2), (6, 64, 4, 2), (6, 96, 3, 1), (6, 160, 3, 2), (6, 320, 1, 1),
)  # fmt: skip
"""Expansion, channels, blocks and first stride of MobileNetV2's stages."""

QUEUE = "queue"
"""The attribute of a service's step that puts a request on the card's queue and does not wait for its answer."""


def _residual(torch: Any, inner: Any, shortcut: Any, active: bool) -> Any:
    class Residual(torch.nn.Module):
        """Adds the input, or its shortcut, to the output of the layers."""

        def __init__(self) -> None:
            super().__init__()
            self.inner, self.shortcut = inner, shortcut

        def forward(self, inputs: Any) -> Any:
            added = self.inner(inputs) + (inputs if self.shortcut is None else self.shortcut(inputs))
            return torch.relu(added) if active else added

    return Residual()


def _convolution(
    torch: Any, before: int, after: int, size: int, stride: int, norms: bool, groups: int = 1
) -> list[Any]:
    nn = torch.nn
    made = nn.Conv2d(before, after, size, stride, padding=size // 2, groups=groups, bias=not norms)
    return [made, nn.BatchNorm2d(after)] if norms else [made]


def resnet50(torch: Any, norms: bool) -> Any:
    nn, before = torch.nn, 64
    layer = partial(_convolution, torch, norms=norms)
    layers = [*layer(3, 64, 7, 2), nn.ReLU(inplace=True), nn.MaxPool2d(3, 2, padding=1)]
    for width, blocks, first in _STAGES_OF_50:
        for index in range(blocks):
            stride = first if index == 0 else 1
            inner = [*layer(before, width, 1, 1), nn.ReLU(inplace=True), *layer(width, width, 3, stride)]
            inner += [nn.ReLU(inplace=True), *layer(width, 4 * width, 1, 1)]
            shortcut = nn.Sequential(*layer(before, 4 * width, 1, stride)) if index == 0 else None
            layers.append(_residual(torch, nn.Sequential(*inner), shortcut, active=True))
            before = 4 * width
    return nn.Sequential(*layers, nn.AdaptiveAvgPool2d(1), nn.Flatten(), nn.Linear(before, CLASSES))


def mobilenet(torch: Any) -> Any:
    nn, before = torch.nn, 32
    layer = partial(_convolution, torch, norms=False)
    layers = [*layer(3, 32, 3, 2), nn.ReLU6(inplace=True)]
    for expansion, channels, blocks, first in _STAGES_MOBILE:
        for index in range(blocks):
            stride, wide = first if index == 0 else 1, before * expansion
            inner = [*layer(before, wide, 1, 1), nn.ReLU6(inplace=True)] if expansion > 1 else []
            inner += [*layer(wide, wide, 3, stride, groups=wide), nn.ReLU6(inplace=True), *layer(wide, channels, 1, 1)]
            whole = nn.Sequential(*inner)
            layers.append(_residual(torch, whole, None, active=False) if stride == 1 and before == channels else whole)
            before = channels
    layers += [*layer(before, 1280, 1, 1), nn.ReLU6(inplace=True), nn.AdaptiveAvgPool2d(1), nn.Flatten()]
    return nn.Sequential(*layers, nn.Linear(1280, CLASSES))


@dataclass(frozen=True, slots=True)
class _Text:
    layers: int = 6
    width: int = 768
    heads: int = 12
    tokens: int = 128
    words: int = 30_000


def _encoder(torch: Any, shape: _Text) -> Any:
    nn = torch.nn

    class Encoder(nn.Module):
        """Words in, one class out, with attention between all positions."""

        def __init__(self) -> None:
            super().__init__()
            self.words = nn.Embedding(shape.words, shape.width)
            self.places = nn.Embedding(shape.tokens, shape.width)
            self.blocks = nn.ModuleList(_encoder_block(torch, shape) for _ in range(shape.layers))
            self.classes = nn.Linear(shape.width, 2)

        def forward(self, words: Any) -> Any:
            hidden = self.words(words) + self.places.weight
            for block in self.blocks:
                hidden = block(hidden)
            return self.classes(hidden[:, 0])

    return Encoder()


def _encoder_block(torch: Any, shape: _Text) -> Any:
    nn = torch.nn

    class Block(nn.Module):
        def __init__(self) -> None:
            super().__init__()
            self.norm_1, self.norm_2 = nn.LayerNorm(shape.width), nn.LayerNorm(shape.width)
            self.asked, self.mixed = nn.Linear(shape.width, 3 * shape.width), nn.Linear(shape.width, shape.width)
            self.wide, self.back = nn.Linear(shape.width, 4 * shape.width), nn.Linear(4 * shape.width, shape.width)

        def forward(self, inputs: Any) -> Any:
            batch, tokens, width = inputs.shape
            parts = self.asked(inputs).view(batch, tokens, 3, shape.heads, width // shape.heads).permute(2, 0, 3, 1, 4)
            seen = nn.functional.scaled_dot_product_attention(*parts)
            hidden = self.norm_1(inputs + self.mixed(seen.transpose(1, 2).reshape(batch, tokens, width)))
            return self.norm_2(hidden + self.back(nn.functional.gelu(self.wide(hidden))))

    return Block()


def _service(torch: Any, device: str, model: Any, request: Any, graph: bool) -> Step:
    """Copies the request in, runs the network, waits for the answer."""
    on_card = device != "cpu"
    model = model.to(device).to(torch.bfloat16).eval()
    if request.dim() == 4:  # images: the layout in which tensor cores take them as they are
        request, model = (one.to(memory_format=torch.channels_last) for one in (request, model))
    host = request.pin_memory() if on_card else request
    held = request.to(device)  # a graph is captured with it before the first request comes

    def forward() -> Any:
        return model(held).argmax(-1)

    run = _captured(torch, forward) if graph and on_card else forward

    def queue() -> Any:
        with torch.inference_mode():
            held.copy_(host, non_blocking=True)
            return run()

    def step() -> None:
        queue().cpu()

    setattr(step, QUEUE, queue)
    return step


def _captured(torch: Any, forward: Callable[[], Any]) -> Callable[[], Any]:
    """The network as a CUDA graph."""
    side = torch.cuda.Stream()
    side.wait_stream(torch.cuda.current_stream())
    with torch.inference_mode(), torch.cuda.stream(side):
        for _ in range(3):
            forward()
    torch.cuda.current_stream().wait_stream(side)
    graph = torch.cuda.CUDAGraph()
    with torch.inference_mode(), torch.cuda.graph(graph):
        answer = forward()

    def replay() -> Any:
        graph.replay()
        return answer

    return replay


def _pixels(torch: Any, batch: int) -> Any:
    return torch.randn(batch, 3, IMAGE_PIXELS, IMAGE_PIXELS).to(torch.bfloat16)


def _build_resnet50_service(torch: Any, device: str, batch: int, *, graph: bool) -> Step:
    return _service(torch, device, resnet50(torch, norms=False), _pixels(torch, batch), graph)


def _build_mobilenet_service(torch: Any, device: str, batch: int, *, graph: bool) -> Step:
    return _service(torch, device, mobilenet(torch), _pixels(torch, batch), graph)


def _build_encoder_service(torch: Any, device: str, batch: int, *, graph: bool) -> Step:
    shape = _Text()
    words = torch.randint(shape.words, (batch, shape.tokens))
    return _service(torch, device, _encoder(torch, shape), words, graph)


def _build_resnet50_training(torch: Any, device: str, batch: int) -> Step:
    with torch.device(device):
        model = resnet50(torch, norms=True)
    return training_step(torch, model, *images(torch, device, batch), device)


def _build_tiny_service(torch: Any, device: str, batch: int) -> Step:
    return _service(torch, device, torch.nn.Linear(64, 64), torch.randn(batch, 64).to(torch.bfloat16), graph=False)


def _build_tiny_training(torch: Any, device: str, batch: int) -> Step:
    with torch.device(device):
        model = torch.nn.Linear(64, 64)
    inputs, labels = torch.randn(batch, 64, device=device), torch.randint(64, (batch,), device=device)
    return training_step(torch, model, inputs, labels, device)


EXTRA: dict[str, Workload] = {
    workload.name: workload
    for workload in (
        Workload("resnet50-service", "an image through ResNet-50", partial(_build_resnet50_service, graph=False)),
        Workload("resnet50-graph", "the same as one CUDA graph", partial(_build_resnet50_service, graph=True)),
        Workload("mobilenet-service", "an image through MobileNetV2", partial(_build_mobilenet_service, graph=False)),
        Workload("mobilenet-graph", "the same as one CUDA graph", partial(_build_mobilenet_service, graph=True)),
        Workload("encoder-service", "128 words, 6 layers", partial(_build_encoder_service, graph=False)),
        Workload("encoder-graph", "the same as one CUDA graph", partial(_build_encoder_service, graph=True)),
        Workload("resnet50-training", "training ResNet-50", _build_resnet50_training, batch=64),
        Workload("tiny-service", "for rehearsals", _build_tiny_service),
        Workload("tiny-training", "for rehearsals", _build_tiny_training, batch=8),
    )
}
