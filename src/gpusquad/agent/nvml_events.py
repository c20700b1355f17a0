"""Faults of NVIDIA cards as the driver reports them (Xid), received in a thread of their own."""

from __future__ import annotations

import ctypes
import logging
import threading
from collections.abc import Mapping
from typing import Any

from gpusquad.agent.inventory import OnFault
from gpusquad.agent.nvml_calls import NvmlLibrary
from gpusquad.agent.nvml_facts import text
from gpusquad.model.card_faults import FaultClass, class_of_xid

_WAIT_MS = 500
_log = logging.getLogger(__name__)


class FaultEvents:
    """Waits for events of some cards until it is closed."""

    def __init__(self, library: NvmlLibrary, handles: Mapping[str, Any], on_fault: OnFault) -> None:
        self._library = library
        self._on_fault = on_fault
        self._by_address = {_address(handle): card for card, handle in handles.items()}
        self._closing = threading.Event()
        self._events = library.ask("nvmlEventSetCreate")
        self._thread = None
        heard = [self._register(handle) for handle in handles.values()] if self._events is not None else []
        if any(heard):
            self._thread = threading.Thread(target=self._listen, name="gpu-events", daemon=True)
            self._thread.start()

    @property
    def listening(self) -> bool:
        """False: this driver reports no events; faults are then detected only by reading."""
        return self._thread is not None

    def close(self) -> None:
        self._closing.set()
        if self._thread is not None:
            self._thread.join(timeout=10 * _WAIT_MS / 1000)
        # Freeing a set that a stuck call still waits on would crash the process.
        if self._events is not None and (self._thread is None or not self._thread.is_alive()):
            self._library.ask("nvmlEventSetFree", self._events)

    def _register(self, handle: Any) -> bool:
        wanted = self._library.nvmlEventTypeXidCriticalError | self._library.nvmlEventTypeDoubleBitEccError
        supported = self._library.ask("nvmlDeviceGetSupportedEventTypes", handle) or 0
        if not supported & wanted:
            return False
        try:
            self._library.nvmlDeviceRegisterEvents(handle, supported & wanted, self._events)
        except self._library.NVMLError as error:
            _log.warning("no events of one card: %s", error)
            return False
        return True

    def _listen(self) -> None:
        while not self._closing.is_set():
            try:
                event = self._library.nvmlEventSetWait_v2(self._events, _WAIT_MS)
            except self._library.NVMLError as error:
                if self._library.error_name(error) != "NVML_ERROR_TIMEOUT":
                    self._closing.wait(1.0)  # a lost card makes every wait fail at once
                continue
            self._tell(event)

    def _tell(self, event: Any) -> None:
        kind, cause = self._fault(event)
        card = self._card(event.device)
        if kind is None:
            _log.info("card %s: event %s with %s does not concern the card", card, event.eventType, event.eventData)
        elif card is None:
            _log.warning("%s, on a card that cannot be named", cause)
        else:
            self._on_fault(card, cause, kind)

    def _fault(self, event: Any) -> tuple[FaultClass | None, str]:
        if event.eventType == self._library.nvmlEventTypeDoubleBitEccError:
            return "card", "uncorrected memory error (double bit ECC)"
        return class_of_xid(event.eventData), f"Xid {event.eventData}"

    def _card(self, device: Any) -> str | None:
        known = self._by_address.get(_address(device))
        return known or text(self._library.ask("nvmlDeviceGetUUID", device)) or None


def _address(handle: Any) -> Any:
    """Two handles of one card are different Python objects that point to the same place."""
    try:
        return ctypes.cast(handle, ctypes.c_void_p).value
    except (ctypes.ArgumentError, TypeError):
        return handle
