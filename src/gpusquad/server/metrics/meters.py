"""Counts events as they happen, and answers scrapes."""

from __future__ import annotations

import platform
from collections.abc import Callable
from typing import get_args

from prometheus_client import (
    CollectorRegistry,
    Counter,
    Gauge,
    Histogram,
    Info,
    ProcessCollector,
    disable_created_metrics,
)
from prometheus_client.exposition import choose_encoder

from gpusquad import __version__
from gpusquad.core.hang.hang import RuleName
from gpusquad.model.units import US_PER_S
from gpusquad.server.metrics.collector import SnapshotCollector
from gpusquad.server.metrics.labels import OTHER, BoundedLabels, among
from gpusquad.server.metrics.snapshot import MetricsSource
from gpusquad.server.notify.outbox import NoticeOutcome
from gpusquad.server.services.runtime.observer import Observer

disable_created_metrics()  # it would add a series for each series

DECISIONS = frozenset({"start", "preempt", "stop", "refuse", "resize"})
MAX_TENANT_LABELS = 50
_MAX_RULES = 20
_MAX_MODES = 20
_MAX_ROUTES = 200
_METHODS = frozenset({"GET", "HEAD", "POST", "PUT", "PATCH", "DELETE", "OPTIONS"})
_CYCLE_S = (0.001, 0.003, 0.01, 0.03, 0.1, 0.3, 1, 3, 10)
_REQUEST_S = (0.003, 0.01, 0.03, 0.1, 0.3, 1, 3, 10, 30)
_WAIT_S = (1, 10, 30, 60, 300, 900, 1800, 3600, 2 * 3600, 4 * 3600, 8 * 3600, 24 * 3600, 72 * 3600)


class Meters(Observer):
    """The service's metrics, in their own registry. Safe for every thread."""

    def __init__(self, now_us: Callable[[], int], source: MetricsSource | None = None) -> None:
        self.registry = CollectorRegistry()
        self._now_us = now_us
        self._tenants = BoundedLabels(MAX_TENANT_LABELS)
        self._mode_names = BoundedLabels(_MAX_MODES)
        self._rules, self._routes = BoundedLabels(_MAX_RULES), BoundedLabels(_MAX_ROUTES)
        self._make_scheduling()
        self._make_serving()
        if source is not None:
            self.watch(source)

    def watch(self, source: MetricsSource) -> None:
        """Ask this source for a snapshot at each scrape. Call it once: two sources would duplicate every series."""
        self.registry.register(SnapshotCollector(source, self._tenants))

    def render(self, accept: str = "") -> tuple[bytes, str]:
        """The answer to a scrape and its content type."""
        encode, content_type = choose_encoder(accept)
        return encode(self.registry), content_type

    # -- the scheduler

    def cycled(self, seconds: float) -> None:
        """Duration of one cycle."""
        self._cycles.observe(seconds)
        self._last_cycle.set(self._now_us() / US_PER_S)

    def decided(self, kind: str) -> None:
        """A decision: start, preempt, stop, refuse or resize."""
        self._decisions.labels(among(kind, DECISIONS)).inc()
        if kind == "preempt":
            self._preemptions.inc()

    def started(self, tenant: str, waited_s: float) -> None:
        """A job started after this wait."""
        self._waits.labels(self._tenants.of(tenant)).observe(max(waited_s, 0.0))

    def hung(self, rule: str) -> None:
        """A job was found without progress, by this rule."""
        self._hung.labels(self._rules.of(rule)).inc()

    def forecast_settled(self, error_s: float) -> None:
        """An actual start; positive: later than forecast."""
        self._forecasts.labels("late" if error_s > 0 else "early").observe(abs(error_s))

    def head_started(self, delay_s: float) -> None:
        """A head of the queue started, this much later than if no job behind it had started before it."""
        self._head_delays.observe(delay_s)

    def mode_chosen(self, mode: str) -> None:
        """An automatic mode chose another mode."""
        self._modes.labels(self._mode_names.of(mode)).inc()

    # -- the rest of the service

    def notice(self, outcome: NoticeOutcome) -> None:
        """A notice was queued, sent, will be retried or was given up."""
        self._notices.labels(outcome).inc()

    def request(self, method: str, route: str, status: int, seconds: float | None) -> None:
        """A request was answered. ``route`` is the template, not the path. Streams are not timed."""
        method, route = among(method, _METHODS), self._routes.of(route) if route else OTHER
        self._requests.labels(method, route, str(status)).inc()
        if seconds is not None:
            self._request_times.labels(method, route).observe(seconds)

    def reported(self, is_taken: bool) -> None:
        """A node's agent reported."""
        self._reports.labels("taken" if is_taken else "refused").inc()

    def _make_scheduling(self) -> None:
        text = "End of the last decision cycle; there is one every minute even if nothing happens."
        self._last_cycle = Gauge("gpusquad_last_cycle_timestamp_seconds", text, registry=self.registry)
        text = "How much later heads of the queue started than if no job behind them had started before them."
        self._head_delays = Histogram("gpusquad_head_delay_seconds", text, buckets=_WAIT_S, registry=self.registry)
        text = "Duration of decision cycles."
        self._cycles = Histogram("gpusquad_cycle_seconds", text, buckets=_CYCLE_S, registry=self.registry)
        self._decisions = self._counter("gpusquad_decisions", "Decisions of the scheduler.", "kind", DECISIONS)
        text = "Time from submission to start."
        self._waits = Histogram("gpusquad_job_wait_seconds", text, ["tenant"], buckets=_WAIT_S, registry=self.registry)
        text = "Changes made by an automatic mode, by the mode that it chose."
        self._modes = Counter("gpusquad_mode_changes", text, ["mode"], registry=self.registry)
        text = "Jobs that were preempted."
        self._preemptions = Counter("gpusquad_preemptions", text, registry=self.registry)
        self._hung = self._counter(
            "gpusquad_hung_jobs", "Jobs found without progress, by rule.", "rule", get_args(RuleName)
        )
        text = "Difference between actual and forecast starts."
        self._forecasts = Histogram(
            "gpusquad_forecast_error_seconds", text, ["side"], buckets=_WAIT_S, registry=self.registry
        )
        for side in ("early", "late"):
            self._forecasts.labels(side)

    def _make_serving(self) -> None:
        text = "Notices by outcome; a retried one counts at each attempt."
        self._notices = self._counter("gpusquad_notices", text, "state", get_args(NoticeOutcome))
        text = "Reports of agents. Refused ones include unknown callers, too many reports and invalid ones."
        self._reports = self._counter("gpusquad_agent_reports", text, "state", ("taken", "refused"))
        labels = ["method", "route", "status"]
        text = "HTTP requests answered."
        self._requests = Counter("gpusquad_http_requests", text, labels, registry=self.registry)
        text = "Duration of HTTP requests, without streams."
        self._request_times = Histogram(
            "gpusquad_http_request_seconds", text, labels[:2], buckets=_REQUEST_S, registry=self.registry
        )
        build = Info("gpusquad_build", "Version of this service.", registry=self.registry)
        build.info({"version": __version__, "python": platform.python_version()})
        ProcessCollector(registry=self.registry)

    def _counter(self, name: str, text: str, label: str, values: frozenset[str] | tuple[str, ...] = ()) -> Counter:
        """A counter whose known values start at 0, because Prometheus does not see the step of a series that starts at
        1."""
        counter = Counter(name, text, [label], registry=self.registry)
        for value in sorted(values):
            counter.labels(value)
        return counter
