"""Pods that belong together because of who made them, or do not."""

from __future__ import annotations

from gpusquad.engines.kubernetes.parse.groups import RoleSize
from tests.engines.kubernetes.parse.conventions.case import Case
from tests.engines.kubernetes.parse.conventions.objects import (
    INDEXED,
    JOB_OF_JOBSET,
    JOBSET,
    LAUNCHER_JOB,
    LWS,
    MPI,
    OF_RAY_JOB,
    PYTORCH,
    RAY,
    REPLICA_SET,
    STATEFUL_SET,
    batch_job,
    changed,
    lws_pod,
    of_job,
)
from tests.engines.kubernetes.parse.making import pod, read

IN_ORDER = changed(JOBSET, startupPolicy={"startupPolicyOrder": "InOrder"})
LAUNCHER_LATER = changed(MPI, launcherCreationPolicy="WaitForWorkersReady")
MPI_PARTS = (RoleSize("launcher", 1), RoleSize("worker", 4))
RJ = "jobset.sigs.k8s.io/replicatedjob-name"
RT = "training.kubeflow.org/replica-type"

BY_OWNER = {
    "bare pod": Case(pod("p"), (), "Pod", "p", 1, 1),
    "Deployment": Case(of_job(REPLICA_SET), (), "Pod", "p", 1, 1, recreates=True),
    "StatefulSet": Case(of_job(STATEFUL_SET), (), "Pod", "p", 1, 1, recreates=True),
    "owner we do not know": Case(
        of_job(read("{apiVersion: argoproj.io/v1alpha1, kind: Workflow, metadata: {name: w}}")), (), "Pod", "p", 1, 1
    ),
    "Indexed job": Case(of_job(INDEXED), (INDEXED,), "Job", "train", 4, 4, recreates=True),
    "list of work": Case(
        of_job(batch_job({"completions": 9, "parallelism": 3})),
        (batch_job({"completions": 9, "parallelism": 3}),),
        "Pod",
        "p",
        1,
        1,
        recreates=True,
    ),
    "Indexed list of work": Case(of_job(INDEXED), (changed(INDEXED, parallelism=2),), "Pod", "p", 1, 1, recreates=True),
    "job of one pod": Case(
        of_job(INDEXED), (batch_job({"completions": 1, "parallelism": 1}),), "Job", "train", 1, 1, True
    ),
    "work queue": Case(of_job(INDEXED), (batch_job({"parallelism": 3}),), "Pod", "p", 1, 1, recreates=True),
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
        of_job(INDEXED), (INDEXED | {"status": {"failed": 3}},), "Job", "train", 4, 4, recreates=False
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
        recreates=True,
    ),
    "Indexed job that counts by index": Case(
        of_job(INDEXED), (changed(INDEXED, backoffLimitPerIndex=1),), "Job", "train", 4, 4, recreates=True
    ),
    "JobSet": Case(
        of_job(JOB_OF_JOBSET, labels={RJ: "workers"}),
        (JOB_OF_JOBSET, JOBSET),
        "JobSet",
        "llm",
        9,
        9,
        recreates=True,
        parts=(RoleSize("driver", 1), RoleSize("workers", 8)),
    ),
    "JobSet in order": Case(
        of_job(JOB_OF_JOBSET, labels={RJ: "workers"}),
        (JOB_OF_JOBSET, IN_ORDER),
        "JobSet",
        "llm/workers",
        8,
        8,
        recreates=True,
        parts=(RoleSize("workers", 8),),
    ),
    "JobSet without restarts": Case(
        of_job(JOB_OF_JOBSET, labels={RJ: "workers"}),
        (JOB_OF_JOBSET, JOBSET | {"status": {"restarts": 3}}),
        "JobSet",
        "llm",
        9,
        9,
        parts=(RoleSize("driver", 1), RoleSize("workers", 8)),
    ),
    "JobSet with a job done": Case(
        of_job(JOB_OF_JOBSET, labels={RJ: "workers"}),
        (JOB_OF_JOBSET, JOBSET | {"status": {"replicatedJobsStatus": [{"name": "workers", "succeeded": 1}]}}),
        "JobSet",
        "llm",
        5,
        5,
        recreates=True,
        parts=(RoleSize("driver", 1), RoleSize("workers", 4)),
    ),
    "PyTorchJob": Case(
        of_job(PYTORCH),
        (PYTORCH,),
        "PyTorchJob",
        "bert",
        8,
        8,
        recreates=True,
        parts=(RoleSize("master", 1), RoleSize("worker", 7)),
    ),
    "PyTorchJob, fewer will do": Case(
        of_job(PYTORCH),
        (changed(PYTORCH, runPolicy={"schedulingPolicy": {"minAvailable": 3}}),),
        "PyTorchJob",
        "bert",
        8,
        3,
        recreates=True,
        parts=(RoleSize("master", 1), RoleSize("worker", 2)),
    ),
    "PyTorchJob, elastic": Case(
        of_job(PYTORCH),
        (changed(PYTORCH, elasticPolicy={"minReplicas": 2, "maxReplicas": 7}),),
        "PyTorchJob",
        "bert",
        8,
        3,
        recreates=True,
        parts=(RoleSize("master", 1), RoleSize("worker", 2)),
    ),
    "PyTorchJob, some done": Case(
        of_job(PYTORCH),
        (PYTORCH | {"status": {"replicaStatuses": {"Worker": {"succeeded": 2}}}},),
        "PyTorchJob",
        "bert",
        6,
        6,
        recreates=True,
        parts=(RoleSize("master", 1), RoleSize("worker", 5)),
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
        recreates=True,
        parts=(RoleSize("head", 1), RoleSize("big", 3), RoleSize("small", 4)),
    ),
    "RayCluster that scales": Case(
        of_job(RAY),
        (changed(RAY, enableInTreeAutoscaling=True),),
        "RayCluster",
        "tune",
        8,
        2,
        recreates=True,
        parts=(RoleSize("head", 1), RoleSize("big", 1)),
    ),
    "RayCluster of a RayJob": Case(
        of_job(OF_RAY_JOB),
        (OF_RAY_JOB,),
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
        lws_pod(0), (changed(LWS, startupPolicy="LeaderReady"),), "Pod", "vllm-2-0", 1, 1, True
    ),
    "workers that come later": Case(
        lws_pod(1),
        (changed(LWS, startupPolicy="LeaderReady"),),
        "LeaderWorkerSet",
        "vllm/2",
        3,
        3,
        recreates=True,
        parts=(RoleSize("worker", 3),),
    ),
}
