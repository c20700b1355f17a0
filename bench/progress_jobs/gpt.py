"""A language model with a look at held-out text every eighth of the way, and its weights to disk every quarter."""

from __future__ import annotations

import tempfile
from pathlib import Path

import torch  # pyright: ignore[reportMissingImports]

import gpusquad
from bench.progress_jobs.kit import Deadline, StepRecord, arguments, fast, seconds_for
from bench.progress_jobs.network import LanguageModel, learn, text

BATCH, LENGTH = 32, 512
LOOKS, LOOK_S = 8, 2.0
"""How often, and about how long each."""


def main() -> None:
    asked = arguments()
    step_record, deadline = StepRecord(asked.truth), Deadline(asked.seconds)
    fast()
    model = LanguageModel().cuda()
    optimizer = torch.optim.AdamW(model.parameters(), lr=3e-4, fused=True)

    @torch.no_grad()
    def look(batches: int) -> float:
        losses = []
        for _ in range(batches):
            with torch.autocast("cuda", torch.bfloat16):
                losses.append(model.loss(text(BATCH, LENGTH)))
        return torch.stack(losses).mean().item()

    step_s = seconds_for(lambda: learn(model, optimizer, text(BATCH, LENGTH)))
    batches = round(LOOK_S / seconds_for(lambda: look(1)))
    total = asked.total or round((asked.seconds - LOOKS * LOOK_S) / step_s)
    every = total // LOOKS
    with tempfile.TemporaryDirectory() as folder:
        for done in range(1, total + 1):
            loss = learn(model, optimizer, text(BATCH, LENGTH))
            if done % 10 == 0:
                loss.item()
            step_record.step()
            gpusquad.progress(done, total)
            if done % every == 0:
                step_record.event("look")
                look(batches)
            if done % (2 * every) == 0:
                step_record.event("save")
                torch.save({"model": model.state_dict(), "optimizer": optimizer.state_dict()}, Path(folder, "last.pt"))
            deadline.check()
        torch.cuda.synchronize()
        step_record.event("done")
    step_record.write()


if __name__ == "__main__":
    main()
