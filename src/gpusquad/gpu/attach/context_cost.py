"""What a CUDA context costs on a card: made in a process of its own, and looked at through NVML.

    python -m gpusquad.gpu.attach.context_cost GPU-12345678-1234-1234-1234-123456789abc

Memory that a process has beside its own allocations cannot be laid to any of them: so it is measured once for a card
and driver, and charged as a constant. What a program's kernels take once they are loaded comes on top, and is not
known.
"""

from __future__ import annotations

import ctypes
import json
import logging
import os
import statistics
import subprocess
import sys
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from pathlib import Path

from gpusquad.gpu.attach.records import read_json, write_whole
from gpusquad.gpu.measure.card.nvml import CardReader, NvmlError
from gpusquad.gpu.mps import no_daemon_env
from gpusquad.model.errors import Invalid, NotNow
from gpusquad.model.units import show_bytes

WITHIN_S = 20.0
_TRIES = 3
_LOADED = Path("/sys/module/nvidia/version")
"""Of the driver, while it is loaded."""
_DRIVER = "libcuda.so.1"
_PROGRAM = (sys.executable, "-P", "-m", "gpusquad.gpu.attach.context_cost")
_NOT_FOR_IT = ("LD_PRELOAD", "GPUSQUAD_TENANT")
_log = logging.getLogger(__name__)


class DriverError(RuntimeError):
    """A call that the driver refused."""


def kept_context_cost(uuid: str, file: Path) -> int:
    """From the file, if it was measured with this driver; else it is measured now. 0: it cannot be, and the log says
    why."""
    driver = _loaded_driver()
    try:
        kept = read_json(file)
        if kept["driver"] == driver:
            return int(kept["bytes"])
    except (OSError, ValueError, TypeError, KeyError):  # it was not measured yet
        pass
    try:
        bytes_ = context_cost(uuid)
    except NotNow as error:
        _log.warning("card %s: CUDA contexts are not charged to anybody's part: %s", uuid, error)
        return 0
    _log.info("card %s: a CUDA context costs %s, and is charged to the part of its process", uuid, show_bytes(bytes_))
    write_whole(file, json.dumps({"bytes": bytes_, "driver": driver}) + "\n")
    return bytes_


def _loaded_driver() -> str:
    try:
        return _LOADED.read_text().strip()
    except OSError:
        return ""


def context_cost(uuid: str) -> int:
    """In bytes. NotNow: it could not be measured, and why. In a process of its own: a driver once loaded stays."""
    env = {name: value for name, value in os.environ.items() if name not in _NOT_FOR_IT} | no_daemon_env(uuid)
    try:
        done = subprocess.run(
            [*_PROGRAM, uuid], env=env, stdin=subprocess.DEVNULL, capture_output=True, text=True, timeout=WITHIN_S
        )
    except subprocess.TimeoutExpired:
        raise _unknown(f"no context could be made within {WITHIN_S:g} s") from None
    if done.returncode != 0:
        raise _unknown((done.stderr.strip().splitlines() or [f"it ended with {done.returncode}"])[-1][-300:])
    return int(json.loads(done.stdout)["bytes"])


def _unknown(why: str) -> NotNow:
    return NotNow("context_bytes", why, "set it in the sharing settings")


def measure(card: CardReader) -> int:
    """By what NVML says of this very process; where it does not tell (as in containers, which have other numbers for
    processes), by what the whole card had before: three times, for others may have come or gone meanwhile."""
    driver = _driver()
    listed_before, used_bytes = _by_process(card), card.used_bytes()
    found = []
    for _ in range(_TRIES):
        with _context(driver):
            own_bytes = _by_process(card).get(os.getpid(), 0)
            if own_bytes and os.getpid() not in listed_before:
                return own_bytes
            found.append(card.used_bytes() - used_bytes)
        used_bytes = card.used_bytes()
    bytes_ = int(statistics.median(found))
    if bytes_ <= 0:
        raise NvmlError("the card's memory does not grow with a context")
    return bytes_


def _by_process(card: CardReader) -> dict[int, int]:
    try:
        return card.by_process()
    except NvmlError:
        return {}


def _driver() -> Callable[..., None]:
    library = ctypes.CDLL(_DRIVER)

    def call(name: str, *arguments: object) -> None:
        code = getattr(library, name)(*arguments)
        if code != 0:
            raise DriverError(f"{name}: error {code}")

    call("cuInit", 0)
    return call


@contextmanager
def _context(driver: Callable[..., None]) -> Iterator[None]:
    device, context = ctypes.c_int(), ctypes.c_void_p()
    driver("cuDeviceGet", ctypes.byref(device), 0)
    driver("cuDevicePrimaryCtxRetain", ctypes.byref(context), device)
    try:
        yield
    finally:
        driver("cuDevicePrimaryCtxRelease_v2", device)


def main(words: list[str]) -> int:
    if len(words) != 1:
        print("usage: python -m gpusquad.gpu.attach.context_cost UUID", file=sys.stderr)
        return 2
    try:
        print(json.dumps({"bytes": measure(CardReader(words[0]))}))
    except (Invalid, NvmlError, DriverError, OSError) as error:
        print(error, file=sys.stderr)
        return 1
    return 0


if __name__ == "__main__":
    sys.exit(main(sys.argv[1:]))
