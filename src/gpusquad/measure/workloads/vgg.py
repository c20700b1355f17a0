"""VGG with 16 and with 11 layers (Simonyan and Zisserman 2015, configurations D and A): large convolutions, heavy."""

from __future__ import annotations

from functools import partial
from typing import Any

from gpusquad.measure.workloads.training import CLASSES, images, training_step
from gpusquad.measure.workloads.workload import Step, Workload

_STAGES = {16: ((64, 2), (128, 2), (256, 3), (512, 3), (512, 3)), 11: ((64, 1), (128, 1), (256, 2), (512, 2), (512, 2))}
"""By depth: channels and convolutions of each stage; a pooling follows each."""


def _network(torch: Any, depth: int) -> Any:
    nn, layers, before = torch.nn, [], 3
    for channels, count in _STAGES[depth]:
        for _ in range(count):
            layers += [nn.Conv2d(before, channels, 3, padding=1), nn.ReLU(inplace=True)]
            before = channels
        layers.append(nn.MaxPool2d(2))
    hidden = [nn.Linear(512 * 7 * 7, 4096), nn.ReLU(inplace=True), nn.Dropout(), nn.Linear(4096, 4096)]
    return nn.Sequential(*layers, nn.Flatten(), *hidden, nn.ReLU(inplace=True), nn.Dropout(), nn.Linear(4096, CLASSES))


def _build(torch: Any, device: str, batch: int, *, depth: int) -> Step:
    with torch.device(device):
        model = _network(torch, depth)
    return training_step(torch, model, *images(torch, device, batch), device)


WORKLOADS = (
    Workload("vgg16", "training VGG-16: the heaviest of the five", partial(_build, depth=16), batch=80),
    Workload("vgg11", "training VGG-11", partial(_build, depth=11), batch=48),
)
