"""A small network that waits for its data. Few workers generate pictures, some much slower than others, and the workers
restart every epoch. Prints a line every few steps, as most programs do, and reports nothing else."""

from __future__ import annotations

import time

import numpy as np
import torch  # pyright: ignore[reportMissingImports]
from torch import nn  # pyright: ignore[reportMissingImports]
from torch.nn import functional  # pyright: ignore[reportMissingImports]
from torch.utils.data import DataLoader, Dataset  # pyright: ignore[reportMissingImports]

from bench.progress_jobs.kit import Deadline, StepRecord, arguments, fast

BATCH, SIDE, CLASSES, WORKERS, EPOCHS = 32, 128, 10, 4, 5
ITEM_S = 0.012
"""Typical time of one picture. Its variation makes the loader uneven."""
MEAN_RATIO = 1.13
"""The mean of that spread against its middle."""


class Pictures(Dataset):
    """Generated, not read: the work represents decoding and cropping."""

    def __init__(self, count: int) -> None:
        self._count = count

    def __len__(self) -> int:
        return self._count

    def __getitem__(self, index: int) -> tuple[np.ndarray, int]:
        rng = np.random.default_rng(index)
        until_s = time.perf_counter() + ITEM_S * float(rng.lognormal(0.0, 0.5))
        picture = rng.standard_normal((3, SIDE, SIDE), dtype=np.float32)
        while time.perf_counter() < until_s:
            picture = np.clip(picture * 1.01 - 0.005, -3, 3)
        return picture, index % CLASSES


def main() -> None:
    asked = arguments()
    step_record, deadline = StepRecord(asked.truth), Deadline(asked.seconds)
    fast()
    step_s = BATCH * ITEM_S * MEAN_RATIO / WORKERS
    steps = max(1, round((asked.total or asked.seconds / step_s) / EPOCHS))
    model = nn.Sequential(nn.Conv2d(3, 32, 5, 2), nn.ReLU(), nn.Conv2d(32, 64, 5, 2), nn.ReLU(),
                          nn.AdaptiveAvgPool2d(4), nn.Flatten(), nn.Linear(1024, CLASSES)).cuda()  # fmt: skip
    optimizer = torch.optim.SGD(model.parameters(), lr=0.01)
    loader = DataLoader(Pictures(steps * BATCH), BATCH, shuffle=True, num_workers=WORKERS, pin_memory=True)
    for epoch in range(1, EPOCHS + 1):
        for done, (images, labels) in enumerate(loader, 1):
            loss = functional.cross_entropy(model(images.cuda(non_blocking=True)), labels.cuda(non_blocking=True))
            optimizer.zero_grad(set_to_none=True)
            loss.backward()
            optimizer.step()
            step_record.step()
            if done % 5 == 0 or done == steps:
                print(f"Epoch {epoch}/{EPOCHS} step {done}/{steps} loss {loss.item():.3f}", flush=True)
            deadline.check()
        step_record.event("epoch")
    torch.cuda.synchronize()
    step_record.write()


if __name__ == "__main__":
    main()
