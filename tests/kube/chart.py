"""The Helm chart as installed, and the service with the configuration and rights that the chart gives it."""

from __future__ import annotations

import contextlib
import json
import subprocess
import tomllib
from collections.abc import Iterator, Mapping
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import yaml

from gpusquad.app.config import load_config
from gpusquad.app.service import Service
from tests.kube.api import Api, Object
from tests.kube.plane import ControlPlane

CHART = Path(__file__).parents[2] / "deploy" / "helm" / "gpusquad"
Values = Mapping[str, Any]
TIMEOUT_S = 120


class HelmFailed(Exception):
    """Helm failed; the message is its error output."""


@dataclass(frozen=True)
class Release:
    """One installation of the chart."""

    plane: ControlPlane
    name: str = "gpusquad"
    namespace: str = "gpusquad"

    def render(self, values: Values | None = None) -> list[Object]:
        """Render the objects of an installation, with the optional API versions that this cluster serves."""
        kinds = ("--api-versions", "admissionregistration.k8s.io/v1/MutatingAdmissionPolicy")
        text = self._helm("template", self.name, str(CHART), *kinds, "--values", "-", values=values)
        return [item for item in yaml.safe_load_all(text) if item]

    def install(self, values: Values | None = None) -> str:
        """Install or upgrade the release."""
        command = ("upgrade", "--install", self.name, str(CHART), "--create-namespace", "--values", "-")
        return self._helm(*command, values=values)

    def uninstall(self) -> str:
        return self._helm("uninstall", self.name, "--wait")

    def wait_until_up(self) -> None:
        """Wait for all pods. KWOK simulates them, so this shows only that they were admitted and placed."""
        folder = f"/apis/apps/v1/namespaces/{self.namespace}"
        self.plane.admin.until(f"{folder}/deployments", lambda found: all(map(_is_up, found)) and bool(found))
        self.plane.admin.until(f"{folder}/daemonsets", lambda found: all(map(_is_on_every_node, found)) and bool(found))

    def objects(self) -> list[str]:
        """List the release's objects in the cluster, without pods and the objects that controllers create."""
        selector = f"app.kubernetes.io/instance={self.name}"
        everything = self.plane.kubectl("api-resources", "--verbs=list", "-o", "name").split()
        created_by_controllers = {"pods", "events", "endpoints", "replicasets.apps", "controllerrevisions.apps"}
        kinds = [
            kind
            for kind in everything
            if kind not in created_by_controllers and not kind.startswith(("endpointslices", "events"))
        ]
        found = self.plane.kubectl("get", ",".join(kinds), "--all-namespaces", f"--selector={selector}", "-o", "name")
        return found.split()

    def token(self, account: str, **bound: str) -> str:
        """Request a token of a service account, as its pods get one; ``bound`` names the object it is bound to."""
        path = f"/api/v1/namespaces/{self.namespace}/serviceaccounts/{account}/token"
        spec: Object = {"expirationSeconds": 3600}
        if bound:
            spec["boundObjectRef"] = {"apiVersion": "v1", **bound}
        return self.plane.admin.post(path, {"spec": spec})["status"]["token"]

    def api(self, account: str, **bound: str) -> Api:
        return Api(self.plane.url, self.plane.certificate, self.token(account, **bound))

    @contextlib.contextmanager
    def service(self, home: Path, **policy: str) -> Iterator[Service]:
        """Run the service in this process with the chart's configuration and service account."""
        found = self.plane.admin.get(f"/api/v1/namespaces/{self.namespace}/configmaps/{self.name}")
        text = found["data"]["config.toml"]
        tomllib.loads(text)
        home.mkdir(parents=True, exist_ok=True)
        (home / "config.toml").write_text(text)
        access = {"kubernetes": {"kubeconfig": str(self._kubeconfig(home)), **policy}}
        service = Service(home, load_config(home, access))
        service.start()
        try:
            yield service
        finally:
            service.close()

    def _kubeconfig(self, folder: Path) -> Path:
        content = yaml.safe_load(self.plane.kubeconfig().read_text())
        content["users"][0]["user"] = {"token": self.token(self.name)}
        path = folder / "kubeconfig"
        path.touch(0o600)
        path.write_text(json.dumps(content))
        return path

    def _helm(self, *arguments: str, values: Values | None = None) -> str:
        command = [
            self.plane.programs["helm"], *arguments, "--namespace", self.namespace,
            "--kubeconfig", self.plane.kubeconfig(),
        ]  # fmt: skip
        environment = {name: str(self.plane.folder / "helm") for name in ("HOME", "XDG_CACHE_HOME")}
        process = subprocess.run(
            command, input=json.dumps(dict(values or {})), capture_output=True, text=True, check=False,
            timeout=TIMEOUT_S, env=environment,
        )  # fmt: skip
        if process.returncode:
            raise HelmFailed(process.stderr)
        return process.stdout


def of_kind(objects: list[Object], kind: str, ending: str = "") -> Object:
    """Return the object of this kind with the shortest name that ends with ``ending``."""
    found = [item for item in objects if item["kind"] == kind and item["metadata"]["name"].endswith(ending)]
    assert found, f"no {kind} {ending}"
    return min(found, key=lambda item: len(item["metadata"]["name"]))


def _is_up(deployment: Object) -> bool:
    status, generation = deployment.get("status", {}), deployment["metadata"]["generation"]
    return status.get("observedGeneration") == generation and (
        status.get("updatedReplicas") == status.get("availableReplicas") == deployment["spec"]["replicas"]
    )


def _is_on_every_node(daemon_set: Object) -> bool:
    status, generation = daemon_set.get("status", {}), daemon_set["metadata"]["generation"]
    desired = status.get("desiredNumberScheduled")
    return status.get("observedGeneration") == generation and bool(desired) and status.get("numberAvailable") == desired
