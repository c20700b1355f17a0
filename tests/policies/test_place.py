"""One contract for every place, then what each of them is for."""

from collections import Counter

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

from gpusquad import registry
from gpusquad.core.capacity.cluster_arrays import ClusterArrays
from gpusquad.core.capacity.space import Space
from gpusquad.core.capacity.trial import SpaceTrial
from gpusquad.model.cluster import GIB, Card, Cluster, Node
from gpusquad.model.job import Job, Profile, Request, Role, Share
from gpusquad.model.placement import Placement
from gpusquad.model.units import WHOLE_MILLI
from gpusquad.model.views import Refusal
from gpusquad.policies.place import fragmentation

PLACES = registry.names("place")
ARRAYS = ("card_ok", "card_memory_free", "card_sm_free", "card_slots_free", "card_idle", "node_up", "node_idle",
          "node_cpu_free", "node_memory_free", "card_load")  # fmt: skip
DEMAND = ((Request(gpus=1, cpu_milli=2000), 0.5), (Request(gpus=4), 0.2), (Request(share=Share(4 * GIB, 300)), 0.3))


def job(name: str, *requests: Request, count: int = 1, app: str = "", busy: float | None = None) -> Job:
    roles = tuple(Role(f"r{i}", count, request) for i, request in enumerate(requests))
    return Job(name, roles, app=app, profile=None if busy is None else Profile(busy))


def share(milli: int, gib: int = 0, **rest: int) -> Request:
    return Request(share=Share(gib * GIB, milli), **rest)


def nodes(
    *cards: int, cpu: int = 32_000, memory: int = 64 * GIB, gib: int = 16, domain: int = 8, rack: int = 99
) -> Space:
    """Nodes with that many cards; ``domain`` cards to an NVLink domain, ``rack`` nodes to a rack."""
    return Space(ClusterArrays(Cluster(tuple(
        Node(f"n{n}", tuple(Card(f"n{n}/{c}", memory_bytes=gib * GIB, domain=c // domain) for c in range(count)),
             cpu, memory, f"r{n // rack}")
        for n, count in enumerate(cards)
    ))))  # fmt: skip


def put(space: Space, policy: str, *jobs: Job) -> list[Placement]:
    """Place jobs one after another; all must fit."""
    place, placements = registry.create("place", policy), []
    for each in jobs:
        outcome = place.propose(each, SpaceTrial(space, each, DEMAND))
        assert isinstance(outcome, Placement), (each.id, outcome)
        placements.append(outcome)
    return placements


def state(space: Space) -> tuple:
    return (*(getattr(space, name).tolist() for name in ARRAYS), space.idle_total, dict(space.sharers))


# -- the contract -------------------------------------------------------------------------------------------------

shares = st.builds(Share, st.integers(0, 16).map(lambda n: n * GIB), st.integers(1, 1000))
requests = st.one_of(
    st.builds(Request, gpus=st.integers(0, 5), cpu_milli=st.sampled_from([0, 500, 4000]),
              memory_bytes=st.sampled_from([0, GIB, 24 * GIB]), gpu_models=st.sampled_from([(), ("A",), ("A", "B")])),
    st.builds(Request, share=shares, cpu_milli=st.sampled_from([0, 500, 4000]),
              gpu_models=st.sampled_from([(), ("B",)])),
)  # fmt: skip


def jobs_of(many: list[list[tuple[Request, int]]]) -> list[Job]:
    """One job for each list of roles; labels and profiles differ, and some have no profile."""
    return [
        Job(
            f"j{i}",
            tuple(Role(f"r{k}", count, request) for k, (request, count) in enumerate(roles)),
            app="xyz"[i % 3],
            profile=Profile(0.1 * (i % 10)) if i % 4 else None,
        )
        for i, roles in enumerate(many)
    ]


roles_strategy = st.lists(st.tuples(requests, st.integers(1, 3)), min_size=1, max_size=3)
jobs_strategy = st.lists(roles_strategy, min_size=1, max_size=12).map(jobs_of)
clusters = st.lists(
    st.tuples(st.integers(0, 5), st.sampled_from(["A", "B"]), st.sampled_from([4000, 16_000]), st.integers(0, 1)),
    min_size=1, max_size=6,
).map(lambda many: Cluster(tuple(
    Node(f"n{n}", tuple(Card(f"n{n}/{c}", model, (8 + 8 * (c % 2)) * GIB, domain=c // 2) for c in range(cards)),
         cpu, 48 * GIB, f"r{rack}")
    for n, (cards, model, cpu, rack) in enumerate(many)
)))  # fmt: skip


def exactly_one_place_each(each: Job, placement: Placement) -> None:
    assert [part.request_index for part in placement.parts] == list(range(len(each.groups)))
    for part, (request, count) in zip(placement.parts, each.groups, strict=True):
        assert part.nodes.shape == (count,)
        assert part.cards.shape == (count, request.cards)


def nothing_held_twice(cluster: Cluster, held: list[tuple[Job, Placement]]) -> None:
    """Counted anew from the placements, without the arrays of the space."""
    fixed = ClusterArrays(cluster)
    sm, memory, whole = Counter(), Counter(), Counter()
    cpu, node_memory = Counter(), Counter()
    for each, placement in held:
        for part in placement.parts:
            request = each.groups[part.request_index][0]
            for node, row in zip(part.nodes.tolist(), part.cards.tolist(), strict=True):
                cpu[node] += request.cpu_milli
                node_memory[node] += request.memory_bytes
                assert len(set(row)) == len(row)
                for card in row:
                    assert fixed.card_node[card] == node
                    model = fixed.models[fixed.card_model[card]]
                    assert not request.gpu_models or model in request.gpu_models
                    whole[card] += request.share is None
                    sm[card] += request.share.sm_milli if request.share else WHOLE_MILLI
                    memory[card] += request.share.memory_bytes if request.share else int(fixed.card_memory[card])
    assert all(count <= 1 for count in whole.values())
    assert all(amount <= WHOLE_MILLI for amount in sm.values())
    assert all(amount <= fixed.card_memory[card] for card, amount in memory.items())
    assert all(amount <= fixed.node_cpu[node] for node, amount in cpu.items())
    assert all(amount <= fixed.node_memory[node] for node, amount in node_memory.items())


@pytest.mark.parametrize("name", PLACES)
@given(cluster=clusters, jobs=jobs_strategy)
def test_contract(name: str, cluster: Cluster, jobs: list[Job]):
    place, space = registry.create("place", name), Space(ClusterArrays(cluster))
    held: list[tuple[Job, Placement]] = []
    for each in jobs:
        before = state(space)
        fits = space.fits(each)
        twin = place.propose(each, SpaceTrial(space.copy(), each, DEMAND))
        outcome = place.propose(each, SpaceTrial(space, each, DEMAND))
        if isinstance(outcome, Refusal):
            assert isinstance(twin, Refusal)
            assert state(space) == before, "a refusal leaves no trace"
            assert not fits or len(each.groups) > 1, "a gang of one shape that fits is placed"
        else:
            assert isinstance(twin, Placement)
            assert twin.same_as(outcome), "the same state gives the same placement"
            assert fits
            exactly_one_place_each(each, outcome)
            held.append((each, outcome))
    nothing_held_twice(cluster, held)
    for each, outcome in held:
        space.release(each, outcome)
    assert state(space) == state(Space(ClusterArrays(cluster)))


@pytest.mark.parametrize("name", PLACES)
def test_a_gang_that_fits_in_part_is_refused_whole(name: str):
    space = nodes(4, 4)
    before = state(space)
    gang = job("gang", Request(gpus=2), share(500), count=5)
    assert isinstance(registry.create("place", name).propose(gang, SpaceTrial(space, gang, DEMAND)), Refusal)
    assert state(space) == before


@pytest.mark.parametrize("name", PLACES)
def test_a_named_card_is_taken(name: str):
    space = nodes(2, 2)
    whole, part = put(
        space, name, job("a", Request(gpus=1, card="n1/0")), job("b", Request(share=Share(0, 100), card="n0/1"))
    )
    assert (whole.all_cards(), part.all_cards()) == ([2], [1])


@pytest.mark.parametrize("name", PLACES)
def test_nodes_that_are_down_and_broken_cards_get_nothing(name: str):
    space = nodes(2, 2, 2)
    space.set_node_up(0, False)
    space.set_card_ok(3, False)
    put(space, name, *(job(f"j{i}", share(600, 1)) for i in range(3)))
    assert sorted(space.sharers) == [2, 4, 5]


@pytest.mark.parametrize("name", [name for name in PLACES if hasattr(registry.find("place", name), "rank")])
def test_rank_keeps_every_job(name: str):
    jobs = [job("a", share(100, 2)), job("b", Request(gpus=4)), job("c", Request(cpu_milli=1)), job("d", share(900, 1))]
    assert sorted(j.id for j in registry.create("place", name).rank(jobs)) == ["a", "b", "c", "d"]


# -- balance, spread ----------------------------------------------------------------------------------------------


def test_balance_goes_to_the_least_summed_utilisation():
    space = nodes(3)
    put(space, "balance", *(job(f"j{i}", share(10, 1), busy=busy) for i, busy in enumerate((0.9, 0.5, 0.3, 0.1, 0.3))))
    assert [sorted(j.id for j in space.sharers[card]) for card in range(3)] == [["j0"], ["j1"], ["j2", "j3", "j4"]]


def test_balance_without_profiles_goes_by_free_sms():
    space = nodes(2)
    put(space, "balance", job("a", share(700)), job("b", share(100)), job("c", share(100)))
    assert len(space.sharers[0]) == 1


def test_balance_puts_whole_gpus_on_the_node_with_most_idle_cards():
    space = nodes(4, 8)
    put(space, "balance", job("a", Request(gpus=3)))
    assert space.node_idle.tolist() == [4, 5]


@pytest.mark.parametrize(
    "request_", [Request(gpus=1), share(100, 1), Request(cpu_milli=1000)], ids=["whole", "share", "cpu"]
)
def test_spread_uses_every_node_before_any_twice(request_: Request):
    (placement,) = put(nodes(4, 2, 8, 1), "spread", job("gang", request_, count=4))
    assert sorted(placement.all_nodes()) == [0, 1, 2, 3]


def test_spread_counts_the_gang_over_all_its_roles():
    (placement,) = put(nodes(4, 2), "spread", job("gang", Request(gpus=1), share(100, 1)))
    assert sorted(placement.all_nodes()) == [0, 1]


# -- standalone ---------------------------------------------------------------------------------------------------


def test_standalone_joins_the_nearest_profile_when_no_card_is_idle():
    space = nodes(2)
    put(space, "standalone", job("a", share(100, 1), app="a", busy=0.9), job("b", share(100, 1), app="b", busy=0.2))
    (placement,) = put(space, "standalone", job("c", share(100, 1), app="c", busy=0.3))
    assert placement.all_cards() == [1]
    assert placement.note == "c shares n0/1 with b: no card is idle"


def test_standalone_overcommits_for_likes_only_and_never_sms():
    space = nodes(2)
    spec = "standalone:overcommit=yes"
    put(space, spec, job("a1", share(400, 12), app="a"), job("a2", share(400, 12), app="a"))
    assert space.card_memory_free[0] == -8 * GIB
    put(space, spec, job("b", share(400, 12), app="b"))
    (placement,) = put(space, spec, job("a3", share(400, 4), app="a"))
    assert placement.all_cards() == [1]
    assert "a3 is not beside the same application on n0/0: it requests 4.3 GB and 40% of the SMs" in placement.note


def test_standalone_says_nothing_of_memory_that_is_not_known():
    space = nodes(2, gib=0)
    put(space, "standalone", job("a1", share(600), app="a"))
    (placement,) = put(space, "standalone", job("a2", share(600), app="a"))
    assert placement.note == "a2 is not beside the same application on n0/0: it requests 60% of the SMs, free is 40%"


# -- topology -----------------------------------------------------------------------------------------------------


def test_topology_keeps_a_task_inside_the_fullest_domain_that_fits():
    space = nodes(8, domain=4)
    put(space, "topology", job("a", Request(gpus=1)))
    small, large = put(space, "topology", job("b", Request(gpus=2)), job("c", Request(gpus=4)))
    assert small.all_cards() == [1, 2]
    assert large.all_cards() == [4, 5, 6, 7]
    assert not large.note


def test_topology_spans_domains_only_if_it_must_and_says_so():
    space = nodes(8, domain=4)
    put(space, "topology", job("a", Request(gpus=1, card="n0/0")), job("b", Request(gpus=1, card="n0/4")))
    before = state(space)
    wide = job("c", Request(gpus=4))
    assert isinstance(registry.create("place", "topology:strict=true").propose(wide, SpaceTrial(space, wide)), Refusal)
    assert state(space) == before
    (placement,) = put(space, "topology", wide)
    assert placement.note == "1 tasks span NVLink domains"


def test_topology_lets_a_task_larger_than_any_domain_span_even_when_strict():
    (placement,) = put(nodes(8, domain=4), "topology:strict=true", job("a", Request(gpus=8)))
    assert placement.all_cards() == list(range(8))


def test_topology_keeps_a_gang_in_the_fullest_rack_that_holds_it():
    space = nodes(*[4] * 6, rack=2)
    put(space, "topology", job("a", Request(gpus=4), count=1))
    (placement,) = put(space, "topology", job("gang", Request(gpus=4), count=2))
    assert placement.all_nodes() == [2, 3]
    (mixed,) = put(nodes(*[4] * 6, rack=2), "topology", job("m", Request(gpus=4), share(100, 1), Request(cpu_milli=1)))
    assert len({node // 2 for node in mixed.all_nodes()}) == 1


# -- bestfit, random ----------------------------------------------------------------------------------------------


def test_bestfit_takes_the_node_with_the_least_left_and_its_fullest_card():
    space = nodes(8, 4, 2)
    put(space, "bestfit", job("a", share(300, 1)), job("b", share(400, 1)))
    assert [j.id for j in space.sharers[12]] == ["a", "b"]


def test_random_depends_on_the_seed_and_the_job_alone():
    def drawn(seed: int) -> list[int]:
        jobs = [job(f"j{i}", Request(gpus=1)) for i in range(20)]
        return [
            card for placement in put(nodes(*[4] * 10), f"random:seed={seed}", *jobs) for card in placement.all_cards()
        ]

    assert drawn(1) == drawn(1)
    assert drawn(1) != drawn(2)
    assert len({card // 4 for card in drawn(1)}) > 5


# -- fragmentation ------------------------------------------------------------------------------------------------


def propose_fragmentation(space: Space, each: Job, demand=DEMAND) -> Placement | Refusal:
    return registry.create("place", "fragmentation").propose(each, SpaceTrial(space, each, demand))


def test_fragmentation_keeps_cards_whole_for_those_who_need_them():
    space = nodes(2, 2)
    put(space, "fragmentation", job("a", share(300, 4)), job("b", share(300, 4)), job("c", share(300, 4)))
    assert list(space.sharers) == [0]


def test_fragmentation_leaves_cpu_where_the_gpus_are():
    space = Space(ClusterArrays(Cluster((
        Node("gpus", tuple(Card(f"c{i}") for i in range(4)), 8000, GIB),
        Node("cpus", (Card("c4"),), 64_000, GIB),
    ))))  # fmt: skip
    (placement,) = put(space, "fragmentation", job("a", Request(cpu_milli=4000)))
    assert placement.all_nodes() == [1]


def test_fragmentation_is_measured_against_what_is_asked_for():
    """With the CPU left for two tasks, whether the larger node loses depends on who may come."""
    space = Space(ClusterArrays(Cluster((
        Node("pair", (Card("c0"), Card("c1")), 2000, GIB), Node("single", (Card("c2"),), 64_000, GIB),
    ))))  # fmt: skip
    each = job("a", Request(gpus=1, cpu_milli=1000))
    for asked, node in ((Request(gpus=2, cpu_milli=2000), 1), (Request(gpus=1, cpu_milli=32_000), 0)):
        outcome = propose_fragmentation(space.copy(), each, ((asked, 1.0),))
        assert isinstance(outcome, Placement)
        assert outcome.all_nodes() == [node]


def test_fragmentation_without_known_demand_keeps_large_holes():
    space = nodes(8, 2)
    each = job("a", Request(gpus=1))
    outcome = propose_fragmentation(space, each, ())
    assert isinstance(outcome, Placement)
    assert outcome.all_nodes() == [1]


@given(cluster=clusters, jobs=jobs_strategy)
def test_what_fragmentation_remembers_equals_what_it_works_out_anew(cluster: Cluster, jobs: list[Job]):
    space, held = Space(ClusterArrays(cluster)), []
    for number, each in enumerate(jobs):
        if held and number % 3 == 2:
            space.release(*held.pop(0))
        if number % 5 == 4:
            space.set_node_up(0, not space.node_up[0])
        fresh = Space(ClusterArrays(cluster))
        for name in ARRAYS:
            getattr(fresh, name)[:] = getattr(space, name)
        anew = propose_fragmentation(fresh, each)
        outcome = propose_fragmentation(space, each)
        assert type(anew) is type(outcome)
        if isinstance(outcome, Placement) and isinstance(anew, Placement):
            assert outcome.same_as(anew)
            held.append((each, outcome))


def test_fragmentation_forgets_a_cluster_that_is_gone():
    space = nodes(2, 2)
    put(space, "fragmentation", job("a", share(300, 4)))
    fixed = space.fixed
    assert fixed in fragmentation._known
    count = len(fragmentation._known)
    del space, fixed
    assert len(fragmentation._known) < count


@given(clusters, jobs_strategy)
def test_expected_fragmentation_is_what_its_definition_says(cluster: Cluster, jobs: list[Job]):
    """Free GPU less what usual demand can use, card by card, in plain Python."""
    space = Space(ClusterArrays(cluster))
    for each in jobs:
        registry.create("place", "random").propose(each, SpaceTrial(space, each))
    kept = fragmentation.Fragments(space, DEMAND, 2.0)
    wanted = sorted(DEMAND, key=lambda each: -each[1])
    for node in range(len(cluster.nodes)):
        free = {int(card): left_of(space, card) for card in np.flatnonzero(space.fixed.card_node == node)}
        expected = sum(
            round(weight * 2**20) * (sum(free.values()) - usable(space, node, request, free))
            for request, weight in wanted
        )
        assert kept._fragments[node] == pytest.approx(expected, rel=1e-9, abs=2**20)


def left_of(space: Space, card: int) -> int:
    """The scarcer of SMs and memory, in thousandths."""
    capacity = int(space.fixed.card_memory[card])
    return min(int(space.card_sm_free[card]), (int(space.card_memory_free[card]) * 1000 + capacity // 2) // capacity)


def usable(space: Space, node: int, request: Request, free: dict[int, int]) -> float:
    cpu, memory = int(space.node_cpu_free[node]), int(space.node_memory_free[node])
    if cpu < request.cpu_milli or memory < request.memory_bytes:
        return 0.0
    if request.share is not None:
        fitting = [c for c in free if space.card_room(request, np.array([c]))[0] > 0]
    else:
        fitting = [c for c in free if space.card_idle[c]]
        if len(fitting) < request.gpus:
            return 0.0
    limit = 2.0 * cpu / request.cpu_milli * request.gpu_milli if request.cpu_milli else float("inf")
    return min(sum(free[c] for c in fitting), limit)
