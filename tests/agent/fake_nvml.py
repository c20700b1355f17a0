"""Fake NVML binding with a table of answers; every call can be made to fail."""

from __future__ import annotations

import queue
import threading
from types import SimpleNamespace
from typing import Any

ERRORS = {
    "NVML_ERROR_UNINITIALIZED": 1, "NVML_ERROR_NOT_SUPPORTED": 3, "NVML_ERROR_NOT_FOUND": 6,
    "NVML_ERROR_DRIVER_NOT_LOADED": 9, "NVML_ERROR_TIMEOUT": 10, "NVML_ERROR_FUNCTION_NOT_FOUND": 13,
    "NVML_ERROR_GPU_IS_LOST": 15, "NVML_ERROR_LIB_RM_VERSION_MISMATCH": 18, "NVML_ERROR_UNKNOWN": 999,
}  # fmt: skip


class NVMLError(Exception):
    def __init__(self, value: int) -> None:
        super().__init__(f"error {value}")
        self.value = value


class FakeNvml:
    """Cards ``GPU-0``…; ``fail(name, error, card)`` makes a call fail, ``heal()`` removes all failures."""

    NVML_SUCCESS = 0
    NVML_CLOCK_SM, NVML_CLOCK_MEM = 1, 2
    NVML_PCIE_UTIL_RX_BYTES = 1
    NVML_TEMPERATURE_GPU = 0
    NVML_MEMORY_ERROR_TYPE_CORRECTED, NVML_MEMORY_ERROR_TYPE_UNCORRECTED, NVML_VOLATILE_ECC = 0, 1, 0
    NVML_P2P_CAPS_INDEX_NVLINK, NVML_P2P_STATUS_OK = 2, 0
    NVML_FI_DEV_GET_GPU_RECOVERY_ACTION = 230
    nvmlMemory_v2 = 2
    nvmlEventTypeDoubleBitEccError, nvmlEventTypeXidCriticalError = 2, 8
    NVMLError = NVMLError

    def __init__(self, count: int = 2) -> None:
        for name, value in ERRORS.items():
            setattr(self, name, value)
        self.count = count
        self.broken: dict[tuple[str, int | None], int] = {}
        self.calls: list[str] = []
        self.events: queue.Queue[SimpleNamespace] = queue.Queue()
        self.linked: set[tuple[int, int]] = set()
        self.processes: dict[int, list[SimpleNamespace]] = {}
        self.utilisation: dict[int, list[SimpleNamespace]] = {}
        self.uncorrected = dict.fromkeys(range(count), 0)
        self.recovery = dict.fromkeys(range(count), 0)
        self.opened = 0
        self.failed = threading.Event()
        """Set once a call has failed as configured."""

    def fail(self, name: str, error: str, card: int | None = None) -> None:
        self.broken[name, card] = ERRORS[error]

    def heal(self) -> None:
        self.broken.clear()

    def lose(self, card: int) -> None:
        self.broken["*", card] = ERRORS["NVML_ERROR_GPU_IS_LOST"]

    def raise_event(self, card: int, kind: int, data: int) -> None:
        self.events.put(SimpleNamespace(device=card, eventType=kind, eventData=data))

    def __getattr__(self, name: str) -> Any:
        answer = _ANSWERS.get(name)
        if answer is None:
            raise AttributeError(name)

        def call(*arguments: Any) -> Any:
            self.calls.append(name)
            card = arguments[0] if arguments and name.startswith("nvmlDevice") else None
            for key in ((name, card), (name, None), ("*", card)):
                if key in self.broken and key != ("*", None):
                    self.failed.set()
                    raise NVMLError(self.broken[key])
            return answer(self, *arguments)

        return call


def _open(nvml: FakeNvml) -> None:
    nvml.opened += 1


def _shut(nvml: FakeNvml) -> None:
    nvml.opened -= 1


def _wait(nvml: FakeNvml, events: Any, timeout_ms: int) -> SimpleNamespace:
    try:
        return nvml.events.get(timeout=timeout_ms / 1000)
    except queue.Empty:
        raise NVMLError(ERRORS["NVML_ERROR_TIMEOUT"]) from None


def _utilisation(nvml: FakeNvml, card: int, since_us: int) -> list[SimpleNamespace]:
    found = [sample for sample in nvml.utilisation.get(card, ()) if sample.timeStamp > since_us]
    if not found:
        raise NVMLError(ERRORS["NVML_ERROR_NOT_FOUND"])
    return found


def _not_supported(nvml: FakeNvml, *arguments: Any) -> Any:
    raise NVMLError(ERRORS["NVML_ERROR_NOT_SUPPORTED"])


def _recovery(nvml: FakeNvml, card: int, fields: list[int]) -> list[SimpleNamespace]:
    return [SimpleNamespace(nvmlReturn=0, value=SimpleNamespace(uiVal=nvml.recovery[card]))]


_ANSWERS: dict[str, Any] = {
    "nvmlInit": _open,
    "nvmlShutdown": _shut,
    "nvmlSystemGetDriverVersion": lambda nvml: b"580.1",
    "nvmlSystemGetProcessName": lambda nvml, pid: f"/usr/bin/program-{pid}",
    "nvmlDeviceGetCount": lambda nvml: nvml.count,
    "nvmlDeviceGetHandleByIndex": lambda nvml, index: index,
    "nvmlDeviceGetIndex": lambda nvml, card: card,
    "nvmlDeviceGetUUID": lambda nvml, card: f"GPU-{card}",
    "nvmlDeviceGetName": lambda nvml, card: "NVIDIA Fake",
    "nvmlDeviceGetNumGpuCores": lambda nvml, card: 16896,
    "nvmlDeviceGetCudaComputeCapability": lambda nvml, card: (9, 0),
    "nvmlDeviceGetPciInfo": lambda nvml, card: SimpleNamespace(busId=f"00000000:{card:02X}:00.0"),
    "nvmlDeviceGetP2PStatus": lambda nvml, a, b, index: 0 if (a, b) in nvml.linked else 5,
    "nvmlDeviceGetMemoryInfo": lambda nvml, card, version=None: SimpleNamespace(used=5 * 2**30, total=80 * 2**30),
    "nvmlDeviceGetUtilizationRates": lambda nvml, card: SimpleNamespace(gpu=75, memory=40),
    "nvmlDeviceGetPowerUsage": lambda nvml, card: 351_500,
    "nvmlDeviceGetEnforcedPowerLimit": lambda nvml, card: 700_000,
    "nvmlDeviceGetTemperature": lambda nvml, card, sensor: 61,
    "nvmlDeviceGetClockInfo": lambda nvml, card, kind: {1: 1980, 2: 3201}[kind],
    "nvmlDeviceGetTotalEccErrors": lambda nvml, card, kind, counter: nvml.uncorrected[card] if kind else 3,
    "nvmlDeviceGetCurrentClocksEventReasons": lambda nvml, card: 0x01 | 0x04 | 0x40,
    "nvmlDeviceGetComputeRunningProcesses": lambda nvml, card: nvml.processes.get(card, []),
    "nvmlDeviceGetMPSComputeRunningProcesses": _not_supported,
    "nvmlDeviceGetGraphicsRunningProcesses": lambda nvml, card: [],
    "nvmlDeviceGetProcessUtilization": _utilisation,
    "nvmlDeviceGetFieldValues": _recovery,
    "nvmlDeviceGetSupportedEventTypes": lambda nvml, card: 2 | 8 | 4,
    "nvmlDeviceRegisterEvents": lambda nvml, card, kinds, events: None,
    "nvmlEventSetCreate": lambda nvml: "events",
    "nvmlEventSetWait_v2": _wait,
    "nvmlEventSetFree": lambda nvml, events: None,
}
