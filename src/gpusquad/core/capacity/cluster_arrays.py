"""A cluster as arrays: nodes, cards, their sizes, and which cards a request may use."""

from __future__ import annotations

import numpy as np
from numpy.typing import NDArray

from gpusquad.model.cluster import Cluster, is_model
from gpusquad.model.job import Request
from gpusquad.model.placement import Ints
from gpusquad.model.virtual import part_named


class ClusterArrays:
    """Arrays that do not change while jobs run. Shared by all copies of a space."""

    def __init__(self, cluster: Cluster) -> None:
        nodes = cluster.nodes
        cards = [card for node in nodes for card in node.cards]
        self.cluster = cluster
        self.node_ids = [node.id for node in nodes]
        self.card_ids = [card.id for card in cards]
        self.node_index = {name: i for i, name in enumerate(self.node_ids)}
        self.card_index = {name: i for i, name in enumerate(self.card_ids)}
        self.models = sorted({card.model for card in cards})
        model_index = {name: i for i, name in enumerate(self.models)}
        self.node_cards = np.array([len(node.cards) for node in nodes], dtype=np.int64)
        self.node_first = np.concatenate(([0], np.cumsum(self.node_cards)[:-1])).astype(np.int64)
        self.card_node = np.repeat(np.arange(len(nodes), dtype=np.int64), self.node_cards)
        self.card_memory = np.array([card.memory_bytes for card in cards], dtype=np.int64)
        self.card_model = np.array([model_index[card.model] for card in cards], dtype=np.int64)
        self.card_domain = np.array([card.domain for card in cards], dtype=np.int64)
        self.card_virtual = np.array([part_named(card.id) is not None for card in cards], dtype=bool)
        self.has_virtual = bool(self.card_virtual.any())
        racks = sorted({node.rack for node in nodes})
        self.racks = racks
        self.node_rack = np.array([racks.index(node.rack) for node in nodes], dtype=np.int64)
        self.node_cpu = np.array([node.cpu_milli for node in nodes], dtype=np.int64)
        self.node_memory = np.array([node.memory_bytes for node in nodes], dtype=np.int64)
        self.extra_index = {name: i for i, name in enumerate(sorted({name for n in nodes for name, _ in n.extras}))}
        self.node_extras = np.zeros((len(self.extra_index), len(nodes)), dtype=np.int64)
        for i, node in enumerate(nodes):
            for name, amount in node.extras:
                self.node_extras[self.extra_index[name], i] = amount
        self.one_card_each = bool(len(nodes)) and bool((self.node_cards == 1).all())
        self._eligible: dict[tuple, NDArray[np.bool_] | None] = {}

    def eligible_cards(self, request: Request) -> NDArray[np.bool_] | None:
        """Cards that match model, size and ID. None: all cards do."""
        key = (request.gpu_models, request.min_card_memory_bytes, request.card, self.needs_whole(request))
        if key not in self._eligible:
            self._eligible[key] = self._work_out_eligible(request)
        return self._eligible[key]

    def needs_whole(self, request: Request) -> bool:
        """Whether virtual cards are excluded: one program cannot be limited to parts of several cards."""
        return self.has_virtual and request.cards_at_once > 1

    def amounts(self, request: Request) -> Ints:
        """What a task uses of its node: CPU, memory and all extras, in the order of ``extra_index``."""
        taken = np.zeros(2 + len(self.extra_index), dtype=np.int64)
        taken[:2] = request.cpu_milli, request.memory_bytes
        for name, amount in request.extras:
            if name in self.extra_index:
                taken[2 + self.extra_index[name]] = amount
        return taken

    def _work_out_eligible(self, request: Request) -> NDArray[np.bool_] | None:
        needs_whole = self.needs_whole(request)
        if not (request.gpu_models or request.min_card_memory_bytes or request.card or needs_whole):
            return None
        mask = self.card_memory >= request.min_card_memory_bytes
        if needs_whole:
            mask &= ~self.card_virtual
        if request.gpu_models:
            wanted = [i for i, name in enumerate(self.models) if any(is_model(name, m) for m in request.gpu_models)]
            mask &= np.isin(self.card_model, wanted)
        if request.card:
            named = np.zeros(len(mask), dtype=bool)
            if request.card in self.card_index:
                named[self.card_index[request.card]] = True
            mask &= named
        return mask
