"""One tenant in a process of its own that stays warm: ``python -m bench.card.tenant NAME [--device cpu]``.

How it shares the card (MPS, its percentage and priority, the library) was decided by the environment it was started
with. Between blocks it launches nothing. Needs PyTorch, numpy and the standard library only.
"""

from __future__ import annotations

import argparse
import contextlib
import gc
import os
import statistics
import threading
import time
from collections.abc import Callable, Iterator, Mapping, Sequence
from pathlib import Path
from typing import Any

from bench.card.models import EXTRA, QUEUE
from gpusquad.measure.line_server import Answer, serve
from gpusquad.measure.step_counter import CudaMarks, HostMarks, StepWindow, counted, spin_until, wait_until
from gpusquad.measure.workloads import Step, find

WARM_UP_STEPS = 8
_TRIALS = 20
_SLEEP_CYCLES = 40_000_000
"""About 20 ms of a card's clock: long enough for the host to queue a whole request behind it."""
_REPORT_EVERY_S = 0.25
"""Seldom: a request that ends while the reporter has the interpreter is late by that."""


class Tenant:
    """Serves requests as they arrive, or iterates; on the card, or without one for a rehearsal."""

    def __init__(self, name: str, device: str, batch: int | None) -> None:
        self._workload = EXTRA[name] if name in EXTRA else find(name)
        self._device, self._batch = device, batch or self._workload.batch
        self._torch: Any = None
        self._step: Step | None = None

    def hello(self, _: Mapping[str, Any]) -> Answer:
        import torch  # pyright: ignore[reportMissingImports]

        self._torch = torch
        torch.set_num_threads(1)
        if self._on_card:
            torch.zeros(1, device=self._device)
            torch.cuda.synchronize()
        sms = torch.cuda.get_device_properties(0).multi_processor_count if self._on_card else 0
        return {"pid": os.getpid(), "torch": torch.__version__, "sms": sms}

    def build(self, _: Mapping[str, Any]) -> Answer:
        self.park({})
        step = self._workload.build(self._torch, self._device, self._batch)
        for _step in range(WARM_UP_STEPS):
            step()
        self._synchronize()
        self._step = step
        gc.collect()
        gc.freeze()  # exclude existing objects from garbage collection before a block
        return {"memory_bytes": self._torch.cuda.memory_reserved() if self._on_card else 0}

    def park(self, _: Mapping[str, Any]) -> Answer:
        self._step = None
        gc.unfreeze()
        gc.collect()
        if self._on_card:
            self._torch.cuda.empty_cache()
        return {}

    def serve(self, request: Mapping[str, Any]) -> Answer:
        """Serve requests at their arrival times, one after another. The latency is from the arrival to the end. On a
        card the client polls for the next request without a pause, because the wake-up latency of the machine does not
        depend on sharing.

        Requests that have not started by ``give_up_s`` are not started. They count with their latency so far, which is
        too low.
        """
        step, start_s = self._built(), float(request["start_s"])
        give_up_s = start_s + float(request["give_up_s"])
        offsets = [float(offset) for offset in request["offsets_s"]]
        late_us: list[int] = []
        wait = spin_until if self._on_card else wait_until
        with _no_pauses(), _reporting(request.get("report"), late_us):
            for offset_s in offsets:
                due_s = start_s + offset_s
                wait(due_s)
                if time.monotonic() > give_up_s:
                    break
                step()
                late_us.append(round((time.monotonic() - due_s) * 1e6))
        begun = len(late_us)
        ended_s = time.monotonic()
        late_us += [
            round((max(ended_s, start_s + offset_s) - start_s - offset_s) * 1e6) for offset_s in offsets[begun:]
        ]
        return {"late_us": late_us, "unserved": len(offsets) - begun, "ended_s": ended_s - start_s}

    def iterate(self, request: Mapping[str, Any]) -> Answer:
        """Run steps from the start, for a time or a number of steps. Return the end of each in seconds from the
        start."""
        step, start_s = self._built(), float(request["start_s"])
        until_s = start_s + float(request["length_s"])
        most = int(request.get("count") or 0)
        marks = CudaMarks(self._torch) if self._on_card else HostMarks()
        begun = 0
        with _no_pauses():
            wait_until(start_s)
            while time.monotonic() < until_s and not (most and begun >= most):
                step()
                marks.mark()
                begun += 1
            done_s = marks.drained()
        found: Answer = {"count": len(done_s), "ended_s": time.monotonic() - start_s}
        if "counted" in request:
            low_s, high_s = (float(edge) for edge in request["counted"])
            window = StepWindow(start_s, low_s, high_s - low_s, max(0.0, float(request["length_s"]) - high_s))
            found["steps"] = counted(window, done_s) if done_s else 0.0
        if request.get("instants"):
            found["done_us"] = [round((one - start_s) * 1e6) for one in done_s]
        return found

    def work(self, _: Mapping[str, Any]) -> Answer:
        """GPU time of one step. Call it without neighbours."""
        step = getattr(self._built(), QUEUE, self._built())
        timed = self._card_us if self._on_card else _host_us
        return {"work_us": statistics.median(timed(step) for _trial in range(_TRIALS))}

    def _card_us(self, step: Callable[[], Any]) -> float:
        """Between two marks with all kernels of the step queued behind a pause, so that no time is in it in which the
        card waits for the host. A service's answer is not waited for."""
        first, last = (self._torch.cuda.Event(enable_timing=True) for _ in range(2))
        self._torch.cuda._sleep(_SLEEP_CYCLES)
        first.record()
        step()
        last.record()
        self._synchronize()
        return first.elapsed_time(last) * 1000

    def _built(self) -> Step:
        if self._step is None:
            raise RuntimeError("no workload is built")
        return self._step

    @property
    def _on_card(self) -> bool:
        return self._device != "cpu"

    def _synchronize(self) -> None:
        if self._on_card:
            self._torch.cuda.synchronize()


def _host_us(step: Callable[[], Any]) -> float:
    begun_s = time.perf_counter()
    step()
    return (time.perf_counter() - begun_s) * 1e6


@contextlib.contextmanager
def _no_pauses() -> Iterator[None]:
    """Collecting garbage stops the host at times, and a program that is bound by its host with it."""
    gc.collect()
    gc.disable()
    try:
        yield
    finally:
        gc.enable()


@contextlib.contextmanager
def _reporting(to: Mapping[str, str] | None, late_us: list[int]) -> Iterator[None]:
    """Report latencies to the card daemon as they occur, as a service would. Its cost is part of the measurement."""
    if to is None:
        yield
        return
    from gpusquad.gpu.daemon.__main__ import ask

    over = threading.Event()

    def report() -> None:
        told = 0
        while not over.wait(_REPORT_EVERY_S):
            now = len(late_us)
            if now > told:
                with contextlib.suppress(OSError, ValueError):
                    ask(Path(to["socket"]), {"do": "latencies", "id": to["id"], "us": late_us[told:now]})
                told = now

    thread = threading.Thread(target=report, daemon=True)
    thread.start()
    try:
        yield
    finally:
        over.set()
        thread.join(2.0)


def main(arguments: Sequence[str] | None = None) -> None:
    parser = argparse.ArgumentParser(prog="python -m bench.card.tenant", description=__doc__)
    parser.add_argument("name")
    parser.add_argument("--device", default="cuda")
    parser.add_argument("--batch", type=int, default=None)
    chosen = parser.parse_args(arguments)
    serve_as(Tenant(chosen.name, chosen.device, chosen.batch))


def serve_as(tenant: Tenant) -> None:
    verbs = {name: getattr(tenant, name) for name in ("hello", "build", "park", "work", "serve", "iterate")}
    serve({**verbs, "quit": lambda _: {}})


if __name__ == "__main__":
    main()
