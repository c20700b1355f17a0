"""NVIDIA cards, by NVML. Read-only: clocks, power limits and modes are never changed."""

from __future__ import annotations

import logging
import time
from collections.abc import Callable, Sequence
from pathlib import Path
from typing import Any

from gpusquad.agent.inventory import CardInfo, CardReading, CardTester, JobProcess, OnFault, SourceUnavailable
from gpusquad.agent.nvml_bus import BusTraffic
from gpusquad.agent.nvml_calls import NvmlCard, NvmlLibrary
from gpusquad.agent.nvml_counters import WorkCounters
from gpusquad.agent.nvml_events import FaultEvents
from gpusquad.agent.nvml_facts import PCI_DEVICES, card_facts, memory_info, text
from gpusquad.agent.nvml_processes import card_processes, process_utilisation
from gpusquad.agent.self_test import CudaTester

_PATIENCE_S = 10.0
"""A card that does not answer may be busy, and a fault ends its jobs, so it gets this long. A lost card does not."""
_REOPEN_S, _REOPEN_MOST_S = 2.0, 60.0
"""A card that was reset answers only to a library that was opened after the reset. Doubles while that does not help."""
_STALE_S = 60.0
"""After a driver was replaced at run time, only a newly loaded library in a new process works."""
_THROTTLE = {
    0x02: "application_clocks",
    0x04: "power_cap",
    0x08: "hardware_slowdown",
    0x10: "sync_boost",
    0x20: "software_thermal",
    0x40: "hardware_thermal",
    0x80: "power_brake",
    0x100: "display_clocks",
    0x200: "board_limit",
    0x400: "reliability",
}
"""Bits of NVML's clock event reasons, without 0x01: a card that clocks down because it is idle is not throttled."""
_RECOVERY = {1: "needs a reset", 2: "needs a reboot of the node", 6: "needs a reset of its bus", 7: "needs a reboot"}
"""Recovery actions of the driver that make the card unusable now. Others (drain it later) end no job."""
_log = logging.getLogger(__name__)


class NvmlInventory:
    """The NVIDIA cards of this machine."""

    simulated = False

    def __init__(
        self,
        binding: Any = None,
        expect: Sequence[str] = (),
        pci_devices: Path = PCI_DEVICES,
        clock_s: Callable[[], float] = time.monotonic,
    ) -> None:
        """``expect``: ids of cards that were here before. A missing one stays in the inventory, as failed."""
        self._library = NvmlLibrary(binding if binding is not None else _binding())
        self._clock_s = clock_s
        self._failing_since_s: float | None = None
        self._opened_s, self._reopen_s = clock_s(), _REOPEN_S
        try:
            self._open()
        except SourceUnavailable:
            if not expect:
                raise
        handles = self._all_handles()
        self.driver = text(self._library.ask("nvmlSystemGetDriverVersion"))
        found = card_facts(self._library, handles, pci_devices)
        self._handles = dict(zip([card.id for card in found], handles, strict=True))
        missing = [card_id for card_id in expect if card_id not in self._handles]
        self.cards = found + [CardInfo(card_id, -1, "unknown", 0, 0, 0, "") for card_id in missing]
        self._bus = BusTraffic(clock_s)
        self._counters = WorkCounters(self._library)
        self._doubted_s: dict[str, float] = {}
        self._seen_us: dict[str, int] = {}
        self._on_fault: OnFault | None = None
        self._events: FaultEvents | None = None

    def read(self, processes: Sequence[JobProcess]) -> list[CardReading]:
        del processes  # the driver's answer takes precedence
        readings = [self._read(card) for card in self.cards]
        if self._doubted_s and self._clock_s() - self._opened_s >= self._reopen_s:
            self._reopen()
        elif not self._doubted_s:
            self._reopen_s = _REOPEN_S
        return readings

    def watch(self, on_fault: OnFault) -> None:
        self._stop_events()
        self._on_fault = on_fault
        self._events = FaultEvents(self._library, self._handles, on_fault)

    @property
    def tester(self) -> CardTester:
        return CudaTester()

    def close(self) -> None:
        self._stop_events()
        self._library.shut()

    # -- one card ----------------------------------------------------------------------------------------------------

    def _read(self, card: CardInfo) -> CardReading:
        handle = self._handles.get(card.id)
        if handle is None:
            return self._doubt(card, "the card is gone: the driver does not list it")
        questions = NvmlCard(self._library, handle)
        memory = memory_info(questions, self._library)
        unanswered = questions.failure if memory is None else None
        rates = questions.card("nvmlDeviceGetUtilizationRates")
        power_w = _watts(questions.card("nvmlDeviceGetPowerUsage"))
        limit_w = _watts(questions.card("nvmlDeviceGetEnforcedPowerLimit"))
        percent = rates.gpu if rates is not None else None
        received, idle_received = self._bus.see(
            card.id, questions, self._library.NVML_PCIE_UTIL_RX_BYTES, percent, power_w, limit_w
        )
        reading = CardReading(
            id=card.id,
            utilisation_ratio=_ratio(rates.gpu) if rates is not None else None,
            memory_utilisation_ratio=_ratio(rates.memory) if rates is not None else None,
            memory_used_bytes=int(memory.used) if memory is not None else None,
            memory_total_bytes=int(memory.total) if memory is not None else None,
            power_w=power_w,
            power_limit_w=limit_w,
            temperature_c=self._temperature_c(questions),
            sm_clock_mhz=questions.card("nvmlDeviceGetClockInfo", self._library.NVML_CLOCK_SM),
            memory_clock_mhz=questions.card("nvmlDeviceGetClockInfo", self._library.NVML_CLOCK_MEM),
            ecc_corrected=self._ecc_errors(questions, self._library.NVML_MEMORY_ERROR_TYPE_CORRECTED),
            ecc_uncorrected=self._ecc_errors(questions, self._library.NVML_MEMORY_ERROR_TYPE_UNCORRECTED),
            throttle=_throttle(questions),
            received_bytes_s=received,
            idle_received_bytes_s=idle_received,
            computes=self._counters.computes(card.id, questions, percent),
            processes=self._processes(card, questions),
            trouble=self._advice(questions),
        )
        if questions.lost is not None:
            self._doubted_s[card.id] = float("-inf")
            return self._doubt(card, f"the card is lost: {questions.lost}")
        if unanswered is not None:
            return self._doubt(card, f"the card does not answer: {unanswered}")
        self._doubted_s.pop(card.id, None)
        return reading

    def _doubt(self, card: CardInfo, cause: str) -> CardReading:
        since_s = self._doubted_s.setdefault(card.id, self._clock_s())
        return CardReading(card.id, trouble=cause if self._clock_s() - since_s >= _PATIENCE_S else None)

    def _processes(self, card: CardInfo, questions: NvmlCard) -> Any:
        since_us = self._seen_us.get(card.id, 0)
        utilisation, self._seen_us[card.id] = process_utilisation(questions, since_us)
        return card_processes(questions, utilisation)

    def _temperature_c(self, questions: NvmlCard) -> float | None:
        sensor = self._library.NVML_TEMPERATURE_GPU
        value = questions.card("nvmlDeviceGetTemperatureV", sensor)
        if value is None:  # drivers before 570
            value = questions.card("nvmlDeviceGetTemperature", sensor)
        return None if value is None else float(value)

    def _ecc_errors(self, questions: NvmlCard, kind: int) -> int | None:
        return questions.card("nvmlDeviceGetTotalEccErrors", kind, self._library.NVML_VOLATILE_ECC)

    def _advice(self, questions: NvmlCard) -> str | None:
        """The recovery action that the driver demands for the card."""
        field = getattr(self._library.binding, "NVML_FI_DEV_GET_GPU_RECOVERY_ACTION", None)
        values = questions.card("nvmlDeviceGetFieldValues", [field]) if field is not None else None
        if not values or values[0].nvmlReturn != self._library.NVML_SUCCESS:
            return None
        advice = _RECOVERY.get(int(values[0].value.uiVal))
        return None if advice is None else f"the driver says: it {advice}"

    # -- all cards ---------------------------------------------------------------------------------------------------

    def _all_handles(self) -> list[Any]:
        found = [
            self._library.ask("nvmlDeviceGetHandleByIndex", index)
            for index in range(self._library.ask("nvmlDeviceGetCount") or 0)
        ]
        return [handle for handle in found if handle is not None]

    def _reopen(self) -> None:
        """Look again for lost cards. Those still lost stay in the inventory, without a handle."""
        self._opened_s = self._clock_s()
        self._reopen_s = min(self._reopen_s * 2, _REOPEN_MOST_S)
        self._stop_events()
        if self._failing_since_s is None:
            self._library.shut()
        self._counters.forget()
        self._handles = {}
        try:
            self._open()
        except SourceUnavailable as error:
            if self._failing_since_s is not None and self._clock_s() - self._failing_since_s >= _STALE_S:
                raise
            _log.warning("%s", error)
            return
        by_id = {text(self._library.ask("nvmlDeviceGetUUID", handle)): handle for handle in self._all_handles()}
        self._handles = {card.id: by_id[card.id] for card in self.cards if card.id in by_id}
        if self._on_fault is not None:
            self.watch(self._on_fault)

    def _open(self) -> None:
        try:
            self._library.open()
        except SourceUnavailable:
            if self._failing_since_s is None:
                self._failing_since_s = self._clock_s()
            raise
        self._failing_since_s = None

    def _stop_events(self) -> None:
        if self._events is not None:
            self._events.close()
            self._events = None


def _binding() -> Any:
    try:
        import pynvml
    except ImportError as error:
        raise SourceUnavailable("the package nvidia-ml-py is not installed") from error
    return pynvml


def _throttle(questions: NvmlCard) -> tuple[str, ...] | None:
    bits = questions.card("nvmlDeviceGetCurrentClocksEventReasons")
    if bits is None:  # drivers before 535
        bits = questions.card("nvmlDeviceGetCurrentClocksThrottleReasons")
    return None if bits is None else tuple(name for bit, name in _THROTTLE.items() if bits & bit)


def _ratio(percent: int) -> float:
    return min(max(percent / 100, 0.0), 1.0)


def _watts(milliwatts: int | None) -> float | None:
    return None if milliwatts is None else milliwatts / 1000
