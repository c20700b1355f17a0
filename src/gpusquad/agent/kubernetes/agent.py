"""The agent of a node, put together: what it watches, whom it speaks to, and in which order it starts and ends."""

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
from gpusquad.agent.kubernetes.unmanaged import lookout_for
from gpusquad.kube.names import GPU

_GATHER_S = 1.0
SERVER_TOKEN = Path("/var/run/secrets/gpusquad/token")
"""For the service alone; the kubelet replaces it before it ends."""
PODS_LOGS = Path("/var/log/pods")
_log = logging.getLogger(__name__)


@dataclass(frozen=True)
class AgentSettings:
    """What a user can choose."""

    node: str
    folder: Path
    resource: str = GPU
    slots: int = 1
    plugins: Path = PLUGINS
    pod_resources: Path = Path("/var/lib/kubelet/pod-resources/kubelet.sock")
    device_nodes: bool = False
    every_s: float = 1.0
    """Between two looks at the cards."""
    reconcile_s: float = 5.0
    well_for_s: float = WELL_FOR_S
    metrics_port: int | None = None
    server: str = ""
    """The service's address, to report to. Empty: nobody is reported to."""
    server_authority: str = ""
    """A file with the certificate that signed the service's. Empty: those that the machine trusts."""
    server_token: Path = SERVER_TOKEN
    report_every_s: float = 5.0
    logs: Path | None = PODS_LOGS
    """Where the kubelet keeps the logs of containers. None: nobody looks at them."""
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
        self._lookout = None if enforced is None else lookout_for(enforced)
        self._leaving = None if enforced is None else PodDrainer(enforced, settings.every_s)
        tenants = CardClients(quotas, tells_users=settings.sharing.has_mps)
        self._pods = PodCache(api, settings.node, settings.resource)
        self._resources = KubeletPodResources(settings.pod_resources, settings.resource)
        admission = Admission(self._pods, self._resources)
        self._parts = PluginContext(
            self.cards, settings.slots, self._pods, self._resources, admission, tenants, self._device_nodes(),
            self.counts, self._due.set,
        )  # fmt: skip
        self._reconciler = Reconciler(
            api, settings.node, self._pods, self._resources, self.cards, admission, tenants, self.counts
        )
        self._registration = Registration(
            lambda: Plugin(self._parts), settings.resource, settings.plugins, lambda: self.counts.add("registrations")
        )
        self._processes = PodProcesses()
        self._metrics = Metrics(self.cards, settings.slots, self.counts)
        self._reporter = self._make_reporter() if settings.server else None

    def run(self) -> None:
        """SourceUnavailable: a new process is needed to read the cards."""
        self.cards.start()
        self._reconciler.publish_cards()
        self._pods.start()
        if self._settings.metrics_port is not None:
            self._metrics.serve(self._settings.metrics_port)
        registering = threading.Thread(target=self._registration.run, name="registration", daemon=True)
        registering.start()
        threading.Thread(target=self._reconcile_until_the_end, name="reconcile", daemon=True).start()
        if self._reporter is not None:
            self._reporter.start()
        try:
            self._look_until_the_end()
        finally:
            self.stop()
            registering.join(timeout=10.0)
            if self._lookout is not None:
                self._lookout.close()
            self._inventory.close()

    def stop(self) -> None:
        self._ending.set()
        self._due.set()
        self._pods.stop()
        self._registration.stop()
        if self._reporter is not None:
            self._reporter.stop()

    def _look_until_the_end(self) -> None:
        while not self._ending.wait(self._settings.every_s):
            version = self.cards.version
            try:
                self._look()
            except SourceUnavailable:
                raise
            except Exception:
                _log.exception("one look failed")  # the next may go well
            if self.cards.version != version:
                self._due.set()

    def _look(self) -> None:
        knows_all = self._pods.has_heard and self._reconciler.has_listed  # asked first, as it may come true in between
        pods, listed = self._pods.all_known(), self._reconciler.listed
        owned = self._processes.look(pods, listed)
        if self._leaving is not None:  # before the cards are looked at, which may take a while
            self._leaving.hear(pods, self._processes.owners)
        readings = self.cards.look(owned)
        self._metrics.take(readings, self._processes, listed)
        look = NodeSnapshot(time.time_ns() // 1000, readings, owned, self._processes.owners, pods, listed, knows_all)
        if self._lookout is not None:
            self._lookout.hear(look)
        if self._reporter is not None:
            self._reporter.give(look)

    def _reconcile_until_the_end(self) -> None:
        while not self._ending.is_set():
            self._due.clear()
            began_s = time.monotonic()
            try:
                self._reconciler.step()
            except Exception:
                _log.exception("one step failed")
            self._metrics.reconciled(time.monotonic() - began_s)
            self._due.wait(self._settings.reconcile_s)
            # The kubelet notes what it gave after our answer; and it must have time to answer others than us.
            self._ending.wait(min(_GATHER_S, self._settings.reconcile_s))

    def _make_reporter(self) -> NodeReporter:
        settings = self._settings
        access = AgentAccess(
            settings.server.rstrip("/"), settings.server_authority, token_file=str(settings.server_token)
        )
        samples = ReportBuilder(settings.logs, lambda: self._lookout.unheld if self._lookout is not None else ())
        return NodeReporter(KubeApi(access).post, samples, self.counts, settings.report_every_s, divides=self._policies)

    def _device_nodes(self) -> DeviceNodes:
        if self._inventory.simulated:
            return SimulatedDeviceNodes(self._settings.folder / "devices", self._inventory.cards)
        return NvidiaDeviceNodes() if self._settings.device_nodes else NoDeviceNodes()
