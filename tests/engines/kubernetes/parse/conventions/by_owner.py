"""Cases of pods that are grouped by their owner, or not."""

from __future__ import annotations

from gpusquad.engines.kubernetes.parse.groups import RoleSize
from tests.engines.kubernetes.parse.builders import pod, read
from tests.engines.kubernetes.parse.conventions.case import Case
from tests.engines.kubernetes.parse.conventions.objects import (
    INDEXED,
    JOB_OF_JOBSET,
    JOBSET,
    LAUNCHER_JOB,
    LWS,
    MPI,
    PYTORCH,
    RAY,
    RAY_OF_JOB,
    REPLICA_SET,
    STATEFUL_SET,
    batch_job,
    lws_pod,
    pod_of,
    with_spec,
)

IN_ORDER = with_spec(JOBSET, startupPolicy={"startupPolicyOrder": "InOrder"})
LAUNCHER_LATER = with_spec(MPI, launcherCreationPolicy="WaitForWorkersReady")
MPI_ROLES = (RoleSize("launcher", 1), RoleSize("worker", 4))
REPLICATED_JOB = "jobset.sigs.k8s.io/replicatedjob-name"
REPLICA_TYPE = "training.kubeflow.org/replica-type"

BY_OWNER = {
    "bare pod": Case(pod("p"), (), "Pod", "p", 1, 1),
    "Deployment": Case(pod_of(REPLICA_SET), (), "Pod", "p", 1, 1, recreates=True),
    "StatefulSet": Case(pod_of(STATEFUL_SET), (), "Pod", "p", 1, 1, recreates=True),
    "unknown owner": Case(
        pod_of(read("{apiVersion: argoproj.io/v1alpha1, kind: Workflow, metadata: {name: w}}")), (), "Pod", "p", 1, 1
    ),
    "Indexed job": Case(pod_of(INDEXED), (INDEXED,), "Job", "train", 4, 4, recreates=True),
    "job with fewer pods than completions": Case(
        pod_of(batch_job({"completions": 9, "parallelism": 3})),
        (batch_job({"completions": 9, "parallelism": 3}),),
        "Pod",
        "p",
        1,
        1,
        recreates=True,
    ),
    "Indexed job with fewer pods than completions": Case(
        pod_of(INDEXED), (with_spec(INDEXED, parallelism=2),), "Pod", "p", 1, 1, recreates=True
    ),
    "job of one pod": Case(
        pod_of(INDEXED), (batch_job({"completions": 1, "parallelism": 1}),), "Job", "train", 1, 1, True
    ),
    "work queue": Case(pod_of(INDEXED), (batch_job({"parallelism": 3}),), "Pod", "p", 1, 1, recreates=True),
    "work queue that is a gang": Case(
        pod_of(INDEXED, annotations={"gpusquad.io/gang": "true"}),
        (batch_job({"parallelism": 3}),),
        "Job",
        "train",
        3,
        3,
        True,
    ),
    "Indexed job half done": Case(
        pod_of(INDEXED), (INDEXED | {"status": {"succeeded": 1, "failedIndexes": "0,2-2"}},), "Job", "train", 1, 1, True
    ),
    "Indexed job that fails for good": Case(
        pod_of(INDEXED), (with_spec(INDEXED, backoffLimit=0),), "Job", "train", 4, 4
    ),
    "Indexed job with few failures left": Case(
        pod_of(INDEXED), (INDEXED | {"status": {"failed": 3}},), "Job", "train", 4, 4, recreates=False
    ),
    "Indexed job that ignores disruption": Case(
        pod_of(INDEXED),
        (
            with_spec(
                INDEXED,
                backoffLimit=0,
                podFailurePolicy={"rules": [{"action": "Ignore", "onPodConditions": [{"type": "DisruptionTarget"}]}]},
            ),
        ),
        "Job",
        "train",
        4,
        4,
        recreates=True,
    ),
    "Indexed job that counts by index": Case(
        pod_of(INDEXED), (with_spec(INDEXED, backoffLimitPerIndex=1),), "Job", "train", 4, 4, recreates=True
    ),
    "JobSet": Case(
        pod_of(JOB_OF_JOBSET, labels={REPLICATED_JOB: "workers"}),
        (JOB_OF_JOBSET, JOBSET),
        "JobSet",
        "llm",
        9,
        9,
        recreates=True,
        parts=(RoleSize("driver", 1), RoleSize("workers", 8)),
    ),
    "JobSet in order": Case(
        pod_of(JOB_OF_JOBSET, labels={REPLICATED_JOB: "workers"}),
        (JOB_OF_JOBSET, IN_ORDER),
        "JobSet",
        "llm/workers",
        8,
        8,
        recreates=True,
        parts=(RoleSize("workers", 8),),
    ),
    "JobSet without restarts": Case(
        pod_of(JOB_OF_JOBSET, labels={REPLICATED_JOB: "workers"}),
        (JOB_OF_JOBSET, JOBSET | {"status": {"restarts": 3}}),
        "JobSet",
        "llm",
        9,
        9,
        parts=(RoleSize("driver", 1), RoleSize("workers", 8)),
    ),
    "JobSet with a job done": Case(
        pod_of(JOB_OF_JOBSET, labels={REPLICATED_JOB: "workers"}),
        (JOB_OF_JOBSET, JOBSET | {"status": {"replicatedJobsStatus": [{"name": "workers", "succeeded": 1}]}}),
        "JobSet",
        "llm",
        5,
        5,
        recreates=True,
        parts=(RoleSize("driver", 1), RoleSize("workers", 4)),
    ),
    "PyTorchJob": Case(
        pod_of(PYTORCH),
        (PYTORCH,),
        "PyTorchJob",
        "bert",
        8,
        8,
        recreates=True,
        parts=(RoleSize("master", 1), RoleSize("worker", 7)),
    ),
    "PyTorchJob with minAvailable": Case(
        pod_of(PYTORCH),
        (with_spec(PYTORCH, runPolicy={"schedulingPolicy": {"minAvailable": 3}}),),
        "PyTorchJob",
        "bert",
        8,
        3,
        recreates=True,
        parts=(RoleSize("master", 1), RoleSize("worker", 2)),
    ),
    "PyTorchJob, elastic": Case(
        pod_of(PYTORCH),
        (with_spec(PYTORCH, elasticPolicy={"minReplicas": 2, "maxReplicas": 7}),),
        "PyTorchJob",
        "bert",
        8,
        3,
        recreates=True,
        parts=(RoleSize("master", 1), RoleSize("worker", 2)),
    ),
    "PyTorchJob, some done": Case(
        pod_of(PYTORCH),
        (PYTORCH | {"status": {"replicaStatuses": {"Worker": {"succeeded": 2}}}},),
        "PyTorchJob",
        "bert",
        6,
        6,
        recreates=True,
        parts=(RoleSize("master", 1), RoleSize("worker", 5)),
    ),
    "MPIJob worker": Case(pod_of(MPI), (MPI,), "MPIJob", "hvd", 5, 5, parts=MPI_ROLES),
    "MPIJob launcher": Case(pod_of(LAUNCHER_JOB), (LAUNCHER_JOB, MPI), "MPIJob", "hvd", 5, 5, parts=MPI_ROLES),
    "MPIJob whose launcher comes later": Case(
        pod_of(MPI, labels={REPLICA_TYPE: "worker"}), (LAUNCHER_LATER,), "MPIJob", "hvd", 4, 4, parts=MPI_ROLES[1:]
    ),
    "launcher that comes later": Case(
        pod_of(LAUNCHER_JOB, labels={REPLICA_TYPE: "launcher"}), (LAUNCHER_JOB, LAUNCHER_LATER), "Pod", "p", 1, 1
    ),
    "RayCluster": Case(
        pod_of(RAY),
        (RAY,),
        "RayCluster",
        "tune",
        8,
        8,
        recreates=True,
        parts=(RoleSize("head", 1), RoleSize("big", 3), RoleSize("small", 4)),
    ),
    "RayCluster that scales": Case(
        pod_of(RAY),
        (with_spec(RAY, enableInTreeAutoscaling=True),),
        "RayCluster",
        "tune",
        8,
        2,
        recreates=True,
        parts=(RoleSize("head", 1), RoleSize("big", 1)),
    ),
    "RayCluster of a RayJob": Case(
        pod_of(RAY_OF_JOB),
        (RAY_OF_JOB,),
        "RayCluster",
        "tune",
        8,
        8,
        parts=(RoleSize("head", 1), RoleSize("big", 3), RoleSize("small", 4)),
    ),
    "LeaderWorkerSet": Case(
        lws_pod(3),
        (LWS,),
        "LeaderWorkerSet",
        "vllm/2",
        4,
        4,
        recreates=True,
        parts=(RoleSize("leader", 1), RoleSize("worker", 3)),
    ),
    "leader that comes first": Case(
        lws_pod(0), (with_spec(LWS, startupPolicy="LeaderReady"),), "Pod", "vllm-2-0", 1, 1, True
    ),
    "workers that come later": Case(
        lws_pod(1),
        (with_spec(LWS, startupPolicy="LeaderReady"),),
        "LeaderWorkerSet",
        "vllm/2",
        3,
        3,
        recreates=True,
        parts=(RoleSize("worker", 3),),
    ),
}
