"""Invariants of the simulated cluster when it has settled."""

from __future__ import annotations

from gpusquad.engines.kubernetes.gangs.pod_gang import is_over, node_name
from gpusquad.kube.names import JOB
from gpusquad.kube.objects import annotations_of, is_leaving, name_of, uid_of
from tests.engines.kubernetes.world.world import World


def check_rest(world: World) -> None:
    """Settle the cluster and check that each gang is pending, running or gone."""
    world.settle()
    registry = world.registry
    assert set(registry.by_job) == set(world.store)
    for job, row in world.store.items():
        gang = registry.by_job[job]
        assert row.state in ("running", "pending"), f"{job} is {row.state}"
        assert gang.placed == (row.state == "running")
        if gang.placed:
            assert gang.attempt == row.attempt
            assert gang.started
            assert gang.ranks_by_pod
    for pod in world.pods.values():
        _check_pod(world, name_of(pod))
    assert {uid for gang in registry.gangs.values() for uid in gang.pods} == set(map(uid_of, world.pods.values()))
    assert all(gang.pods or gang.job is not None for gang in registry.gangs.values())


def _check_pod(world: World, name: str) -> None:
    pod = world.pods[name]
    gang = world.registry._index.gang_of(uid_of(pod))
    assert gang is not None
    assert not is_leaving(pod)
    if is_over(pod):
        return
    if node_name(pod):
        # On a node: in a running gang, or a bare pod whose gang is gone and which must not be deleted.
        assert world.registry.holds(uid_of(pod)) or (gang.job is None and not gang.member.recreates), (
            f"{name} belongs to no gang"
        )
        if world.registry.holds(uid_of(pod)) and not gang.adopted:
            assert annotations_of(pod)[JOB] == (gang.job.id if gang.job is not None else "")
    else:
        is_short = len(gang.usable) < gang.member.least or gang.waits_for or uid_of(pod) in gang.refused_pods
        waits_for_rank = gang.placed and not gang.has(uid_of(pod))
        assert gang.job is None, f"{name} waits although its gang could be launched"
        assert is_short, f"{name} waits for nothing"
        assert not waits_for_rank, f"{name} waits for a rank that it will not get"
