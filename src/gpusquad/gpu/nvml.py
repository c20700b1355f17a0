"""Reads one card through NVML with ctypes: it needs the driver's library and no package."""

from __future__ import annotations

import ctypes
from typing import Any

from gpusquad.model.errors import Invalid

_LIBRARY = "libnvidia-ml.so.1"
_TEXT_BYTES = 128
_MAX_PROCESSES = 512
_NOT_KNOWN = 2**64 - 1
_SM_CLOCK = 1
"""NVML's number of the SM clock."""


class _Memory(ctypes.Structure):
    _fields_ = [("total", ctypes.c_ulonglong), ("free", ctypes.c_ulonglong), ("used", ctypes.c_ulonglong)]


class _Utilisation(ctypes.Structure):
    _fields_ = [("gpu", ctypes.c_uint), ("memory", ctypes.c_uint)]


class _Process(ctypes.Structure):
    _fields_ = [
        ("pid", ctypes.c_uint),
        ("used_bytes", ctypes.c_ulonglong),
        ("gpu_instance", ctypes.c_uint),
        ("compute_instance", ctypes.c_uint),
    ]


class NvmlError(RuntimeError):
    """An NVML call that fails here."""


class CardReader:
    """Reads one card and changes nothing. ``card``: its index in the machine, or its UUID."""

    def __init__(self, card: str = "0") -> None:
        try:
            self.library: Any = ctypes.CDLL(_LIBRARY)
        except OSError:
            raise Invalid("card", "NVIDIA's driver is not installed", f"install {_LIBRARY}") from None
        self.call("nvmlInit_v2")
        self.handle = ctypes.c_void_p()
        if card.startswith("GPU-"):
            self.call("nvmlDeviceGetHandleByUUID", card.encode(), ctypes.byref(self.handle))
        else:
            self.call("nvmlDeviceGetHandleByIndex_v2", ctypes.c_uint(int(card)), ctypes.byref(self.handle))

    def call(self, name: str, *arguments: Any) -> None:
        function = getattr(self.library, name, None)
        if function is None:
            raise NvmlError(f"{name}: not in this driver")
        code = function(*arguments)
        if code != 0:
            raise NvmlError(f"{name}: error {code}")

    def model(self) -> str:
        return self._text("nvmlDeviceGetName", self.handle)

    def driver(self) -> str:
        return self._text("nvmlSystemGetDriverVersion")

    def total_bytes(self) -> int:
        return self._memory().total

    def used_bytes(self) -> int:
        return self._memory().used

    def busy_ratios(self) -> tuple[float, float]:
        """Fractions of the driver's last sampling period with a running kernel, and with memory accesses."""
        seen = _Utilisation()
        self.call("nvmlDeviceGetUtilizationRates", self.handle, ctypes.byref(seen))
        return seen.gpu / 100, seen.memory / 100

    def power_w(self) -> float:
        milliwatts = ctypes.c_uint()
        self.call("nvmlDeviceGetPowerUsage", self.handle, ctypes.byref(milliwatts))
        return milliwatts.value / 1000

    def sm_mhz(self) -> int:
        clock = ctypes.c_uint()
        self.call("nvmlDeviceGetClockInfo", self.handle, ctypes.c_uint(_SM_CLOCK), ctypes.byref(clock))
        return clock.value

    def energy_j(self) -> float:
        """Energy since the driver was loaded. Its growth over a period gives the mean power, however short the
        period."""
        millijoules = ctypes.c_ulonglong()
        self.call("nvmlDeviceGetTotalEnergyConsumption", self.handle, ctypes.byref(millijoules))
        return millijoules.value / 1000

    def by_process(self) -> dict[int, int]:
        """Bytes held by each process, including its context. In a container the pids may be those of the node."""
        count = ctypes.c_uint(_MAX_PROCESSES)
        found = (_Process * _MAX_PROCESSES)()
        self.call("nvmlDeviceGetComputeRunningProcesses_v3", self.handle, ctypes.byref(count), found)
        return {one.pid: one.used_bytes for one in found[: count.value] if one.used_bytes != _NOT_KNOWN}

    def _memory(self) -> _Memory:
        seen = _Memory()
        self.call("nvmlDeviceGetMemoryInfo", self.handle, ctypes.byref(seen))
        return seen

    def _text(self, name: str, *arguments: Any) -> str:
        text = ctypes.create_string_buffer(_TEXT_BYTES)
        self.call(name, *arguments, text, ctypes.c_uint(_TEXT_BYTES))
        return text.value.decode()
