"""To which group a pod belongs, by every convention that people use."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Any

import pytest

from gpusquad.engines.kubernetes.objects import Object
from gpusquad.engines.kubernetes.reading.errors import Malformed, Unsupported
from gpusquad.engines.kubernetes.reading.groups import GroupKey, Membership, Part, by_itself
from gpusquad.engines.kubernetes.reading.lookups import LOOKUPS, Unknown
from gpusquad.engines.kubernetes.reading.membership import membership_of
from tests.engines.kubernetes.reading.making import finder, nothing_known, nothing_there, pod, read

REPLICA_SET = read("{apiVersion: apps/v1, kind: ReplicaSet, metadata: {name: web}}")
STATEFUL_SET = read("{apiVersion: apps/v1, kind: StatefulSet, metadata: {name: db}}")


def pod_group(api_version: str, spec: Object, name: str = "g") -> Object:
    return read(f"{{apiVersion: {api_version}, kind: PodGroup, metadata: {{name: {name}}}}}") | {"spec": spec}


def batch_job(spec: Object, **more: Any) -> Object:
    return read("{apiVersion: batch/v1, kind: Job, metadata: {name: train}}") | {"spec": spec} | more


NATIVE = pod_group("scheduling.k8s.io/v1beta1", {"schedulingPolicy": {"gang": {"minCount": 4}}, "priority": 7})
BASIC = pod_group("scheduling.k8s.io/v1beta1", {"schedulingPolicy": {"basic": {}}})
COSCHEDULING = pod_group("scheduling.x-k8s.io/v1alpha1", {"minMember": 3, "scheduleTimeoutSeconds": 10})
OLD = pod_group("scheduling.sigs.k8s.io/v1alpha1", {"minMember": 5})
VOLCANO = pod_group(
    "scheduling.volcano.sh/v1beta1", {"minMember": 3, "minTaskMember": {"worker": 2, "ps": 1}, "queue": "q"}
)
VOLCANO_SOME = pod_group("scheduling.volcano.sh/v1beta1", {"minMember": 2, "minTaskMember": {"worker": 4}})
KAI = pod_group("scheduling.run.ai/v2alpha2", {"minMember": 6, "queue": "q"})
KAI_PARTS = pod_group("scheduling.run.ai/v2alpha2", {"subGroups": [{"name": "a", "minMember": 2}, {"minMember": 3}]})
INDEXED = batch_job({"completionMode": "Indexed", "completions": 4, "parallelism": 4})
JOBSET = read("""
apiVersion: jobset.x-k8s.io/v1alpha2
kind: JobSet
metadata: {name: llm, annotations: {gpusquad.io/estimate: 2h, other: x}}
spec:
  failurePolicy: {maxRestarts: 3}
  replicatedJobs:
    - {name: Driver, template: {spec: {parallelism: 1, completions: 1}}}
    - {name: workers, replicas: 2, template: {spec: {parallelism: 4, completions: 4, backoffLimit: 0}}}
""")
JOB_OF_JOBSET = batch_job({"completionMode": "Indexed", "completions": 4, "parallelism": 4})
PYTORCH = read("""
apiVersion: kubeflow.org/v1
kind: PyTorchJob
metadata: {name: bert}
spec:
  pytorchReplicaSpecs:
    Worker: {replicas: 7, restartPolicy: OnFailure}
    Master: {restartPolicy: ExitCode}
""")
MPI = read("""
apiVersion: kubeflow.org/v2beta1
kind: MPIJob
metadata: {name: hvd}
spec:
  launcherCreationPolicy: AtStartup
  mpiReplicaSpecs: {Launcher: {replicas: 1}, Worker: {replicas: 4}}
""")
RAY = read("""
apiVersion: ray.io/v1
kind: RayCluster
metadata: {name: tune}
spec:
  headGroupSpec: {}
  workerGroupSpecs:
    - {groupName: Big, replicas: 3, minReplicas: 1, maxReplicas: 8}
    - {groupName: small, replicas: 2, numOfHosts: 2}
    - {groupName: off, replicas: 9, suspend: true}
""")
LWS = read("""
apiVersion: leaderworkerset.x-k8s.io/v1
kind: LeaderWorkerSet
metadata: {name: vllm}
spec: {replicas: 3, startupPolicy: LeaderCreated, leaderWorkerTemplate: {size: 4}}
""")


def changed(item: Object, **spec: Any) -> Object:
    return item | {"spec": item["spec"] | spec}


def lws_pod(worker: int, **more: Any) -> Object:
    prefix = "leaderworkerset.sigs.k8s.io/"
    labels = {prefix + "name": "vllm", prefix + "group-index": "2", prefix + "worker-index": str(worker)}
    return pod(f"vllm-2-{worker}", labels=labels, owner=STATEFUL_SET, **more)


def of_job(owner: Object, **more: Any) -> Object:
    return pod("p", owner=owner, **more)


@dataclass(frozen=True)
class Case:
    pod: Object
    items: tuple[Object, ...]
    kind: str
    name: str
    size: int
    least: int
    remakes: bool = False
    parts: tuple[Part, ...] = ()


LAUNCHER_JOB = read("{apiVersion: batch/v1, kind: Job, metadata: {name: hvd-launcher}}")
LAUNCHER_JOB["metadata"]["ownerReferences"] = [
    {
        "apiVersion": "kubeflow.org/v2beta1",
        "kind": "MPIJob",
        "name": "hvd",
        "uid": "uid-of-MPIJob-hvd",
        "controller": True,
    }
]
JOB_OF_JOBSET["metadata"] = {
    **JOB_OF_JOBSET["metadata"],
    "ownerReferences": [
        {
            "apiVersion": "jobset.x-k8s.io/v1alpha2",
            "kind": "JobSet",
            "name": "llm",
            "uid": "uid-of-JobSet-llm",
            "controller": True,
        }
    ],
}
OF_RAY_JOB = read("{apiVersion: ray.io/v1, kind: RayCluster, metadata: {name: tune}}") | {"spec": RAY["spec"]}
OF_RAY_JOB["metadata"]["ownerReferences"] = [
    {"apiVersion": "ray.io/v1", "kind": "RayJob", "name": "j", "controller": True}
]
IN_ORDER = changed(JOBSET, startupPolicy={"startupPolicyOrder": "InOrder"})
LAUNCHER_LATER = changed(MPI, launcherCreationPolicy="WaitForWorkersReady")
MPI_PARTS = (Part("launcher", 1), Part("worker", 4))
RJ = "jobset.sigs.k8s.io/replicatedjob-name"
OLDEST = "pod-group.scheduling.sigs.k8s.io"
RT = "training.kubeflow.org/replica-type"

CASES = {
    "bare pod": Case(pod("p"), (), "Pod", "p", 1, 1),
    "Deployment": Case(of_job(REPLICA_SET), (), "Pod", "p", 1, 1, remakes=True),
    "StatefulSet": Case(of_job(STATEFUL_SET), (), "Pod", "p", 1, 1, remakes=True),
    "owner we do not know": Case(
        of_job(read("{apiVersion: argoproj.io/v1alpha1, kind: Workflow, metadata: {name: w}}")), (), "Pod", "p", 1, 1
    ),
    "native": Case(pod("p", schedulingGroup={"podGroupName": "g"}), (NATIVE,), "PodGroup", "g", 4, 4),
    "native, not a gang": Case(pod("p", schedulingGroup={"podGroupName": "g"}), (BASIC,), "Pod", "p", 1, 1),
    "coscheduling": Case(
        pod("p", labels={"scheduling.x-k8s.io/pod-group": "g"}, owner=REPLICA_SET),
        (COSCHEDULING,),
        "PodGroup",
        "g",
        3,
        3,
        remakes=True,
    ),
    "old coscheduling": Case(pod("p", labels={"pod-group.scheduling.sigs.k8s.io": "g"}), (OLD,), "PodGroup", "g", 5, 5),
    "old label, new object": Case(
        pod("p", labels={"pod-group.scheduling.sigs.k8s.io": "g"}), (COSCHEDULING,), "PodGroup", "g", 3, 3
    ),
    "oldest coscheduling": Case(
        pod("p", labels={f"{OLDEST}/name": "g", f"{OLDEST}/min-available": "3"}),
        (),
        "pod-group.scheduling.sigs.k8s.io/name",
        "g",
        3,
        3,
    ),
    "Volcano": Case(
        pod("p", annotations={"scheduling.k8s.io/group-name": "g"}),
        (VOLCANO,),
        "PodGroup",
        "g",
        3,
        3,
        parts=(Part("ps", 1), Part("worker", 2)),
    ),
    "Volcano, its own name": Case(
        pod("p", annotations={"scheduling.volcano.sh/group-name": "g"}), (VOLCANO_SOME,), "PodGroup", "g", 2, 2
    ),
    "Kueue": Case(
        pod(
            "p",
            labels={"kueue.x-k8s.io/pod-group-name": "g"},
            annotations={"kueue.x-k8s.io/pod-group-total-count": "8"},
        ),
        (),
        "kueue.x-k8s.io/pod-group-name",
        "g",
        8,
        8,
    ),
    "Kueue, a service": Case(
        pod(
            "p",
            labels={"kueue.x-k8s.io/pod-group-name": "g"},
            owner=STATEFUL_SET,
            annotations={"kueue.x-k8s.io/pod-group-total-count": "8", "kueue.x-k8s.io/pod-group-serving": "true"},
        ),
        (),
        "Pod",
        "p",
        1,
        1,
        remakes=True,
    ),
    "KAI": Case(pod("p", annotations={"pod-group-name": "g"}), (KAI,), "PodGroup", "g", 6, 6),
    "KAI, sub-groups": Case(pod("p", annotations={"pod-group-name": "g"}), (KAI_PARTS,), "PodGroup", "g", 5, 5),
    "ours": Case(
        pod("p", annotations={"gpusquad.io/group": "g", "gpusquad.io/group-size": "2"}),
        (),
        "gpusquad.io/group",
        "g",
        2,
        2,
    ),
    "ours, as labels": Case(
        pod("p", labels={"gpusquad.io/group": "g", "gpusquad.io/group-size": "2"}), (), "gpusquad.io/group", "g", 2, 2
    ),
    "Indexed job": Case(of_job(INDEXED), (INDEXED,), "Job", "train", 4, 4, remakes=True),
    "list of work": Case(
        of_job(batch_job({"completions": 9, "parallelism": 3})),
        (batch_job({"completions": 9, "parallelism": 3}),),
        "Pod",
        "p",
        1,
        1,
        remakes=True,
    ),
    "Indexed list of work": Case(of_job(INDEXED), (changed(INDEXED, parallelism=2),), "Pod", "p", 1, 1, remakes=True),
    "job of one pod": Case(
        of_job(INDEXED), (batch_job({"completions": 1, "parallelism": 1}),), "Job", "train", 1, 1, True
    ),
    "work queue": Case(of_job(INDEXED), (batch_job({"parallelism": 3}),), "Pod", "p", 1, 1, remakes=True),
    "work queue that is a gang": Case(
        of_job(INDEXED, annotations={"gpusquad.io/gang": "true"}),
        (batch_job({"parallelism": 3}),),
        "Job",
        "train",
        3,
        3,
        True,
    ),
    "Indexed job half done": Case(
        of_job(INDEXED), (INDEXED | {"status": {"succeeded": 1, "failedIndexes": "0,2-2"}},), "Job", "train", 1, 1, True
    ),
    "Indexed job that fails for good": Case(of_job(INDEXED), (changed(INDEXED, backoffLimit=0),), "Job", "train", 4, 4),
    "Indexed job with few failures left": Case(
        of_job(INDEXED), (INDEXED | {"status": {"failed": 3}},), "Job", "train", 4, 4, remakes=False
    ),
    "Indexed job that ignores disruption": Case(
        of_job(INDEXED),
        (
            changed(
                INDEXED,
                backoffLimit=0,
                podFailurePolicy={"rules": [{"action": "Ignore", "onPodConditions": [{"type": "DisruptionTarget"}]}]},
            ),
        ),
        "Job",
        "train",
        4,
        4,
        remakes=True,
    ),
    "Indexed job that counts by index": Case(
        of_job(INDEXED), (changed(INDEXED, backoffLimitPerIndex=1),), "Job", "train", 4, 4, remakes=True
    ),
    "JobSet": Case(
        of_job(JOB_OF_JOBSET, labels={RJ: "workers"}),
        (JOB_OF_JOBSET, JOBSET),
        "JobSet",
        "llm",
        9,
        9,
        remakes=True,
        parts=(Part("driver", 1), Part("workers", 8)),
    ),
    "JobSet in order": Case(
        of_job(JOB_OF_JOBSET, labels={RJ: "workers"}),
        (JOB_OF_JOBSET, IN_ORDER),
        "JobSet",
        "llm/workers",
        8,
        8,
        remakes=True,
        parts=(Part("workers", 8),),
    ),
    "JobSet without restarts": Case(
        of_job(JOB_OF_JOBSET, labels={RJ: "workers"}),
        (JOB_OF_JOBSET, JOBSET | {"status": {"restarts": 3}}),
        "JobSet",
        "llm",
        9,
        9,
        parts=(Part("driver", 1), Part("workers", 8)),
    ),
    "JobSet with a job done": Case(
        of_job(JOB_OF_JOBSET, labels={RJ: "workers"}),
        (JOB_OF_JOBSET, JOBSET | {"status": {"replicatedJobsStatus": [{"name": "workers", "succeeded": 1}]}}),
        "JobSet",
        "llm",
        5,
        5,
        remakes=True,
        parts=(Part("driver", 1), Part("workers", 4)),
    ),
    "PyTorchJob": Case(
        of_job(PYTORCH),
        (PYTORCH,),
        "PyTorchJob",
        "bert",
        8,
        8,
        remakes=True,
        parts=(Part("master", 1), Part("worker", 7)),
    ),
    "PyTorchJob, fewer will do": Case(
        of_job(PYTORCH),
        (changed(PYTORCH, runPolicy={"schedulingPolicy": {"minAvailable": 3}}),),
        "PyTorchJob",
        "bert",
        8,
        3,
        remakes=True,
        parts=(Part("master", 1), Part("worker", 2)),
    ),
    "PyTorchJob, elastic": Case(
        of_job(PYTORCH),
        (changed(PYTORCH, elasticPolicy={"minReplicas": 2, "maxReplicas": 7}),),
        "PyTorchJob",
        "bert",
        8,
        3,
        remakes=True,
        parts=(Part("master", 1), Part("worker", 2)),
    ),
    "PyTorchJob, some done": Case(
        of_job(PYTORCH),
        (PYTORCH | {"status": {"replicaStatuses": {"Worker": {"succeeded": 2}}}},),
        "PyTorchJob",
        "bert",
        6,
        6,
        remakes=True,
        parts=(Part("master", 1), Part("worker", 5)),
    ),
    "MPIJob worker": Case(of_job(MPI), (MPI,), "MPIJob", "hvd", 5, 5, parts=MPI_PARTS),
    "MPIJob launcher": Case(of_job(LAUNCHER_JOB), (LAUNCHER_JOB, MPI), "MPIJob", "hvd", 5, 5, parts=MPI_PARTS),
    "MPIJob whose launcher comes later": Case(
        of_job(MPI, labels={RT: "worker"}), (LAUNCHER_LATER,), "MPIJob", "hvd", 4, 4, parts=MPI_PARTS[1:]
    ),
    "launcher that comes later": Case(
        of_job(LAUNCHER_JOB, labels={RT: "launcher"}), (LAUNCHER_JOB, LAUNCHER_LATER), "Pod", "p", 1, 1
    ),
    "RayCluster": Case(
        of_job(RAY),
        (RAY,),
        "RayCluster",
        "tune",
        8,
        8,
        remakes=True,
        parts=(Part("head", 1), Part("big", 3), Part("small", 4)),
    ),
    "RayCluster that scales": Case(
        of_job(RAY),
        (changed(RAY, enableInTreeAutoscaling=True),),
        "RayCluster",
        "tune",
        8,
        2,
        remakes=True,
        parts=(Part("head", 1), Part("big", 1)),
    ),
    "RayCluster of a RayJob": Case(
        of_job(OF_RAY_JOB),
        (OF_RAY_JOB,),
        "RayCluster",
        "tune",
        8,
        8,
        parts=(Part("head", 1), Part("big", 3), Part("small", 4)),
    ),
    "LeaderWorkerSet": Case(
        lws_pod(3),
        (LWS,),
        "LeaderWorkerSet",
        "vllm/2",
        4,
        4,
        remakes=True,
        parts=(Part("leader", 1), Part("worker", 3)),
    ),
    "leader that comes first": Case(
        lws_pod(0), (changed(LWS, startupPolicy="LeaderReady"),), "Pod", "vllm-2-0", 1, 1, True
    ),
    "workers that come later": Case(
        lws_pod(1),
        (changed(LWS, startupPolicy="LeaderReady"),),
        "LeaderWorkerSet",
        "vllm/2",
        3,
        3,
        remakes=True,
        parts=(Part("worker", 3),),
    ),
    "native before all others": Case(
        pod("p", schedulingGroup={"podGroupName": "g"}, labels={"scheduling.x-k8s.io/pod-group": "g"}, owner=INDEXED),
        (NATIVE, COSCHEDULING, INDEXED),
        "PodGroup",
        "g",
        4,
        4,
        remakes=True,
    ),
    "a group before the owner": Case(
        of_job(INDEXED, annotations={"gpusquad.io/group": "g", "gpusquad.io/group-size": "2"}),
        (INDEXED,),
        "gpusquad.io/group",
        "g",
        2,
        2,
        remakes=True,
    ),
    "a pod that wants no gang": Case(
        of_job(INDEXED, annotations={"gpusquad.io/gang": "false"}), (INDEXED,), "Pod", "p", 1, 1, remakes=True
    ),
}


@pytest.mark.parametrize("name", CASES)
def test_conventions(name: str):
    case = CASES[name]
    found = membership_of(case.pod, finder(*case.items))
    assert (found.key.kind, found.key.namespace, found.key.name) == (case.kind, "team", case.name)
    assert (found.size, found.least, found.remakes, found.parts) == (case.size, case.least, case.remakes, case.parts)
    assert not found.waits_for
    assert found.key.uid


@pytest.mark.parametrize("owner", [INDEXED, PYTORCH, RAY, JOBSET])
def test_an_owner_that_wants_no_gang(owner: Object):
    told = owner | {"metadata": owner["metadata"] | {"annotations": {"gpusquad.io/gang": "false"}}}
    assert membership_of(of_job(told), finder(told)).key == GroupKey("Pod", "team", "p", "uid-of-p")


def test_a_set_that_wants_no_gang():
    told = LWS | {"metadata": LWS["metadata"] | {"annotations": {"gpusquad.io/gang": "false"}}}
    assert membership_of(lws_pod(1), finder(told)).least == 1


def test_a_group_that_is_not_known_yet_is_waited_for():
    found = membership_of(pod("p", schedulingGroup={"podGroupName": "g"}), nothing_known)
    assert found == Membership(
        GroupKey("PodGroup", "team", "g", ""), None, 1, False, waits_for="PodGroup team/g is being looked up"
    )
    found = membership_of(of_job(INDEXED), nothing_known)
    assert (found.size, found.waits_for) == (None, "Job team/train is being looked up")


def test_a_group_that_is_not_there_is_waited_for():
    found = membership_of(pod("p", labels={"scheduling.x-k8s.io/pod-group": "g"}), nothing_there)
    assert (found.size, found.waits_for) == (None, "PodGroup team/g of scheduling.x-k8s.io does not exist")


def test_another_owner_of_the_same_name_is_not_the_owner():
    other = INDEXED | {"metadata": INDEXED["metadata"] | {"uid": "another"}}
    found = membership_of(of_job(INDEXED), finder(other))
    assert (found.size, found.waits_for) == (None, "Job team/train is not the one that made the pod")


def test_an_owner_of_itself_ends_the_search():
    own = batch_job({"completions": 1})
    own["metadata"] = own["metadata"] | {"ownerReferences": [{**OWN_REFERENCE, "uid": own["metadata"]["uid"]}]}
    assert membership_of(of_job(own), finder(own)).key.kind == "Job"


OWN_REFERENCE = {"apiVersion": "batch/v1", "kind": "Job", "name": "train", "controller": True}


def test_what_a_group_says_and_its_priority_go_along():
    assert membership_of(pod("p", schedulingGroup={"podGroupName": "g"}), finder(NATIVE)).priority == 7
    found = membership_of(of_job(JOB_OF_JOBSET), finder(JOB_OF_JOBSET, JOBSET))
    assert found.said == (("gpusquad.io/estimate", "2h"),)
    assert found.owner_uid == "uid-of-Job-train"
    single = by_itself(found, of_job(JOB_OF_JOBSET))
    assert (single.key.uid, single.least, single.remakes, single.said) == ("uid-of-p", 1, True, found.said)


@pytest.mark.parametrize(
    ("item", "others"),
    [
        (pod("p", annotations={"gpusquad.io/group": "g"}), ()),
        (pod("p", annotations={"gpusquad.io/group": "g", "gpusquad.io/group-size": "0"}), ()),
        (pod("p", annotations={"gpusquad.io/group": "g", "gpusquad.io/group-size": "100001"}), ()),
        (pod("p", annotations={"gpusquad.io/group": "g", "gpusquad.io/group-size": "4.0"}), ()),
        (pod("p", annotations={"gpusquad.io/group": "g" * 300, "gpusquad.io/group-size": "4"}), ()),
        (pod("p", annotations={"gpusquad.io/gang": "yes"}), ()),
        (pod("p", annotations={"pod-group-name": "../secrets/x"}), ()),
        (pod("p", labels={"scheduling.x-k8s.io/pod-group": "G"}), ()),
        (pod("p", labels={"kueue.x-k8s.io/pod-group-name": "g"}), ()),
        (of_job(INDEXED), (batch_job({"parallelism": "many"}),)),
        (of_job(INDEXED), (batch_job({"parallelism": 10**9}),)),
        (of_job(RAY), (changed(RAY, workerGroupSpecs=[{"groupName": "a", "replicas": -1}]),)),
        (
            pod("p", annotations={"pod-group-name": "g"}),
            (pod_group("scheduling.run.ai/v2alpha2", {"minMember": True}),),
        ),
    ],
)
def test_what_cannot_be_read_is_malformed(item: Object, others: tuple[Object, ...]):
    with pytest.raises(Malformed):
        membership_of(item, finder(*others))


BIG = {"groupName": "a", "replicas": 90_000, "numOfHosts": 90_000}


@pytest.mark.parametrize(
    ("item", "other", "words"),
    [
        (
            pod("p", schedulingGroup={"podGroupName": "g"}),
            changed(NATIVE, schedulingConstraints={"topology": [{"key": "rack"}]}),
            "topology",
        ),
        (
            pod("p", schedulingGroup={"podGroupName": "g"}),
            changed(NATIVE, parentCompositePodGroupName="x"),
            "groups of",
        ),
        (
            pod("p", annotations={"pod-group-name": "g"}),
            changed(KAI, topologyConstraint={"requiredTopologyLevel": "r"}),
            "top",
        ),
        (
            pod("p", annotations={"scheduling.k8s.io/group-name": "g"}),
            changed(VOLCANO, networkTopology={"mode": "hard"}),
            "hard",
        ),
        (
            of_job(INDEXED, annotations={"gpusquad.io/gang": "true"}),
            changed(INDEXED, parallelism=2),
            "set parallelism to completions",
        ),
        (of_job(RAY), changed(RAY, workerGroupSpecs=[BIG]), "100000"),
    ],
)
def test_what_cannot_be_honoured_is_refused(item: Object, other: Object, words: str):
    with pytest.raises(Unsupported, match=words):
        membership_of(item, finder(other))


def test_whatever_is_looked_up_is_in_the_table():
    asked: set[tuple[str, str]] = set()

    def remember(group: str, kind: str, namespace: str, name: str) -> Object | Unknown | None:
        asked.add((group, kind))
        return finder(*items)(group, kind, namespace, name)

    for case in CASES.values():
        items = case.items
        membership_of(case.pod, remember)
    assert asked <= {(lookup.group, lookup.kind) for lookup in LOOKUPS}
    assert len({(lookup.group, lookup.plural) for lookup in LOOKUPS}) == len(LOOKUPS)
    assert all(lookup.versions for lookup in LOOKUPS)
