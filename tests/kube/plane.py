"""A real Kubernetes control plane on loopback, as a context manager.

It has etcd, kube-apiserver and kube-controller-manager. Optional are KWOK with any number of fake GPU nodes,
kube-scheduler, and one real node (kubelet and containerd, see node.py). All files are in one temporary folder.
"""

from __future__ import annotations

import contextlib
import csv
import json
import os
import secrets
import shutil
import subprocess
import tempfile
import time
from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass, field
from pathlib import Path
from types import TracebackType
from typing import Self

import httpx

from tests.kube.api import Api, Object, Refused
from tests.kube.daemons import Daemon, NotReady, free_port, is_ok
from tests.kube.host_state import clean_up_killed_tests
from tests.kube.node import RealNode
from tools.kube.build import PROGRAMS, find_all

START_S = 60.0
RESTRICTED = "gpusquad"
FAKE = "kwok.x-k8s.io/node"
STAGES = Path(__file__).parent / "stages.yaml"
PODGROUPS = "/apis/scheduling.k8s.io/v1beta1"  # native PodGroups, off by default in 1.37
GROUPS = {
    "admin": "system:masters",
    RESTRICTED: "",
    "system:kube-controller-manager": "system:masters",  # otherwise each of its controllers must get a token first
    "system:kube-scheduler": "",
    "kwok": "system:masters",
    f"system:node:{RealNode.name}": "system:nodes",
}


@dataclass(frozen=True)
class Settings:
    """Optional parts of the control plane."""

    fake_nodes: int = 0
    gpus_per_node: int = 8
    kwok: bool = False  # start KWOK without nodes; implied by fake_nodes
    scheduler: bool = False  # start kube-scheduler; start_scheduler() starts it later
    fake_lease_s: int = 40  # lease duration of fake nodes; KWOK renews it after a quarter of this time
    pods_run: bool = True  # whether KWOK sets bound pods to Running
    real_node: bool = False
    # ClusterRole rules of the restricted user. allow() replaces them.
    rules: Sequence[Object] = ()
    apiserver_flags: Sequence[str] = ()
    keep_folder: bool = field(default_factory=lambda: bool(os.environ.get("GPUSQUAD_KUBE_KEEP")))


class ControlPlane:
    """Running control plane. ``admin`` has all rights, ``restricted`` only those of the rules."""

    def __init__(self, settings: Settings | None = None) -> None:
        self.settings = settings or Settings()
        self.programs = find_all()
        self.daemons: dict[str, Daemon] = {}
        self.started_s: dict[str, float] = {}  # time until each part was ready
        self.node: RealNode | None = None
        self._tokens = {user: secrets.token_hex(16) for user in GROUPS}
        self._exits = contextlib.ExitStack()

    def __enter__(self) -> Self:
        clean_up_killed_tests()
        # A short path, because the path of a Unix socket is limited to 107 characters.
        self.folder = Path(tempfile.mkdtemp(prefix="gpusquad-kube-", dir="/tmp"))
        with self._exits:  # if a later step fails, everything started before is stopped
            self._exits.callback(self._remove_folder)
            self._start()
            self._exits = self._exits.pop_all()
        return self

    def __exit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        self._failed = kind is not None
        self._exits.close()

    _failed = True  # until the start and the block have succeeded

    # --- interface for tests ---

    def kubeconfig(self, user: str = "admin") -> Path:
        """Return the user's kubeconfig file."""
        path = self.folder / f"{user.replace(':', '-')}.kubeconfig"
        if not path.exists():
            cluster = {"server": self.url, "certificate-authority": str(self.certificate)}
            content = {
                "apiVersion": "v1", "kind": "Config", "current-context": "test",
                "clusters": [{"name": "test", "cluster": cluster}],
                "users": [{"name": user, "user": {"token": self._tokens[user]}}],
                "contexts": [{"name": "test", "context": {"cluster": "test", "user": user}}],
            }  # fmt: skip
            path.touch(0o600)
            path.write_text(json.dumps(content))
        return path

    def token(self, user: str = "admin") -> str:
        return self._tokens[user]

    def kubectl(self, *arguments: str) -> str:
        command = [self.programs["kubectl"], "--kubeconfig", self.kubeconfig(), *arguments]
        return subprocess.run(command, capture_output=True, text=True, check=True, timeout=60).stdout

    def allow(self, rules: Sequence[Object]) -> None:
        """Replace the rules of the restricted user's ClusterRole."""
        # The server applies roles some time after it stores them. A right to a resource that does not exist shows when
        # it has applied this one.
        marker: Object = {"apiGroups": ["test.gpusquad"], "resources": [secrets.token_hex(4)], "verbs": ["get"]}
        group = "rbac.authorization.k8s.io"
        role = {"metadata": {"name": RESTRICTED}, "rules": [*rules, marker]}
        binding = {
            "metadata": {"name": RESTRICTED},
            "subjects": [{"kind": "User", "name": RESTRICTED, "apiGroup": group}],
            "roleRef": {"kind": "ClusterRole", "name": RESTRICTED, "apiGroup": group},
        }
        self.admin.put(f"/apis/{group}/v1/clusterroles/{RESTRICTED}", role)
        self.admin.put(f"/apis/{group}/v1/clusterrolebindings/{RESTRICTED}", binding)
        attributes = {"resource": marker["resources"][0], "group": marker["apiGroups"][0], "verb": "get"}
        self.daemons["kube-apiserver"].wait_for("following the role", lambda: self._is_allowed(attributes), START_S)

    def add_fake_nodes(
        self, count: int, gpus: int, prefix: str = "fake", labels: Mapping[str, str] | None = None
    ) -> None:
        """Create nodes that KWOK simulates, and wait until they are ready for pods."""
        names = [f"{prefix}-{number}" for number in range(count)]
        for name in names:
            self.admin.post("/api/v1/nodes", fake_node(name, gpus, labels or {}))
        wanted = set(names)
        self.admin.until("/api/v1/nodes", lambda nodes: wanted <= ready_names(nodes), START_S)

    def start_scheduler(self) -> None:
        """Start kube-scheduler. Its metrics need no authorization."""
        port = free_port()
        self.scheduler_metrics = f"https://127.0.0.1:{port}/metrics"
        flags = {
            "kubeconfig": self.kubeconfig("system:kube-scheduler"), "leader-elect": "false",
            "bind-address": "127.0.0.1", "secure-port": port, "tls-cert-file": self.certificate,
            "tls-private-key-file": self.key, "authorization-always-allow-paths": "/metrics",
            "kube-api-qps": 5000, "kube-api-burst": 5000, "feature-gates": "GenericWorkload=true",
        }  # fmt: skip
        self._run("kube-scheduler", self.programs["kube-scheduler"], flags)

    @property
    def resident_bytes(self) -> dict[str, int]:
        return {name: daemon.resident_bytes for name, daemon in self.daemons.items()}

    def wait_until_ready(self) -> None:
        """Wait for the API server, for tests that restart it."""
        self.daemons["kube-apiserver"].wait_for("ready", self._is_ready, START_S)

    # --- start ---

    def _start(self) -> None:
        start_time = time.monotonic()
        settings = self.settings
        self._make_certificate()
        self._etcd()
        self._apiserver()
        self._controller_manager()
        if settings.rules:
            self.allow(settings.rules)
        if settings.scheduler:
            self.start_scheduler()
        if settings.kwok or settings.fake_nodes:
            self._kwok()
        self._wait_for_service_account()
        if settings.fake_nodes:
            with self._timed("fake nodes"), self._log_on_timeout(self.daemons["kwok"]):
                self.add_fake_nodes(settings.fake_nodes, settings.gpus_per_node)
        if settings.real_node:
            with self._timed("real node"):
                self._real_node()
        self.started_s["all"] = time.monotonic() - start_time

    def _make_certificate(self) -> None:
        """Create one self-signed certificate, used as authority, server and kubelet client certificate."""
        self.certificate, self.key = self.folder / "tls.crt", self.folder / "tls.key"
        command = [
            "openssl", "req", "-x509", "-nodes", "-newkey", "ec", "-pkeyopt", "ec_paramgen_curve:P-256", "-days", "2",
            "-subj", "/CN=gpusquad-test", "-addext", "subjectAltName=IP:127.0.0.1,DNS:localhost",
            "-keyout", self.key, "-out", self.certificate,
        ]  # fmt: skip
        subprocess.run(command, check=True, capture_output=True)

    def _etcd(self) -> None:
        client, peer = (f"http://127.0.0.1:{free_port()}" for _ in range(2))
        self._etcd_url = client
        flags = {
            "name": "test", "data-dir": self.folder / "etcd", "unsafe-no-fsync": "true",
            "listen-client-urls": client, "advertise-client-urls": client,
            "listen-peer-urls": peer, "initial-advertise-peer-urls": peer, "initial-cluster": f"test={peer}",
        }  # fmt: skip
        self._run("etcd", self.programs["etcd"], flags, ready=lambda: is_ok(f"{client}/health"))

    def _apiserver(self) -> None:
        tokens = self.folder / "tokens.csv"
        tokens.touch(0o600)
        with tokens.open("w", newline="") as file:
            csv.writer(file).writerows([self._tokens[user], user, user, group] for user, group in GROUPS.items())
        port = free_port()
        self.url = f"https://127.0.0.1:{port}"
        self.admin = Api(self.url, self.certificate, self._tokens["admin"])
        self.restricted = Api(self.url, self.certificate, self._tokens[RESTRICTED])
        self._exits.callback(self.admin.close)
        self._exits.callback(self.restricted.close)
        flags = {
            "etcd-servers": self._etcd_url, "bind-address": "127.0.0.1", "advertise-address": "127.0.0.1",
            "secure-port": port, "tls-cert-file": self.certificate, "tls-private-key-file": self.key,
            "token-auth-file": tokens, "authorization-mode": "Node,RBAC", "anonymous-auth": "false",
            "service-account-issuer": self.url, "service-account-key-file": self.certificate,
            "service-account-signing-key-file": self.key, "service-cluster-ip-range": "10.96.0.0/16",
            "endpoint-reconciler-type": "none",  # other types refuse a loopback address
            "kubelet-client-certificate": self.certificate, "kubelet-client-key": self.key,
            "feature-gates": "GenericWorkload=true", "runtime-config": "scheduling.k8s.io/v1beta1=true",
        }  # fmt: skip
        self._run(
            "kube-apiserver", self.programs["kube-apiserver"], flags, self._is_ready, self.settings.apiserver_flags
        )

    def _controller_manager(self) -> None:
        flags = {
            "kubeconfig": self.kubeconfig("system:kube-controller-manager"), "secure-port": 0, "leader-elect": "false",
            "service-account-private-key-file": self.key, "root-ca-file": self.certificate,
            "flex-volume-plugin-dir": self.folder / "volume-plugins",  # the default is a folder in /usr
            "kube-api-qps": 5000, "kube-api-burst": 5000,
            "node-monitor-grace-period": f"{self.settings.fake_lease_s + 10}s",
            "feature-gates": "GenericWorkload=true",
        }  # fmt: skip
        self._run("kube-controller-manager", self.programs["kube-controller-manager"], flags)

    def _kwok(self) -> None:
        flags = {
            "kubeconfig": self.kubeconfig("kwok"), "config": self._stages(), "manage-all-nodes": "false",
            "manage-nodes-with-annotation-selector": f"{FAKE}=fake",
            "node-lease-duration-seconds": self.settings.fake_lease_s,
        }  # fmt: skip
        self._run("kwok", self.programs["kwok"], flags)

    def _stages(self) -> Path:
        if self.settings.pods_run:
            return STAGES
        path = self.folder / "stages.yaml"
        stages = STAGES.read_text().split("---\n")
        path.write_text("---\n".join(stage for stage in stages if "{name: pod-runs}" not in stage))
        return path

    def _real_node(self) -> None:
        kubeconfig = self.kubeconfig(f"system:node:{RealNode.name}")
        node = self.node = RealNode(self.folder, self.programs["kubelet"], kubeconfig, self.certificate, self.key)
        self._exits.callback(node.stop)
        node.start()
        self.daemons.update(node.daemons)
        with self._log_on_timeout(node.daemons["kubelet"]):
            self.admin.until("/api/v1/nodes", lambda nodes: node.name in ready_names(nodes), START_S)

    def _run(self, name: str, program: Path, flags: Mapping[str, object], ready: Callable[[], bool] | None = None,
             extra_flags: Iterable[str] = ()) -> None:  # fmt: skip
        """Start a program that is stopped with the control plane."""
        daemon = Daemon(
            name, [program, *(f"--{flag}={value}" for flag, value in flags.items()), *extra_flags], self.folder
        )
        self.daemons[name] = daemon
        self._exits.callback(daemon.stop)
        daemon.start()
        with self._timed(name):
            if ready is not None:
                daemon.wait_for("ready", ready, START_S)

    def _is_allowed(self, attributes: Object) -> bool:
        review = {"spec": {"user": RESTRICTED, "resourceAttributes": attributes}}
        return self.admin.post("/apis/authorization.k8s.io/v1/subjectaccessreviews", review)["status"]["allowed"]

    def _is_ready(self) -> bool:
        try:
            return self.admin.text("/readyz") == "ok"
        except (httpx.TransportError, Refused):
            return False

    def _wait_for_service_account(self) -> None:
        """Wait for the default service account: without it the API server refuses pods."""
        path = "/api/v1/namespaces/default/serviceaccounts"
        with self._timed("service account"), self._log_on_timeout(self.daemons["kube-controller-manager"]):
            self.admin.until(path, lambda found: any(a["metadata"]["name"] == "default" for a in found), START_S)

    @contextlib.contextmanager
    def _timed(self, name: str) -> Iterator[None]:
        start_time = time.monotonic()
        yield
        self.started_s[name] = time.monotonic() - start_time

    @contextlib.contextmanager
    def _log_on_timeout(self, daemon: Daemon) -> Iterator[None]:
        """Add the end of a program's log to a timeout of a wait that depends on it."""
        try:
            yield
        except TimeoutError as error:
            raise NotReady(f"{error}\nlog of {daemon.name}:\n{daemon.log_tail()}") from error

    def _remove_folder(self) -> None:
        if self._failed or self.settings.keep_folder:
            print(f"the logs of the control plane are in {self.folder}")
        else:
            shutil.rmtree(self.folder, ignore_errors=True)


def fake_node(name: str, gpus: int, labels: Mapping[str, str]) -> Object:
    size = {"cpu": "128", "memory": "1Ti", "pods": "110", "nvidia.com/gpu": str(gpus)}
    return {
        "metadata": {
            "name": name,
            "annotations": {FAKE: "fake"},
            "labels": {"kubernetes.io/hostname": name, "kubernetes.io/os": "linux", **labels},
        },
        "status": {"capacity": size, "allocatable": size},
    }


def ready_names(nodes: Iterable[Object]) -> set[str]:
    """Return the names of nodes that are ready and have no taints."""
    return {node["metadata"]["name"] for node in nodes if is_ready(node) and not node["spec"].get("taints")}


def is_ready(item: Object) -> bool:
    """Return whether a node or pod is ready."""
    return any(
        condition["type"] == "Ready" and condition["status"] == "True"
        for condition in item.get("status", {}).get("conditions", ())
    )


def missing_programs() -> list[str]:
    """List the programs that must be installed or built before a control plane can start."""
    found = find_all()
    absent = [program.name for program in PROGRAMS if program.name not in found]
    return absent + [name for name in ("openssl",) if shutil.which(name) is None]
