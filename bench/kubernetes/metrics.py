"""Parser of Prometheus' text format for counters with labels and quantiles of histograms."""

from __future__ import annotations

import re
import ssl
import urllib.request
from collections import Counter
from collections.abc import Iterator, Mapping
from itertools import pairwise

LINE = re.compile(r"^(\w+)(?:\{(.*)\})? (\S+)$")
LABEL = re.compile(r'(\w+)="((?:[^"\\]|\\.)*)"')
WRITES = frozenset({"POST", "PUT", "PATCH", "DELETE"})


def fetch(url: str, tls: ssl.SSLContext, token: str = "") -> str:
    headers = {"Authorization": f"Bearer {token}"} if token else {}
    opener = urllib.request.build_opener(urllib.request.ProxyHandler({}), urllib.request.HTTPSHandler(context=tls))
    with opener.open(urllib.request.Request(url, headers=headers), timeout=30) as answer:
        return answer.read().decode()


def samples(text: str, name: str) -> Iterator[tuple[dict[str, str], float]]:
    """Labels and value of each sample of that name."""
    for line in text.splitlines():
        if line.startswith(name) and (found := LINE.match(line)) and found[1] == name:
            yield dict(LABEL.findall(found[2] or "")), float(found[3])


def quantile(text: str, name: str, part: float, **wanted: str) -> float | None:
    """By the straight line within its bucket, as Prometheus does; None where nothing was observed."""
    below: Counter[float] = Counter()
    for labels, value in samples(text, f"{name}_bucket"):
        if wanted.items() <= labels.items():
            below[float(labels["le"])] += int(value)
    return in_buckets(below, part)


def in_buckets(below: Mapping[float, float], part: float) -> float | None:
    """``below``: upper bound -> how many are not above it."""
    total = max(below.values(), default=0)
    if total == 0:
        return None
    rank = part * total
    for (low, before), (high, count) in pairwise([(0.0, 0), *sorted(below.items())]):
        if count >= rank and count > before:
            return low if high == float("inf") else low + (high - low) * (rank - before) / (count - before)
    return None


def writes(text: str) -> Counter[str]:
    """Successful writes to an API server, by method and resource."""
    found: Counter[str] = Counter()
    for labels, value in samples(text, "apiserver_request_total"):
        if labels["verb"] in WRITES and labels["code"].startswith("2"):
            found["/".join(filter(None, (labels["verb"], labels["resource"], labels["subresource"])))] += int(value)
    return found
