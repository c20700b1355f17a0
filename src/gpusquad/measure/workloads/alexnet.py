"""AlexNet in its one-card form (Krizhevsky 2014): few and cheap convolutions, many weights."""

from __future__ import annotations

from typing import Any

from gpusquad.measure.workloads.training import CLASSES, images, training_step
from gpusquad.measure.workloads.workload import Step, Workload


def _network(torch: Any) -> Any:
    nn = torch.nn

    def convolution(*sizes: int, **options: int) -> list[Any]:
        return [nn.Conv2d(*sizes, **options), nn.ReLU(inplace=True)]

    features = [
        *convolution(3, 64, 11, stride=4, padding=2), nn.MaxPool2d(3, 2),
        *convolution(64, 192, 5, padding=2), nn.MaxPool2d(3, 2),
        *convolution(192, 384, 3, padding=1),
        *convolution(384, 256, 3, padding=1),
        *convolution(256, 256, 3, padding=1), nn.MaxPool2d(3, 2),
    ]  # fmt: skip
    hidden = [nn.Dropout(), nn.Linear(256 * 6 * 6, 4096), nn.ReLU(inplace=True), nn.Dropout(), nn.Linear(4096, 4096)]
    return nn.Sequential(*features, nn.Flatten(), *hidden, nn.ReLU(inplace=True), nn.Linear(4096, CLASSES))


def build(torch: Any, device: str, batch: int) -> Step:
    with torch.device(device):
        model = _network(torch)
    return training_step(torch, model, *images(torch, device, batch), device)


WORKLOADS = (Workload("alexnet", "training AlexNet: light convolutions, heavy weights", build, batch=128),)
