"""A slow, simple reference that decides node by node from the raw objects, independent of the real filters."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import Any

Object = dict[str, Any]
REQUIRED = "requiredDuringSchedulingIgnoredDuringExecution"


def allowed(pod: Object, node: Object, nodes: Sequence[Object], placed: Sequence[Object],
            namespaces: Mapping[str, Mapping[str, str]]) -> bool:  # fmt: skip
    """Whether the pod may run on the node; ``placed`` pods have their node in ``spec.nodeName``."""
    by_name = {item["metadata"]["name"]: item for item in nodes}
    hosted = [
        (item, by_name[item["spec"]["nodeName"]])
        for item in placed
        if item["spec"]["nodeName"] in by_name and item.get("status", {}).get("phase") not in ("Succeeded", "Failed")
    ]
    return (
        schedulable(pod, node)
        and untainted(pod, node)
        and chosen(pod, node)
        and free_ports(pod, [item for item, host in hosted if host is node])
        and near(pod, node, hosted, namespaces)
        and apart(pod, node, hosted, namespaces)
        and not_repelled(pod, node, hosted, namespaces)
        and spread(pod, node, nodes, hosted)
    )


def schedulable(pod: Object, node: Object) -> bool:
    if not node["spec"].get("unschedulable"):
        return True
    taint = {"key": "node.kubernetes.io/unschedulable", "effect": "NoSchedule"}
    return any(covers(toleration, taint) for toleration in pod["spec"].get("tolerations", ()))


def untainted(pod: Object, node: Object) -> bool:
    hard = [taint for taint in node["spec"].get("taints", ()) if taint["effect"] != "PreferNoSchedule"]
    return all(any(covers(toleration, taint) for toleration in pod["spec"].get("tolerations", ())) for taint in hard)


def covers(toleration: Object, taint: Object) -> bool:
    if toleration.get("effect") and toleration["effect"] != taint["effect"]:
        return False
    if toleration.get("key") and toleration["key"] != taint["key"]:
        return False
    return toleration.get("operator") == "Exists" or toleration.get("value", "") == taint.get("value", "")


def chosen(pod: Object, node: Object) -> bool:
    labels = node["metadata"]["labels"]
    if any(labels.get(key) != value for key, value in pod["spec"].get("nodeSelector", {}).items()):
        return False
    required = pod["spec"].get("affinity", {}).get("nodeAffinity", {}).get(REQUIRED)
    return required is None or any(node_term(term, node) for term in required["nodeSelectorTerms"])


def node_term(term: Object, node: Object) -> bool:
    expressions, fields = term.get("matchExpressions", []), term.get("matchFields", [])
    if not expressions and not fields:
        return False
    name = {"metadata.name": node["metadata"]["name"]}
    return all(expression(requirement, node["metadata"]["labels"]) for requirement in expressions) and all(
        expression(requirement, name) for requirement in fields
    )


def expression(requirement: Object, labels: Mapping[str, str]) -> bool:
    value, values = labels.get(requirement["key"]), requirement.get("values", [])
    match requirement["operator"]:
        case "In":
            return value in values
        case "NotIn":
            return value not in values
        case "Exists":
            return value is not None
        case "DoesNotExist":
            return value is None
    try:
        number = int(value or "")
    except ValueError:
        return False
    return number > int(values[0]) if requirement["operator"] == "Gt" else number < int(values[0])


def selects(selector: Object | None, labels: Mapping[str, str]) -> bool:
    if selector is None:
        return False
    return all(labels.get(key) == value for key, value in selector.get("matchLabels", {}).items()) and all(
        expression(requirement, labels) for requirement in selector.get("matchExpressions", ())
    )


def free_ports(pod: Object, here: Sequence[Object]) -> bool:
    return not any(ports_clash(port, other) for other_pod in here for port in ports(pod) for other in ports(other_pod))


def ports(pod: Object) -> list[Object]:
    return [
        port for container in pod["spec"]["containers"] for port in container.get("ports", ()) if port.get("hostPort")
    ]


def ports_clash(first: Object, second: Object) -> bool:
    if first["hostPort"] != second["hostPort"] or first.get("protocol", "TCP") != second.get("protocol", "TCP"):
        return False
    addresses = {first.get("hostIP", "0.0.0.0"), second.get("hostIP", "0.0.0.0")}
    return len(addresses) == 1 or "0.0.0.0" in addresses


def terms(pod: Object, side: str) -> list[Object]:
    return pod["spec"].get("affinity", {}).get(side, {}).get(REQUIRED, [])


def term_matches(term: Object, owner: Object, other: Object, namespaces: Mapping[str, Mapping[str, str]]) -> bool:
    labels, own = other["metadata"]["labels"], owner["metadata"]["labels"]
    listed, by_labels = term.get("namespaces", []), term.get("namespaceSelector")
    if not listed and by_labels is None:
        listed = [owner["metadata"]["namespace"]]
    namespace = other["metadata"]["namespace"]
    if namespace not in listed and not selects(by_labels, namespaces[namespace]):
        return False
    for key in term.get("matchLabelKeys", ()):
        if key in own and labels.get(key) != own[key]:
            return False
    for key in term.get("mismatchLabelKeys", ()):
        if key in own and labels.get(key) == own[key]:
            return False
    return selects(term.get("labelSelector"), labels)


def domain(node: Object, key: str) -> str | None:
    return node["metadata"]["labels"].get(key)


def near(pod: Object, node: Object, hosted: Sequence[tuple[Object, Object]], namespaces: Mapping) -> bool:
    required = terms(pod, "podAffinity")
    if not required:
        return True
    if any(domain(node, term["topologyKey"]) is None for term in required):
        return False
    hosts = [host for other, host in hosted if all(term_matches(term, pod, other, namespaces) for term in required)]
    keys = [term["topologyKey"] for term in required]
    if all(any(domain(other_host, key) == domain(node, key) for other_host in hosts) for key in keys):
        return True
    none_matches = all(domain(other_host, key) is None for other_host in hosts for key in keys)
    return none_matches and all(term_matches(term, pod, pod, namespaces) for term in required)


def apart(pod: Object, node: Object, hosted: Sequence[tuple[Object, Object]], namespaces: Mapping) -> bool:
    return not any(
        term_matches(term, pod, other, namespaces) and same_domain(node, host, term["topologyKey"])
        for term in terms(pod, "podAntiAffinity")
        for other, host in hosted
    )


def not_repelled(pod: Object, node: Object, hosted: Sequence[tuple[Object, Object]], namespaces: Mapping) -> bool:
    return not any(
        term_matches(term, other, pod, namespaces) and same_domain(node, host, term["topologyKey"])
        for other, host in hosted
        for term in terms(other, "podAntiAffinity")
    )


def same_domain(first: Object, second: Object, key: str) -> bool:
    return domain(first, key) is not None and domain(first, key) == domain(second, key)


def spread(pod: Object, node: Object, nodes: Sequence[Object], hosted: Sequence[tuple[Object, Object]]) -> bool:
    hard = [
        item
        for item in pod["spec"].get("topologySpreadConstraints", ())
        if item["whenUnsatisfiable"] == "DoNotSchedule"
    ]  # fmt: skip
    keys = [item["topologyKey"] for item in hard]
    with_labels = [item for item in nodes if all(domain(item, key) is not None for key in keys)]
    return all(constraint_holds(item, pod, node, with_labels, hosted) for item in hard)


def constraint_holds(
    constraint: Object, pod: Object, node: Object, with_labels: Sequence[Object], hosted: Sequence
) -> bool:
    key, own_labels = constraint["topologyKey"], pod["metadata"]["labels"]
    if domain(node, key) is None:
        return False

    def counts(labels: Mapping[str, str]) -> bool:
        return selects(constraint.get("labelSelector"), labels) and all(
            labels.get(key) == own_labels[key] for key in constraint.get("matchLabelKeys", ()) if key in own_labels
        )

    eligible = [
        other
        for other in with_labels
        if (constraint.get("nodeAffinityPolicy") == "Ignore" or chosen(pod, other))
        and (constraint.get("nodeTaintsPolicy") != "Honor" or untainted(pod, other))
    ]
    pod_counts = dict.fromkeys((domain(other, key) for other in eligible), 0)
    is_empty = constraint.get("labelSelector") == {} and not any(
        key in own_labels for key in constraint.get("matchLabelKeys", ())
    )
    for other, host in hosted:
        same = other["metadata"]["namespace"] == pod["metadata"]["namespace"]
        leaving = "deletionTimestamp" in other["metadata"]
        if not is_empty and same and not leaving and host in eligible and counts(other["metadata"]["labels"]):
            pod_counts[domain(host, key)] += 1
    minimum = 0 if len(pod_counts) < constraint.get("minDomains", 1) else min(pod_counts.values())
    return pod_counts.get(domain(node, key), 0) + int(counts(own_labels)) - minimum <= constraint["maxSkew"]
