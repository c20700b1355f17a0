"""Unmanaged processes on this node's shared cards: outside of pods, or in a pod with a share but without the
library."""

from __future__ import annotations

import logging

from gpusquad.agent.kubernetes.node_snapshot import NodeSnapshot, hidden_pods, may_be_hidden
from gpusquad.gpu.api import CardSharing
from gpusquad.gpu.attach.unmanaged import ListedProcess, UnmanagedWatch
from gpusquad.gpu.daemon.unmanaged import UnmanagedProcess
from gpusquad.model.virtual import physical

_log = logging.getLogger(__name__)


def unmanaged_watch(sharing: CardSharing) -> UnmanagedWatch[NodeSnapshot]:
    return UnmanagedWatch(sharing, on_cards, _log_process)


def on_cards(look: NodeSnapshot) -> dict[str, dict[int, ListedProcess]]:
    """Shares belong to pods, by their UIDs."""
    uids, hidden = {pod.key: pod.uid for pod in look.pods}, hidden_pods(look)
    found: dict[str, dict[int, ListedProcess]] = {}
    for reading in look.readings:
        if reading.processes is None:
            continue
        here = found.setdefault(physical(reading.id), {})
        is_hidden = may_be_hidden(reading.id, look, hidden)
        for process in reading.processes:
            owner = look.owners.get(process.pid)
            seen = UnmanagedProcess(process.pid, process.name, process.memory_bytes or 0)
            here[process.pid] = ListedProcess(seen, None if owner is None else uids.get(owner, owner), is_hidden)
    return found


def _log_process(card: str, listed: ListedProcess) -> None:
    what = (
        "belongs to no pod" if listed.owner is None else "belongs to a pod with a share, but runs without the library"
    )
    process = listed.process
    about = {"card": card, "pid": process.pid, "program": process.name, "memory_bytes": process.memory_bytes}
    _log.warning("unmanaged process on a shared card: it %s", what, extra=about)
