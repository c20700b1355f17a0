"""Pods of a group to a job: whole or not at all, and the same whichever way they came."""

from __future__ import annotations

from dataclasses import replace

import pytest
from hypothesis import given
from hypothesis import strategies as st

from gpusquad.engines.kubernetes.parse.gangs import CompleteGang, IncompleteGang, gang_of
from gpusquad.engines.kubernetes.parse.groups import GroupKey, Membership, RoleSize
from gpusquad.engines.kubernetes.parse.ids import ALPHABET, LENGTH, job_id
from gpusquad.engines.kubernetes.parse.requests import request_of_pod
from gpusquad.kube.errors import MalformedField, UnsupportedField
from gpusquad.kube.objects import Object, name_of
from gpusquad.model.errors import Invalid
from gpusquad.model.job import Checkpoint, Job, Request, Role
from tests.engines.kubernetes.parse.making import CREATED_US, asking, container, pod, read

KEY = GroupKey("PodGroup", "team", "g", "5e749a00")
OWNER = read("{apiVersion: batch/v1, kind: Job, metadata: {name: train}}")
RT = "training.kubeflow.org/replica-type"
RI = "training.kubeflow.org/replica-index"
ONE_GPU = Request(gpus=1, extras=(("pods", 1),))


def group(least: int = 2, *, recreates: bool = True, **more: object) -> Membership:
    return replace(Membership(KEY, least, least, recreates), **more)  # type: ignore[arg-type]


def formed(membership: Membership, *pods: Object, **more: object) -> CompleteGang:
    result = gang_of(membership, pods, **more)  # type: ignore[arg-type]
    assert isinstance(result, CompleteGang), result
    return result


def names(pods: tuple[Object, ...]) -> list[str]:
    return [name_of(each) for each in pods]


def test_a_gang_with_all_that_it_says():
    annotations = {
        "gpusquad.io/user": "ada",
        "gpusquad.io/queue": "nightly",
        "gpusquad.io/lane": "large",
        "gpusquad.io/estimate": "2h",
        "gpusquad.io/limit": "1d",
        "gpusquad.io/checkpoint-every": "10m",
    }
    main = container("trainer", gpus=8, cpu=64) | {
        "image": "registry.example:5000/vision/train:v3@sha256:00ff",
        "command": ["torchrun", "--nnodes=2"],
        "args": ["train.py\n", "--lr  1"],
    }
    pods = [
        pod(
            f"w-{i}",
            container("log"),
            main,
            annotations=annotations,
            owner=OWNER,
            priority=10,
            activeDeadlineSeconds=7200,
        )
        for i in range(2)
    ]
    job = formed(group(), *pods).job
    assert job == Job(
        id=job_id(KEY),
        roles=(Role("worker", 2, Request(gpus=8, cpu_milli=64_000, extras=(("pods", 1),))),),
        submitted_us=CREATED_US,
        name="g",
        tenant="team",
        user="ada",
        queue="nightly",
        lane="large",
        priority="high",
        app="registry.example:5000/vision/train",
        estimate_us=7_200_000_000,
        limit_us=7_200_000_000,
        checkpoint=Checkpoint(every_us=600_000_000, preemptible=True),
        command="torchrun --nnodes=2 train.py --lr 1",
    )


def test_what_the_group_says_holds_for_pods_that_do_not():
    told = group(1, annotations=(("gpusquad.io/estimate", "1h"), ("gpusquad.io/queue", "day")))
    job = formed(told, pod("p", annotations={"gpusquad.io/queue": "night"})).job
    assert (job.estimate_us, job.queue, job.user) == (3_600_000_000, "night", "team")


def test_the_first_pod_was_submitted_first():
    pods = [pod("a", created="2026-03-01T10:00:05Z"), pod("b", created="2026-03-01T11:00:01+01:00")]
    assert formed(group(), *pods).job.submitted_us == CREATED_US + 1_000_000


@pytest.mark.parametrize(
    ("values", "name"),
    [((-5, -1), "low"), ((None,), "normal"), ((0, -7), "normal"), ((0, 1), "high"), ((999_999,), "high"),
     ((1_000_000,), "urgent"), ((2_000_000_000, -1), "urgent")],
)  # fmt: skip
def test_priorities(values: tuple[int | None, ...], name: str):
    pods = [pod(f"p{i}", priority=value) for i, value in enumerate(values)]
    assert formed(group(len(pods)), *pods).job.priority == name


def test_names_of_priority_classes_where_nobody_resolved_them():
    assert formed(group(1), pod(priorityClassName="system-node-critical")).job.priority == "urgent"
    assert formed(group(1), pod(priorityClassName="batch")).job.priority == "normal"
    assert formed(group(1), pod(priorityClassName="system-node-critical", priority=-1)).job.priority == "low"


def test_a_priority_of_the_group_is_heard_first():
    assert formed(group(1, priority=-1), pod(priority=5)).job.priority == "low"


@pytest.mark.parametrize(
    ("recreates", "owner", "wish", "preemptible"),
    [
        (True, OWNER, None, True),
        (True, OWNER, "false", False),
        (False, OWNER, None, False),
        (False, OWNER, "true", True),
        (True, None, None, False),
        (False, None, "true", False),
    ],
)
def test_only_who_comes_again_is_preempted(recreates: bool, owner: Object | None, wish: str | None, preemptible: bool):
    annotations = {} if wish is None else {"gpusquad.io/preemptible": wish}
    item = pod(owner=owner, annotations=annotations, preemptionPolicy="Never")
    assert formed(group(1, recreates=recreates), item).job.checkpoint.preemptible is preemptible


def test_roles_have_the_names_that_their_maker_gave_them():
    pods = [
        pod("m", container(cpu=1), labels={RT: "master", RI: "0"}),
        *(pod(f"w{i}", container(gpus=1 if i != 1 else 2), labels={RT: "worker", RI: str(i)}) for i in (2, 10, 1, 0)),
    ]
    result = formed(group(5), *pods)
    two = replace(ONE_GPU, gpus=2)
    cpu = Request(cpu_milli=1000, extras=(("pods", 1),))
    assert result.job.roles == (Role("master", 1, cpu), Role("worker", 3, ONE_GPU), Role("worker-2", 1, two))
    assert names(result.members) == ["m", "w0", "w2", "w10", "w1"]


def test_names_of_roles_do_not_meet():
    pods = [
        pod("a", labels={RT: "w", RI: "0"}),
        pod("b", container(gpus=2), labels={RT: "w", RI: "1"}),
        pod("c", labels={RT: "w-2", RI: "2"}),
    ]
    assert [role.name for role in formed(group(3), *pods).job.roles] == ["w", "w-3", "w-2"]


def test_names_of_roles_can_be_shown():
    odd = pod("a", annotations={"volcano.sh/task-spec": "Big\n\x00task" + "x" * 99})
    assert [role.name for role in formed(group(1), odd).job.roles] == ["bigtask" + "x" * 54]
    assert formed(group(1), pod("a", annotations={"volcano.sh/task-spec": "\n"})).job.roles[0].name == "worker"


def test_names_are_ordered_by_their_numbers():
    pods = [pod(f"w-{i}") for i in (10, 9, 1, 2)]
    assert names(formed(group(4), *pods).members) == ["w-1", "w-2", "w-9", "w-10"]


def test_where_pods_may_run_is_part_of_what_they_ask_for():
    result = formed(
        group(), pod("a"), pod("b"), request_of=lambda item: replace(request_of_pod(item), where=name_of(item))
    )
    assert [role.request.where for role in result.job.roles] == ["a", "b"]


def test_a_gang_waits_for_all_of_its_pods():
    assert gang_of(group(3), [pod("a")]) == IncompleteGang(1, 3, "2 of 3 pods of PodGroup team/g")


def test_a_gang_waits_for_every_part():
    parts = (RoleSize("head", 1), RoleSize("big", 2))
    pods = [pod(f"w{i}", labels={"ray.io/group": "big", "ray.io/node-type": "worker"}) for i in range(4)]
    assert gang_of(group(3, parts=parts), pods) == IncompleteGang(2, 3, "1 of 1 head pods of PodGroup team/g")
    head = pod("z", labels={"ray.io/group": "headgroup", "ray.io/node-type": "head"})
    result = formed(group(3, parts=parts), *pods, head)
    assert names(result.members) == ["z", "w0", "w1"]
    assert names(result.surplus) == ["w2", "w3"]


def test_a_group_that_is_not_known_yet():
    unknown = replace(
        group(), size=None, waits_for="Job team/x is being looked up", key=GroupKey("Job", "team", "x", "")
    )
    assert gang_of(unknown, [pod("a")]) == IncompleteGang(1, None, "Job team/x is being looked up")


def test_pods_of_finished_attempts_count_for_nothing():
    over = [pod("a", phase="Succeeded"), pod("b", phase="Failed"), pod("c")]
    over[2]["metadata"]["deletionTimestamp"] = "2026-03-01T10:00:00Z"
    assert gang_of(group(1), over) == IncompleteGang(0, 1, "1 of 1 pods of PodGroup team/g")
    assert names(formed(group(1), *over, pod("d")).members) == ["d"]


def test_gated_pods_are_waited_for():
    held = pod("b", schedulingGates=[{"name": "x"}])
    parts = "1 of 2 pods of PodGroup team/g; 1 held back by scheduling gates"
    assert gang_of(group(2), [pod("a"), held]) == IncompleteGang(1, 2, parts)


def test_more_pods_than_the_gang_needs_come_alone():
    result = formed(group(2), pod("c"), pod("a"), pod("b"))
    assert (names(result.members), names(result.surplus)) == (["a", "b"], ["c"])


def test_pods_that_the_job_has_keep_their_place():
    late = pod("a")
    assert names(formed(group(2), late, pod("b"), pod("c"), held={"uid-of-b", "uid-of-c"}).members) == ["b", "c"]


def bound(name: str, job: str) -> Object:
    return pod(name, annotations={"gpusquad.io/job": job}, nodeName="n1", phase="Running")


def test_bound_pods_say_whose_they_are():
    mine, other = bound("c", job_id(KEY)), bound("a", job_id(replace(KEY, uid="x")))
    result = formed(group(2), other, pod("b"), mine)
    assert (names(result.members), names(result.surplus)) == (["b", "c"], ["a"])


def test_a_copied_annotation_says_nothing_before_a_pod_is_bound():
    copied = pod("a", annotations={"gpusquad.io/job": "0" * 26})
    assert names(formed(group(1), copied).members) == ["a"]


def test_pods_of_another_scheduler_count_as_there():
    parts = (RoleSize("launcher", 1), RoleSize("worker", 1))
    launcher = pod("l", container(cpu=1), labels={RT: "launcher"}, schedulerName="default-scheduler")
    result = formed(group(2, parts=parts), launcher, pod("w"))
    assert (names(result.members), result.job.tasks) == (["w"], 1)
    nothing = gang_of(group(1), [launcher, pod("w")])
    assert isinstance(nothing, IncompleteGang)
    assert (nothing.need, names(nothing.surplus)) == (0, ["w"])


@pytest.mark.parametrize(
    ("item", "kind", "expected"),
    [
        (pod("p", asking(requests={"cpu": "x"})), MalformedField, "pod p: main.resources.requests"),
        (pod(resourceClaims=[{}]), UnsupportedField, "pod one: spec.resourceClaims"),
        (pod(annotations={"gpusquad.io/estimate": "soon"}), MalformedField, "gpusquad.io/estimate"),
        (pod(annotations={"gpusquad.io/limit": "0s"}), MalformedField, "gpusquad.io/limit"),
        (pod(annotations={"gpusquad.io/limit": "-1h"}), MalformedField, "gpusquad.io/limit"),
        (pod(annotations={"gpusquad.io/checkpoint-every": "1 moon"}), MalformedField, "checkpoint-every"),
        (pod(annotations={"gpusquad.io/preemptible": "perhaps"}), MalformedField, "preemptible"),
        (pod(annotations={"gpusquad.io/user": "a\tb"}), MalformedField, "gpusquad.io/user"),
        (pod(annotations={"gpusquad.io/queue": "q" * 257}), MalformedField, "gpusquad.io/queue"),
        (pod(created="yesterday"), MalformedField, "creationTimestamp"),
    ],
)
def test_what_cannot_be_a_job_says_why(item: Object, kind: type[Invalid], expected: str):
    error = gang_of(group(1), [item])
    assert isinstance(error, kind)
    assert expected in str(error)


def test_pods_that_all_differ_are_too_many_roles():
    pods = [pod(f"p{i}", container(cpu=i + 1)) for i in range(300)]
    error = gang_of(group(300), pods)
    assert isinstance(error, UnsupportedField)
    assert "300 different requests" in str(error)


@pytest.mark.parametrize(
    ("image", "app"),
    [
        ("nginx", "nginx"),
        ("nginx:1.2", "nginx"),
        ("host:5000/a/b", "host:5000/a/b"),
        ("a/b:1@sha256:ab", "a/b"),
        ("", ""),
    ],
)
def test_apps_are_images_without_versions(image: str, app: str):
    assert formed(group(1), pod("p", container() | {"image": image})).job.app == app


def test_apps_can_be_named():
    assert formed(group(1), pod("p", annotations={"gpusquad.io/app": "vgg16"})).job.app == "vgg16"


def test_long_commands_are_cut():
    long = container(gpus=1) | {"command": ["run", "x" * 1000]}
    assert len(formed(group(1), pod("p", long)).job.command) == 256


@given(st.text(min_size=1), st.text(min_size=1), st.integers(0, 9))
def test_ids_follow_from_uids(first: str, second: str, incarnation: int):
    mine, other = job_id(replace(KEY, uid=first), incarnation), job_id(replace(KEY, uid=second), incarnation)
    assert (mine == other) == (first == second)
    assert len(mine) == LENGTH
    assert set(mine) <= set(ALPHABET)
    assert mine[0] in ALPHABET[:8]
    assert mine != job_id(replace(KEY, uid=first), incarnation + 1)
    assert mine == job_id(replace(KEY, uid=first, name="another", kind="Job"), incarnation)


def test_a_provisional_key_has_no_id():
    with pytest.raises(ValueError, match="provisional"):
        job_id(replace(KEY, uid=""))


kinds = st.tuples(
    st.sampled_from(["master", "worker", ""]),
    st.integers(0, 3),
    st.integers(0, 12),
    st.sampled_from(["Pending", "Running", "Succeeded"]),
    st.booleans(),
)


@given(st.lists(kinds, min_size=1, max_size=8), st.integers(1, 6), st.randoms(use_true_random=False))
def test_the_order_in_which_pods_come_does_not_matter(made: list, least: int, random):
    pods = [
        pod(
            f"p{i}",
            container(gpus=gpus),
            labels={RT: role, RI: str(index)} if role else {},
            annotations={"gpusquad.io/estimate": f"{i + 1}h"},
            phase=phase,
            schedulingGates=[{"name": "x"}] if gated else [],
        )
        for i, (role, gpus, index, phase, gated) in enumerate(made)
    ]
    first = gang_of(group(least), pods)
    mixed = list(pods)
    random.shuffle(mixed)
    assert gang_of(group(least), mixed) == first
    if isinstance(first, CompleteGang):
        assert len(first.members) == least == first.job.tasks
        requests = [role.request for role in first.job.roles for _ in range(role.count)]
        assert [request_of_pod(each) for each in first.members] == requests
        assert not set(names(first.members)) & set(names(first.surplus))
        again = gang_of(group(least), first.members)
        assert again == replace(first, surplus=())
