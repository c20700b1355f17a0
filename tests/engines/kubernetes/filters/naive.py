"""The same question, answered node by node from the raw objects: slow, plain, and written apart from the real thing."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import Any

Object = dict[str, Any]
REQUIRED = "requiredDuringSchedulingIgnoredDuringExecution"


def allowed(pod: Object, node: Object, nodes: Sequence[Object], placed: Sequence[Object],
            namespaces: Mapping[str, Mapping[str, str]]) -> bool:  # fmt: skip
    """``placed`` pods say their node in ``spec.nodeName``."""
    by_name = {one["metadata"]["name"]: one for one in nodes}
    there = [
        (one, by_name[one["spec"]["nodeName"]])
        for one in placed
        if one["spec"]["nodeName"] in by_name and one.get("status", {}).get("phase") not in ("Succeeded", "Failed")
    ]
    return (
        schedulable(pod, node)
        and untainted(pod, node)
        and chosen(pod, node)
        and free_ports(pod, [one for one, where in there if where is node])
        and near(pod, node, there, namespaces)
        and apart(pod, node, there, namespaces)
        and not_repelled(pod, node, there, namespaces)
        and spread(pod, node, nodes, there)
    )


def schedulable(pod: Object, node: Object) -> bool:
    if not node["spec"].get("unschedulable"):
        return True
    taint = {"key": "node.kubernetes.io/unschedulable", "effect": "NoSchedule"}
    return any(covers(toleration, taint) for toleration in pod["spec"].get("tolerations", ()))


def untainted(pod: Object, node: Object) -> bool:
    hard = [taint for taint in node["spec"].get("taints", ()) if taint["effect"] != "PreferNoSchedule"]
    return all(any(covers(one, taint) for one in pod["spec"].get("tolerations", ())) for taint in hard)


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
    return all(expression(one, node["metadata"]["labels"]) for one in expressions) and all(
        expression(one, name) for one in fields
    )


def expression(one: Object, labels: Mapping[str, str]) -> bool:
    value, values = labels.get(one["key"]), one.get("values", [])
    match one["operator"]:
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
    return number > int(values[0]) if one["operator"] == "Gt" else number < int(values[0])


def selects(selector: Object | None, labels: Mapping[str, str]) -> bool:
    if selector is None:
        return False
    return all(labels.get(key) == value for key, value in selector.get("matchLabels", {}).items()) and all(
        expression(one, labels) for one in selector.get("matchExpressions", ())
    )


def free_ports(pod: Object, here: Sequence[Object]) -> bool:
    return not any(ports_clash(one, other) for other_pod in here for one in ports(pod) for other in ports(other_pod))


def ports(pod: Object) -> list[Object]:
    return [port for one in pod["spec"]["containers"] for port in one.get("ports", ()) if port.get("hostPort")]


def ports_clash(one: Object, other: Object) -> bool:
    if one["hostPort"] != other["hostPort"] or one.get("protocol", "TCP") != other.get("protocol", "TCP"):
        return False
    addresses = {one.get("hostIP", "0.0.0.0"), other.get("hostIP", "0.0.0.0")}
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


def near(pod: Object, node: Object, there: Sequence[tuple[Object, Object]], namespaces: Mapping) -> bool:
    wanted = terms(pod, "podAffinity")
    if not wanted:
        return True
    if any(domain(node, term["topologyKey"]) is None for term in wanted):
        return False
    homes = [where for one, where in there if all(term_matches(term, pod, one, namespaces) for term in wanted)]
    keys = [term["topologyKey"] for term in wanted]
    if all(any(domain(home, key) == domain(node, key) for home in homes) for key in keys):
        return True
    nobody = all(domain(home, key) is None for home in homes for key in keys)
    return nobody and all(term_matches(term, pod, pod, namespaces) for term in wanted)


def apart(pod: Object, node: Object, there: Sequence[tuple[Object, Object]], namespaces: Mapping) -> bool:
    return not any(
        term_matches(term, pod, one, namespaces) and same_domain(node, where, term["topologyKey"])
        for term in terms(pod, "podAntiAffinity")
        for one, where in there
    )


def not_repelled(pod: Object, node: Object, there: Sequence[tuple[Object, Object]], namespaces: Mapping) -> bool:
    return not any(
        term_matches(term, one, pod, namespaces) and same_domain(node, where, term["topologyKey"])
        for one, where in there
        for term in terms(one, "podAntiAffinity")
    )


def same_domain(one: Object, other: Object, key: str) -> bool:
    return domain(one, key) is not None and domain(one, key) == domain(other, key)


def spread(pod: Object, node: Object, nodes: Sequence[Object], there: Sequence[tuple[Object, Object]]) -> bool:
    hard = [
        one
        for one in pod["spec"].get("topologySpreadConstraints", ())
        if one["whenUnsatisfiable"] == "DoNotSchedule"
    ]  # fmt: skip
    keys = [one["topologyKey"] for one in hard]
    with_labels = [one for one in nodes if all(domain(one, key) is not None for key in keys)]
    return all(constraint_holds(one, pod, node, with_labels, there) for one in hard)


def constraint_holds(one: Object, pod: Object, node: Object, with_labels: Sequence[Object], there: Sequence) -> bool:
    key, own = one["topologyKey"], pod["metadata"]["labels"]
    if domain(node, key) is None:
        return False

    def counts(labels: Mapping[str, str]) -> bool:
        return selects(one.get("labelSelector"), labels) and all(
            labels.get(key) == own[key] for key in one.get("matchLabelKeys", ()) if key in own
        )

    looked_at = [
        other
        for other in with_labels
        if (one.get("nodeAffinityPolicy") == "Ignore" or chosen(pod, other))
        and (one.get("nodeTaintsPolicy") != "Honor" or untainted(pod, other))
    ]
    numbers = dict.fromkeys((domain(other, key) for other in looked_at), 0)
    is_empty = one.get("labelSelector") == {} and not any(key in own for key in one.get("matchLabelKeys", ()))
    for other, where in there:
        same = other["metadata"]["namespace"] == pod["metadata"]["namespace"]
        leaving = "deletionTimestamp" in other["metadata"]
        if not is_empty and same and not leaving and where in looked_at and counts(other["metadata"]["labels"]):
            numbers[domain(where, key)] += 1
    fewest = 0 if len(numbers) < one.get("minDomains", 1) else min(numbers.values())
    return numbers.get(domain(node, key), 0) + int(counts(own)) - fewest <= one["maxSkew"]
