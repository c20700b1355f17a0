"""What the server's code does, in rights."""

from __future__ import annotations

from tests.kube.audit import Right

SEEN = {
    *(("", name) for name in ("pods", "nodes", "namespaces", "persistentvolumeclaims", "persistentvolumes")),
    *(("storage.k8s.io", name) for name in ("storageclasses", "csinodes", "csidrivers", "volumeattachments")),
}
TELLS = {Right("", "pods/log", "get"), Right("", "events", "create"), Right("", "events", "patch")}
DOES = {
    Right("", "pods/binding", "create"),
    Right("", "pods/status", "patch"),
    Right("", "pods", "get"),
    Right("", "pods", "delete"),
    Right("", "pods", "patch"),
    *TELLS,
}
KNOWS = {Right("authentication.k8s.io", "tokenreviews", "create")}
LEASES = {Right("coordination.k8s.io", "leases", verb) for verb in ("create", "get", "update")}
SELDOM = {
    Right("", "pods", "get"),  # the answer to a binding got lost
    Right("", "pods", "patch"),  # somebody changed a job
    Right("", "pods/log", "get"),  # or reads what it wrote
    Right("", "events", "patch"),  # the same is told again
}
