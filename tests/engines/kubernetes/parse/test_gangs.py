"""Tests of reading a job from the pods of a group, completely or not at all and in any order."""

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
from tests.engines.kubernetes.parse.builders import CREATED_US, container, pod, read, requesting

KEY = GroupKey("PodGroup", "team", "g", "5e749a00")
OWNER = read("{apiVersion: batch/v1, kind: Job, metadata: {name: train}}")
REPLICA_TYPE = "training.kubeflow.org/replica-type"
REPLICA_INDEX = "training.kubeflow.org/replica-index"
ONE_GPU = Request(gpus=1, extras=(("pods", 1),))


def group(least: int = 2, *, recreates: bool = True, **more: object) -> Membership:
    return replace(Membership(KEY, least, least, recreates), **more)  # type: ignore[arg-type]


def complete_gang(membership: Membership, *pods: Object, **more: object) -> CompleteGang:
    result = gang_of(membership, pods, **more)  # type: ignore[arg-type]
    assert isinstance(result, CompleteGang), result
    return result


def names(pods: tuple[Object, ...]) -> list[str]:
    return [name_of(pod) for pod in pods]


def test_job_has_all_attributes_of_its_pods():
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
            priority=1000,
            activeDeadlineSeconds=7200,
        )
        for i in range(2)
    ]
    job = complete_gang(group(), *pods).job
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


def test_annotations_of_the_group_apply_unless_a_pod_has_its_own():
    membership = group(1, annotations=(("gpusquad.io/estimate", "1h"), ("gpusquad.io/queue", "day")))
    job = complete_gang(membership, pod("p", annotations={"gpusquad.io/queue": "night"})).job
    assert (job.estimate_us, job.queue, job.user) == (3_600_000_000, "night", "team")


def test_submit_time_is_that_of_the_first_pod():
    pods = [pod("a", created="2026-03-01T10:00:05Z"), pod("b", created="2026-03-01T11:00:01+01:00")]
    assert complete_gang(group(), *pods).job.submitted_us == CREATED_US + 1_000_000


@pytest.mark.parametrize(
    ("values", "name"),
    [((-1000, -1001), "low"), ((-5, -1), "-1"), ((None,), "normal"), ((0, -7), "normal"), ((0, 1), "1"),
     ((999_999,), "999999"), ((1_000_000,), "urgent"), ((2_000_000_000, -1), "2000000000")],
)  # fmt: skip
def test_priority_comes_from_the_highest_pod_priority(values: tuple[int | None, ...], name: str):
    pods = [pod(f"p{i}", priority=value) for i, value in enumerate(values)]
    assert complete_gang(group(len(pods)), *pods).job.priority == name


def test_priority_class_name_is_used_without_a_priority_value():
    assert complete_gang(group(1), pod(priorityClassName="system-node-critical")).job.priority == "urgent"
    assert complete_gang(group(1), pod(priorityClassName="batch")).job.priority == "normal"
    assert complete_gang(group(1), pod(priorityClassName="system-node-critical", priority=-1)).job.priority == "-1"


def test_priority_of_the_group_takes_precedence():
    assert complete_gang(group(1, priority=-1), pod(priority=5)).job.priority == "-1"


@pytest.mark.parametrize(("value", "of_cluster"), [(None, "normal"), (-5, "-5"), (7, "7"), (1_000_000, "urgent")])
@pytest.mark.parametrize("annotation", ["", "low", "normal", "urgent", "70"])
def test_priority_of_the_cluster_is_told_apart_from_the_annotation(
    value: int | None, of_cluster: str, annotation: str
) -> None:
    annotations = {"gpusquad.io/priority": annotation} if annotation else {}
    gang = complete_gang(group(1), pod(priority=value, annotations=annotations))
    assert (gang.job.priority, gang.cluster_priority) == (annotation or of_cluster, of_cluster)
    of_group = complete_gang(group(1, priority=7), pod(priority=value, annotations=annotations))
    assert of_group.cluster_priority == "7"


@pytest.mark.parametrize(
    ("recreates", "owner", "annotation", "preemptible"),
    [
        (True, OWNER, None, True),
        (True, OWNER, "false", False),
        (False, OWNER, None, False),
        (False, OWNER, "true", True),
        (True, None, None, False),
        (False, None, "true", False),
    ],
)
def test_only_gangs_that_are_recreated_are_preemptible(
    recreates: bool, owner: Object | None, annotation: str | None, preemptible: bool
):
    annotations = {} if annotation is None else {"gpusquad.io/preemptible": annotation}
    item = pod(owner=owner, annotations=annotations, preemptionPolicy="Never")
    assert complete_gang(group(1, recreates=recreates), item).job.checkpoint.preemptible is preemptible


def test_role_names_come_from_the_owner():
    pods = [
        pod("m", container(cpu=1), labels={REPLICA_TYPE: "master", REPLICA_INDEX: "0"}),
        *(
            pod(f"w{i}", container(gpus=1 if i != 1 else 2), labels={REPLICA_TYPE: "worker", REPLICA_INDEX: str(i)})
            for i in (2, 10, 1, 0)
        ),
    ]
    result = complete_gang(group(5), *pods)
    two = replace(ONE_GPU, gpus=2)
    cpu = Request(cpu_milli=1000, extras=(("pods", 1),))
    assert result.job.roles == (Role("master", 1, cpu), Role("worker", 3, ONE_GPU), Role("worker-2", 1, two))
    assert names(result.members) == ["m", "w0", "w2", "w10", "w1"]


def test_role_names_are_distinct():
    pods = [
        pod("a", labels={REPLICA_TYPE: "w", REPLICA_INDEX: "0"}),
        pod("b", container(gpus=2), labels={REPLICA_TYPE: "w", REPLICA_INDEX: "1"}),
        pod("c", labels={REPLICA_TYPE: "w-2", REPLICA_INDEX: "2"}),
    ]
    assert [role.name for role in complete_gang(group(3), *pods).job.roles] == ["w", "w-3", "w-2"]


def test_role_names_are_printable_and_short():
    unprintable = pod("a", annotations={"volcano.sh/task-spec": "Big\n\x00task" + "x" * 99})
    assert [role.name for role in complete_gang(group(1), unprintable).job.roles] == ["bigtask" + "x" * 54]
    assert complete_gang(group(1), pod("a", annotations={"volcano.sh/task-spec": "\n"})).job.roles[0].name == "worker"


def test_members_are_ordered_by_number():
    pods = [pod(f"w-{i}") for i in (10, 9, 1, 2)]
    assert names(complete_gang(group(4), *pods).members) == ["w-1", "w-2", "w-9", "w-10"]


def test_placement_rule_is_part_of_the_request():
    result = complete_gang(
        group(), pod("a"), pod("b"), request_of=lambda item: replace(request_of_pod(item), where=name_of(item))
    )
    assert [role.request.where for role in result.job.roles] == ["a", "b"]


def test_gang_is_incomplete_until_all_pods_exist():
    assert gang_of(group(3), [pod("a")]) == IncompleteGang(1, 3, "2 of 3 pods of PodGroup team/g")


def test_gang_is_incomplete_until_every_role_is_complete():
    roles = (RoleSize("head", 1), RoleSize("big", 2))
    pods = [pod(f"w{i}", labels={"ray.io/group": "big", "ray.io/node-type": "worker"}) for i in range(4)]
    assert gang_of(group(3, parts=roles), pods) == IncompleteGang(2, 3, "1 of 1 head pods of PodGroup team/g")
    head = pod("z", labels={"ray.io/group": "headgroup", "ray.io/node-type": "head"})
    result = complete_gang(group(3, parts=roles), *pods, head)
    assert names(result.members) == ["z", "w0", "w1"]
    assert names(result.surplus) == ["w2", "w3"]


def test_gang_of_an_unknown_group_is_incomplete():
    unknown = replace(
        group(), size=None, waits_for="Job team/x is being looked up", key=GroupKey("Job", "team", "x", "")
    )
    assert gang_of(unknown, [pod("a")]) == IncompleteGang(1, None, "Job team/x is being looked up")


def test_ended_and_terminating_pods_do_not_count():
    ended = [pod("a", phase="Succeeded"), pod("b", phase="Failed"), pod("c")]
    ended[2]["metadata"]["deletionTimestamp"] = "2026-03-01T10:00:00Z"
    assert gang_of(group(1), ended) == IncompleteGang(0, 1, "1 of 1 pods of PodGroup team/g")
    assert names(complete_gang(group(1), *ended, pod("d")).members) == ["d"]


def test_gang_is_incomplete_while_pods_are_gated():
    gated = pod("b", schedulingGates=[{"name": "x"}])
    text = "1 of 2 pods of PodGroup team/g; 1 held back by scheduling gates"
    assert gang_of(group(2), [pod("a"), gated]) == IncompleteGang(1, 2, text)


def test_extra_pods_are_surplus():
    result = complete_gang(group(2), pod("c"), pod("a"), pod("b"))
    assert (names(result.members), names(result.surplus)) == (["a", "b"], ["c"])


def test_pods_held_by_the_job_stay_members():
    late = pod("a")
    assert names(complete_gang(group(2), late, pod("b"), pod("c"), held={"uid-of-b", "uid-of-c"}).members) == ["b", "c"]


def bound_pod(name: str, job: str) -> Object:
    return pod(name, annotations={"gpusquad.io/job": job}, nodeName="n1", phase="Running")


def test_bound_pods_belong_to_their_annotated_job():
    own, other = bound_pod("c", job_id(KEY)), bound_pod("a", job_id(replace(KEY, uid="x")))
    result = complete_gang(group(2), other, pod("b"), own)
    assert (names(result.members), names(result.surplus)) == (["b", "c"], ["a"])


def test_job_annotation_of_an_unbound_pod_is_ignored():
    copied = pod("a", annotations={"gpusquad.io/job": "0" * 26})
    assert names(complete_gang(group(1), copied).members) == ["a"]


def test_pods_of_another_scheduler_count_as_present():
    roles = (RoleSize("launcher", 1), RoleSize("worker", 1))
    launcher = pod("l", container(cpu=1), labels={REPLICA_TYPE: "launcher"}, schedulerName="default-scheduler")
    result = complete_gang(group(2, parts=roles), launcher, pod("w"))
    assert (names(result.members), result.job.tasks) == (["w"], 1)
    incomplete = gang_of(group(1), [launcher, pod("w")])
    assert isinstance(incomplete, IncompleteGang)
    assert (incomplete.need, names(incomplete.surplus)) == (0, ["w"])


@pytest.mark.parametrize(
    ("item", "kind", "expected"),
    [
        (pod("p", requesting(requests={"cpu": "x"})), MalformedField, "pod p: main.resources.requests"),
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
def test_invalid_pod_gives_the_reason(item: Object, kind: type[Invalid], expected: str):
    error = gang_of(group(1), [item])
    assert isinstance(error, kind)
    assert expected in str(error)


def test_too_many_different_requests_are_refused():
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
def test_app_is_the_image_without_its_version(image: str, app: str):
    assert complete_gang(group(1), pod("p", container() | {"image": image})).job.app == app


def test_app_annotation_takes_precedence():
    assert complete_gang(group(1), pod("p", annotations={"gpusquad.io/app": "vgg16"})).job.app == "vgg16"


def test_long_command_is_shortened():
    container_with_long_command = container(gpus=1) | {"command": ["run", "x" * 1000]}
    assert len(complete_gang(group(1), pod("p", container_with_long_command)).job.command) == 256


@given(st.text(min_size=1), st.text(min_size=1), st.integers(0, 9))
def test_job_id_depends_on_uid_and_incarnation(first: str, second: str, incarnation: int):
    own, other = job_id(replace(KEY, uid=first), incarnation), job_id(replace(KEY, uid=second), incarnation)
    assert (own == other) == (first == second)
    assert len(own) == LENGTH
    assert set(own) <= set(ALPHABET)
    assert own[0] in ALPHABET[:8]
    assert own != job_id(replace(KEY, uid=first), incarnation + 1)
    assert own == job_id(replace(KEY, uid=first, name="another", kind="Job"), incarnation)


def test_provisional_key_has_no_job_id():
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
def test_gang_does_not_depend_on_the_order_of_pods(drawn: list, least: int, random):
    pods = [
        pod(
            f"p{i}",
            container(gpus=gpus),
            labels={REPLICA_TYPE: role, REPLICA_INDEX: str(index)} if role else {},
            annotations={"gpusquad.io/estimate": f"{i + 1}h"},
            phase=phase,
            schedulingGates=[{"name": "x"}] if gated else [],
        )
        for i, (role, gpus, index, phase, gated) in enumerate(drawn)
    ]
    first = gang_of(group(least), pods)
    shuffled = list(pods)
    random.shuffle(shuffled)
    assert gang_of(group(least), shuffled) == first
    if isinstance(first, CompleteGang):
        assert len(first.members) == least == first.job.tasks
        requests = [role.request for role in first.job.roles for _ in range(role.count)]
        assert [request_of_pod(member) for member in first.members] == requests
        assert not set(names(first.members)) & set(names(first.surplus))
        again = gang_of(group(least), first.members)
        assert again == replace(first, surplus=())
