"""Tests of the annotation for measured rates: its new name is used only when every agent reads it."""

from __future__ import annotations

import json
from dataclasses import replace

import pytest

from gpusquad.core.observed import TaskLocation
from gpusquad.engines.kubernetes.actions import binding_of
from gpusquad.engines.kubernetes.nodes.observer import ClusterObserver
from gpusquad.kube.names import ANNOTATIONS_VERSION, CARDS, GPU, KNOWN, MEASURED_RATES
from gpusquad.kube.objects import Object
from gpusquad.model.known_rates import known_text
from gpusquad.model.sharing_params import SharingParams

RATES = SharingParams(app="vgg16", solo_per_s=12.5)
LOCATION = TaskLocation("node1", ("GPU-1",))


def card(name: str, **fields: object) -> Object:
    return {"id": name, "model": "A", "memory_bytes": 1 << 30, "sms": 1, "domain": 0, "ok": True, **fields}


def node(name: str, *cards: Object, has_agent: bool = True) -> Object:
    annotations = {CARDS: json.dumps(cards)} if has_agent else {}
    return {"metadata": {"name": name, "uid": name, "annotations": annotations}, "spec": {}, "status": {}}


def current(name: str) -> Object:
    return node(name, card(f"{name}-0", annotations=ANNOTATIONS_VERSION), card(f"{name}-1", annotations=2))


def older(name: str) -> Object:
    return node(name, card(f"{name}-0"), card(f"{name}-1"))


def pod(annotations: dict[str, str]) -> Object:
    container = {"name": "main", "resources": {"limits": {GPU: "1"}}}
    metadata = {"name": "p", "namespace": "default", "uid": "u", "annotations": annotations}
    return {"metadata": metadata, "spec": {"containers": [container]}}


@pytest.fixture
def observer() -> ClusterObserver:
    return ClusterObserver(lambda uid: False, lambda name: frozenset())


def test_old_name_is_written_until_an_agent_reports(observer: ClusterObserver):
    assert observer.rates_name == KNOWN
    observer.node_seen(node("no-agent", has_agent=False))
    assert observer.rates_name == KNOWN
    observer.node_seen(current("a"))
    assert observer.rates_name == MEASURED_RATES


def test_old_name_is_written_while_one_agent_is_older(observer: ClusterObserver):
    observer.node_seen(current("a"))
    observer.node_seen(older("b"))
    assert observer.rates_name == KNOWN
    observer.node_seen(current("b"))
    assert observer.rates_name == MEASURED_RATES
    observer.node_seen(older("a"))  # its agent was replaced by an older one
    assert observer.rates_name == KNOWN
    observer.node_gone("a")
    assert observer.rates_name == MEASURED_RATES
    observer.node_gone("b")
    assert observer.rates_name == KNOWN


def test_agents_without_cards_do_not_count(observer: ClusterObserver):
    observer.node_seen(node("empty"))
    assert observer.rates_name == KNOWN
    observer.node_seen(current("a"))
    assert observer.rates_name == MEASURED_RATES


@pytest.mark.parametrize("version", [None, 1, True, "2", 2.5, [], {}])
def test_unreadable_version_counts_as_an_older_agent(observer: ClusterObserver, version: object):
    observer.node_seen(node("a", card("x", annotations=version)))
    assert observer.rates_name == KNOWN


def test_later_version_reads_the_new_name(observer: ClusterObserver):
    observer.node_seen(node("a", card("x", annotations=ANNOTATIONS_VERSION + 1)))
    assert observer.rates_name == MEASURED_RATES


@pytest.mark.parametrize(("name", "other"), [(KNOWN, MEASURED_RATES), (MEASURED_RATES, KNOWN)])
def test_binding_has_the_rates_under_one_name_and_removes_those_of_the_user(name: str, other: str):
    location = replace(LOCATION, sharing_params=RATES)
    annotations = binding_of(pod({}), location, "job1", 0, name)["metadata"]["annotations"]
    assert annotations[name] == known_text(RATES)
    assert other not in annotations
    with_both = pod({KNOWN: "user", MEASURED_RATES: "user"})
    annotations = binding_of(with_both, location, "job1", 0, name)["metadata"]["annotations"]
    assert (annotations[name], annotations[other]) == (known_text(RATES), "")
    annotations = binding_of(with_both, LOCATION, "job1", 0, name)["metadata"]["annotations"]
    assert (annotations[name], annotations[other]) == ("", "")
