"""Measures the memory of a CUDA context on a card, in a separate process and through NVML.

    python -m gpusquad.gpu.attach.context_cost GPU-12345678-1234-1234-1234-123456789abc

The memory of a context cannot be attributed to an allocation. It is measured once per card and driver and charged as a
constant. Memory of loaded kernels comes on top and is unknown.
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

WITHIN_S = 10.0
LEAST_BYTES, MAX_BYTES = 16 << 20, 4 << 30
"""Plausible cost. Values outside come from other processes."""
_TRIES = 3
_AGREE = 0.1
"""Largest relative difference between tries."""
_LOADED = Path("/sys/module/nvidia/version")
"""Version of the loaded driver."""
_DRIVER = "libcuda.so.1"
_PROGRAM = (sys.executable, "-P", "-m", "gpusquad.gpu.attach.context_cost")
_log = logging.getLogger(__name__)


class DriverError(RuntimeError):
    """A failed driver call, or an implausible result."""


def kept_context_cost(file: Path) -> int | None:
    """Saved measurement with the loaded driver. None: there is none."""
    try:
        kept = read_json(file)
        bytes_ = int(kept["bytes"])
    except (OSError, ValueError, TypeError, KeyError):
        return None
    return bytes_ if kept.get("driver") == _loaded_driver() and LEAST_BYTES <= bytes_ <= MAX_BYTES else None


def new_context_cost(uuid: str, file: Path) -> int:
    """Measure now and save. 0: it failed, and the log says why."""
    try:
        bytes_ = context_cost(uuid)
    except NotReady as error:
        _log.warning("card %s: CUDA contexts are not charged to memory quotas: %s", uuid, error)
        return 0
    _log.info("card %s: a CUDA context costs %s, charged to the memory quota", uuid, show_bytes(bytes_))
    with suppress(OSError):  # then the next service measures again
        write_whole(file, json.dumps({"bytes": bytes_, "driver": _loaded_driver()}) + "\n")
    return bytes_


def _loaded_driver() -> str:
    try:
        return _LOADED.read_text().strip()
    except OSError:
        return ""


def context_cost(uuid: str) -> int:
    """Cost in bytes, measured in a separate process, because a driver stays loaded. NotReady: it failed."""
    try:
        done = run_within(WITHIN_S, [*_PROGRAM, uuid], own_environment() | no_daemon_env(uuid))
    except OSError as error:
        raise _unknown(str(error)) from None
    except subprocess.TimeoutExpired:
        raise _unknown(f"no context was created within {WITHIN_S:g} s") from None
    if done.returncode != 0:
        raise _unknown((done.stderr.strip().splitlines() or [f"it ended with {done.returncode}"])[-1][-300:])
    try:
        return int(json.loads(done.stdout)["bytes"])
    except (ValueError, TypeError, KeyError):
        raise _unknown(f"unexpected output {done.stdout.strip()[-100:]!r}") from None


def _unknown(why: str) -> NotReady:
    return NotReady("context_bytes", why, "set it in the sharing settings")


def measure(card: CardReader) -> int:
    """From NVML's figure for this process. Where it has none (in containers, whose pids differ), from the growth of the
    card's used memory, several times, because other processes may start and end meanwhile."""
    driver = _driver()
    listed_before = _by_process(card)
    used = [card.used_bytes()]
    for _ in range(_TRIES):
        with _context(driver):
            own_bytes = _by_process(card).get(os.getpid(), 0)
            if own_bytes and os.getpid() not in listed_before:
                return _plausible([own_bytes])
            used.append(card.used_bytes())
        used.append(card.used_bytes())
    return _plausible([at - before for before, at in zip(used[::2], used[1::2], strict=False)], used[2::2])


def _plausible(grew: list[int], left: Sequence[int] = (0,)) -> int:
    """``left``: memory used without our context, after the first one, of which the driver keeps a part."""
    middle = int(statistics.median(grew))
    is_calm = max(_apart(grew), _apart(left)) <= _AGREE * middle
    if not is_calm or not LEAST_BYTES <= middle <= MAX_BYTES:
        told = ", ".join(map(str, grew))
        raise DriverError(f"the card's memory grew by {told} bytes with a context: others use it at the same time")
    return middle


def _apart(values: Sequence[int]) -> int:
    return max(values) - min(values)


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
