"""Counters of the card over exactly one window (Hopper and newer). The usual rates lag by up to a second."""

from __future__ import annotations

import ctypes
from typing import Any

from gpusquad.gpu.nvml import CardReader, NvmlError

_VERSION = 1
_ROOM = 400
"""Entries of the struct. Newer headers have more; NVML reads only the number given in the request."""
METRICS = {"graphics": 1, "sm": 2, "occupancy": 3, "tensor": 5, "dram": 10}
"""NVML's numbers: any kernel running, SMs with work, warp occupancy, tensor cores, memory bandwidth."""


class _About(ctypes.Structure):
    _fields_ = [("short", ctypes.c_char_p), ("long", ctypes.c_char_p), ("unit", ctypes.c_char_p)]


class _Metric(ctypes.Structure):
    _fields_ = [("id", ctypes.c_uint), ("code", ctypes.c_int), ("value", ctypes.c_double), ("about", _About)]


class _Metrics(ctypes.Structure):
    _fields_ = [
        ("version", ctypes.c_uint),
        ("count", ctypes.c_uint),
        ("first", ctypes.c_void_p),
        ("second", ctypes.c_void_p),
        ("metrics", _Metric * _ROOM),
    ]


class Counters:
    """Two reusable samples. Raises NvmlError if the card has no such counters."""

    def __init__(self, reader: CardReader) -> None:
        self._reader = reader
        self._samples = [self._allocated(), self._allocated()]
        self._take(0)

    def begin(self) -> None:
        self._take(0)

    def end(self) -> dict[str, float]:
        """Ratios since ``begin``, by the names of METRICS. Counters that the card lacks are left out."""
        self._take(1)
        asked = _Metrics(version=_VERSION, count=len(METRICS), first=self._samples[0], second=self._samples[1])
        for place, number in enumerate(METRICS.values()):
            asked.metrics[place].id = number
        self._reader.call("nvmlGpmMetricsGet", ctypes.byref(asked))
        pairs = zip(METRICS, asked.metrics[: len(METRICS)], strict=True)
        return {name: metric.value / 100 for name, metric in pairs if metric.code == 0}

    def _allocated(self) -> Any:
        sample = ctypes.c_void_p()
        self._reader.call("nvmlGpmSampleAlloc", ctypes.byref(sample))
        return sample

    def _take(self, which: int) -> None:
        self._reader.call("nvmlGpmSampleGet", self._reader.handle, self._samples[which])


def counters(reader: CardReader) -> Counters | None:
    try:
        return Counters(reader)
    except NvmlError:
        return None
