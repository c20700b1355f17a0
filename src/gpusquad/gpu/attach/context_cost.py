"""Measures the memory of a CUDA context on a card, in a separate process and through NVML.

    python -m gpusquad.gpu.attach.context_cost GPU-12345678-1234-1234-1234-123456789abc

The shim cannot see the memory of a context, because no allocation call requests it. It is measured once per card and
driver version, and charged as a constant. The memory of loaded kernels is not included and is unknown.
"""

from __future__ import annotations

import ctypes
import json
import logging
import os
import statistics
import subprocess
import sys
from collections.abc import Callable, Iterator, Sequence
from contextlib import contextmanager, suppress
from pathlib import Path

from gpusquad.gpu.attach.client_environment import own_environment
from gpusquad.gpu.attach.records import read_json, write_whole
from gpusquad.gpu.mps import no_daemon_env
from gpusquad.gpu.nvml import CardReader, NvmlError
from gpusquad.gpu.timeout_run import run_within
from gpusquad.model.errors import Invalid, NotReady
from gpusquad.model.units import show_bytes

TIMEOUT_S = 10.0
MIN_BYTES, MAX_BYTES = 16 << 20, 4 << 30
"""Bounds of a plausible cost. A value outside of them was caused by other processes."""
_TRIES = 3
_MAX_SPREAD_RATIO = 0.1
"""Largest difference between tries, relative to their median."""
_DRIVER_VERSION_FILE = Path("/sys/module/nvidia/version")
"""File with the version of the loaded driver."""
_DRIVER_LIBRARY = "libcuda.so.1"
_PROGRAM = (sys.executable, "-P", "-m", "gpusquad.gpu.attach.context_cost")
_log = logging.getLogger(__name__)


class DriverError(RuntimeError):
    """A failed driver call, or an implausible result."""


def saved_context_cost(file: Path) -> int | None:
    """Cost in bytes that was measured with the loaded driver and saved. None: there is none."""
    try:
        saved = read_json(file)
        bytes_ = int(saved["bytes"])
    except (OSError, ValueError, TypeError, KeyError):
        return None
    return bytes_ if saved.get("driver") == _driver_version() and MIN_BYTES <= bytes_ <= MAX_BYTES else None


def measure_and_save(uuid: str, file: Path) -> int:
    """Cost in bytes, measured now and saved. 0: the measurement failed, and the log says why."""
    try:
        bytes_ = measure_in_new_process(uuid)
    except NotReady as error:
        _log.warning("card %s: CUDA contexts are not charged to memory quotas: %s", uuid, error)
        return 0
    _log.info("card %s: a CUDA context costs %s, charged to the memory quota", uuid, show_bytes(bytes_))
    with suppress(OSError):  # then the service measures again after its next start
        write_whole(file, json.dumps({"bytes": bytes_, "driver": _driver_version()}) + "\n")
    return bytes_


def _driver_version() -> str:
    try:
        return _DRIVER_VERSION_FILE.read_text().strip()
    except OSError:
        return ""


def measure_in_new_process(uuid: str) -> int:
    """Cost in bytes, measured in a separate process, because a loaded driver cannot be unloaded. Raises NotReady if the
    measurement fails."""
    try:
        done = run_within(TIMEOUT_S, [*_PROGRAM, uuid], own_environment() | no_daemon_env(uuid))
    except OSError as error:
        raise _unknown(str(error)) from None
    except subprocess.TimeoutExpired:
        raise _unknown(f"no context was created within {TIMEOUT_S:g} s") from None
    if done.returncode != 0:
        lines = done.stderr.strip().splitlines() or [f"the measurement ended with exit status {done.returncode}"]
        raise _unknown(lines[-1][-300:])
    try:
        return int(json.loads(done.stdout)["bytes"])
    except (ValueError, TypeError, KeyError):
        raise _unknown(f"unexpected output of the measurement: {done.stdout.strip()[-100:]!r}") from None


def _unknown(why: str) -> NotReady:
    return NotReady("context_bytes", why, "set it in the sharing settings")


def measure_in_this_process(card: CardReader) -> int:
    """Cost in bytes: what NVML reports for this process. In a container NVML may list the pids of the node. Then the
    cost is the growth of the card's used memory, measured several times, because other processes may start and end."""
    driver = _driver()
    listed_before = _by_process(card)
    used = [card.used_bytes()]  # alternately without and with a context
    for _ in range(_TRIES):
        with _context(driver):
            own_bytes = _by_process(card).get(os.getpid(), 0)
            # A pid that was listed before the context existed is that of another process, outside of this container.
            if own_bytes and os.getpid() not in listed_before:
                return _plausible([own_bytes])
            used.append(card.used_bytes())
        used.append(card.used_bytes())
    return _plausible([at - before for before, at in zip(used[::2], used[1::2], strict=False)], used[2::2])


def _plausible(growth: list[int], without_context: Sequence[int] = (0,)) -> int:
    """Median growth of the used memory with a context. Raises DriverError if the tries differ or are out of bounds.

    ``without_context``: memory used after each context was destroyed. The driver keeps a part of the first context, so
    the memory used before it is not one of these values.
    """
    median = int(statistics.median(growth))
    is_stable = max(_spread(growth), _spread(without_context)) <= _MAX_SPREAD_RATIO * median
    if not is_stable or not MIN_BYTES <= median <= MAX_BYTES:
        listed = ", ".join(map(str, growth))
        raise DriverError(f"used memory grew by {listed} bytes with a context: other processes use the card as well")
    return median


def _spread(values: Sequence[int]) -> int:
    return max(values) - min(values)


def _by_process(card: CardReader) -> dict[int, int]:
    try:
        return card.by_process()
    except NvmlError:
        return {}


def _driver() -> Callable[..., None]:
    library = ctypes.CDLL(_DRIVER_LIBRARY)

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
        print(json.dumps({"bytes": measure_in_this_process(CardReader(words[0]))}))
    except (Invalid, NvmlError, DriverError, OSError) as error:
        print(error, file=sys.stderr)
        return 1
    return 0


if __name__ == "__main__":
    sys.exit(main(sys.argv[1:]))
