"""Programs that hang on the card itself, and quiet ones that do not, as jobs of a real service on a machine with a GPU.

    python -m bench.hangs.on_card OUT.json [part of the programs' names]

They run one after the other, because each must have the card to itself. The times of the hang rules are a fifteenth of
the default ones, so that a verdict takes a minute instead of a quarter of an hour; nothing else is set. Needs PyTorch
and Triton.
"""

from __future__ import annotations

import json
import os
import sys
import tempfile
import time
from pathlib import Path
from typing import Any

from bench.running import FINAL, RunningService

SHORTER = 15
CONFIG = f"""[hang]
silent_s = {600 / SHORTER}
spinning_s = {600 / SHORTER}
repeats_s = {600 / SHORTER}
stop_after_s = {240 / SHORTER}
"""
WATCHED_S = 900 / SHORTER + 25
PRELUDE = """
import sys, time, torch, triton, triton.language as tl
from torch import nn
d = 'cuda'

@triton.jit
def spin(flag):
    while tl.load(flag, volatile=True) == 0:
        pass

@triton.jit
def fma(out, n, N: tl.constexpr):
    x = tl.arange(0, N).to(tl.float32)
    for _ in range(n):
        x = x * 0.999 + 0.001
    tl.store(out + tl.arange(0, N), x)

def train(net, batch, say=None):
    net = net.to(d)
    rule = torch.optim.Adam(net.parameters())
    while True:
        out = net(batch())
        loss = (out[0] if isinstance(out, tuple) else out).pow(2).mean()
        rule.zero_grad(); loss.backward(); rule.step()
        if say: say()
"""
SPIN = "flag = torch.zeros(1, dtype=torch.int32, device=d)\nspin[({blocks},)](flag, num_warps={warps})\n"
PROGRAMS: dict[str, tuple[str, bool]] = {
    "spin of one block": (SPIN.format(blocks=1, warps=1) + "torch.cuda.synchronize()", True),
    "spin of the whole card": (SPIN.format(blocks=1056, warps=8) + "torch.cuda.synchronize()", True),
    "small network, silent": (("train(nn.Sequential(nn.Linear(32, 32), nn.ReLU(), nn.Linear(32, 1)),\n"
                              "      lambda: torch.randn(32, 32, device=d))"), False),
    "LSTM with a warning in each step": (
        ("train(nn.LSTM(128, 256, 2), lambda: torch.randn(64, 32, 128, device=d),\n"
        "      lambda: print('UserWarning: weights are not contiguous', flush=True))"), False),
    "graph of small kernels, silent": ("""
x = torch.randn(64, 64, device=d)
def work():
    y = x
    for _ in range(2000):
        y = torch.tanh(y @ x)
work(); g = torch.cuda.CUDAGraph()
with torch.cuda.graph(g):
    work()
while True:
    g.replay(); torch.cuda.synchronize()
""", False),
    "one block that computes for seconds, silent": ("""
out = torch.zeros(128, device=d)
while True:
    fma[(1,)](out, 1000000000, N=128); torch.cuda.synchronize()
""", False),
}  # fmt: skip


def main() -> None:
    with tempfile.TemporaryDirectory() as folder:
        path = os.pathsep.join(["src", *filter(None, [os.environ.get("PYTHONPATH")])])
        service = RunningService(Path(folder) / "home", config=CONFIG).start(environment={"PYTHONPATH": path}).checked()
        try:
            time.sleep(25)  # the agent measures the idle card
            part = sys.argv[2] if len(sys.argv) > 2 else ""
            found = [watched(service, name, code, hangs) for name, (code, hangs) in PROGRAMS.items() if part in name]
        finally:
            service.end()
    Path(sys.argv[1]).write_text(json.dumps(found, indent=1) + "\n", encoding="utf-8")


def watched(service: RunningService, name: str, code: str, hangs: bool) -> dict[str, Any]:
    """Run a program until it is stopped or its time is over."""
    script = service.home / "program.py"
    script.write_text(PRELUDE + code, encoding="utf-8")
    job_id = service.submit(name=name.replace(" ", "-").replace(",", ""), command=[sys.executable, str(script)])
    service.wait(job_id, "running", *FINAL)
    end, samples = time.monotonic() + WATCHED_S, []
    while time.monotonic() < end and service.client.jobs.get(job_id)["state"] not in FINAL:
        time.sleep(1)
        samples += [card.get("sample") for node in service.client.cluster.nodes() for card in node["cards"]]
    job = service.client.jobs.get(job_id)
    warned = [event for event in service.client.jobs.story(job_id) if event["kind"] == "hung"]
    if job["state"] not in FINAL:
        service.client.jobs.cancel(job_id)
        service.wait(job_id)
    found = {
        "program": name, "hangs": hangs, "state": job["state"], "cause": job["cause"],
        "warnings": [[event["data"]["rule"], event["data"]["action"], event["cause"]] for event in warned],
        "right": (job["state"] == "failed" and "hung by rule" in job["cause"]) == hangs,
        "last_samples": samples[-2:], "log": service.text(job_id)[-500:],
    }  # fmt: skip
    print(json.dumps({key: found[key] for key in ("program", "right", "state", "cause", "warnings")}), flush=True)
    return found


if __name__ == "__main__":
    main()
