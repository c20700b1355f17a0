"""Rights that the server's code needs."""

from __future__ import annotations

from tests.kube.audit import Right

WATCHED = {
    *(("", name) for name in ("pods", "nodes", "namespaces", "persistentvolumeclaims", "persistentvolumes")),
    *(("storage.k8s.io", name) for name in ("storageclasses", "csinodes", "csidrivers", "volumeattachments")),
}
REPORTING = {Right("", "pods/log", "get"), Right("", "events", "create"), Right("", "events", "patch")}
ACTIONS = {
    Right("", "pods/binding", "create"),
    Right("", "pods/status", "patch"),
    Right("", "pods", "get"),
    Right("", "pods", "delete"),
    Right("", "pods", "patch"),
    *REPORTING,
}
TOKEN_REVIEW = {Right("authentication.k8s.io", "tokenreviews", "create")}
LEASES = {Right("coordination.k8s.io", "leases", verb) for verb in ("create", "get", "update")}
RARE = {
    Right("", "pods", "get"),  # the answer to a binding was lost
    Right("", "pods", "patch"),  # a user changed a job
    Right("", "pods/log", "get"),  # a user reads a log
    Right("", "events", "patch"),  # the same event again
}
