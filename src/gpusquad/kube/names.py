"""Names of resources, annotations and labels that the scheduler and the agent read or write."""

from __future__ import annotations

SCHEDULER = "gpusquad"
"""``spec.schedulerName`` of the pods that gpusquad schedules, unless configured otherwise."""
PREFIX = "gpusquad.io/"

# Written by the scheduler and the agent.
CARDS = PREFIX + "cards"
"""On a pod: the cards of each container. On a node: the cards that the agent found."""
JOB = PREFIX + "job"
ATTEMPT = PREFIX + "attempt"
"""On a bound pod: the attempt of its job that it was bound for."""
SUBMISSION = PREFIX + "submission"
"""Distinguishes objects of a repeated submission from foreign objects of the same name."""
HOST_FILE = PREFIX + "hostfile"
MACHINE_FILE = PREFIX + "machinefile"
"""Content of the files with the hosts of its gang that a pod mounts."""
FIRST_RANK = PREFIX + "first-rank"
"""On pods that gpusquad created: the lowest rank of the pod's role. Roles are ordered by it."""
WEIGHT, DEADLINE = PREFIX + "weight", PREFIX + "deadline"
"""Weight of the pod's tenant, and deadline as a calendar time: only the scheduler knows when the job was submitted."""
MEASURED_RATES = PREFIX + "measured-rates"
"""Measured rates of the job, alone and beside neighbours on its cards, as known when the pod was bound."""
KNOWN = PREFIX + "known"
"""Deprecated name of ``MEASURED_RATES``. The scheduler writes it until every agent reads the new one."""
ANNOTATIONS_VERSION = 2
"""Version of the pod annotations that this agent reads. Agents report it with each card of ``CARDS``, where an older
agent would replace it. Without a number it is 1: such agents read ``KNOWN`` only."""
UNPINNED = PREFIX + "unpinned"
"""On a node: cards used by pods that have no ``gpusquad.io/cards``, as the agent found them."""
AGENT = PREFIX + "agent"
"""Pseudo resource. A node with an agent has plenty of it, other nodes none. A task that shares a card takes one."""

# Written by users.
GANG = PREFIX + "gang"
"""On a pod or its owner: ``"true"``, all its pods start together; ``"false"``, each pod is a job of its own."""
GROUP = PREFIX + "group"
GROUP_SIZE = PREFIX + "group-size"
INDEX = PREFIX + "index"
ROLE = PREFIX + "role"
RACK = PREFIX + "rack"
USER = PREFIX + "user"
QUEUE = PREFIX + "queue"
APP = PREFIX + "app"
LANE = PREFIX + "lane"
LIMIT = PREFIX + "limit"
PREEMPTIBLE = PREFIX + "preemptible"
CHECKPOINT_EVERY = PREFIX + "checkpoint-every"
PRIORITY = PREFIX + "priority"
"""Name of a gpusquad priority class. It takes precedence over the Kubernetes priority."""
ESTIMATE = PREFIX + "estimate"
SLO = PREFIX + "slo"
"""As on the command line: ``p99=20ms,throughput=100``. A deadline counts from the submission."""
ISOLATION = PREFIX + "isolation"
"""``shared`` or ``isolated``."""
GPU_MIN_MEMORY = PREFIX + "gpu-min-memory"
"""Least memory that a whole card must have."""

# Container resources.
GPU = "nvidia.com/gpu"
GPU_SHARED = "nvidia.com/gpu.shared"
"""One device slot of a card, without a quota. The device plugin's name for time-sliced GPUs."""
GPU_MEMORY = PREFIX + "gpu-memory"
GPU_MEMORY_PERCENT = PREFIX + "gpu-memory-percent"
GPU_SM_PERCENT = PREFIX + "gpu-sm-percent"
HAMI_MEMORY_MIB = "nvidia.com/gpumem"
HAMI_MEMORY_PERCENT = "nvidia.com/gpumem-percentage"
HAMI_SM_PERCENT = "nvidia.com/gpucores"
SHARE_RESOURCES = (
    GPU_MEMORY, GPU_MEMORY_PERCENT, GPU_SM_PERCENT, HAMI_MEMORY_MIB, HAMI_MEMORY_PERCENT, HAMI_SM_PERCENT,
)  # fmt: skip
"""Resources by which a container requests a share. Nodes have no capacity of them."""

# Labels of NVIDIA's feature discovery on nodes.
GPU_MODEL_LABEL = "nvidia.com/gpu.product"
GPU_MEMORY_LABEL = "nvidia.com/gpu.memory"

# HAMi's annotations on pods.
HAMI_USE_CARD = "nvidia.com/use-gpuuuid"
HAMI_USE_MODEL = "nvidia.com/use-gputype"
HAMI_AVOID_CARD = "nvidia.com/nouse-gpuuuid"
HAMI_AVOID_MODEL = "nvidia.com/nouse-gputype"
HAMI_NUMA_BIND = "nvidia.com/numa-bind"
HAMI_MODE = "nvidia.com/vgpu-mode"

# KAI's annotations on pods, one label, and the API group of its pod groups.
KAI_FRACTION = "gpu-fraction"
KAI_MEMORY_MIB = "gpu-memory"
KAI_DEVICES = "gpu-fraction-num-devices"
KAI_CONTAINER = "gpu-fraction-container-name"
KAI_POD_GROUP = "pod-group-name"
KAI_SUBGROUP = "kai.scheduler/subgroup-name"
KAI_API_GROUP = "scheduling.run.ai"
