"""Common parts of the image models: synthetic ImageNet images that are already on the card; bf16 autocast, SGD with
momentum.
"""

from __future__ import annotations

from typing import Any

from gpusquad.measure.workloads.workload import Step

IMAGE_PIXELS = 224
CLASSES = 1000


def images(torch: Any, device: str, batch: int) -> tuple[Any, Any]:
    """A batch and its labels, random because zeros run faster than data."""
    pixels = torch.randn(batch, 3, IMAGE_PIXELS, IMAGE_PIXELS, device=device)
    return pixels, torch.randint(CLASSES, (batch,), device=device)


def training_step(torch: Any, model: Any, inputs: Any, labels: Any, device: str) -> Step:
    """Forward, backward, update. The rate is small, so that thousands of steps on one batch stay finite."""
    optimizer = torch.optim.SGD(model.parameters(), lr=1e-5, momentum=0.9)
    cross_entropy = torch.nn.CrossEntropyLoss()
    kind = device.partition(":")[0]

    def step() -> None:
        optimizer.zero_grad(set_to_none=True)
        with torch.autocast(kind, dtype=torch.bfloat16):
            loss = cross_entropy(model(inputs), labels)
        loss.backward()
        optimizer.step()

    return step
