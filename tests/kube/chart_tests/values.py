"""Values for installations of the chart."""

from __future__ import annotations

from typing import Any

WITHOUT_PERSISTENCE = {"persistence": {"enabled": False}}
POSTGRESQL = {"url": "postgresql://gpusquad@db.example.org/gpusquad", "passwordSecret": {"name": "database"}}
EVERYTHING: dict[str, Any] = {
    "store": POSTGRESQL,
    "replicas": 3,
    "allowCancelOwners": True,
    "ownersToRead": [{"apiGroups": ["example.org"], "resources": ["experiments"]}],
    "dryRun": True,
    "submit": {"namespaces": ["default"], "tenants": {"vision": "default"}, "image": "busybox"},
    "config": "[hang]\nsilent_s = 900",
    "imagePullSecrets": [{"name": "registry"}],
    "service": {"type": "NodePort", "port": 80, "hosts": ["gpus.example.org"], "annotations": {"a": "b"}},
    "server": {"nodeSelector": {"a": "b"}, "tolerations": [{"operator": "Exists"}], "podAnnotations": {"a": "b"}},
    "agent": {"slots": 8, "simulate": 4, "deviceNodes": True, "metricsPort": 0, "podAnnotations": {"a": "b"}},
    "podDisruptionBudget": {"enabled": True},
    "networkPolicy": {"enabled": True, "from": [{"namespaceSelector": {}}]},
}
CASES: dict[str, dict[str, Any]] = {
    "default values": {},
    "everything": EVERYTHING,
    "existing claim": {"persistence": {"existingClaim": "theirs"}},
    "no runtime class": {"agent": {"nvidia": {"library": "/usr/lib/x86_64-linux-gnu/libnvidia-ml.so.1"}}},
    "minimal": {
        **WITHOUT_PERSISTENCE, "agent": {"enabled": False}, "confine": False, "admission": {"addGpuToShares": False},
        "priorityClass": {"create": False},
    },
}  # fmt: skip
