"""The agent as the chart runs it: it understands its options, finds its folders and is known to the server."""

from __future__ import annotations

import tomllib
from urllib.parse import urlsplit

import pytest
import yaml

from gpusquad.agent.kubernetes.__main__ import _parser as agent_options
from gpusquad.agent.kubernetes.sharing_settings import SharingSettings
from gpusquad.engines.kubernetes.client.token_review import AUDIENCE
from tests.kube.api import Object
from tests.kube.audit import rights_in
from tests.kube.chart import Release, of_kind
from tests.kube.chart_tests.rights import KNOWS
from tests.kube.chart_tests.values import CASES


@pytest.mark.parametrize(
    ("given", "wanted"),
    [({}, {"nvidia.com/gpu.present": "true"}), ({"nodeSelector": {}}, {}), ({"nodeSelector": {"a": "b"}}, {"a": "b"})],
    ids=str,
)
def test_labels_of_nodes_replace_the_usual_one(release: Release, given: Object, wanted: Object):
    """Helm would add them to it, were it a default of the values."""
    spec = of_kind(release.render({"agent": given}), "DaemonSet")["spec"]["template"]["spec"]
    assert spec["nodeSelector"] == wanted


@pytest.mark.parametrize("name", ["as it comes", "everything", "no runtime class"])
def test_the_agent_understands_what_it_is_told(release: Release, name: str):
    [container] = of_kind(release.render(CASES[name]), "DaemonSet")["spec"]["template"]["spec"]["containers"]
    assert container["args"][:3] == ["python", "-m", "gpusquad.agent.kubernetes"]
    options = agent_options().parse_args(container["args"][3:])
    assert options.node == "$(NODE_NAME)"
    mounted = {mount["mountPath"] for mount in container["volumeMounts"]}
    assert {str(options.folder), str(options.plugin_folder), str(options.pod_resources.parent)} <= mounted
    assert {str(options.server_token.parent), str(options.pod_logs)} <= mounted
    assert (options.simulate or 0, options.metrics_port or 0) == ((4, 0) if name == "everything" else (0, 7071))


@pytest.mark.parametrize("charge", ["auto", None, 0, 2**29, 2**34])
def test_the_agent_charges_for_contexts_what_it_is_told(release: Release, charge: object):
    values = {"agent": {"sharing": {"contextBytes": charge}}}
    [container] = of_kind(release.render(values), "DaemonSet")["spec"]["template"]["spec"]["containers"]
    assert agent_options().parse_args(container["args"][3:]).context_bytes == ("auto" if charge is None else charge)


@pytest.mark.parametrize("wait_ms", [1000, None, 0, 500])
def test_containers_wait_for_a_silent_daemon_as_long_as_the_agent_is_told(release: Release, wait_ms: int | None):
    """None: values of before there was such a setting, kept by an upgrade. 0 is for ever, and somebody has said so."""
    values = {"agent": {"sharing": {"failOpenMs": wait_ms}}}
    [container] = of_kind(release.render(values), "DaemonSet")["spec"]["template"]["spec"]["containers"]
    options = agent_options().parse_args(container["args"][3:])
    assert options.fail_open_ms == (SharingSettings.fail_open_ms if wait_ms is None else wait_ms)


@pytest.mark.parametrize("name", ["unmanaged", "strangers"])
@pytest.mark.parametrize("rule", ["report", None, "refuse", "share"])
def test_the_rule_for_unmanaged_processes_reaches_the_agent(release: Release, name: str, rule: str | None):
    """None: values of before there was such a rule, kept by an upgrade. ``strangers`` is the deprecated name."""
    values = {"agent": {"sharing": {name: rule}}}
    [container] = of_kind(release.render(values), "DaemonSet")["spec"]["template"]["spec"]["containers"]
    options = agent_options().parse_args(container["args"][3:])
    assert (options.strangers or options.unmanaged) == (rule or "report")


@pytest.mark.parametrize(
    ("agent", "mode", "has_mps"),
    [
        ({}, "enforce", False),
        ({"simulate": 2}, "write-down", False),
        ({"simulate": 2, "sharing": {"mode": "enforce", "folder": "/run/other"}}, "enforce", False),
        ({"sharing": {"mps": True}}, "enforce", True),
        ({"sharing": {"mode": "write-down", "mps": True}}, "write-down", False),
    ],
)
def test_shared_memory_of_cards_is_the_nodes_at_the_same_path(
    release: Release, agent: Object, mode: str, has_mps: bool
):
    spec = of_kind(release.render({"agent": agent}), "DaemonSet")["spec"]["template"]["spec"]
    [container] = spec["containers"]
    options = agent_options().parse_args(container["args"][3:])
    assert (options.sharing, options.mps) == (mode, has_mps)
    nodes = {volume["name"]: volume["hostPath"]["path"] for volume in spec["volumes"] if "hostPath" in volume}
    mounted = {mount["mountPath"]: nodes.get(mount["name"]) for mount in container["volumeMounts"]}
    folder = str(options.sharing_folder)
    assert mounted.get(folder) == (folder if mode == "enforce" else None)
    assert mounted.get("/dev/shm") == (f"{folder}/shm" if has_mps else None)
    assert (str(options.sharing_shm) if has_mps else None) == mounted.get("/dev/shm")
    assert set(container["securityContext"]["capabilities"].get("add", ())) <= {"MKNOD"}
    assert not spec.get("hostIPC")


@pytest.mark.parametrize("name", ["as it comes", "everything"])
def test_agents_report_to_the_server_under_a_name_that_it_knows(release: Release, name: str):
    objects = release.render(CASES[name])
    config = tomllib.loads(of_kind(objects, "ConfigMap")["data"]["config.toml"])
    spec = of_kind(objects, "DaemonSet")["spec"]["template"]["spec"]
    options = agent_options().parse_args(spec["containers"][0]["args"][3:])
    service, address = of_kind(objects, "Service"), urlsplit(options.server)
    assert address.hostname in config["server"]["hosts"]
    assert address.port == service["spec"]["ports"][0]["port"]
    assert options.report_every == config["kubernetes"]["report_every_s"]
    account = f"system:serviceaccount:{release.namespace}:{spec['serviceAccountName']}"
    assert config["kubernetes"]["agent_account"] == account
    [token] = [volume["projected"]["sources"] for volume in spec["volumes"] if volume["name"] == "server-token"]
    assert token == [{"serviceAccountToken": {"audience": AUDIENCE, "expirationSeconds": 3600, "path": "token"}}]
    assert options.server_token.name == "token"


@pytest.mark.parametrize("agent", [{"enabled": False}, {"reporting": {"enabled": False}}], ids=str)
def test_where_nobody_reports_nobody_needs_to_be_known(release: Release, agent: Object):
    objects = release.render({"agent": agent})
    config = tomllib.loads(of_kind(objects, "ConfigMap")["data"]["config.toml"])
    assert "agent_account" not in config["kubernetes"]
    assert not KNOWS & rights_in(of_kind(objects, "ClusterRole")["rules"])
    assert "server-token" not in yaml.safe_dump_all(objects)


def test_agents_pass_a_network_policy_whoever_else_may(release: Release):
    objects = release.render({"networkPolicy": {"enabled": True, "from": [{"namespaceSelector": {}}]}})
    agent = of_kind(objects, "DaemonSet")["spec"]["selector"]["matchLabels"]
    [rule] = of_kind(objects, "NetworkPolicy")["spec"]["ingress"]
    assert rule["from"] == [{"namespaceSelector": {}}, {"podSelector": {"matchLabels": agent}}]


def test_the_agent_is_privileged_only_where_nothing_else_brings_it_the_cards(release: Release):
    def security(name: str) -> Object:
        return of_kind(release.render(CASES[name]), "DaemonSet")["spec"]["template"]["spec"]["containers"][0][
            "securityContext"
        ]

    assert security("as it comes")["capabilities"] == {"drop": ["ALL"]}
    assert security("everything")["capabilities"]["add"] == ["MKNOD"]
    assert security("no runtime class")["privileged"]
