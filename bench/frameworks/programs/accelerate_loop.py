"""A usual training loop of accelerate. With gloo, because two processes of NCCL cannot share one card."""

import json
import os

import torch
from accelerate import Accelerator
from accelerate.utils import InitProcessGroupKwargs, set_seed
from tqdm.auto import tqdm

on_cpu = not torch.cuda.is_available()
gloo = [InitProcessGroupKwargs(backend="gloo")] if "LOCAL_RANK" in os.environ else []
accelerator = Accelerator(cpu=on_cpu, kwargs_handlers=gloo)
set_seed(0)
model = torch.nn.Linear(64, 1)
optimizer = torch.optim.SGD(model.parameters(), lr=0.01)
data = torch.utils.data.DataLoader(torch.randn(1280, 64), batch_size=16)
model, optimizer, data = accelerator.prepare(model, optimizer, data)
for x in tqdm(data, disable=not accelerator.is_local_main_process):
    loss = (model(x) - x.sum(1, keepdim=True)).pow(2).mean()
    optimizer.zero_grad()
    accelerator.backward(loss)
    optimizer.step()
weights = sum(float(value.abs().sum()) for value in model.parameters())
result = {"world": accelerator.num_processes, "rank": accelerator.process_index, "device": str(accelerator.device)}
print("RESULT " + json.dumps({**result, "weights": weights}), flush=True)
accelerator.end_training()
