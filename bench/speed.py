"""How fast the simulator is: Philly resampled to several sizes, and KTH-SP2 beside pyss where that is at hand."""

from __future__ import annotations

import json
import math
import os
import resource
import subprocess
import sys
import tempfile
import time
from pathlib import Path

from bench.claims import claim
from bench.data import ROOT, data_path
from bench.philly import gpus_2500, resample
from gpusquad.core.state.policies import make_policies
from gpusquad.model.cluster import grid
from gpusquad.sim.simulator import Scenario, exact, simulate, user
from gpusquad.sim.traces import TraceJob, read

NAME = "speed"
SUMMARY = "jobs a second: Philly resampled to 10k-300k jobs on 2,500 GPUs, and KTH-SP2 beside pyss"
SIZES = (10_000, 30_000, 100_000, 300_000)
KTH = "swf-backfill/KTH-SP2_jobs_and_reference_waits.csv.gz"
FACTS_JOBS_PER_S = 9000.0
"""pyss on two other cores, as recorded; used where pyss is not at hand to run beside."""


def run() -> list[dict]:
    measured = {size: _in_own_process("philly", size) for size in SIZES}
    claims = [claim(f"Philly {size:,} jobs", m["wall_s"], "s", "lower", bar=60.0 if size == 100_000 else None)
              for size, m in measured.items()]  # fmt: skip
    claims.append(claim("memory at 100,000 jobs", measured[100_000]["peak_mib"], "MiB", "lower", bar=1024.0))
    claims.append(_growth(measured))
    claims.extend(_beside_pyss())
    return claims


def _growth(measured: dict[int, dict]) -> dict:
    """Growth of the time from the smallest to the largest size, relative to n log n."""
    low, high = SIZES[0], SIZES[-1]
    allowed = (high * math.log(high)) / (low * math.log(low))
    grown = measured[high]["wall_s"] / measured[low]["wall_s"]
    return claim("growth 10k to 300k, against n log n", grown / allowed, "x", "lower", bar=1.0)


def _beside_pyss() -> list[dict]:
    """Process against process, reading the trace included, on the same machine in the same run; best of three."""
    ours = min((_in_own_process("kth", 0) for _ in range(3)), key=lambda m: m["total_s"])
    jobs = ours["jobs"]
    claims = [
        claim("KTH-SP2 EASY, simulation alone", jobs / ours["wall_s"], "jobs/s", "higher", baseline=FACTS_JOBS_PER_S)
    ]
    peer_s = _pyss_s()
    if peer_s is not None:
        rate = jobs / ours["total_s"]
        claims.append(claim("KTH-SP2 EASY, whole process, beside pyss", rate, "jobs/s", "higher", bar=jobs / peer_s,
                            baseline=jobs / peer_s))  # fmt: skip
    return claims


def _pyss_s() -> float | None:
    """Best of three of pyss (its folder in $GPUSQUAD_PYSS, its Python in $GPUSQUAD_PYTHON2); None without."""
    folder = os.environ.get("GPUSQUAD_PYSS")
    if not folder:
        return None
    with tempfile.TemporaryDirectory() as scratch:
        swf = Path(scratch) / "kth.swf"
        swf.write_text("".join(_swf_line(t) for t in read(data_path(KTH)).jobs))
        command = [os.environ.get("GPUSQUAD_PYTHON2", "python2.7"), "-O", "run_simulator.py", "--num-processors=100",
                   f"--input-file={swf}", "--scheduler=EasyBackfillScheduler"]  # fmt: skip
        times = []
        for _ in range(3):
            began = time.perf_counter()
            subprocess.run(command, cwd=folder, check=True, capture_output=True)
            times.append(time.perf_counter() - began)
    return min(times)


def _swf_line(trace: TraceJob) -> str:
    job, gpus = trace.job, trace.job.gpus
    estimate_s = (job.estimate_us or trace.run_us) // 10**6
    numbers = [job.id, job.submitted_us // 10**6, -1, trace.run_us // 10**6, gpus, -1, -1, gpus, estimate_s, -1, 1, 1]
    return " ".join(map(str, [*numbers, *[-1] * 6])) + "\n"


def _in_own_process(what: str, size: int) -> dict:
    """So that the peak of memory is this run's own."""
    done = subprocess.run([sys.executable, "-m", "bench.speed", what, str(size)], cwd=ROOT, check=True,
                          capture_output=True, text=True)  # fmt: skip
    return json.loads(done.stdout)


def _measure(what: str, size: int) -> dict:
    began = time.perf_counter()
    if what == "philly":
        cluster = gpus_2500()
        scenario = Scenario(cluster, resample(size, cluster.gpus), make_policies("fifo", "easy", "binpack"), exact)
    else:
        scenario = Scenario(grid("100x1"), read(data_path(KTH)).jobs, make_policies("fifo", "easy", "binpack"), user)
    result = simulate(scenario)
    peak_mib = resource.getrusage(resource.RUSAGE_SELF).ru_maxrss / 1024
    total_s = time.perf_counter() - began
    return {"wall_s": result.wall_s, "total_s": total_s, "jobs": len(result.outcomes), "peak_mib": peak_mib}


if __name__ == "__main__":
    print(json.dumps(_measure(sys.argv[1], int(sys.argv[2]))))
