"""Groups and owners of pods, as users write them."""

from __future__ import annotations

from typing import Any

from gpusquad.kube.objects import Object
from tests.engines.kubernetes.parse.builders import pod, read


def pod_group(api_version: str, spec: Object, name: str = "g") -> Object:
    return read(f"{{apiVersion: {api_version}, kind: PodGroup, metadata: {{name: {name}}}}}") | {"spec": spec}


def batch_job(spec: Object, **more: Any) -> Object:
    return read("{apiVersion: batch/v1, kind: Job, metadata: {name: train}}") | {"spec": spec} | more


def with_spec(item: Object, **spec: Any) -> Object:
    return item | {"spec": item["spec"] | spec}


REPLICA_SET = read("{apiVersion: apps/v1, kind: ReplicaSet, metadata: {name: web}}")
STATEFUL_SET = read("{apiVersion: apps/v1, kind: StatefulSet, metadata: {name: db}}")
NATIVE = pod_group("scheduling.k8s.io/v1beta1", {"schedulingPolicy": {"gang": {"minCount": 4}}, "priority": 7})
BASIC = pod_group("scheduling.k8s.io/v1beta1", {"schedulingPolicy": {"basic": {}}})
COSCHEDULING = pod_group("scheduling.x-k8s.io/v1alpha1", {"minMember": 3, "scheduleTimeoutSeconds": 10})
OLD = pod_group("scheduling.sigs.k8s.io/v1alpha1", {"minMember": 5})
VOLCANO = pod_group(
    "scheduling.volcano.sh/v1beta1", {"minMember": 3, "minTaskMember": {"worker": 2, "ps": 1}, "queue": "q"}
)
VOLCANO_PARTIAL = pod_group("scheduling.volcano.sh/v1beta1", {"minMember": 2, "minTaskMember": {"worker": 4}})
KAI = pod_group("scheduling.run.ai/v2alpha2", {"minMember": 6, "queue": "q"})
KAI_SUBGROUPS = pod_group(
    "scheduling.run.ai/v2alpha2", {"subGroups": [{"name": "a", "minMember": 2}, {"minMember": 3}]}
)
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
RAY_OF_JOB = read("{apiVersion: ray.io/v1, kind: RayCluster, metadata: {name: tune}}") | {"spec": RAY["spec"]}
RAY_OF_JOB["metadata"]["ownerReferences"] = [
    {"apiVersion": "ray.io/v1", "kind": "RayJob", "name": "j", "controller": True}
]
LWS = read("""
apiVersion: leaderworkerset.x-k8s.io/v1
kind: LeaderWorkerSet
metadata: {name: vllm}
spec: {replicas: 3, startupPolicy: LeaderCreated, leaderWorkerTemplate: {size: 4}}
""")


def lws_pod(worker: int, **more: Any) -> Object:
    prefix = "leaderworkerset.sigs.k8s.io/"
    labels = {prefix + "name": "vllm", prefix + "group-index": "2", prefix + "worker-index": str(worker)}
    return pod(f"vllm-2-{worker}", labels=labels, owner=STATEFUL_SET, **more)


def pod_of(owner: Object, **more: Any) -> Object:
    return pod("p", owner=owner, **more)
