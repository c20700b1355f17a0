"""A language model on text that grows longer in eight stages: every stage is slower than the previous one. Draws a
progress bar, as many programs do, and reports nothing else."""

from __future__ import annotations

import time

import torch  # pyright: ignore[reportMissingImports]

from bench.progress_jobs.kit import Deadline, StepRecord, arguments, fast, seconds_for
from bench.progress_jobs.network import LanguageModel, learn, text

BATCH = 32
LENGTHS = tuple(range(128, 1025, 128))


def main() -> None:
    asked = arguments()
    step_record, deadline = StepRecord(asked.truth), Deadline(asked.seconds)
    fast()
    model = LanguageModel().cuda()
    optimizer = torch.optim.AdamW(model.parameters(), lr=3e-4, fused=True)
    short_s, long_s = (
        seconds_for(lambda: learn(model, optimizer, text(BATCH, length)), 0.5)  # noqa: B023 - called at once
        for length in (LENGTHS[0], LENGTHS[-1])
    )
    total = asked.total or round(asked.seconds / ((short_s + long_s) / 2))
    began_s, drawn_s = time.monotonic(), 0.0
    for done in range(1, total + 1):
        length = LENGTHS[(done - 1) * len(LENGTHS) // total]
        loss = learn(model, optimizer, text(BATCH, length))
        if done % 10 == 0:
            loss.item()
        step_record.step()
        if time.monotonic() - drawn_s > 0.3 or done == total:
            drawn_s = time.monotonic()
            print(_bar(done, total, drawn_s - began_s), end="", flush=True)
        deadline.check()
    torch.cuda.synchronize()
    print()
    step_record.write()


def _bar(done: int, total: int, elapsed_s: float) -> str:
    marks = "█" * (20 * done // total)
    return f"\r{100 * done // total:3d}%|{marks:<20}| {done}/{total} [{elapsed_s:.0f}s, {done / elapsed_s:.2f}it/s]"


if __name__ == "__main__":
    main()
