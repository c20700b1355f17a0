"""One real node: a kubelet with containerd on this machine. Needs root, and a machine that is not a node yet."""

from __future__ import annotations

import fcntl
import json
import os
import shutil
import signal
import subprocess
import time
from pathlib import Path
from typing import IO

import pytest

from tests.kube import host_state
from tests.kube.daemons import Daemon, NotReady, free_port, is_listening, is_ok
from tests.kube.image import BUSYBOX, IMAGE, write_image

START_S = 60.0
LOCK = Path("/tmp/gpusquad-kube-node.lock")  # one kubelet at a time: the device plugin folder is shared by the machine
LOCK_S = 300.0
CAP_SYS_RESOURCE = 24
CNI = Path("/usr/lib/cni")


def missing() -> str | None:
    """Return why this machine cannot be a node, or None if it can."""
    if os.geteuid() != 0:
        return "a kubelet needs root"
    absent = [name for name in ("containerd", "ctr", "runc") if shutil.which(name, path=_path()) is None]
    absent += [str(path) for path in (CNI / "ptp", BUSYBOX) if not path.exists()]
    return f"missing: {', '.join(absent)}; make kube installs them" if absent else None


def need_node() -> None:
    """Skip the test if this machine cannot be a node; in CI, fail it."""
    reason = missing()
    if reason is not None:
        (pytest.fail if os.environ.get("CI") == "true" else pytest.skip)(reason)


class RealNode:
    # With an address as its name, the kubelet announces that address, so that logs and exec use loopback.
    name = "127.0.0.1"

    def __init__(self, folder: Path, kubelet: Path, kubeconfig: Path, certificate: Path, key: Path) -> None:
        self._folder = folder
        self._kubelet = kubelet
        self._kubeconfig = kubeconfig
        self._certificate = certificate
        self._key = key
        self._lock: IO[str] | None = None
        self._socket = folder / "containerd.sock"
        self.daemons: dict[str, Daemon] = {}

    @property
    def pod_resources(self) -> Path:
        """Socket of the kubelet's pod resources API: which container has which devices."""
        return self._folder / "kubelet" / "pod-resources" / "kubelet.sock"

    def start(self) -> None:
        self._lock = _lock_node()
        if is_listening(host_state.PLUGINS / "kubelet.sock"):
            raise NotReady("this machine is a node of a cluster already; a second kubelet would disturb the first")
        host_state.record_state(self._folder)
        self._start_containerd()
        self._start_kubelet()

    def stop(self) -> None:
        for daemon in reversed(self.daemons.values()):
            daemon.stop(signal.SIGTERM)
        host_state.restore_state(self._folder)
        if self._lock is not None:
            self._lock.close()

    def _start_containerd(self) -> None:
        config = self._folder / "containerd.toml"
        config.write_text(_containerd_config(self._folder, self._socket))
        self._add_network()
        command = ["containerd", "--config", config]
        daemon = self.daemons["containerd"] = Daemon(
            "containerd", command, self._folder, {**os.environ, "PATH": _path()}
        )
        daemon.start()
        daemon.wait_for("listening", lambda: is_listening(self._socket), START_S)
        image = self._folder / "image.tar"
        write_image(image)
        self.import_image(image)

    def import_image(self, image: Path) -> None:
        """Import an image so that pods use it as if it had been pulled."""
        subprocess.run(
            ["ctr", "--address", self._socket, "--namespace", "k8s.io", "images", "import", image],
            check=True, capture_output=True, timeout=START_S,
        )  # fmt: skip

    def _start_kubelet(self) -> None:
        health = free_port()
        config = self._folder / "kubelet.json"
        config.write_text(json.dumps(self._kubelet_config(health, host_state.make_cgroups(self._folder))))
        flags = {
            "config": config, "kubeconfig": self._kubeconfig, "root-dir": self._folder / "kubelet",
            "cert-dir": self._folder / "kubelet-tls", "hostname-override": self.name,
        }  # fmt: skip
        command = [self._kubelet, *(f"--{name}={value}" for name, value in flags.items())]
        daemon = self.daemons["kubelet"] = Daemon("kubelet", command, self._folder, {**os.environ, "PATH": _path()})
        daemon.start()
        daemon.wait_for("healthy", lambda: is_ok(f"http://127.0.0.1:{health}/healthz"), START_S)

    def _kubelet_config(self, health: int, cgroup: str) -> dict[str, object]:
        resolv = self._folder / "resolv.conf"
        resolv.touch()
        return {
            "apiVersion": "kubelet.config.k8s.io/v1beta1", "kind": "KubeletConfiguration",
            "address": "127.0.0.1", "port": free_port(), "healthzBindAddress": "127.0.0.1", "healthzPort": health,
            "tlsCertFile": str(self._certificate), "tlsPrivateKeyFile": str(self._key),
            "authentication": {
                "anonymous": {"enabled": False}, "webhook": {"enabled": False},
                "x509": {"clientCAFile": str(self._certificate)},
            },
            "authorization": {"mode": "AlwaysAllow"},
            "containerRuntimeEndpoint": f"unix://{self._socket}",
            "cgroupDriver": "cgroupfs", "cgroupRoot": cgroup, "failCgroupV1": False, "failSwapOn": False,
            "volumePluginDir": str(self._folder / "volume-plugins"),
            "podLogsDir": str(self._folder / "pods"), "resolvConf": str(resolv),
            "makeIPTablesUtilChains": False,  # do not change the machine's firewall
            # Tests must also run on a nearly full disk.
            "evictionHard": {"memory.available": "0%", "nodefs.available": "0%", "imagefs.available": "0%",
                             "nodefs.inodesFree": "0%"},
            "imageGCHighThresholdPercent": 100,
        }  # fmt: skip

    def _add_network(self) -> None:
        """Configure a point-to-point network per pod. It is removed with the pod and leaves no bridge."""
        folder = self._folder / "cni"
        folder.mkdir()
        addresses = {"type": "host-local", "dataDir": str(self._folder / "addresses"),
                     "ranges": [[{"subnet": "10.213.0.0/16"}]], "routes": [{"dst": "0.0.0.0/0"}]}  # fmt: skip
        network = {"cniVersion": "0.4.0", "name": self._folder.name, "plugins": [{"type": "ptp", "ipam": addresses}]}
        (folder / "test.conflist").write_text(json.dumps(network))


def _containerd_config(folder: Path, address: Path) -> str:
    plugin = 'plugins."io.containerd.grpc.v1.cri"'
    return f"""version = 2
root = "{folder}/containerd"
state = "{folder}/containerd-state"
disabled_plugins = ["io.containerd.internal.v1.opt", "io.containerd.snapshotter.v1.btrfs",
  "io.containerd.snapshotter.v1.zfs", "io.containerd.snapshotter.v1.devmapper", "io.containerd.snapshotter.v1.aufs"]
[grpc]
address = "{address}"
[{plugin}]
sandbox_image = "{IMAGE}"
restrict_oom_score_adj = {"false" if _has_capability(CAP_SYS_RESOURCE) else "true"}
netns_mounts_under_state_dir = true
[{plugin}.containerd.runtimes.runc]
runtime_type = "io.containerd.runc.v2"
[{plugin}.containerd.runtimes.runc.options]
Root = "{folder}/runc"
[{plugin}.cni]
bin_dir = "{CNI}"
conf_dir = "{folder}/cni"
"""


def _has_capability(number: int) -> bool:
    """Return whether this process has a capability. Without CAP_SYS_RESOURCE runc fails to lower OOM scores."""
    status = Path("/proc/self/status").read_text()
    effective = next(line.split()[1] for line in status.splitlines() if line.startswith("CapEff:"))
    return bool(int(effective, 16) >> number & 1)


def _path() -> str:
    """Return PATH with the folders in which Debian installs runc."""
    return f"{os.environ.get('PATH', '')}:/usr/sbin:/sbin"


def _lock_node() -> IO[str]:
    deadline = time.monotonic() + LOCK_S
    file = LOCK.open("w")
    while True:
        try:
            fcntl.flock(file, fcntl.LOCK_EX | fcntl.LOCK_NB)
        except BlockingIOError:
            if time.monotonic() > deadline:
                raise NotReady(f"another test has had this machine's kubelet for {LOCK_S:g} s") from None
            time.sleep(0.2)
        else:
            return file
