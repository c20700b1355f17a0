"""What NVML shows of a kernel that spins, beside quiet work that looks like it. Needs a GPU and PyTorch.

    python bench/hangs/card_signals.py OUT.json [seconds per case]

Each case is a process of its own; this one samples the card five times a second and prints medians and extremes.
"""

from __future__ import annotations

import json
import statistics
import subprocess
import sys
import time
from pathlib import Path

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
}  # fmt: skip


def sample(seconds: float) -> dict[str, object]:
    import pynvml as nvml

    nvml.nvmlInit()
    card = nvml.nvmlDeviceGetHandleByIndex(0)
    seen: dict[str, list[float]] = {}
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
        for name, value in now.items():
            seen.setdefault(name, []).append(value)
        time.sleep(0.2)
    return {name: [min(v), statistics.median(v), max(v)] if v else [] for name, v in seen.items()}


def main() -> None:
    out, seconds = Path(sys.argv[1]), float(sys.argv[2]) if len(sys.argv) > 2 else 12.0
    found = {}
    for name, code in CASES.items():
        worker = subprocess.Popen(
            [sys.executable, "-c", code], stdout=subprocess.PIPE, stderr=subprocess.PIPE, text=True
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
