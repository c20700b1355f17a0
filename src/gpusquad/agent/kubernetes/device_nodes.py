"""Device files of a container's cards."""

from __future__ import annotations

import os
import re
import stat
from collections.abc import Iterable, Sequence
from pathlib import Path
from typing import Protocol

from gpusquad.agent.inventory import CardInfo
from gpusquad.gpu.api import DeviceNode

_DRIVER = Path("/proc/driver/nvidia/gpus")
_COMMON = ("nvidiactl", "nvidia-uvm", "nvidia-uvm-tools")
_MINOR = re.compile(r"Device Minor:\s*(\d+)")
_NULL = os.makedev(1, 3)


class DeviceNodes(Protocol):
    def of(self, cards: Sequence[CardInfo]) -> list[DeviceNode]:
        """For a container with these cards."""
        ...


class NoDeviceNodes:
    """Another component adds them, such as the NVIDIA container runtime, which reads the environment variable."""

    def of(self, cards: Sequence[CardInfo]) -> list[DeviceNode]:
        del cards
        return []


class NvidiaDeviceNodes:
    """Device files of the NVIDIA driver: three for all cards together, and one per card."""

    def __init__(self, dev: Path = Path("/dev"), driver: Path = _DRIVER) -> None:
        self._dev = dev
        self._driver = driver

    def of(self, cards: Sequence[CardInfo]) -> list[DeviceNode]:
        common = [name for name in _COMMON if (self._dev / name).exists()]
        names = [*common, *(f"nvidia{self._minor(card)}" for card in cards)]
        return [DeviceNode(f"/dev/{name}", str(self._dev / name)) for name in names]

    def _minor(self, card: CardInfo) -> int:
        """Number in the file's name. It may differ from NVML's index, which follows the bus order."""
        # NVML writes the PCI domain with eight digits, the kernel with four.
        try:
            text = (self._driver / card.pci[-12:].lower() / "information").read_text()
        except OSError:
            return card.index
        match = _MINOR.search(text)
        return int(match[1]) if match is not None else card.index


class SimulatedDeviceNodes:
    """For simulated cards: a file like /dev/null per card, so that a container shows what it was given."""

    def __init__(self, folder: Path, cards: Iterable[CardInfo]) -> None:
        self._folder = folder
        folder.mkdir(parents=True, exist_ok=True)
        for card in cards:
            _make_null(folder / card.id)

    def of(self, cards: Sequence[CardInfo]) -> list[DeviceNode]:
        return [DeviceNode(f"/dev/gpusquad{card.index}", str(self._folder / card.id)) for card in cards]


def _make_null(path: Path) -> None:
    if not path.exists():
        os.mknod(path, stat.S_IFCHR | 0o666, _NULL)
