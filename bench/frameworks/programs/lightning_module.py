"""A usual Lightning program. Arguments: accelerator and devices of the trainer."""

import json
import sys

import torch

try:
    import lightning.pytorch as pl
    from lightning.pytorch.strategies import DDPStrategy
except ImportError:
    import pytorch_lightning as pl
    from pytorch_lightning.strategies import DDPStrategy

accelerator, devices = sys.argv[1], sys.argv[2]


class Model(pl.LightningModule):
    def __init__(self):
        super().__init__()
        self.layer = torch.nn.Linear(64, 1)

    def training_step(self, batch, _):
        return (self.layer(batch) - batch.sum(1, keepdim=True)).pow(2).mean()

    def configure_optimizers(self):
        return torch.optim.SGD(self.parameters(), lr=0.01)


pl.seed_everything(0)
data = torch.utils.data.DataLoader(torch.randn(640, 64), batch_size=16)
trainer = pl.Trainer(
    accelerator=accelerator, devices=devices if devices == "auto" else int(devices), max_epochs=2, logger=False,
    enable_checkpointing=False, strategy=DDPStrategy(process_group_backend="gloo"),
)  # fmt: skip
model = Model()
trainer.fit(model, data)
weights = sum(float(value.abs().sum()) for value in model.parameters())
result = {"world": trainer.world_size, "rank": trainer.global_rank, "device": str(trainer.strategy.root_device)}
print("RESULT " + json.dumps({**result, "weights": weights}), flush=True)
