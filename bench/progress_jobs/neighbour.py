"""A neighbour on the same card that starts and stops: matrix products without a pause, then idle, then again."""

from __future__ import annotations

import argparse
import time

import torch  # pyright: ignore[reportMissingImports]

SIDE = 4096


def main() -> None:
    parser = argparse.ArgumentParser()
    parser.add_argument("spans", nargs="+", help="from-to in seconds after the start, for example 15-30")
    asked = parser.parse_args()
    began_s = time.monotonic()
    factor = torch.randn(SIDE, SIDE, device="cuda", dtype=torch.bfloat16)
    for span in asked.spans:
        first_s, last_s = (float(part) for part in span.split("-"))
        time.sleep(max(0.0, began_s + first_s - time.monotonic()))
        print("on", flush=True)
        while time.monotonic() < began_s + last_s:
            for _ in range(20):
                torch.mm(factor, factor)
            torch.cuda.synchronize()
        print("off", flush=True)


if __name__ == "__main__":
    main()
