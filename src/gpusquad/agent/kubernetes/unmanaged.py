"""Unmanaged processes on this node's shared cards: outside of pods, or in a pod with a share but without the shim."""

from __future__ import annotations

import logging

from gpusquad.agent.kubernetes.node_snapshot import NodeSnapshot, hidden_pods, may_be_hidden
from gpusquad.gpu.api import CardSharing
from gpusquad.gpu.attach.unmanaged import ListedProcess, UnmanagedWatch
from gpusquad.gpu.daemon.unmanaged import UnmanagedProcess
from gpusquad.model.virtual import physical

_log = logging.getLogger(__name__)


def unmanaged_watch(sharing: CardSharing) -> UnmanagedWatch[NodeSnapshot]:
    return UnmanagedWatch(sharing, processes_by_card, _log_process)


def processes_by_card(snapshot: NodeSnapshot) -> dict[str, dict[int, ListedProcess]]:
    """Processes in the driver's lists, by physical card and pid. The owner of a process is the UID of its pod, which is
    also the ``Holder.owner`` of a pod with a share."""
    uids, hidden = {pod.key: pod.uid for pod in snapshot.pods}, hidden_pods(snapshot)
    found: dict[str, dict[int, ListedProcess]] = {}
    for reading in snapshot.readings:
        if reading.processes is None:
            continue
        on_card = found.setdefault(physical(reading.id), {})
        is_doubtful = may_be_hidden(reading.id, snapshot, hidden)
        for process in reading.processes:
            pod_key = snapshot.owners.get(process.pid)
            owner = None if pod_key is None else uids.get(pod_key, pod_key)
            listed = UnmanagedProcess(process.pid, process.name, process.memory_bytes or 0)
            on_card[process.pid] = ListedProcess(listed, owner, is_doubtful)
    return found


def _log_process(card: str, listed: ListedProcess) -> None:
    what = "belongs to no pod" if listed.owner is None else "belongs to a pod with a share, but runs without the shim"
    process = listed.process
    about = {"card": card, "pid": process.pid, "program": process.name, "memory_bytes": process.memory_bytes}
    _log.warning("unmanaged process on a shared card: it %s", what, extra=about)
