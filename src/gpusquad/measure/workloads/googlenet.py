"""GoogLeNet (Szegedy 2015) with batch norms and without side heads: many small kernels, limited by the host."""

from __future__ import annotations

from typing import Any

from gpusquad.measure.workloads.training import CLASSES, images, training_step
from gpusquad.measure.workloads.workload import Step, Workload

_INCEPTIONS = (
    (64, 96, 128, 16, 32, 32), (128, 128, 192, 32, 96, 64), None,
    (192, 96, 208, 16, 48, 64), (160, 112, 224, 24, 64, 64), (128, 128, 256, 24, 64, 64), (112, 144, 288, 32, 64, 64),
    (256, 160, 320, 32, 128, 128), None,
    (256, 160, 320, 32, 128, 128), (384, 192, 384, 48, 128, 128),
)  # fmt: skip
"""Widths of the four branches: 1; 3 reduced, 3; 5 reduced, 5; after the pool. None: a pooling between blocks."""


def _network(torch: Any) -> Any:
    nn = torch.nn

    def convolution(before: int, after: int, size: int, stride: int = 1) -> list[Any]:
        made = nn.Conv2d(before, after, size, stride, padding=size // 2, bias=False)
        return [made, nn.BatchNorm2d(after), nn.ReLU(inplace=True)]

    class Branches(nn.Module):
        """Branches over one input, with concatenated outputs."""

        def __init__(self, before: int, widths: tuple[int, ...]) -> None:
            super().__init__()
            one, three_less, three, five_less, five, pooled = widths
            self.branches = nn.ModuleList(
                nn.Sequential(*layers)
                for layers in (
                    convolution(before, one, 1),
                    [*convolution(before, three_less, 1), *convolution(three_less, three, 3)],
                    [*convolution(before, five_less, 1), *convolution(five_less, five, 5)],
                    [nn.MaxPool2d(3, 1, padding=1), *convolution(before, pooled, 1)],
                )
            )

        def forward(self, inputs: Any) -> Any:
            return torch.cat([branch(inputs) for branch in self.branches], 1)

    def pooling() -> Any:
        return nn.MaxPool2d(3, 2, ceil_mode=True)

    layers = [*convolution(3, 64, 7, 2), pooling(), *convolution(64, 64, 1), *convolution(64, 192, 3), pooling()]
    before = 192
    for widths in _INCEPTIONS:
        if widths is None:
            layers.append(pooling())
        else:
            layers.append(Branches(before, widths))
            before = widths[0] + widths[2] + widths[4] + widths[5]
    return nn.Sequential(*layers, nn.AdaptiveAvgPool2d(1), nn.Flatten(), nn.Dropout(0.2), nn.Linear(before, CLASSES))


def build(torch: Any, device: str, batch: int) -> Step:
    with torch.device(device):
        model = _network(torch)
    return training_step(torch, model, *images(torch, device, batch), device)


WORKLOADS = (Workload("googlenet", "training GoogLeNet: many small kernels", build, batch=128),)
