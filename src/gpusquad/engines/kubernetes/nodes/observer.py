"""The nodes as reported to the service, and what has changed since the last report."""

from __future__ import annotations

import logging
from collections.abc import Callable, Iterable, Sequence
from dataclasses import replace

from gpusquad.core.observed import ClusterObserved
from gpusquad.core.ports import ForeignUsageChanged
from gpusquad.engines.kubernetes.filters import NodeMasks, PlacementRule, PodIndex, Storage
from gpusquad.engines.kubernetes.filters.columns import Mask
from gpusquad.engines.kubernetes.filters.node_sets import LiveNodeSets
from gpusquad.engines.kubernetes.nodes.node import annotations_version, broken_cards, foreign_on, node_of
from gpusquad.engines.kubernetes.nodes.waiting import WaitingJobs
from gpusquad.kube.names import ANNOTATIONS_VERSION, KNOWN, MEASURED_RATES
from gpusquad.kube.objects import Object, name_of, uid_of
from gpusquad.model.card_faults import FaultClass
from gpusquad.model.cluster import Cluster, ForeignUsage, Node
from gpusquad.model.job import Job
from gpusquad.model.node_sets import NodeSets

_log = logging.getLogger(__name__)
MAX_RULES = 2048
"""Rules kept before unused ones are dropped."""
OursOn = Callable[[str], frozenset[str]]
"""The cards of a node that gangs of this scheduler hold."""


class ClusterObserver:
    """Gets nodes and pods; ``news`` returns what has changed. Also knows the allowed nodes of each rule."""

    def __init__(self, is_ours: Callable[[str], bool], ours_on: OursOn) -> None:
        self.index = PodIndex()
        self.storage = Storage()
        self.rules: dict[str, PlacementRule] = {}
        self._is_ours = is_ours
        self._ours_on = ours_on
        self._items: dict[str, Object] = {}
        self._nodes: dict[str, Node] = {}
        self._position: dict[str, int] = {}
        """Of each node in the last report to the service."""
        self._pods: dict[str, dict[str, Object]] = {}
        """All pods that take resources on each node, by UID."""
        self._foreign: dict[str, ForeignUsage] = {}
        self._stale: set[str] = set()
        """Nodes whose foreign usage may have changed."""
        self._broken: dict[str, dict[str, tuple[str, FaultClass]]] = {}
        self._new_faults = False
        self._agents: set[str] = set()
        """Nodes with an agent that reports cards."""
        self._old_agents: set[str] = set()
        """Those whose agent does not report the current version of the annotations."""
        self._reshaped = True
        """Nodes were added, removed or resized."""
        self._remask = True
        self._masks = NodeMasks([], self.index, self.storage)
        self._sets: dict[str, Mask] = {}
        """As last reported to the service."""
        self._reasons: dict[str, str] = {}
        """Why sets of waiting jobs are empty, as last reported."""
        self._waiting = WaitingJobs(self.index)
        self._new_waiting = False
        """The start of a job that has come to wait changes the sets, which the service does not know."""

    # -- updates ---------------------------------------------------------------------------------------------------

    def node_seen(self, item: Object) -> None:
        name = name_of(item)
        node = node_of(item)
        is_new = name not in self._items
        self._items[name] = item
        self._stale.add(name)
        self._note_broken(name, broken_cards(item))
        self._note_agent(name, annotations_version(item))
        if is_new or self._nodes[name] != node:
            self._nodes[name] = node
            self._reshaped = True
        elif not self._reshaped and self._masks.node_changed(self._position[name], item):
            self._remask = True

    def node_gone(self, name: str) -> None:
        if self._items.pop(name, None) is not None:
            del self._nodes[name]
            self._foreign.pop(name, None)
            self._note_broken(name, {})
            self._note_agent(name, None)
            self._reshaped = True

    def _note_broken(self, name: str, cards: dict[str, tuple[str, FaultClass]]) -> None:
        if self._broken.get(name, {}) != cards:
            self._broken[name] = cards
            self._new_faults = True

    def _note_agent(self, name: str, version: int | None) -> None:
        self._agents.discard(name)
        self._old_agents.discard(name)
        if version is not None:
            self._agents.add(name)
            if version < ANNOTATIONS_VERSION:
                self._old_agents.add(name)

    def pod_on(self, pod: Object, node: str) -> None:
        """A pod takes resources on a node."""
        self._pods.setdefault(node, {})[uid_of(pod)] = pod
        if not self._is_ours(uid_of(pod)):
            self._stale.add(node)

    def pod_off(self, pod: Object, node: str) -> None:
        if self._pods.get(node, {}).pop(uid_of(pod), None) is not None:
            self._stale.add(node)

    def recount_nodes(self, nodes: Iterable[str]) -> None:
        """Pods there have joined or left gangs of this scheduler."""
        self._stale.update(nodes)

    def live_changed(self) -> None:
        """Pods or volumes that rules depend on have changed."""
        if any(rule.is_live for rule in self.rules.values()):
            self._remask = True

    def assume(self, job_id: str, pod: Object, node: str) -> None:
        """A pod is being bound. It counts there from now on, whatever the watch shows."""
        self.index.assume(pod, node)
        self._waiting.placed(job_id)
        self.live_changed()

    def not_bound(self, pod: Object) -> None:
        """The binding of a pod has failed."""
        self.index.forget_assumed(pod)
        self.live_changed()

    def waits(self, job: Job, pods: Sequence[Object]) -> None:
        """The service may start the job from now on. ``pods`` by rank."""
        self._waiting.put(job, pods)
        self._note_waiting(job.id)

    def waits_again(self, job_id: str) -> None:
        self._waiting.released(job_id)
        if self._waiting.knows(job_id):
            self._note_waiting(job_id)

    def waits_no_more(self, job_id: str) -> None:
        self._waiting.drop(job_id)

    def _note_waiting(self, job_id: str) -> None:
        names = self._waiting.names_of(job_id)
        is_live = any(self.rules[name].is_live for name in names if name in self.rules)
        if is_live or self._waiting.changes_sets(job_id) or any(map(self._lacks_reason, names)):
            self._new_waiting = True

    def _lacks_reason(self, name: str) -> bool:
        return name in self._sets and name not in self._reasons and not self._sets[name].any()

    def know(self, rule: PlacementRule) -> None:
        if rule.name not in self.rules:
            self.rules[rule.name] = rule
            self._remask = True

    def forget_rules(self, used: Callable[[], set[str]]) -> None:
        if len(self.rules) > MAX_RULES:
            keep = used()
            self.rules = {name: rule for name, rule in self.rules.items() if name in keep}
            self._remask = True

    # -- state -----------------------------------------------------------------------------------------------------

    @property
    def changed(self) -> bool:
        return self._reshaped or self._remask or self._new_waiting or bool(self._stale)

    @property
    def rates_name(self) -> str:
        """Annotation for measured rates: the deprecated name until every agent of the cluster reads the new one."""
        return MEASURED_RATES if self._agents and not self._old_agents else KNOWN

    @property
    def nodes(self) -> dict[str, Object]:
        return self._items

    @property
    def masks(self) -> NodeMasks:
        return self._masks

    def allows(self, rule: PlacementRule, node: str) -> bool:
        """By the current state."""
        if self._reshaped:
            self._reshape_masks()
        position = self._position.get(node)
        return position is not None and bool(self._masks.mask(rule)[position])

    def why_not(self, rule: PlacementRule, node: str) -> str:
        """Why the node is not allowed, by the current state. Empty: it is."""
        if node not in self._items:
            return f"node {node} is gone"
        if self.allows(rule, node):
            return ""
        return f"node {node} is no longer allowed for it: {self._masks.why_not(rule, self._position[node])}"

    def news(self) -> ClusterObserved | None:
        """What has changed since the last report; None: nothing."""
        if not self.changed:
            return None
        cluster = None
        if self._reshaped:
            self._reshape_masks()
            self._reshaped = False
            cluster = Cluster(_each_card_once(self._nodes[name] for name in self._position))
        allowed = None
        if self._remask or cluster is not None:
            self._sets = {name: self._masks.mask(rule) for name, rule in self.rules.items()}
        if self._remask or self._new_waiting or cluster is not None:
            allowed = self._node_sets()
            self._remask = self._new_waiting = False
        broken = None
        if self._new_faults:
            self._new_faults = False
            broken = {card: fault for cards in self._broken.values() for card, fault in cards.items()}
        return ClusterObserved(cluster, allowed, tuple(self._others()), broken)

    def _node_sets(self) -> NodeSets:
        live = {name: rule for name in self._waiting.names if (rule := self.rules.get(name)) and rule.is_live}
        rules = self._masks.frozen(live)
        self._reasons = {
            name: self._masks.why_none(self.rules[name])
            for name in self._waiting.names
            if name in self.rules and name in self._sets and not self._sets[name].any()
        }
        selections = {check.selection for rule in rules.values() for check in rule.checks}
        starts = self._waiting.effects(selections)
        return LiveNodeSets(self._sets, rules, self._masks.counts(selections), starts, self._reasons)

    def _reshape_masks(self) -> None:
        names = sorted(self._nodes)
        self._position = {name: position for position, name in enumerate(names)}
        self._masks = self._masks.with_nodes([self._items[name] for name in names])

    def _others(self) -> Iterable[ForeignUsageChanged]:
        stale, self._stale = self._stale, set()
        for name in sorted(stale & self._nodes.keys()):
            pods = [pod for uid, pod in self._pods.get(name, {}).items() if not self._is_ours(uid)]
            foreign = foreign_on(self._nodes[name], self._items[name], pods, self._ours_on(name))
            if self._foreign.get(name, ForeignUsage()) != foreign:
                self._foreign[name] = foreign
                yield ForeignUsageChanged(name, foreign)


def _each_card_once(nodes: Iterable[Node]) -> tuple[Node, ...]:
    """A card that two nodes claim (a copied disk, simulating agents) belongs to the first node, so that one faulty node
    does not block the report of the whole cluster."""
    seen: set[str] = set()
    found = []
    for node in nodes:
        cards = tuple(card for card in node.cards if card.id not in seen)
        seen.update(card.id for card in cards)
        if len(cards) < len(node.cards):
            _log.warning("%s: %d cards are claimed by another node too", node.id, len(node.cards) - len(cards))
            node = replace(node, cards=cards)
        found.append(node)
    return tuple(found)
