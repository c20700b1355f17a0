"""Run the tests of the shim, and of GPU clients that share a card under a real daemon, against a real driver.

    python -m tests.gpu.on_card --out bench/results/shim-on-card

Needs gcc and pytest, and no other dependency of the tests. If pytest is not installed, copy it as a folder: pytest and
its four dependencies (pluggy, iniconfig, packaging, pygments) are pure Python. Run ``pip install --target FOLDER
pytest`` on another machine and set ``PYTHONPATH=FOLDER`` on this one. The outcomes are written to OUT.json after each
test, so that nothing is lost if the run is cut short, and to OUT.md at the end.
"""

from __future__ import annotations

import argparse
import ctypes
import datetime
import json
import os
import platform
import signal
import sys
import time
from collections import Counter
from pathlib import Path
from typing import Any

import pytest

from tests import c_builds

ROOT = Path(__file__).parents[2]
GPU = ROOT / "tests" / "gpu"
FOLDERS = ("shim", "attach")
FILES = (
    "test_entry",
    "test_memory",
    "test_graph_memory",
    "test_partitions",
    "test_virtual_card_graphs",
    "test_streams",
    "test_capture",
    "test_gate",
    "test_loans",
    "test_in_flight",
    "test_uncontended",
    "test_collectives",
    "test_yield",
    "test_kernel_times",
    "test_processes",
)
"""The test files that call the driver."""


def find_driver() -> Path:
    """The folder of the ``libcuda.so.1`` that this machine's programs load."""
    ctypes.CDLL("libcuda.so.1")
    mapped = (line.split(maxsplit=5) for line in Path("/proc/self/maps").read_text().splitlines())
    found = next(Path(part[5]) for part in mapped if len(part) == 6 and Path(part[5]).name.startswith("libcuda.so"))
    return found.parent


def uuid_of_card() -> str:
    """UUID of the first card: MPS needs it to choose a card."""
    nvml, handle, uuid = ctypes.CDLL("libnvidia-ml.so.1"), ctypes.c_void_p(), ctypes.create_string_buffer(96)
    if nvml.nvmlInit_v2() or nvml.nvmlDeviceGetHandleByIndex_v2(0, ctypes.byref(handle)):
        return ""
    return "" if nvml.nvmlDeviceGetUUID(handle, uuid, 96) else uuid.value.decode()


def describe_card() -> dict[str, str]:
    """Model, driver and CUDA version of the first card from NVML, as text for the table."""
    nvml, handle = ctypes.CDLL("libnvidia-ml.so.1"), ctypes.c_void_p()
    if nvml.nvmlInit_v2() != 0:
        return {"card": "unknown", "driver": "unknown"}
    name, driver, cuda = ctypes.create_string_buffer(96), ctypes.create_string_buffer(80), ctypes.c_int()
    nvml.nvmlDeviceGetHandleByIndex_v2(0, ctypes.byref(handle))
    nvml.nvmlDeviceGetName(handle, name, 96)
    nvml.nvmlSystemGetDriverVersion(driver, 80)
    ctypes.CDLL("libcuda.so.1").cuDriverGetVersion(ctypes.byref(cuda))
    version = f"{cuda.value // 1000}.{cuda.value % 1000 // 10}"
    return {"card": name.value.decode(), "driver": driver.value.decode(), "cuda": version}


def path_of(name: str) -> Path:
    return next(path for folder in FOLDERS if (path := GPU / folder / f"{name}.py").exists())


class Notes:
    """A pytest plugin that records results, ends tests that hang, and starts no test after the time limit."""

    def __init__(self, out: Path, about: dict[str, str], within_s: float, each_s: int) -> None:
        self.out, self.about, self.each_s = out, about, each_s
        self.ends_at = time.monotonic() + within_s
        self.results: list[dict[str, Any]] = []

    def pytest_runtest_setup(self) -> None:
        if time.monotonic() > self.ends_at:
            pytest.skip("no time was left for it")
        signal.signal(signal.SIGALRM, _too_long)
        signal.alarm(self.each_s)

    def pytest_runtest_logreport(self, report: pytest.TestReport) -> None:
        if report.when == "teardown":
            signal.alarm(0)
        if report.when == "call" or report.outcome != "passed":
            self._note(report)

    def _note(self, report: pytest.TestReport) -> None:
        name = report.nodeid.rpartition("/")[2]
        seconds = round(report.duration, 2)
        self.results.append({"test": name, "outcome": report.outcome, "seconds": seconds, "reason": _reason(report)})
        self._write(".json", json.dumps({**self.about, "tests": self.results}, indent=1) + "\n")

    def _write(self, ending: str, text: str) -> None:
        self.out.parent.mkdir(parents=True, exist_ok=True)
        draft = self.out.with_name(self.out.name + ".draft")
        draft.write_text(text)
        os.replace(draft, self.out.with_name(self.out.name + ending))

    def write_table(self) -> None:
        counts = Counter(result["outcome"] for result in self.results)
        lines = ["# The shim's tests on a real card", "", "| | |", "|---|---|"]
        lines += [f"| {key} | {value} |" for key, value in self.about.items()]
        lines += [f"| {outcome} | {count} |" for outcome, count in sorted(counts.items())]
        lines += ["", "| test | outcome | seconds | reason |", "|---|---|---|---|"]
        for result in self.results:
            reason = result["reason"].replace("|", "\\|").replace("\n", " ")
            lines.append(f"| `{result['test']}` | {result['outcome']} | {result['seconds']} | {reason} |")
        self._write(".md", "\n".join(lines) + "\n")


def _too_long(*_: object) -> None:
    raise TimeoutError("the test took too long")


def _reason(report: pytest.TestReport) -> str:
    """Why the test was skipped, or the last message of its failure."""
    if isinstance(report.longrepr, tuple):
        return str(report.longrepr[2]).removeprefix("Skipped: ")
    crash = getattr(report.longrepr, "reprcrash", None)
    return "" if report.outcome == "passed" else str(crash.message if crash else report.longrepr)[:500]


def main(words: list[str] | None = None) -> int:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--driver", type=Path, help="folder of libcuda.so.1; default: where this machine has it")
    parser.add_argument("--out", type=Path, default=ROOT / "bench" / "results" / "shim-on-card")
    parser.add_argument(
        "--within", type=float, default=540, metavar="SECONDS", help="start no test after this time; default: 540"
    )
    parser.add_argument("--each", type=int, default=90, metavar="SECONDS", help="time limit of each test; default: 90")
    parser.add_argument("-k", default="", help="run only tests that match this pytest -k expression")
    parser.add_argument(
        "files", nargs="*", default=FILES, help=f"test files to run, of {', '.join(FILES)}; default: all"
    )
    chosen = parser.parse_args(words)
    os.environ["GPUSQUAD_TEST_DRIVER"] = str(chosen.driver or find_driver())
    os.environ["GPUSQUAD_TEST_CARD"] = uuid_of_card()
    sys.path[:0] = ours = [str(ROOT / "src"), str(ROOT)]
    os.environ["PYTHONPATH"] = os.pathsep.join([*ours, *filter(None, [os.environ.get("PYTHONPATH")])])  # for daemons
    today = datetime.datetime.now(datetime.UTC).date().isoformat()
    about = {"date": today, **describe_card(), "python": platform.python_version()}
    notes = Notes(chosen.out, about, chosen.within, chosen.each)
    paths = [str(path_of(name)) for name in chosen.files]
    settings = ["-c", os.devnull, "--rootdir", str(ROOT), "--confcutdir", str(GPU), "--import-mode=importlib"]
    plain = ["-q", "-p", "no:cacheprovider", "--tb=short", *(["-k", chosen.k] if chosen.k else [])]
    code = pytest.main([*settings, *plain, *paths], plugins=[notes, c_builds])
    notes.write_table()
    return int(code)


if __name__ == "__main__":
    sys.exit(main())
