"""Nodes and pods made up at random, such as an API server accepts: for the reference and for the real scheduler."""

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
"""With their labels; what the API server adds to them comes on top."""
TAINTS = (("dedicated", "ml"), ("dedicated", "web"), ("broken", ""))
EFFECTS = ("NoSchedule", "NoExecute", "PreferNoSchedule")


def node(dice: Random, name: str, taint_effects: Sequence[str] = EFFECTS) -> Object:
    labels = {HOSTNAME: name, "kubernetes.io/os": "linux"}
    if dice.random() < 0.85:
        labels[ZONE] = dice.choice("abc")
    if dice.random() < 0.7:
        labels["rack"] = dice.choice(("r1", "r2"))
    if dice.random() < 0.6:
        labels["cards"] = dice.choice(("2", "4", "8", "many", "007"))
    if dice.random() < 0.05:
        del labels[HOSTNAME]
    taints = [_taint(dice, taint_effects) for _ in range(dice.choice((0, 0, 0, 1, 2)))]
    spec: Object = {"taints": list({(one["key"], one["effect"]): one for one in taints}.values())}
    if dice.random() < 0.08:
        spec["unschedulable"] = True
    return {"metadata": {"name": name, "labels": labels}, "spec": spec}


def pod(dice: Random, name: str, demands: int = 2) -> Object:
    """With a few demands at once, so that they meet without leaving nothing."""
    metadata: Object = {"name": name, "namespace": dice.choice(("default", "default", *NAMESPACES)), "uid": name}
    metadata["labels"] = {"app": dice.choice("xyz"), **({"tier": dice.choice("12")} if dice.random() < 0.6 else {})}
    spec: Object = {"containers": [{"name": "main", "image": "none"}]}
    makers = (_node_selector, _node_affinity, _near, _apart, _apart, _spread, _spread, _ports, _tolerations)
    for make in dice.sample(makers, dice.randint(0, demands)):
        make(dice, spec, metadata["labels"])
    return {"metadata": metadata, "spec": spec}


def _taint(dice: Random, effects: Sequence[str]) -> Object:
    key, value = dice.choice(TAINTS)
    return {"key": key, "effect": dice.choice(effects), **({"value": value} if value else {})}


def _node_selector(dice: Random, spec: Object, labels: Object) -> None:
    spec["nodeSelector"] = dict([dice.choice(((ZONE, "a"), (ZONE, "b"), ("rack", "r1"), ("cards", "8")))])


def _node_affinity(dice: Random, spec: Object, labels: Object) -> None:
    terms = [_node_term(dice) for _ in range(dice.randint(1, 3))]
    spec.setdefault("affinity", {})["nodeAffinity"] = {REQUIRED: {"nodeSelectorTerms": terms}}


def _node_term(dice: Random) -> Object:
    term: Object = {}
    if dice.random() < 0.9:
        term["matchExpressions"] = [_node_expression(dice) for _ in range(dice.randint(1, 2))]
    if dice.random() < 0.2:
        name = f"fake-{dice.randint(0, 11)}"
        term["matchFields"] = [{"key": "metadata.name", "operator": dice.choice(("In", "NotIn")), "values": [name]}]
    return term


def _node_expression(dice: Random) -> Object:
    operator = dice.choice(("In", "NotIn", "Exists", "DoesNotExist", "Gt", "Lt"))
    if operator in ("Gt", "Lt"):
        return {"key": "cards", "operator": operator, "values": [dice.choice(("0", "3", "4"))]}
    key = dice.choice((ZONE, "rack", "cards"))
    values = {ZONE: "abc", "rack": ("r1", "r2"), "cards": ("2", "4", "8", "many")}[key]
    chosen = dice.sample(values, dice.randint(1, 2)) if operator in ("In", "NotIn") else []
    return {"key": key, "operator": operator, **({"values": chosen} if chosen else {})}


def _near(dice: Random, spec: Object, labels: Object) -> None:
    terms = [_affinity_term(dice, labels) for _ in range(dice.choice((1, 1, 2)))]
    spec.setdefault("affinity", {})["podAffinity"] = {REQUIRED: terms}


def _apart(dice: Random, spec: Object, labels: Object) -> None:
    terms = [_affinity_term(dice, labels) for _ in range(dice.choice((1, 1, 2)))]
    spec.setdefault("affinity", {})["podAntiAffinity"] = {REQUIRED: terms}


def _affinity_term(dice: Random, labels: Object) -> Object:
    term: Object = {"topologyKey": dice.choice(KEYS)}
    if dice.random() < 0.95:
        term["labelSelector"] = _selector(dice)
    if dice.random() < 0.2:
        term["namespaces"] = dice.sample(sorted(NAMESPACES), dice.randint(1, 2))
    if dice.random() < 0.3:
        term["namespaceSelector"] = dice.choice(
            ({}, {"matchLabels": {"team": "one"}}, {"matchExpressions": [{"key": "team", "operator": "DoesNotExist"}]})
        )
    field = dice.choice(("matchLabelKeys", "mismatchLabelKeys", "", "", "", ""))
    if field and "labelSelector" in term and not _mentions(term["labelSelector"], "tier"):
        term[field] = ["tier"]
    return term


def _selector(dice: Random) -> Object:
    if dice.random() < 0.08:
        return {}
    selector: Object = {}
    if dice.random() < 0.6:
        selector["matchLabels"] = {"app": dice.choice("xyz")}
    if dice.random() < 0.4 or not selector:
        operator = dice.choice(("In", "NotIn", "Exists", "DoesNotExist"))
        values = {"values": dice.sample("12", dice.randint(1, 2))} if operator in ("In", "NotIn") else {}
        selector["matchExpressions"] = [{"key": "tier", "operator": operator, **values}]
    return selector


def _mentions(selector: Object, key: str) -> bool:
    return any(one["key"] == key for one in selector.get("matchExpressions", ()))


def _spread(dice: Random, spec: Object, labels: Object) -> None:
    spec["topologySpreadConstraints"] = [_constraint(dice, key) for key in dice.sample(KEYS, dice.choice((1, 1, 2)))]


def _constraint(dice: Random, key: str) -> Object:
    made: Object = {"topologyKey": key, "maxSkew": dice.choice((1, 1, 2, 3)), "whenUnsatisfiable": "DoNotSchedule"}
    if dice.random() < 0.1:
        made["whenUnsatisfiable"] = "ScheduleAnyway"
    elif dice.random() < 0.3:
        made["minDomains"] = dice.randint(1, 5)
    if dice.random() < 0.95:
        made["labelSelector"] = _selector(dice)
        if dice.random() < 0.2 and not _mentions(made["labelSelector"], "tier"):
            made["matchLabelKeys"] = ["tier"]
    for policy in ("nodeAffinityPolicy", "nodeTaintsPolicy"):
        if dice.random() < 0.4:
            made[policy] = dice.choice(("Honor", "Ignore"))
    return made


def _ports(dice: Random, spec: Object, labels: Object) -> None:
    port: Object = {"containerPort": 80, "hostPort": dice.choice((7000, 7001))}
    if dice.random() < 0.4:
        port["hostIP"] = dice.choice(("127.0.0.1", "127.0.0.2", "0.0.0.0"))
    if dice.random() < 0.3:
        port["protocol"] = "UDP"
    spec["containers"][0]["ports"] = [port]


def _tolerations(dice: Random, spec: Object, labels: Object) -> None:
    spec["tolerations"] = [_toleration(dice) for _ in range(dice.randint(1, 3))]


def _toleration(dice: Random) -> Object:
    if dice.random() < 0.15:
        return {"operator": "Exists"}
    key, value = dice.choice((*TAINTS, ("node.kubernetes.io/unschedulable", "")))
    effect = dice.choice((*EFFECTS, ""))
    made: Object = {"key": key, **({"effect": effect} if effect else {})}
    if dice.random() < 0.5:
        return {**made, "operator": "Exists"}
    return {**made, "operator": "Equal", "value": value}
