"""A usual program of the Hugging Face Trainer, with a small GPT-2 from its configuration. With gloo, because two
processes of NCCL cannot share one card."""

import json
import os
import tempfile

import torch
from transformers import GPT2Config, GPT2LMHeadModel, Trainer, TrainingArguments

torch.manual_seed(0)
tokens = torch.randint(0, 100, (512, 32))
data = [{"input_ids": row, "labels": row} for row in tokens]
model = GPT2LMHeadModel(GPT2Config(vocab_size=100, n_positions=32, n_embd=32, n_layer=1, n_head=2))
arguments = TrainingArguments(
    output_dir=tempfile.mkdtemp(), max_steps=30, per_device_train_batch_size=8, logging_steps=5, save_strategy="no",
    report_to=[],
    ddp_backend="gloo" if "LOCAL_RANK" in os.environ else None, use_cpu=not torch.cuda.is_available(),
)  # fmt: skip
trainer = Trainer(model=model, args=arguments, train_dataset=data)
trainer.train()
weights = sum(float(value.abs().sum()) for value in model.parameters())
result = {"world": arguments.world_size, "rank": arguments.process_index, "device": str(arguments.device)}
print("RESULT " + json.dumps({**result, "weights": weights}), flush=True)
