"""A small training run on a real GPU that reports its progress: python3 examples/torch_train.py [STEPS]"""

import sys

import torch

import gpusquad

steps = int(sys.argv[1]) if len(sys.argv) > 1 else 200
device = torch.device("cuda")
print(f"training on {torch.cuda.get_device_name(device)}", flush=True)
model = torch.nn.Sequential(*(torch.nn.Linear(8192, 8192) for _ in range(4))).to(device, torch.bfloat16)
optimizer = torch.optim.SGD(model.parameters(), lr=1e-3)
for step in range(1, steps + 1):
    batch = torch.randn(8192, 8192, device=device, dtype=torch.bfloat16)
    loss = (model(batch) - batch).float().pow(2).mean()
    optimizer.zero_grad()
    loss.backward()
    optimizer.step()
    gpusquad.progress(step, steps)
    if step % max(1, steps // 10) == 0:
        print(f"step {step}/{steps} loss {loss.item():.4f}", flush=True)
print("done", flush=True)
