"""Random nodes and pods that an API server accepts, for the naive reference and for the real scheduler."""

from __future__ import annotations

from collections.abc import Sequence
from random import Random
from typing import Any

Object = dict[str, Any]

HOSTNAME = "kubernetes.io/hostname"
ZONE = "topology.kubernetes.io/zone"
REQUIRED = "requiredDuringSchedulingIgnoredDuringExecution"
KEYS = (HOSTNAME, ZONE, "rack")
NAMESPACES = {"default": {"team": "one"}, "other": {"team": "two"}, "third": {}}
"""Namespaces with their labels, without those that the API server adds."""
TAINTS = (("dedicated", "ml"), ("dedicated", "web"), ("broken", ""))
EFFECTS = ("NoSchedule", "NoExecute", "PreferNoSchedule")


def node(rng: Random, name: str, taint_effects: Sequence[str] = EFFECTS) -> Object:
    labels = {HOSTNAME: name, "kubernetes.io/os": "linux"}
    if rng.random() < 0.85:
        labels[ZONE] = rng.choice("abc")
    if rng.random() < 0.7:
        labels["rack"] = rng.choice(("r1", "r2"))
    if rng.random() < 0.6:
        labels["cards"] = rng.choice(("2", "4", "8", "many", "007"))
    if rng.random() < 0.05:
        del labels[HOSTNAME]
    taints = [_taint(rng, taint_effects) for _ in range(rng.choice((0, 0, 0, 1, 2)))]
    spec: Object = {"taints": list({(taint["key"], taint["effect"]): taint for taint in taints}.values())}
    if rng.random() < 0.08:
        spec["unschedulable"] = True
    return {"metadata": {"name": name, "labels": labels}, "spec": spec}


def pod(rng: Random, name: str, demands: int = 2) -> Object:
    """A pod with up to ``demands`` scheduling rules: several interact, but rarely exclude every node."""
    metadata: Object = {"name": name, "namespace": rng.choice(("default", "default", *NAMESPACES)), "uid": name}
    metadata["labels"] = {"app": rng.choice("xyz"), **({"tier": rng.choice("12")} if rng.random() < 0.6 else {})}
    spec: Object = {"containers": [{"name": "main", "image": "none"}]}
    makers = (
        _node_selector,
        _node_affinity,
        _affinity,
        _anti_affinity,
        _anti_affinity,
        _spread,
        _spread,
        _ports,
        _tolerations,
    )
    for make in rng.sample(makers, rng.randint(0, demands)):
        make(rng, spec, metadata["labels"])
    return {"metadata": metadata, "spec": spec}


def _taint(rng: Random, effects: Sequence[str]) -> Object:
    key, value = rng.choice(TAINTS)
    return {"key": key, "effect": rng.choice(effects), **({"value": value} if value else {})}


def _node_selector(rng: Random, spec: Object, labels: Object) -> None:
    spec["nodeSelector"] = dict([rng.choice(((ZONE, "a"), (ZONE, "b"), ("rack", "r1"), ("cards", "8")))])


def _node_affinity(rng: Random, spec: Object, labels: Object) -> None:
    terms = [_node_term(rng) for _ in range(rng.randint(1, 3))]
    spec.setdefault("affinity", {})["nodeAffinity"] = {REQUIRED: {"nodeSelectorTerms": terms}}


def _node_term(rng: Random) -> Object:
    term: Object = {}
    if rng.random() < 0.9:
        term["matchExpressions"] = [_node_expression(rng) for _ in range(rng.randint(1, 2))]
    if rng.random() < 0.2:
        name = f"fake-{rng.randint(0, 11)}"
        term["matchFields"] = [{"key": "metadata.name", "operator": rng.choice(("In", "NotIn")), "values": [name]}]
    return term


def _node_expression(rng: Random) -> Object:
    operator = rng.choice(("In", "NotIn", "Exists", "DoesNotExist", "Gt", "Lt"))
    if operator in ("Gt", "Lt"):
        return {"key": "cards", "operator": operator, "values": [rng.choice(("0", "3", "4"))]}
    key = rng.choice((ZONE, "rack", "cards"))
    values = {ZONE: "abc", "rack": ("r1", "r2"), "cards": ("2", "4", "8", "many")}[key]
    chosen = rng.sample(values, rng.randint(1, 2)) if operator in ("In", "NotIn") else []
    return {"key": key, "operator": operator, **({"values": chosen} if chosen else {})}


def _affinity(rng: Random, spec: Object, labels: Object) -> None:
    terms = [_affinity_term(rng, labels) for _ in range(rng.choice((1, 1, 2)))]
    spec.setdefault("affinity", {})["podAffinity"] = {REQUIRED: terms}


def _anti_affinity(rng: Random, spec: Object, labels: Object) -> None:
    terms = [_affinity_term(rng, labels) for _ in range(rng.choice((1, 1, 2)))]
    spec.setdefault("affinity", {})["podAntiAffinity"] = {REQUIRED: terms}


def _affinity_term(rng: Random, labels: Object) -> Object:
    term: Object = {"topologyKey": rng.choice(KEYS)}
    if rng.random() < 0.95:
        term["labelSelector"] = _selector(rng)
    if rng.random() < 0.2:
        term["namespaces"] = rng.sample(sorted(NAMESPACES), rng.randint(1, 2))
    if rng.random() < 0.3:
        term["namespaceSelector"] = rng.choice(
            ({}, {"matchLabels": {"team": "one"}}, {"matchExpressions": [{"key": "team", "operator": "DoesNotExist"}]})
        )
    field = rng.choice(("matchLabelKeys", "mismatchLabelKeys", "", "", "", ""))
    if field and "labelSelector" in term and not _mentions(term["labelSelector"], "tier"):
        term[field] = ["tier"]
    return term


def _selector(rng: Random) -> Object:
    if rng.random() < 0.08:
        return {}
    selector: Object = {}
    if rng.random() < 0.6:
        selector["matchLabels"] = {"app": rng.choice("xyz")}
    if rng.random() < 0.4 or not selector:
        operator = rng.choice(("In", "NotIn", "Exists", "DoesNotExist"))
        values = {"values": rng.sample("12", rng.randint(1, 2))} if operator in ("In", "NotIn") else {}
        selector["matchExpressions"] = [{"key": "tier", "operator": operator, **values}]
    return selector


def _mentions(selector: Object, key: str) -> bool:
    return any(expression["key"] == key for expression in selector.get("matchExpressions", ()))


def _spread(rng: Random, spec: Object, labels: Object) -> None:
    spec["topologySpreadConstraints"] = [_constraint(rng, key) for key in rng.sample(KEYS, rng.choice((1, 1, 2)))]


def _constraint(rng: Random, key: str) -> Object:
    constraint: Object = {"topologyKey": key, "maxSkew": rng.choice((1, 1, 2, 3)), "whenUnsatisfiable": "DoNotSchedule"}
    if rng.random() < 0.1:
        constraint["whenUnsatisfiable"] = "ScheduleAnyway"
    elif rng.random() < 0.3:
        constraint["minDomains"] = rng.randint(1, 5)
    if rng.random() < 0.95:
        constraint["labelSelector"] = _selector(rng)
        if rng.random() < 0.2 and not _mentions(constraint["labelSelector"], "tier"):
            constraint["matchLabelKeys"] = ["tier"]
    for policy in ("nodeAffinityPolicy", "nodeTaintsPolicy"):
        if rng.random() < 0.4:
            constraint[policy] = rng.choice(("Honor", "Ignore"))
    return constraint


def _ports(rng: Random, spec: Object, labels: Object) -> None:
    port: Object = {"containerPort": 80, "hostPort": rng.choice((7000, 7001))}
    if rng.random() < 0.4:
        port["hostIP"] = rng.choice(("127.0.0.1", "127.0.0.2", "0.0.0.0"))
    if rng.random() < 0.3:
        port["protocol"] = "UDP"
    spec["containers"][0]["ports"] = [port]


def _tolerations(rng: Random, spec: Object, labels: Object) -> None:
    spec["tolerations"] = [_toleration(rng) for _ in range(rng.randint(1, 3))]


def _toleration(rng: Random) -> Object:
    if rng.random() < 0.15:
        return {"operator": "Exists"}
    key, value = rng.choice((*TAINTS, ("node.kubernetes.io/unschedulable", "")))
    effect = rng.choice((*EFFECTS, ""))
    toleration: Object = {"key": key, **({"effect": effect} if effect else {})}
    if rng.random() < 0.5:
        return {**toleration, "operator": "Exists"}
    return {**toleration, "operator": "Equal", "value": value}
