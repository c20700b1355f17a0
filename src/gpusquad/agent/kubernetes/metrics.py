"""Metrics of the agent in Prometheus' text format. Labels for joins have their usual names: UUID, gpu, pod, namespace,
container."""

from __future__ import annotations

import threading
from collections.abc import Iterable, Iterator, Mapping, Sequence
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer

from gpusquad.agent.inventory import CardReading
from gpusquad.agent.kubernetes.counters import EventCounters
from gpusquad.agent.kubernetes.node_cards import NodeCards
from gpusquad.agent.kubernetes.pod_processes import PodProcesses
from gpusquad.agent.kubernetes.pod_resources import ListedPod
from gpusquad.agent.kubernetes.slots import distinct_cards, in_order

_ESCAPED = str.maketrans({"\\": r"\\", '"': r"\"", "\n": r"\n"})
Sample = tuple[str, Mapping[str, str], float]


class Metrics:
    """Updated after each reading of the node."""

    def __init__(self, cards: NodeCards, slots: int, counts: EventCounters) -> None:
        self._cards = cards
        self._slots = slots
        self._counts = counts
        self._samples: list[Sample] = []
        self._used_slots = 0
        self._reconcile_s = 0.0

    def take(self, readings: Sequence[CardReading], processes: PodProcesses, listed: Sequence[ListedPod]) -> None:
        holders = holders_of(listed)
        self._used_slots = sum(len(slots) for entry in listed for slots in entry.slots.values())
        self._samples = [sample for reading in readings for sample in self._card(reading, processes, holders)]

    def reconciled(self, took_s: float) -> None:
        self._reconcile_s = took_s

    def text(self) -> str:
        ok = sum(self._cards.is_ok(card.id) for card in self._cards.facts)
        samples: list[Sample] = [
            ("gpusquad_agent_cards", {"ok": "true"}, ok),
            ("gpusquad_agent_cards", {"ok": "false"}, len(self._cards.facts) - ok),
            ("gpusquad_agent_slots", {}, len(self._cards.facts) * self._slots),
            ("gpusquad_agent_slots_used", {}, self._used_slots),
            ("gpusquad_agent_reconcile_seconds", {}, self._reconcile_s),
            *((f"gpusquad_agent_{name}_total", {}, self._counts[name]) for name in EventCounters.NAMES),
            *self._samples,
        ]
        return "".join(_lines(samples))

    def serve(self, port: int, address: str = "") -> ThreadingHTTPServer:
        """In a thread of its own, until the process ends."""
        server = ThreadingHTTPServer((address, port), _handler(self))
        threading.Thread(target=server.serve_forever, name="metrics", daemon=True).start()
        return server

    def _card(
        self, reading: CardReading, processes: PodProcesses, holders: Mapping[str, Sequence[tuple[str, str, str]]]
    ) -> Iterator[Sample]:
        card = {"UUID": reading.id, "gpu": str(self._cards.by_id[reading.id].index)}
        for namespace, pod, container in holders.get(reading.id, ()):
            labels = {**card, "namespace": namespace, "pod": pod, "container": container}
            mine = [p for p in reading.processes or () if processes.owner(p.pid) == f"{namespace}/{pod}"]
            busy, memory = [p.utilisation_ratio for p in mine], [p.memory_bytes for p in mine]
            if None not in busy and reading.processes is not None:  # unknown values are left out, not shown as zero
                yield "gpusquad_pod_gpu_utilisation_ratio", labels, min(sum(map(float, filter(None, busy))), 1.0)
            if None not in memory and reading.processes is not None:
                yield "gpusquad_pod_gpu_memory_bytes", labels, sum(filter(None, memory))
        if reading.utilisation_ratio is not None:
            yield "gpusquad_gpu_utilisation_ratio", card, reading.utilisation_ratio
        if reading.memory_used_bytes is not None:
            yield "gpusquad_gpu_memory_used_bytes", card, reading.memory_used_bytes


def holders_of(listed: Iterable[ListedPod]) -> dict[str, list[tuple[str, str, str]]]:
    """By card: namespace, pod and container of each holder."""
    found: dict[str, list[tuple[str, str, str]]] = {}
    for entry in listed:
        for container, slots in entry.slots.items():
            for card in distinct_cards(in_order(slots)):
                found.setdefault(card, []).append((entry.namespace, entry.name, container))
    return found


def _lines(samples: Iterable[Sample]) -> Iterator[str]:
    """Samples grouped by name, as the format requires."""
    by_name: dict[str, list[Sample]] = {}
    for sample in samples:
        by_name.setdefault(sample[0], []).append(sample)
    for name, group in by_name.items():
        yield f"# TYPE {name} {'counter' if name.endswith('_total') else 'gauge'}\n"
        for _, labels, value in group:
            inside = ",".join(f'{key}="{text.translate(_ESCAPED)}"' for key, text in labels.items())
            yield f"{name}{{{inside}}} {value:.10g}\n" if inside else f"{name} {value:.10g}\n"


def _handler(metrics: Metrics) -> type[BaseHTTPRequestHandler]:
    class Handler(BaseHTTPRequestHandler):
        def do_GET(self) -> None:
            if self.path != "/metrics":
                self.send_error(404)
                return
            body = metrics.text().encode()
            self.send_response(200)
            self.send_header("Content-Type", "text/plain; version=0.0.4; charset=utf-8")
            self.send_header("Content-Length", str(len(body)))
            self.end_headers()
            self.wfile.write(body)

        def log_message(self, format: str, *args: object) -> None:  # noqa: A002
            """Scrapes are not logged."""

    return Handler
