"""A usual DistributedDataParallel program, as torchrun starts it. The backend is gloo, because two processes of NCCL
cannot share one card."""

import json
import os

import torch
import torch.distributed as dist
from torch.nn.parallel import DistributedDataParallel

STEPS = 40

dist.init_process_group("gloo")
rank, local_rank = dist.get_rank(), int(os.environ["LOCAL_RANK"])
device = torch.device("cuda", local_rank) if torch.cuda.is_available() else torch.device("cpu")
torch.manual_seed(0)
model = torch.nn.Sequential(torch.nn.Linear(64, 64), torch.nn.ReLU(), torch.nn.Linear(64, 1)).to(device)
model = DistributedDataParallel(model, device_ids=[local_rank] if device.type == "cuda" else None)
optimizer = torch.optim.SGD(model.parameters(), lr=0.05)
torch.manual_seed(rank)
for step in range(1, STEPS + 1):
    x = torch.randn(32, 64, device=device)
    loss = (model(x) - x.sum(1, keepdim=True)).pow(2).mean()
    optimizer.zero_grad()
    loss.backward()
    optimizer.step()
    if rank == 0:
        print(f"step {step}/{STEPS} loss {loss.item():.4f}", flush=True)
weights = sum(float(value.abs().sum()) for value in model.parameters())
print("RESULT " + json.dumps({"world": dist.get_world_size(), "rank": rank, "device": str(device), "weights": weights}))
dist.destroy_process_group()
