"""Tests of the chart's agent: options, mounted folders, rights and reports to the server."""

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
from tests.kube.chart_tests.rights import TOKEN_REVIEW
from tests.kube.chart_tests.values import CASES


@pytest.mark.parametrize(
    ("agent_values", "expected"),
    [({}, {"nvidia.com/gpu.present": "true"}), ({"nodeSelector": {}}, {}), ({"nodeSelector": {"a": "b"}}, {"a": "b"})],
    ids=str,
)
def test_node_selector_replaces_the_default_label(release: Release, agent_values: Object, expected: Object):
    """The template adds the default label. If it were in the values, Helm would merge it with the user's labels."""
    spec = of_kind(release.render({"agent": agent_values}), "DaemonSet")["spec"]["template"]["spec"]
    assert spec["nodeSelector"] == expected


@pytest.mark.parametrize("name", ["default values", "everything", "no runtime class"])
def test_agent_accepts_its_arguments_and_finds_its_folders(release: Release, name: str):
    [container] = of_kind(release.render(CASES[name]), "DaemonSet")["spec"]["template"]["spec"]["containers"]
    assert container["args"][:3] == ["python", "-m", "gpusquad.agent.kubernetes"]
    options = agent_options().parse_args(container["args"][3:])
    assert options.node == "$(NODE_NAME)"
    mounted = {mount["mountPath"] for mount in container["volumeMounts"]}
    assert {str(options.folder), str(options.plugin_folder), str(options.pod_resources.parent)} <= mounted
    assert {str(options.server_token.parent), str(options.pod_logs)} <= mounted
    assert (options.simulate or 0, options.metrics_port or 0) == ((4, 0) if name == "everything" else (0, 7071))


@pytest.mark.parametrize("context_bytes", ["auto", None, 0, 2**29, 2**34])
def test_context_bytes_reach_the_agent(release: Release, context_bytes: object):
    """None: not set, which means ``auto``."""
    values = {"agent": {"sharing": {"contextBytes": context_bytes}}}
    [container] = of_kind(release.render(values), "DaemonSet")["spec"]["template"]["spec"]["containers"]
    options = agent_options().parse_args(container["args"][3:])
    assert options.context_bytes == ("auto" if context_bytes is None else context_bytes)


@pytest.mark.parametrize("wait_ms", [1000, None, 0, 500])
def test_fail_open_time_reaches_the_agent(release: Release, wait_ms: int | None):
    """None: values from before this setting, kept by an upgrade. 0 means to wait indefinitely."""
    values = {"agent": {"sharing": {"failOpenMs": wait_ms}}}
    [container] = of_kind(release.render(values), "DaemonSet")["spec"]["template"]["spec"]["containers"]
    options = agent_options().parse_args(container["args"][3:])
    assert options.fail_open_ms == (SharingSettings.fail_open_ms if wait_ms is None else wait_ms)


@pytest.mark.parametrize("name", ["unmanaged", "strangers"])
@pytest.mark.parametrize("rule", ["report", None, "refuse", "share"])
def test_rule_for_unmanaged_processes_reaches_the_agent(release: Release, name: str, rule: str | None):
    """None: values from before this rule, kept by an upgrade. ``strangers`` is the deprecated name."""
    values = {"agent": {"sharing": {name: rule}}}
    [container] = of_kind(release.render(values), "DaemonSet")["spec"]["template"]["spec"]["containers"]
    options = agent_options().parse_args(container["args"][3:])
    assert (options.strangers or options.unmanaged) == (rule or "report")


@pytest.mark.parametrize(
    ("agent", "mode", "has_mps"),
    [
        ({}, "enforce", False),
        ({"simulate": 2}, "advisory", False),
        ({"simulate": 2, "sharing": {"mode": "enforce", "folder": "/run/other"}}, "enforce", False),
        ({"sharing": {"mps": True}}, "enforce", True),
        ({"sharing": {"mode": "advisory", "mps": True}}, "advisory", False),
        ({"sharing": {"mode": "write-down", "mps": True}}, "write-down", False),
    ],
)
def test_sharing_folder_is_mounted_at_its_path_on_the_node(release: Release, agent: Object, mode: str, has_mps: bool):
    spec = of_kind(release.render({"agent": agent}), "DaemonSet")["spec"]["template"]["spec"]
    [container] = spec["containers"]
    options = agent_options().parse_args(container["args"][3:])
    assert (options.sharing, options.mps) == (mode, has_mps)
    host_paths = {volume["name"]: volume["hostPath"]["path"] for volume in spec["volumes"] if "hostPath" in volume}
    mounted = {mount["mountPath"]: host_paths.get(mount["name"]) for mount in container["volumeMounts"]}
    folder = str(options.sharing_folder)
    assert mounted.get(folder) == (folder if mode == "enforce" else None)
    assert mounted.get("/dev/shm") == (f"{folder}/shm" if has_mps else None)
    assert (str(options.sharing_shm) if has_mps else None) == mounted.get("/dev/shm")
    assert set(container["securityContext"]["capabilities"].get("add", ())) <= {"MKNOD"}
    assert not spec.get("hostIPC")


@pytest.mark.parametrize("name", ["default values", "everything"])
def test_agent_reports_to_a_host_name_that_the_server_accepts(release: Release, name: str):
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
def test_token_review_is_left_out_when_agents_do_not_report(release: Release, agent: Object):
    objects = release.render({"agent": agent})
    config = tomllib.loads(of_kind(objects, "ConfigMap")["data"]["config.toml"])
    assert "agent_account" not in config["kubernetes"]
    assert not TOKEN_REVIEW & rights_in(of_kind(objects, "ClusterRole")["rules"])
    assert "server-token" not in yaml.safe_dump_all(objects)


def test_network_policy_always_allows_agents(release: Release):
    objects = release.render({"networkPolicy": {"enabled": True, "from": [{"namespaceSelector": {}}]}})
    agent = of_kind(objects, "DaemonSet")["spec"]["selector"]["matchLabels"]
    [rule] = of_kind(objects, "NetworkPolicy")["spec"]["ingress"]
    assert rule["from"] == [{"namespaceSelector": {}}, {"podSelector": {"matchLabels": agent}}]


def test_agent_is_privileged_only_without_a_runtime_class(release: Release):
    def security(name: str) -> Object:
        return of_kind(release.render(CASES[name]), "DaemonSet")["spec"]["template"]["spec"]["containers"][0][
            "securityContext"
        ]

    assert security("default values")["capabilities"] == {"drop": ["ALL"]}
    assert security("everything")["capabilities"]["add"] == ["MKNOD"]
    assert security("no runtime class")["privileged"]
