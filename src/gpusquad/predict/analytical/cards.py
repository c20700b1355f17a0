"""Common cards by their data sheets, and the fraction of those figures that a program reaches.

Data sheets state peaks at the highest clock. The fraction that large products and copies reach follows from four
properties that the sheet (or the architecture's white paper) also states:

- Multiprocessors whose schedulers each feed 32 arithmetic lanes issue an FMA every cycle or lose the cycle. Loads and
  address arithmetic take such cycles (Pascal, consumer Ampere, Ada, Hopper). With 16 lanes per scheduler every other
  cycle is free for them (Volta, Turing, A100).
- Matrix units and tensor cores each reach their own fraction.
- Small cards cannot hold their clock: the power limit allows a fixed number of FLOP/s per watt, and more in a finer
  process.
- Memory loses some of its peak to refresh, turnaround and error correction.

Nothing here was measured on the cards. A calibrated card is better if there is one.
"""

from __future__ import annotations

import re
from collections.abc import Mapping
from dataclasses import dataclass, field

from gpusquad.predict.analytical.card import CardRoofline

_GB, _MB, _T, _G = 10**9, 1 << 20, 1e12, 1e9


@dataclass(frozen=True, slots=True)
class PeakFractions:
    """The fraction of a data sheet's peaks that programs reach.

    Fitted by ``bench.neusight``, except ``tensor_ratio`` and ``launch_us``; matrix units from fp32 alone.
    """

    narrow_ratio: float = 0.9
    """Fraction of fp32 with 16 lanes per scheduler."""
    wide_ratio: float = 0.74
    """Fraction of fp32 with 32 lanes per scheduler."""
    matrix_ratio: float = 0.61
    """Fraction of AMD's matrix units."""
    tensor_ratio: float = 0.8
    """Fraction of NVIDIA's tensor cores. Not fitted: a calibrated H200 reaches 0.80 in bf16, 0.83 in tf32, 0.75 in
    fp16.
    """
    flops_per_watt_nm: float = 750e9
    """Sustained FLOP/s per watt in fp32, times the process in nanometres."""
    memory_ratio: float = 0.82
    launch_us: float = 3.0
    """Minimum time of a kernel, including the gap to the next: 2 to 3 on a calibrated H200. Not fitted: the
    measurements include allocator requests, which would count as launches and make this far longer.
    """


REACH = PeakFractions()


@dataclass(frozen=True, slots=True)
class Sheet:
    """A card's peaks as its maker states them, without sparsity."""

    name: str
    memory_gb: float
    sms: int
    bandwidth_gb: float
    l2_mb: float
    power_w: float
    process_nm: float
    lanes: int
    """fp32 lanes per scheduler. 0: fp32 products run on matrix units."""
    fp32: float
    """TFLOP/s outside matrix units."""
    matrix: Mapping[str, float] = field(default_factory=dict)
    """TFLOP/s of matrix units by arithmetic type."""
    link_gb: float = 16.0
    """GB/s to another card of the same machine, in one direction. 16: PCIe 3.0 x16, 32: PCIe 4.0 x16."""
    words: str = ""
    """Parts of the driver's name for the card. The first is the model."""

    def card(self, reach: PeakFractions = REACH) -> CardRoofline:
        """The card with the fraction of the peaks that programs reach."""
        ratio = reach.narrow_ratio if self.lanes == 16 else reach.wide_ratio
        sustained = reach.flops_per_watt_nm * self.power_w / self.process_nm
        vector = min(self.fp32 * _T * ratio, sustained)
        of_matrix = reach.tensor_ratio if self.lanes else reach.matrix_ratio
        products = {"fp32": vector} | {dtype: peak * _T * of_matrix for dtype, peak in self.matrix.items()}
        return CardRoofline(
            name=self.name,
            memory_bytes=int(self.memory_gb * _GB),
            sms=self.sms,
            bandwidth=self.bandwidth_gb * _G * reach.memory_ratio,
            l2_bytes=int(self.l2_mb * _MB),
            matmul_flops=products,
            vector_flops=vector,
            launch_us=reach.launch_us,
            link_bandwidth=self.link_gb * _G,
        )


def _ampere(tf32: float) -> dict[str, float]:
    """Tensor cores double with each halving of the type."""
    return {"tf32": tf32, "fp16": 2 * tf32, "bf16": 2 * tf32, "int8": 4 * tf32}


def _hopper(tf32: float) -> dict[str, float]:
    """The same, and fp8 as int8 (Ada's too)."""
    return _ampere(tf32) | {"fp8": 4 * tf32}


def _cdna2(fp32: float) -> dict[str, float]:
    return {"fp64": fp32, "fp32": fp32, "fp16": 4 * fp32, "bf16": 4 * fp32, "int8": 4 * fp32}


_H100 = _hopper(494.5) | {"fp64": 67}
_H100_NVL = _hopper(417.5) | {"fp64": 60}
_H100_PCIE = _hopper(378) | {"fp64": 51.2}
_A100 = _ampere(156) | {"fp64": 19.5}
_V100 = {"fp64": 7.8, "fp16": 125}
_V100_PCIE = {"fp64": 7, "fp16": 112}
_GEFORCE_3090 = _ampere(35.6) | {"int8": 284}
_GEFORCE_4090 = _hopper(82.6) | {"int8": 660.6}
_MI100 = {"fp64": 11.5, "fp32": 46.1, "fp16": 184.6, "bf16": 92.3, "int8": 184.6}
_MI300X = _hopper(653.7) | {"fp64": 163.4, "fp32": 163.4}

# Sources of the figures. All are meant to be those of the makers' data sheets and of the architectures' white papers,
# without sparsity. The letter at the end of each line is what they were checked against:
#   n  device_configs.json of the NeuSight data set: memory, multiprocessors, bandwidth, fp32, cache. It differs for the
#      P4 (its 2,560 lanes as 40 x 64; GP104 has 20 x 128), the L4 (60 multiprocessors; 7,424 lanes are 58), the H100
#      (3,430 GB/s), the P100 (9.5 TFLOP/s) and the caches of the MI200s (16 MB).
#   p  public listings: glennklockwood.com for H100 and H200, hmc-tech.com for H100 PCIe, mullet.se for L40 and L40S,
#      waredb.com and holynerdvana.blogspot.com for RTX 3090 and 4090, sysrqmts.com for P100 SXM, cpu-gpu.alldbin.com
#      for P4 and the power of the T4, grokipedia.com for the power of the L4, tomshardware.com for MI250X.
#   u  unchecked: written down from memory, as are links, and power limits and matrix peaks of cards with n alone.
# A MI250 or MI250X is two devices to a program; its line is one of them.
SHEETS = (
    Sheet("NVIDIA H200", 141, 132, 4800, 50, 700, 5, 32, 67, _H100, 450, "h200"),  # p
    Sheet("NVIDIA H100 SXM", 80, 132, 3350, 50, 700, 5, 32, 67, _H100, 450, "h100 hbm3 sxm"),  # n, p
    Sheet("NVIDIA H100 NVL", 94, 132, 3938, 50, 400, 5, 32, 60, _H100_NVL, 300, "h100 nvl"),  # u
    Sheet("NVIDIA H100 PCIe", 80, 114, 2039, 50, 350, 5, 32, 51.2, _H100_PCIE, 64, "h100 pcie"),  # p
    Sheet("NVIDIA A100 SXM 80GB", 80, 108, 2039, 40, 400, 7, 16, 19.5, _A100, 300, "a100 sxm 80gb"),  # u
    Sheet("NVIDIA A100 SXM 40GB", 40, 108, 1555, 40, 400, 7, 16, 19.5, _A100, 300, "a100 sxm 40gb"),  # n
    Sheet("NVIDIA A100 PCIe 80GB", 80, 108, 1935, 40, 300, 7, 16, 19.5, _A100, 32, "a100 pcie 80gb"),  # n
    Sheet("NVIDIA A100 PCIe 40GB", 40, 108, 1555, 40, 250, 7, 16, 19.5, _A100, 32, "a100 pcie 40gb"),  # n
    Sheet("NVIDIA V100 SXM 32GB", 32, 80, 900, 6, 300, 12, 16, 15.7, _V100, 150, "v100 sxm 32gb"),  # u
    Sheet("NVIDIA V100 SXM 16GB", 16, 80, 900, 6, 300, 12, 16, 15.7, _V100, 150, "v100 sxm 16gb"),  # u
    Sheet("NVIDIA V100 PCIe 32GB", 32, 80, 900, 6, 250, 12, 16, 14, _V100_PCIE, 16, "v100 pcie 32gb"),  # n
    Sheet("NVIDIA V100 PCIe 16GB", 16, 80, 900, 6, 250, 12, 16, 14, _V100_PCIE, 16, "v100 pcie 16gb"),  # n
    Sheet("NVIDIA T4", 16, 40, 320, 4, 70, 12, 16, 8.1, {"fp16": 65, "int8": 130}, 16, "t4"),  # n, p
    Sheet("NVIDIA P100 PCIe", 16, 56, 732, 4, 250, 16, 32, 9.3, {"fp64": 4.7, "fp16": 18.7}, 16, "p100 pcie"),  # n
    Sheet("NVIDIA P100 SXM", 16, 56, 732, 4, 300, 16, 32, 10.6, {"fp64": 5.3, "fp16": 21.2}, 80, "p100 sxm"),  # p
    Sheet("NVIDIA P4", 8, 20, 192, 2, 75, 16, 32, 5.5, {"int8": 22}, 16, "p4"),  # n, p
    Sheet("NVIDIA TITAN Xp", 12, 30, 547.7, 3, 250, 16, 32, 12.15, {}, 16, "xp"),  # u
    Sheet("NVIDIA L4", 24, 58, 300, 48, 72, 5, 32, 30.3, _hopper(60), 32, "l4"),  # n, p
    Sheet("NVIDIA L40S", 48, 142, 864, 96, 350, 5, 32, 91.6, _hopper(183), 32, "l40s"),  # p
    Sheet("NVIDIA L40", 48, 142, 864, 96, 300, 5, 32, 90.5, _hopper(90.5), 32, "l40"),  # p
    Sheet("NVIDIA A10", 24, 72, 600, 6, 150, 8, 32, 31.2, _ampere(62.5), 32, "a10"),  # u
    Sheet("NVIDIA A40", 48, 84, 696, 6, 300, 8, 32, 37.4, _ampere(74.8), 56, "a40"),  # u
    Sheet("NVIDIA RTX A6000", 48, 84, 768, 6, 300, 8, 32, 38.7, _ampere(77.4), 56, "a6000"),  # u
    Sheet("NVIDIA GeForce RTX 3090", 24, 82, 936, 6, 350, 8, 32, 35.6, _GEFORCE_3090, 16, "3090"),  # p
    Sheet("NVIDIA GeForce RTX 4090", 24, 128, 1008, 72, 450, 5, 32, 82.6, _GEFORCE_4090, 16, "4090"),  # p
    Sheet("AMD Instinct MI100", 32, 120, 1230, 8, 300, 7, 0, 23.1, _MI100, 46, "mi100"),  # n
    Sheet("AMD Instinct MI210", 64, 104, 1638, 8, 300, 6, 0, 22.6, _cdna2(45.3), 50, "mi210"),  # n
    Sheet("AMD Instinct MI250", 64, 104, 1638, 8, 280, 6, 0, 22.6, _cdna2(45.3), 50, "mi250"),  # n
    Sheet("AMD Instinct MI250X", 64, 110, 1638, 8, 280, 6, 0, 23.95, _cdna2(47.9), 50, "mi250x"),  # p
    Sheet("AMD Instinct MI300X", 192, 304, 5300, 256, 750, 5, 0, 163.4, _MI300X, 64, "mi300x"),  # u
)  # fmt: skip

_OTHER_CARDS = frozenset({"ti", "super", "laptop", "mobile", "max", "mig"})
"""Words that distinguish a card from another of the same number, or mark a part of a card."""


def find_sheet(name: str) -> Sheet | None:
    """The card whose model is in the name and that shares the most words with it."""
    words = {re.sub(r"^sxm\d$", "sxm", word) for word in re.split(r"[^a-z0-9]+", name.lower())}
    if words & _OTHER_CARDS:
        return None
    fitting = [sheet for sheet in SHEETS if sheet.words.split()[0] in words]
    return max(fitting, key=lambda sheet: len(words & set(sheet.words.split())), default=None)


def find(name: str, reach: PeakFractions = REACH) -> CardRoofline | None:
    """A shipped card by the name its driver reports."""
    sheet = find_sheet(name)
    return sheet.card(reach) if sheet else None
