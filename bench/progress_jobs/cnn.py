"""A convolutional network, compiled: its first steps take many seconds, the rest milliseconds. Tells every step."""

from __future__ import annotations

import itertools

import torch  # pyright: ignore[reportMissingImports]
from torch import Tensor, nn  # pyright: ignore[reportMissingImports]
from torch.nn import functional  # pyright: ignore[reportMissingImports]

import gpusquad
from bench.progress_jobs.kit import Deadline, StepRecord, arguments, fast, seconds_for

BATCH, SIDE, CLASSES = 256, 96, 100
COMPILED_RATIO = 0.75
"""Approximate time of a compiled step relative to an eager one; it only sets how many steps fill the time."""


class Cell(nn.Module):
    def __init__(self, given: int, made: int, stride: int) -> None:
        super().__init__()
        self.first = nn.Conv2d(given, made, 3, stride, 1, bias=False)
        self.second = nn.Conv2d(made, made, 3, 1, 1, bias=False)
        self.skip = nn.Conv2d(given, made, 1, stride, bias=False)
        self.norms = nn.ModuleList(nn.BatchNorm2d(made) for _ in range(2))

    def forward(self, x: Tensor) -> Tensor:
        y = functional.relu(self.norms[0](self.first(x)))
        return functional.relu(self.norms[1](self.second(y)) + self.skip(x))


def network() -> nn.Module:
    widths = (3, 64, 128, 256, 256, 512)
    cells = [Cell(given, made, 2 if made > 64 else 1) for given, made in itertools.pairwise(widths)]
    end = (nn.AdaptiveAvgPool2d(1), nn.Flatten(), nn.Linear(widths[-1], CLASSES))
    return nn.Sequential(*cells, *end).cuda().to(memory_format=torch.channels_last)


def main() -> None:
    asked = arguments()
    step_record, deadline = StepRecord(asked.truth), Deadline(asked.seconds)
    fast()
    model = network()
    optimizer = torch.optim.SGD(model.parameters(), lr=0.01, momentum=0.9)
    images = torch.randn(BATCH, 3, SIDE, SIDE, device="cuda").to(memory_format=torch.channels_last)
    labels = torch.randint(0, CLASSES, (BATCH,), device="cuda")

    def step(forward: nn.Module) -> Tensor:
        with torch.autocast("cuda", torch.bfloat16):
            loss = functional.cross_entropy(forward(images), labels)
        optimizer.zero_grad(set_to_none=True)
        loss.backward()
        optimizer.step()
        return loss.detach()

    total = asked.total or round(asked.seconds / (COMPILED_RATIO * seconds_for(lambda: step(model))))
    torch._dynamo.config.suppress_errors = True  # without a compiler it is slower, but runs
    compiled = torch.compile(model)
    for done in range(1, total + 1):
        loss = step(compiled)
        if done % 10 == 0 or done < 5:
            loss.item()
        step_record.step()
        gpusquad.progress(done, total)
        deadline.check()
    torch.cuda.synchronize()
    step_record.write()


if __name__ == "__main__":
    main()
