"""Tests of constraints between pods that are decided together, or while earlier ones are being bound."""

from __future__ import annotations

from collections import Counter
from random import Random
from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st

from gpusquad.core.explain.explain import why
from gpusquad.core.explain.feasibility import refusal
from gpusquad.kube.objects import Object
from tests.engines.kubernetes.arrivals import Arrivals
from tests.engines.kubernetes.filters import random_objects
from tests.engines.kubernetes.parse import builders
from tests.strategies import examples

HOSTNAME, RACK = "kubernetes.io/hostname", "rack"
REQUIRED = "requiredDuringSchedulingIgnoredDuringExecution"
WEB = {"labelSelector": {"matchLabels": {"app": "web"}}}
DB = {"labelSelector": {"matchLabels": {"app": "db"}}}


def cluster(count: int = 4, racks: int = 2) -> Arrivals:
    return Arrivals([node(f"n{number}", f"r{number % racks}") for number in range(count)])


def node(name: str, rack: str) -> Object:
    return {"metadata": {"name": name, "labels": {HOSTNAME: name, RACK: rack}}}


def pods(count: int, app: str = "web", prefix: str = "", port: int = 0, **spec: Any) -> list[Object]:
    found = []
    for number in range(count):
        name = f"{prefix or app}-{number}"
        pod = builders.pod(name, builders.container(cpu="1"), labels={"app": app}, **spec)
        pod["metadata"]["uid"] = name
        if port:
            pod["spec"]["containers"][0]["ports"] = [{"containerPort": 80, "hostPort": port}]
        found.append(pod)
    return found


def apart(key: str = HOSTNAME, selector: Object = WEB) -> Object:
    return {"podAntiAffinity": {REQUIRED: [{"topologyKey": key, **selector}]}}


def near(key: str = RACK, selector: Object = WEB) -> Object:
    return {"podAffinity": {REQUIRED: [{"topologyKey": key, **selector}]}}


def spread(key: str = HOSTNAME, skew: int = 1, selector: Object = WEB, **more: object) -> list[Object]:
    return [{"topologyKey": key, "maxSkew": skew, "whenUnsatisfiable": "DoNotSchedule", **selector, **more}]


FOUR_APART = [
    {"affinity": apart()},
    {"topologySpreadConstraints": spread()},
    {"port": 7000},
]


@pytest.mark.parametrize("spec", FOUR_APART, ids=["anti-affinity", "spread", "port"])
def test_pods_of_one_pass_are_on_different_nodes(spec: Object) -> None:
    world, replicas = cluster(), pods(4, **spec)
    world.arrive(replicas)
    assert world.decide() == 4
    assert world.nodes_of(replicas) == ["n0", "n1", "n2", "n3"]
    assert world.refusals == []


def test_pods_of_one_pass_are_in_one_rack() -> None:
    """The first may go anywhere, the others must follow it."""
    world = cluster()
    replicas = pods(100, affinity=near())  # more than the 64 cores of a node
    world.arrive(replicas)
    assert world.decide() == 100
    assert set(world.nodes_of(replicas)) in ({"n0", "n2"}, {"n1", "n3"})
    assert world.refusals == []


@pytest.mark.parametrize("spec", FOUR_APART, ids=["anti-affinity", "spread", "port"])
def test_bindings_in_flight_count(spec: Object) -> None:
    """The watch shows nothing of the first two, and the sets were made before their start."""
    world, first, second = cluster(), pods(2, prefix="a", **spec), pods(2, prefix="b", **spec)
    world.arrive(first)
    assert world.decide() == 2
    world.arrive(second)
    assert world.decide() == 2
    world.show_bound(1)
    assert world.nodes_of([*first, *second]) == ["n0", "n1", "n2", "n3"]
    assert world.refusals == []


def test_sets_made_before_a_start_do_not_undo_it() -> None:
    """The engine reports between the decision and the launch."""
    world, replicas = cluster(), pods(4, affinity=apart())
    for replica in replicas:
        world.arrive([replica])
        world.decide(launches=False)
    world.launch()
    assert world.nodes_of(replicas) == ["n0", "n1", "n2", "n3"]
    assert world.refusals == []


def test_pods_do_not_start_where_an_earlier_pod_repels_them() -> None:
    world = cluster()
    guard = world.place_elsewhere(pods(1, "db", affinity=apart(RACK))[0], "n0")
    replicas = pods(3)
    world.arrive(replicas)
    world.settle()
    assert set(world.nodes_of(replicas)) <= {"n1", "n3"}
    world.delete(guard)


def test_pods_repel_each_other_both_ways_in_one_pass() -> None:
    """Only the database repels. Whichever starts first, they must not share a rack."""
    for order in (1, -1):
        world = cluster()
        both = [*pods(1, "db", affinity=apart(RACK)), *pods(2, "web")][::order]
        world.arrive(both)
        world.settle()
        racks = {pod["metadata"]["labels"]["app"]: world.node_of(pod) for pod in both}
        assert int(racks["db"][1]) % 2 != int(racks["web"][1]) % 2
        assert world.violations == []
        assert world.refusals == []


def test_spread_with_its_fields() -> None:
    """``minDomains`` above the racks there are: never more than one per rack."""
    world = cluster()
    replicas = pods(4, topologySpreadConstraints=spread(RACK, minDomains=3))
    world.arrive(replicas)
    world.settle()
    assert sorted(bool(world.node_of(pod)) for pod in replicas) == [False, False, True, True]
    assert world.violations == []


def test_fifty_pods_at_once_start_in_one_pass() -> None:
    world, replicas = cluster(), pods(50, topologySpreadConstraints=spread())
    world.arrive(replicas)
    assert world.decide() == 50
    assert sorted(Counter(world.nodes_of(replicas)).values()) == [12, 12, 13, 13]
    assert world.refusals == []


def test_more_pods_than_nodes_wait_and_follow_at_once() -> None:
    world, replicas = cluster(), pods(6, affinity=apart())
    world.arrive(replicas)
    world.settle()
    assert world.nodes_of(replicas) == ["", "", "n0", "n1", "n2", "n3"]
    [waiting, _] = [pod for pod in replicas if not world.node_of(pod)]
    [reason] = why(world.driver.state, world.job_of(waiting).id)
    assert reason.message == "0 of 4 nodes are allowed: 4 nodes: a pod there matches its pod anti-affinity"
    world.delete(next(pod for pod in replicas if world.node_of(pod) == "n2"))
    world.settle()
    assert sum(world.node_of(pod) == "n2" for pod in replicas) == 1
    assert world.refusals == []


def test_start_is_refused_if_another_scheduler_was_faster() -> None:
    """The pod is pending again at once, and goes to another node."""
    world, replicas = cluster(), pods(1, affinity=apart())
    world.arrive(replicas)
    world.engine._report_changes()
    world.place_elsewhere(pods(1, prefix="foreign")[0], "n0")
    assert world.decide(reports=False) == 1
    assert world.nodes_of(replicas) == [""]
    world.settle()
    [refused] = world.refusals
    assert refused.cause == "node n0 is no longer allowed for it: a pod there matches its pod anti-affinity"
    assert world.nodes_of(replicas) == ["n1"]


def test_pods_that_may_go_nowhere_name_the_cause() -> None:
    world, [first, *others] = cluster(2), pods(3, affinity=apart(RACK, WEB))
    world.arrive([first])
    world.settle()
    world.place_elsewhere(pods(1, prefix="foreign")[0], "n1")
    world.arrive(others)
    world.settle()
    [reason] = {str(refusal(world.driver.state, world.job_of(pod))) for pod in others}
    assert "none of the 2 nodes is allowed: 2 nodes: a pod there matches its pod anti-affinity" in reason


def test_pod_with_a_claim_that_is_bound_late_names_the_claim() -> None:
    world = cluster()
    late = {"metadata": {"name": "late"}, "provisioner": "disks", "volumeBindingMode": "WaitForFirstConsumer"}
    claim = {"metadata": {"name": "data", "namespace": "team"}, "spec": {"storageClassName": "late"}, "status": {}}
    world.watches._storage_listener("classes")("added", late, None)
    world.watches._storage_listener("claims")("added", claim, None)
    [pod] = pods(1, volumes=[{"name": "data", "persistentVolumeClaim": {"claimName": "data"}}])
    world.arrive([pod])
    world.settle()
    reason = str(refusal(world.driver.state, world.job_of(pod)))
    assert "none of the 4 nodes is allowed: PersistentVolumeClaim team/data is bound only when" in reason
    assert "use a storage class that binds immediately" in reason


def test_failed_binding_leaves_its_node() -> None:
    world, replicas = cluster(1), pods(2, port=7000)
    world.arrive(replicas)
    world.decide()
    world.fail_binding()
    world.decide()
    assert world.nodes_of(replicas) == ["", "n0"]
    assert world.violations == []


def test_label_of_a_running_pod_counts_when_it_changes() -> None:
    world, replicas = cluster(1), pods(1, affinity=apart())
    other = world.place_elsewhere(pods(1, prefix="foreign")[0], "n0")
    world.arrive(replicas)
    world.settle()
    assert world.nodes_of(replicas) == [""]
    world.relabel(other, {"app": "mail"})
    world.settle()
    assert world.nodes_of(replicas) == ["n0"]


def test_gang_counts_for_single_pods_of_its_pass() -> None:
    world = cluster()
    together = pods(3, affinity=apart())
    for pod in together:
        pod["metadata"]["annotations"] = {"gpusquad.io/group": "g", "gpusquad.io/group-size": "3"}
    single = pods(1, prefix="single", affinity=apart())
    world.arrive([*together, *single])
    world.settle()
    assert world.nodes_of([*together, *single]) == ["n0", "n1", "n2", "n3"]
    assert world.refusals == []


@examples(150)
@given(seed=st.integers(0, 10**9))
def test_no_start_violates_a_rule(seed: int) -> None:
    """Random nodes and pods that arrive, are bound and deleted in any order."""
    rng = Random(seed)
    world = Arrivals(
        [random_objects.node(rng, f"fake-{number}") for number in range(rng.randint(1, 7))], random_objects.NAMESPACES
    )
    known: list[Object] = []
    for step in range(rng.randint(1, 10)):
        match rng.choice(("arrive", "arrive", "decide", "decide", "show", "foreign", "race", "delete", "fail")):
            case "arrive":
                new = [random_pod(rng, f"pod-{step}-{number}") for number in range(rng.randint(1, 6))]
                known += new
                world.arrive(new)
            case "decide":
                world.decide(reports=rng.random() < 0.8, launches=rng.random() < 0.8)
            case "show":
                world.show_bound(rng.randint(0, len(world.in_flight)))
            case "foreign":
                host = rng.choice(world.nodes)["metadata"]["name"]
                world.place_elsewhere(random_pod(rng, f"foreign-{step}"), host)
            case "race":
                world.decide(launches=False)
                world.place_elsewhere(random_pod(rng, f"foreign-{step}"), rng.choice(world.nodes)["metadata"]["name"])
                world.launch()
            case "delete" if known:
                shown = [pod for pod in known if all(pod is not flying for _, _, flying, _ in world.in_flight)]
                for pod in rng.sample(shown, min(1, len(shown))):
                    known.remove(pod)
                    world.delete(world.placed.get(pod["metadata"]["uid"], pod))
            case "fail" if world.in_flight:
                world.fail_binding()
    world.settle()
    assert world.violations == []
    waiting = [pod for pod in known if not world.node_of(pod)]
    assert [pod for pod in waiting if world.could_start(pod)] == []


@examples(100)
@given(seed=st.integers(0, 10**9))
def test_pods_that_arrive_at_once_are_never_refused(seed: int) -> None:
    rng = Random(seed)
    world = Arrivals([random_objects.node(rng, f"fake-{n}") for n in range(6)], random_objects.NAMESPACES)
    for wave in range(rng.randint(1, 3)):
        world.arrive([random_pod(rng, f"pod-{wave}-{number}") for number in range(rng.randint(2, 10))])
        world.decide(launches=rng.random() < 0.5)
    world.settle()
    assert world.violations == []
    assert world.refusals == []


def random_pod(rng: Random, name: str) -> Object:
    pod = random_objects.pod(rng, name, demands=3)
    pod["metadata"]["creationTimestamp"] = builders.CREATED
    pod["spec"]["schedulerName"] = "gpusquad"
    pod["status"] = {"phase": "Pending"}
    return pod
