"""A plain small network: four convolutions, as beginners write them."""

from __future__ import annotations

from typing import Any

from gpusquad.measure.workloads.training import CLASSES, images, training_step
from gpusquad.measure.workloads.workload import Step, Workload

_CHANNELS = (32, 64, 128, 256)


def _network(torch: Any) -> Any:
    nn, layers, before = torch.nn, [], 3
    for channels in _CHANNELS:
        layers += [nn.Conv2d(before, channels, 3, padding=1), nn.ReLU(inplace=True), nn.MaxPool2d(2)]
        before = channels
    return nn.Sequential(*layers, nn.AdaptiveAvgPool2d(1), nn.Flatten(), nn.Linear(before, CLASSES))


def build(torch: Any, device: str, batch: int) -> Step:
    with torch.device(device):
        model = _network(torch)
    return training_step(torch, model, *images(torch, device, batch), device)


WORKLOADS = (Workload("cnn", "training a small CNN of four convolutions", build, batch=64),)
