"""Cards under the names of NVIDIA's DCGM exporter, so that its dashboards work.

One series per card, however many jobs share it, so that sums over cards are correct.
"""

from __future__ import annotations

import re
from collections.abc import Callable, Iterable, Mapping, Sequence
from typing import Any

from prometheus_client.core import GaugeMetricFamily, Metric

from gpusquad.server.answers import CardStatus
from gpusquad.server.safe_text import one_line

# Not "job": Prometheus uses that label for the scrape and would rename ours.
LABELS = ("gpu", "UUID", "modelName", "Hostname", "job_id", "user", "tenant")
_MIB = 2**20
_MAX_JOBS = 8
_XID = re.compile(r"\bXid (\d{1,4})\b", re.I)


def _memory_free(sample: Mapping[str, Any], card: CardStatus) -> float | None:
    used = sample.get("memory_used_bytes")
    return None if used is None else max(card.memory_bytes - used, 0) / _MIB


def _field(name: str, per: float = 1.0) -> Callable[[Mapping[str, Any], CardStatus], float | None]:
    def read(sample: Mapping[str, Any], _card: CardStatus) -> float | None:
        value = sample.get(name)
        return None if value is None else value * per

    return read


_FIELDS: tuple[tuple[str, str, Callable[[Mapping[str, Any], CardStatus], float | None]], ...] = (
    ("DCGM_FI_DEV_GPU_UTIL", "GPU utilization (in %).", _field("utilisation_ratio", 100.0)),
    ("DCGM_FI_DEV_FB_USED", "Framebuffer memory used (in MiB).", _field("memory_used_bytes", 1 / _MIB)),
    ("DCGM_FI_DEV_FB_FREE", "Framebuffer memory free (in MiB).", _memory_free),
    ("DCGM_FI_DEV_POWER_USAGE", "Power draw (in W).", _field("power_w")),
    ("DCGM_FI_DEV_GPU_TEMP", "GPU temperature (in C).", _field("temperature_c")),
    ("DCGM_FI_DEV_SM_CLOCK", "SM clock frequency (in MHz).", _field("sm_clock_mhz")),
    ("DCGM_FI_DEV_MEM_CLOCK", "Memory clock frequency (in MHz).", _field("memory_clock_mhz")),
)


def card_families(cards: Sequence[CardStatus]) -> Iterable[Metric]:
    """Known values of each card; unknown ones have no series."""
    sampled = [(card, card.sample, _labels(card)) for card in cards if card.sample is not None]
    for name, text, read in _FIELDS:
        family = GaugeMetricFamily(name, text, labels=LABELS)
        for card, sample, labels in sampled:
            value = read(sample, card)
            if value is not None:
                family.add_metric(labels, float(value))
        yield family
    yield _xids(cards)


def _xids(cards: Sequence[CardStatus]) -> Metric:
    """Also of a card that fell silent with the error: then the cause of its block contains the number."""
    family = GaugeMetricFamily("DCGM_FI_DEV_XID_ERRORS", "Value of the last XID error; 0 for none.", labels=LABELS)
    for card in cards:
        found = _XID.search(card.cause)
        if found or card.sample is not None:
            family.add_metric(_labels(card), float(found[1]) if found else 0.0)
    return family


def _labels(card: CardStatus) -> list[str]:
    jobs = card.jobs[:_MAX_JOBS]
    return [
        str(card.index), one_line(card.id, 64), one_line(card.model, 64), one_line(card.node, 64),
        _joined(job.job_id for job in jobs), _joined(job.user for job in jobs), _joined(job.tenant for job in jobs),
    ]  # fmt: skip


def _joined(names: Iterable[str]) -> str:
    return ",".join(sorted({one_line(name, 64) for name in names}))
