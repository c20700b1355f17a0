"""The agent of a node: its parts, and the order in which they start and stop."""

from __future__ import annotations

import logging
import threading
import time
from dataclasses import dataclass, field
from pathlib import Path

from gpusquad.agent.health import WELL_FOR_S
from gpusquad.agent.inventory import Inventory, SourceUnavailable
from gpusquad.agent.kubernetes.admission import Admission
from gpusquad.agent.kubernetes.api import AgentAccess, KubeApi
from gpusquad.agent.kubernetes.card_clients import CardClients
from gpusquad.agent.kubernetes.card_policies import CardPolicies
from gpusquad.agent.kubernetes.counters import EventCounters
from gpusquad.agent.kubernetes.device_nodes import DeviceNodes, NoDeviceNodes, NvidiaDeviceNodes, SimulatedDeviceNodes
from gpusquad.agent.kubernetes.metrics import Metrics
from gpusquad.agent.kubernetes.node_cards import NodeCards
from gpusquad.agent.kubernetes.node_snapshot import NodeSnapshot
from gpusquad.agent.kubernetes.plugin import Plugin, PluginContext
from gpusquad.agent.kubernetes.pod_cache import PodCache
from gpusquad.agent.kubernetes.pod_drain import PodDrainer
from gpusquad.agent.kubernetes.pod_processes import PodProcesses
from gpusquad.agent.kubernetes.pod_resources import KubeletPodResources
from gpusquad.agent.kubernetes.reconcile import Reconciler
from gpusquad.agent.kubernetes.registration import PLUGINS, Registration
from gpusquad.agent.kubernetes.reporting import NodeReporter, ReportBuilder
from gpusquad.agent.kubernetes.sharing_settings import SharingSettings, quotas_of
from gpusquad.agent.kubernetes.unmanaged import unmanaged_watch
from gpusquad.agent.quiet_runs import QUIET_S
from gpusquad.kube.names import GPU

_RECONCILE_PAUSE_S = 1.0
SERVER_TOKEN = Path("/var/run/secrets/gpusquad/token")
"""For the service only. The kubelet replaces it before it expires."""
PODS_LOGS = Path("/var/log/pods")
_log = logging.getLogger(__name__)


@dataclass(frozen=True)
class AgentSettings:
    """Options of the agent."""

    node: str
    folder: Path
    resource: str = GPU
    slots: int = 1
    plugins: Path = PLUGINS
    pod_resources: Path = Path("/var/lib/kubelet/pod-resources/kubelet.sock")
    device_nodes: bool = False
    every_s: float = 1.0
    """Interval between two readings of the cards."""
    reconcile_s: float = 5.0
    well_for_s: float = WELL_FOR_S
    metrics_port: int | None = None
    server: str = ""
    """Address of the service to report to. Empty: no reports."""
    server_authority: str = ""
    """File with the service's certificate authority. Empty: those that the system trusts."""
    server_token: Path = SERVER_TOKEN
    report_every_s: float = 5.0
    quiet_after_s: float = QUIET_S
    logs: Path | None = PODS_LOGS
    """The kubelet's folder of container logs. None: logs are not read."""
    sharing: SharingSettings = field(default_factory=SharingSettings)


class NodeAgent:
    """Runs until it is stopped."""

    def __init__(self, settings: AgentSettings, inventory: Inventory, api: KubeApi) -> None:
        self._settings = settings
        self._inventory = inventory
        self.counts = EventCounters()
        self.cards = NodeCards(inventory, settings.well_for_s)
        self._due = threading.Event()
        self._ending = threading.Event()
        self._policies = CardPolicies(settings.sharing.policy)
        quotas = quotas_of(settings.sharing, settings.folder, inventory.cards, self._policies)
        enforced = next((quota for quota in quotas if not quota.absence), None)
        self._unmanaged = None if enforced is None else unmanaged_watch(enforced)
        self._drainer = None if enforced is None else PodDrainer(enforced, settings.every_s)
        clients = CardClients(quotas, passes_users=settings.sharing.has_mps)
        self._pods = PodCache(api, settings.node, settings.resource)
        self._resources = KubeletPodResources(settings.pod_resources, settings.resource)
        admission = Admission(self._pods, self._resources)
        self._context = PluginContext(
            self.cards, settings.slots, self._pods, self._resources, admission, clients, self._device_nodes(),
            self.counts, self._due.set,
        )  # fmt: skip
        self._reconciler = Reconciler(
            api, settings.node, self._pods, self._resources, self.cards, admission, clients, self.counts
        )
        self._registration = Registration(
            lambda: Plugin(self._context), settings.resource, settings.plugins, lambda: self.counts.add("registrations")
        )
        self._processes = PodProcesses()
        self._metrics = Metrics(self.cards, settings.slots, self.counts)
        self._reporter = self._make_reporter() if settings.server else None

    def run(self) -> None:
        """Raises SourceUnavailable: only a new process can read the cards again."""
        self.cards.start()
        self._reconciler.publish_cards()
        self._pods.start()
        if self._settings.metrics_port is not None:
            self._metrics.serve(self._settings.metrics_port)
        registering = threading.Thread(target=self._registration.run, name="registration", daemon=True)
        registering.start()
        threading.Thread(target=self._reconcile_periodically, name="reconcile", daemon=True).start()
        if self._reporter is not None:
            self._reporter.start()
        try:
            self._read_periodically()
        finally:
            self.stop()
            registering.join(timeout=10.0)
            if self._unmanaged is not None:
                self._unmanaged.close()
            self._inventory.close()

    def stop(self) -> None:
        self._ending.set()
        self._due.set()
        self._pods.stop()
        self._registration.stop()
        if self._reporter is not None:
            self._reporter.stop()

    def _read_periodically(self) -> None:
        while not self._ending.wait(self._settings.every_s):
            version = self.cards.version
            try:
                self._read_node()
            except SourceUnavailable:
                raise
            except Exception:
                _log.exception("cannot read the node")  # the next reading may succeed
            if self.cards.version != version:
                self._due.set()

    def _read_node(self) -> None:
        knows_all = self._pods.has_listed and self._reconciler.has_listed  # read first: it may become true in between
        pods, listed = self._pods.list_cached(), self._reconciler.listed
        owned = self._processes.look(pods, listed)
        if self._drainer is not None:  # before the cards are read, which may take a while
            self._drainer.hear(pods, self._processes.owners)
        readings = self.cards.look(owned)
        self._metrics.take(readings, self._processes, listed)
        look = NodeSnapshot(time.time_ns() // 1000, readings, owned, self._processes.owners, pods, listed, knows_all)
        if self._unmanaged is not None:
            self._unmanaged.hear(look)
        if self._reporter is not None:
            self._reporter.give(look)

    def _reconcile_periodically(self) -> None:
        while not self._ending.is_set():
            self._due.clear()
            began_s = time.monotonic()
            try:
                self._reconciler.step()
            except Exception:
                _log.exception("a reconciliation failed")
            self._metrics.reconciled(time.monotonic() - began_s)
            self._due.wait(self._settings.reconcile_s)
            # The kubelet stores an allocation after our answer, and it must have time for other clients.
            self._ending.wait(min(_RECONCILE_PAUSE_S, self._settings.reconcile_s))

    def _make_reporter(self) -> NodeReporter:
        settings = self._settings
        access = AgentAccess(
            settings.server.rstrip("/"), settings.server_authority, token_file=str(settings.server_token)
        )
        samples = ReportBuilder(
            settings.logs, lambda: self._unmanaged.unheld if self._unmanaged is not None else (), self.cards.tests,
            settings.quiet_after_s,
        )  # fmt: skip
        return NodeReporter(
            KubeApi(access).post, samples, self.counts, settings.report_every_s, divides=self._policies,
            tests=self.cards.tests,
        )  # fmt: skip

    def _device_nodes(self) -> DeviceNodes:
        if self._inventory.simulated:
            return SimulatedDeviceNodes(self._settings.folder / "devices", self._inventory.cards)
        return NvidiaDeviceNodes() if self._settings.device_nodes else NoDeviceNodes()
