"""Static data of NVIDIA cards: size, SMs, NVLink domains."""

from __future__ import annotations

from collections.abc import Sequence
from pathlib import Path
from typing import Any

from gpusquad.agent.inventory import CardInfo
from gpusquad.agent.nvml_calls import NvmlCard, NvmlLibrary

PCI_DEVICES = Path("/sys/bus/pci/devices")
_CORES_PER_SM = {(6, 0): 64, (7, 0): 64, (7, 2): 64, (7, 5): 64, (8, 0): 64}
"""NVML reports CUDA cores, not SMs. Every other architecture since Maxwell has 128 per SM."""


def card_facts(library: NvmlLibrary, handles: Sequence[Any], pci_devices: Path = PCI_DEVICES) -> list[CardInfo]:
    """Facts of each card, in the order of the handles."""
    addresses = [_pci_address(library, handle) for handle in handles]
    domains = _domains(library, handles, [_numa_node(address, pci_devices) for address in addresses])
    return [
        CardInfo(
            id=text(library.ask("nvmlDeviceGetUUID", handle)) or f"GPU-{address or position}",
            index=_index(library, handle, position),
            model=text(library.ask("nvmlDeviceGetName", handle)) or "unknown",
            memory_bytes=_memory_bytes(library, handle),
            sms=_sms(library, handle),
            domain=domain,
            pci=address,
        )
        for position, (handle, address, domain) in enumerate(zip(handles, addresses, domains, strict=True))
    ]


def text(value: Any) -> str:
    """An answer of NVML as text. Older bindings return bytes. No answer is an empty text."""
    return value.decode("utf-8", "replace") if isinstance(value, bytes) else str(value or "")


def memory_info(calls: NvmlCard, library: NvmlLibrary) -> Any:
    """Used, free and total. Version 2 of the structure counts the driver's memory separately, as nvidia-smi does."""
    version = getattr(library.binding, "nvmlMemory_v2", None)
    info = calls.card("nvmlDeviceGetMemoryInfo", version) if version is not None else None
    return info or calls.card("nvmlDeviceGetMemoryInfo")


def _index(library: NvmlLibrary, handle: Any, position: int) -> int:
    """The driver's own index: it does not change when an earlier card is lost."""
    index = library.ask("nvmlDeviceGetIndex", handle)
    return position if index is None else int(index)


def _memory_bytes(library: NvmlLibrary, handle: Any) -> int:
    info = memory_info(NvmlCard(library, handle), library)
    return int(info.total) if info is not None else 0


def _sms(library: NvmlLibrary, handle: Any) -> int:
    """Number of SMs. 0: unknown."""
    cores = library.ask("nvmlDeviceGetNumGpuCores", handle)
    capability = library.ask("nvmlDeviceGetCudaComputeCapability", handle)
    if not cores or not capability:
        return 0
    return int(cores) // _CORES_PER_SM.get(tuple(capability), 128)


def _pci_address(library: NvmlLibrary, handle: Any) -> str:
    info = library.ask("nvmlDeviceGetPciInfo", handle)
    return text(info.busId) if info is not None else ""


def _numa_node(address: str, pci_devices: Path) -> int:
    """0 if unknown, which the kernel reports as -1."""
    # NVML writes the PCI domain with eight digits, the kernel with four.
    try:
        return max(int((pci_devices / address[-12:].lower() / "numa_node").read_text()), 0)
    except (OSError, ValueError):
        return 0


def _domains(library: NvmlLibrary, handles: Sequence[Any], numa_nodes: Sequence[int]) -> list[int]:
    """Domain of each card. Cards connected by NVLink share a domain. The other cards of a NUMA node share one, too."""
    leader = list(range(len(handles)))  # a union-find forest over the cards

    def find(card: int) -> int:
        while leader[card] != card:
            card = leader[card]
        return card

    linked: set[int] = set()
    for a in range(len(handles)):
        for b in range(a + 1, len(handles)):
            if _has_nvlink(library, handles[a], handles[b]):
                linked |= {a, b}
                leader[find(b)] = find(a)
    keys = [("nvlink", find(card)) if card in linked else ("numa", numa_nodes[card]) for card in range(len(handles))]
    number = {key: domain for domain, key in enumerate(dict.fromkeys(keys))}
    return [number[key] for key in keys]


def _has_nvlink(library: NvmlLibrary, a: Any, b: Any) -> bool:
    index = getattr(library.binding, "NVML_P2P_CAPS_INDEX_NVLINK", 2)
    return library.ask("nvmlDeviceGetP2PStatus", a, b, index) == getattr(library.binding, "NVML_P2P_STATUS_OK", 0)
