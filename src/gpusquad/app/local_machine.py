"""Builds the cluster of one machine from the inventory of its agent."""

from __future__ import annotations

import queue
from collections.abc import Callable, Mapping
from typing import Any

from gpusquad.agent.agent_process import AgentProcess
from gpusquad.app.config import SIMULATED_CARDS, ClusterConfig
from gpusquad.model.cluster import Card, Cluster, Node
from gpusquad.model.errors import Invalid

INVENTORY_TIMEOUT_S = 60.0
MessageHandler = Callable[[Mapping[str, Any]], None]


class LocalMachine:
    """The agent of this machine and its reported cards. Messages are dropped until ``listen`` is called."""

    def __init__(self, config: ClusterConfig, home: str, quiet_s: float) -> None:
        """``quiet_s``: the agent looks closer at runs that have printed nothing new for this long."""
        self._config = config
        self._quiet_s = quiet_s
        self._home = home
        self._handler: MessageHandler | None = None
        self._first: queue.SimpleQueue[Mapping[str, Any]] = queue.SimpleQueue()
        self.agent = self._start(config.simulate)
        found = self._inventory()
        if not found["node"]["cards"] and config.simulate is None:
            self.agent.close()
            self.agent = self._start(SIMULATED_CARDS)
            found = self._inventory()
        self.inventory = found
        self.simulated: bool = found["simulated"]
        self.cluster = cluster_of(found)

    def listen(self, handler: MessageHandler) -> None:
        self._handler = handler

    def close(self) -> None:
        self.agent.close()

    def _start(self, simulate: int | None) -> AgentProcess:
        arguments = ["--every", str(self._config.sample_every_s), "--home", self._home]
        arguments += ["--quiet-after", str(self._quiet_s)]
        if self._config.virtual > 1:
            arguments += ["--virtual", str(self._config.virtual)]
        if simulate is not None:
            arguments += ["--simulate", str(simulate)]
        return AgentProcess(self._on_message, arguments)

    def _on_message(self, message: Mapping[str, Any]) -> None:
        if message.get("kind") == "inventory":
            self._first.put(message)
        if self._handler is not None:
            self._handler(message)

    def _inventory(self) -> Mapping[str, Any]:
        try:
            return self._first.get(timeout=INVENTORY_TIMEOUT_S)
        except queue.Empty:
            raise Invalid("cluster", "the agent did not report its cards in time", "see its error in the log") from None


def cluster_of(inventory: Mapping[str, Any]) -> Cluster:
    node = inventory["node"]
    cards = tuple(
        Card(card["id"], card.get("model") or "generic", card.get("memory_bytes") or 0, card.get("sms") or 0,
             card.get("domain") or 0)
        for card in node["cards"]
    )  # fmt: skip
    return Cluster((Node(node["id"], cards, node["cpu_milli"], node["memory_bytes"]),))
