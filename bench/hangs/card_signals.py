"""What NVML shows of a kernel that spins, beside quiet work that looks like it. Needs a GPU, PyTorch and Triton.

    python -m bench.hangs.card_signals OUT.json [seconds per case]

Each case is a process of its own; this one samples the card five times a second and prints least, median and most:
of utilisation, power and PCIe traffic, and of the hardware counters (GPM) of Hopper and newer.
"""

from __future__ import annotations

import json
import statistics
import subprocess
import sys
import tempfile
import time
from pathlib import Path
from typing import Any

from bench.hangs.on_card import PRELUDE, SPIN

PREPARE = "import torch, time\nd = 'cuda'\ntorch.zeros(1, device=d)\n"
TRAIN = """
from torch import nn
net = %s
net = net.to(d)
best = torch.optim.Adam(net.parameters())
def step():
    loss = %s
    best.zero_grad(); loss.backward(); best.step()
step(); print('ready', flush=True)
while True:
    step()
"""
READY = "torch.cuda.current_stream().query(); print('ready', flush=True)\n"
LONG = "while True:\n    %s; torch.cuda.synchronize()\n"
OUT = "out = torch.zeros(128, device=d)\n"
HASH = """
@triton.jit
def mix(out, n, N: tl.constexpr):
    x = tl.arange(0, N).to(tl.uint32)
    for _ in range(n):
        x = (x * 1664525 + 1013904223) ^ (x >> 13)
    tl.store(out + tl.arange(0, N), x)
out = torch.zeros(128, dtype=torch.int32, device=d)
"""
COPY = """
@triton.jit
def walk(src, rounds, n, N: tl.constexpr):
    at = tl.arange(0, N)
    for _ in range(rounds):
        for i in range(0, n):
            tl.store(src + i * N + at, tl.load(src + i * N + at) + 1)
src = torch.zeros(128 << 20, dtype=torch.int32, device=d)
"""
CASES = {
    "idle": PREPARE + "print('ready', flush=True)\ntime.sleep(600)",
    "clock_spin": PREPARE + "print('ready', flush=True)\ntorch.cuda._sleep(int(2e9 * 600))\ntorch.cuda.synchronize()",
    "tiny_mlp": PREPARE + TRAIN % ("nn.Sequential(nn.Linear(32, 32), nn.ReLU(), nn.Linear(32, 1))",
                                   "net(torch.randn(32, 32, device=d)).pow(2).mean()"),
    "lstm": PREPARE + TRAIN % ("nn.LSTM(128, 256, 2)", "net(torch.randn(64, 32, 128, device=d))[0].pow(2).mean()"),
    "transformer": PREPARE + TRAIN % ("nn.TransformerEncoderLayer(512, 8, batch_first=True)",
                                      "net(torch.randn(16, 128, 512, device=d)).pow(2).mean()"),
    "graph_replay": PREPARE + """
x = torch.randn(64, 64, device=d)
def work():
    y = x
    for _ in range(2000):
        y = torch.tanh(y @ x)
    return y
work(); g = torch.cuda.CUDAGraph()
with torch.cuda.graph(g):
    work()
print('ready', flush=True)
while True:
    g.replay(); torch.cuda.synchronize()
""",
    "spin_one_block": PRELUDE + SPIN.format(blocks=1, warps=1) + READY + "torch.cuda.synchronize()",
    "spin_all_blocks": PRELUDE + SPIN.format(blocks=1056, warps=8) + READY + "torch.cuda.synchronize()",
    "fma_one_warp": PRELUDE + OUT + READY + LONG % "fma[(1,)](out, 1000000000, N=32, num_warps=1)",
    "fma_one_block": PRELUDE + OUT + READY + LONG % "fma[(1,)](out, 1000000000, N=128)",
    "hash_one_block": PRELUDE + HASH + READY + LONG % "mix[(1,)](out, 1000000000, N=128)",
    "copy_one_block": PRELUDE + COPY + READY + LONG % "walk[(1,)](src, 40, 1 << 20, N=128)",
    "long_gemm": PREPARE + "a = torch.randn(8192, 8192, device=d)\nprint('ready', flush=True)\n"
                 "while True:\n    for _ in range(200): a @ a\n    torch.cuda.synchronize()",
}  # fmt: skip
GPM = {"sm": 2, "occupancy": 3, "integer": 4, "tensor": 5, "dram": 10, "fp64": 11, "fp32": 12, "fp16": 13,
       "pcie_tx": 20, "pcie_rx": 21}  # fmt: skip


class Counters:
    """Metrics between two samples of the card's counters."""

    def __init__(self, nvml: Any, card: Any) -> None:
        self._nvml, self._card = nvml, card
        self._samples = [nvml.nvmlGpmSampleAlloc(), nvml.nvmlGpmSampleAlloc()]
        nvml.nvmlGpmSampleGet(card, self._samples[0])

    def read(self) -> dict[str, float]:
        begun = time.monotonic()
        self._nvml.nvmlGpmSampleGet(self._card, self._samples[1])
        took = time.monotonic() - begun
        asked = self._nvml.c_nvmlGpmMetricsGet_t()
        asked.version = self._nvml.NVML_GPM_METRICS_GET_VERSION
        asked.numMetrics = len(GPM)
        asked.sample1, asked.sample2 = self._samples
        for place, metric in enumerate(GPM.values()):
            asked.metrics[place].metricId = metric
        self._nvml.nvmlGpmMetricsGet(asked)
        self._samples.reverse()
        found = {f"gpm_{name}": asked.metrics[place].value for place, name in enumerate(GPM)
                 if asked.metrics[place].nvmlReturn == 0}  # fmt: skip
        return {**found, "gpm_took_ms": took * 1000, "gpm_all_took_ms": (time.monotonic() - begun) * 1000}


def sample(seconds: float) -> dict[str, object]:
    import pynvml as nvml

    nvml.nvmlInit()
    card = nvml.nvmlDeviceGetHandleByIndex(0)
    seen: dict[str, list[float]] = {}
    counters = None
    try:
        counters = Counters(nvml, card)
    except nvml.NVMLError as error:
        seen[f"no counters: {error}"] = []
    end = time.monotonic() + seconds
    while time.monotonic() < end:
        rates = nvml.nvmlDeviceGetUtilizationRates(card)
        now = {"busy": rates.gpu, "memory_busy": rates.memory, "power_w": nvml.nvmlDeviceGetPowerUsage(card) / 1000}
        for name, counter in (("tx_kib_s", nvml.NVML_PCIE_UTIL_TX_BYTES), ("rx_kib_s", nvml.NVML_PCIE_UTIL_RX_BYTES)):
            begun = time.monotonic()
            try:
                now[name] = nvml.nvmlDeviceGetPcieThroughput(card, counter)
            except nvml.NVMLError as error:
                now[name] = -1
                seen.setdefault(f"error {error}", [])
            now[f"{name}_took_ms"] = (time.monotonic() - begun) * 1000
        time.sleep(0.2)
        if counters is not None:
            now |= counters.read()
        for name, value in now.items():
            seen.setdefault(name, []).append(value)
    return {name: [min(v), statistics.median(v), max(v)] if v else [] for name, v in seen.items()}


def main() -> None:
    out, seconds = Path(sys.argv[1]), float(sys.argv[2]) if len(sys.argv) > 2 else 12.0
    found = {}
    folder = Path(tempfile.mkdtemp())
    for name, code in CASES.items():
        script = folder / f"{name}.py"  # Triton reads the source of kernels from a file
        script.write_text(code, encoding="utf-8")
        worker = subprocess.Popen(
            [sys.executable, str(script)], stdout=subprocess.PIPE, stderr=subprocess.PIPE, text=True
        )
        assert worker.stdout is not None
        ready = worker.stdout.readline().strip() == "ready"
        if ready:
            time.sleep(4)
            found[name] = sample(seconds)
            found[name]["is_running"] = worker.poll() is None
        worker.kill()
        _, errors = worker.communicate()
        if not ready:
            found[name] = {"error": errors[-400:]}
        print(name, json.dumps(found[name]), flush=True)
        time.sleep(2)
    out.write_text(json.dumps(found, indent=1))


if __name__ == "__main__":
    main()
