"""Client without PyTorch: ``python -m tests.bench.card.fake_tenant NAME``. The workload ``dies`` ends its process."""

from __future__ import annotations

import os
import sys
import time
from collections.abc import Mapping
from functools import partial
from typing import Any

from bench.card.models import EXTRA
from bench.card.tenant import Tenant, serve_as
from gpusquad.measure.workloads import Step, Workload

KERNELS = "small:32:200\nwide:0:400\n"


def _sleeping(torch: Any, device: str, batch: int) -> Step:
    return lambda: time.sleep(0.001)


def _dying(torch: Any, device: str, batch: int) -> Step:
    start_s = time.monotonic()

    def step() -> None:
        if time.monotonic() > start_s + 0.3:
            os._exit(3)
        time.sleep(0.001)

    return step


def launching(torch: Any, device: str, batch: int, *, kernel: str, count: int = 3, kernels: str = KERNELS) -> Step:
    """Return a step that launches ``count`` kernels on the stand-in driver and waits for them."""
    from tests.gpu.standin.client import Cuda

    cuda = Cuda(kernels=kernels)

    def step() -> None:
        for _ in range(count):
            cuda.launch(kernel)
        cuda("cuCtxSynchronize")

    return step


EXTRA["asks"] = Workload("asks", "small kernels", partial(launching, kernel="small"), needs_torch=False)
EXTRA["trains"] = Workload("trains", "kernels as wide as the card", partial(launching, kernel="wide"))
EXTRA["sleeps"] = Workload("sleeps", "sleeps a millisecond", _sleeping, needs_torch=False)
EXTRA["dies"] = Workload("dies", "ends its process soon after it was built", _dying, needs_torch=False)


class FakeTenant(Tenant):
    """Client that reports its environment."""

    def hello(self, _: Mapping[str, Any]) -> dict[str, Any]:
        return {"pid": os.getpid()}

    def build(self, _: Mapping[str, Any]) -> dict[str, Any]:
        names = ("LD_PRELOAD", "GPUSQUAD_TENANT", "CUDA_MPS_CLIENT_PRIORITY", "CUDA_MPS_ACTIVE_THREAD_PERCENTAGE")
        return {**super().build(_), "env": {name: os.environ[name] for name in names if name in os.environ}}


if __name__ == "__main__":
    serve_as(FakeTenant(sys.argv[1], "cpu", None))
