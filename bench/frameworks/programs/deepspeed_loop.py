"""A usual program of DeepSpeed, which finds its ranks in the environment."""

import json

import deepspeed
import torch

deepspeed.init_distributed("gloo")
torch.manual_seed(0)
config = {"train_micro_batch_size_per_gpu": 16, "optimizer": {"type": "SGD", "params": {"lr": 0.01}},
          "steps_per_print": 10}  # fmt: skip
network = torch.nn.Linear(64, 1)
engine, *_ = deepspeed.initialize(model=network, model_parameters=network.parameters(), config=config)
for _ in range(40):
    x = torch.randn(16, 64, device=engine.device)
    loss = (engine(x) - x.sum(1, keepdim=True)).pow(2).mean()
    engine.backward(loss)
    engine.step()
weights = sum(float(value.abs().sum()) for value in network.parameters())
result = {"world": engine.world_size, "rank": engine.global_rank, "device": str(engine.device)}
print("RESULT " + json.dumps({**result, "weights": weights}), flush=True)
