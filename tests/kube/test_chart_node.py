"""Tests of the chart's server and agent pods on a real kubelet, with the chart's rights, users and volumes.

There is no image to pull, so Python and the packages are mounted from this machine into a busybox container. Pods use
the host network, because the API server listens only on loopback. The rest is as the chart renders it.
"""

from __future__ import annotations

import json
import subprocess
import sys
import time
from collections.abc import Iterator
from pathlib import Path
from urllib.parse import urlsplit

import pytest
import yaml

from gpusquad.gpu.build import library
from gpusquad.kube.names import CARDS
from tests.kube.api import Object
from tests.kube.chart import Release
from tests.kube.daemons import free_port
from tests.kube.image import IMAGE
from tests.kube.machine import Machine
from tests.kube.placements import ENDED, cards_of, container, make, wait_for, wait_for_devices
from tests.kube.plane import ControlPlane, Settings
from tests.kube.pods import PODS

SIMULATED = 4
SLOTS = 2
REPOSITORY = Path(__file__).parents[2]
JOBS = "/apis/batch/v1/namespaces/default/jobs"


@pytest.fixture
def plane(machine: Machine) -> Iterator[ControlPlane]:
    del machine  # requested only to skip the test if the machine cannot be a node
    settings = Settings(real_node=True, scheduler=True, apiserver_flags=("--allow-privileged=true",))
    with ControlPlane(settings) as started:
        yield started


def test_server_and_agent_of_the_chart_place_a_gang(plane: ControlPlane):
    release = Release(plane)
    _install(release)
    try:
        pods = f"/api/v1/namespaces/{release.namespace}/pods"
        plane.admin.until(pods, lambda found: sum(map(_is_ready, found)) == 2, timeout_s=90.0)
        wait_for_devices(plane, SIMULATED * SLOTS)
        template = {"spec": {"schedulerName": "gpusquad", "restartPolicy": "Never", "containers": [container()]}}
        spec = {"completions": 3, "parallelism": 3, "completionMode": "Indexed", "template": template}
        plane.admin.post(JOBS, {"metadata": {"name": "gang"}, "spec": spec})
        ended = plane.admin.until(PODS, lambda found: len(found) == 3 and all(map(_has_ended, found)), timeout_s=60.0)
    except TimeoutError as error:
        raise AssertionError(f"{error}\n{_diagnostics(release)}") from error
    _check_agent_reports(release)
    cards = []
    for pod in ended:
        assert pod["status"]["phase"] == "Succeeded", f"{pod['status']}\n{_diagnostics(release)}"
        pinned = json.loads(pod["metadata"]["annotations"][CARDS])["main"]
        assert cards_of(plane, pod["metadata"]["name"]).is_exactly(pinned)
        cards += pinned
    assert len(set(cards)) == 3
    _check_share_is_enforced(release)


def _check_share_is_enforced(release: Release) -> None:
    """Check that an agent with the chart's rights can run a card daemon and mount its files."""
    plane = release.plane
    sharing_container = container(
        command="cat /etc/ld.so.preload; cd /run/gpusquad; (: >> tenant) && ! (: >> decisions) 2> /dev/null && echo OWN"
    )
    sharing_container["resources"]["limits"] |= {"gpusquad.io/gpu-memory": "1Gi"}
    name = make(plane, [sharing_container])
    pod = wait_for(plane, [name])[name]
    assert pod["status"]["phase"] == "Succeeded", f"{pod['status']}\n{_diagnostics(release)}"
    assert plane.admin.text(f"{PODS}/{name}/log").split() == ["/usr/lib/gpusquad/libgpusquad.so", "OWN"]


def _check_agent_reports(release: Release) -> None:
    """Check that the agent's reports arrive, authenticated by the token that the kubelet projects into its pod."""
    nodes = ("exec", "deploy/gpusquad", "--", sys.executable, "-m", "gpusquad", "nodes", "--json")
    end_s = time.monotonic() + 60.0
    samples: list[Object | None] = [None]
    while not all(samples):
        assert time.monotonic() < end_s, _diagnostics(release)
        found = json.loads(release.plane.kubectl("-n", release.namespace, *nodes))["items"]
        samples = [card["sample"] for node in found for card in node["cards"]]
    assert len(samples) == SIMULATED


def _install(release: Release) -> None:
    assert release.plane.node is not None
    repository, _, tag = IMAGE.rpartition(":")
    values = {
        "persistence": {"enabled": False},
        "image": {"repository": repository, "tag": tag, "pullPolicy": "Never"},
        "server": {"resources": {}},
        "agent": {
            "simulate": SIMULATED, "nodeSelector": {}, "metricsPort": 0, "resources": {}, "slots": SLOTS,
            "sharing": {"mode": "enforce", "folder": str(release.plane.folder / "run")},
            "folder": str(release.plane.folder / "agent"),
            "kubeletFolder": str(release.plane.node.pod_resources.parents[1]),
            "reporting": {"everySeconds": 1, "podLogs": str(release.plane.folder / "pods")},
        },
    }  # fmt: skip
    objects = release.render(values)
    cache = release.plane.folder / "cache"
    library(cache / "gpusquad" / "shim")
    for item in objects:
        if item["kind"] in ("Deployment", "DaemonSet"):
            _mount_python(item["spec"]["template"]["spec"], release.plane.url, cache)
    text = yaml.safe_dump_all(objects).replace("7070", str(free_port()))
    text = text.replace(f"//gpusquad.{release.namespace}.svc:", "//127.0.0.1:")  # there is no DNS
    release.plane.kubectl("create", "namespace", release.namespace)
    command = [release.plane.programs["kubectl"], "--kubeconfig", release.plane.kubeconfig(), "apply", "--server-side"]
    process = subprocess.run([*command, "-n", release.namespace, "-f", "-"], input=text, text=True, capture_output=True)
    assert process.returncode == 0, process.stderr


def _mount_python(spec: Object, url: str, cache: Path) -> None:
    """Mount what the image would contain, and set the address of the API server."""
    [program] = spec["containers"]
    arguments = {"gpusquad": ["-m", "gpusquad"], "python": []}[program["args"][0]]
    program["command"], program["args"] = [sys.executable], [*arguments, *program["args"][1:]]
    address = urlsplit(url)
    program["env"] += [
        {"name": "PYTHONPATH", "value": str(REPOSITORY / "src")},
        {"name": "PYTHONDONTWRITEBYTECODE", "value": "1"},
        {"name": "XDG_CACHE_HOME", "value": str(cache)},  # has the shim library, which the wheel would contain
        {"name": "KUBERNETES_SERVICE_HOST", "value": str(address.hostname)},
        {"name": "KUBERNETES_SERVICE_PORT", "value": str(address.port)},
    ]
    spec["hostNetwork"] = True
    for number, path in enumerate([*_folders(), str(cache)]):
        spec["volumes"].append({"name": f"lent-{number}", "hostPath": {"path": path}})
        program["volumeMounts"].append({"name": f"lent-{number}", "mountPath": path, "readOnly": True})


def _folders() -> list[str]:
    """List the folders of the interpreter, its libraries, the packages and the source, without nested ones."""
    wanted = [Path(sys.base_prefix), Path(sys.prefix), REPOSITORY / "src", Path("/usr"), Path("/lib"), Path("/lib64")]
    existing = {str(path) for path in wanted if path.exists()}
    return sorted(path for path in existing if not any(path.startswith(f"{other}/") for other in existing))


def _is_ready(pod: Object) -> bool:
    conditions = pod["status"].get("conditions", ())
    return any(condition["type"] == "Ready" and condition["status"] == "True" for condition in conditions)


def _has_ended(pod: Object) -> bool:
    return pod["status"].get("phase") in ENDED


def _diagnostics(release: Release) -> str:
    """Return logs of server and agent, the description of their pods, and the reason why the gang is pending."""
    why = (sys.executable, "-m", "gpusquad", "why", "gang")
    commands = (
        ("describe", "pods"),
        ("logs", "--selector=app.kubernetes.io/component=server", "--tail=20"),
        ("logs", "--selector=app.kubernetes.io/component=agent", "--tail=20"),
        ("exec", "deploy/gpusquad", "--", *why),
    )
    plane = release.plane
    command = [plane.programs["kubectl"], "--kubeconfig", plane.kubeconfig(), "-n", release.namespace]
    results = [
        subprocess.run([*command, *arguments], capture_output=True, text=True, check=False, timeout=30)
        for arguments in commands
    ]
    return "\n".join(result.stdout[-3000:] + result.stderr for result in results)
