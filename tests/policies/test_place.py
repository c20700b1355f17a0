"""Place policies: the contract of every place, and the purpose of each one."""

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


def job(name: str, *requests: Request, count: int = 1, app: str = "", utilisation: float | None = None) -> Job:
    roles = tuple(Role(f"r{i}", count, request) for i, request in enumerate(requests))
    return Job(name, roles, app=app, profile=None if utilisation is None else Profile(utilisation))


def share(milli: int, gib: int = 0, **rest: int) -> Request:
    return Request(share=Share(gib * GIB, milli), **rest)


def make_space(
    *cards: int, cpu: int = 32_000, memory: int = 64 * GIB, gib: int = 16, domain: int = 8, rack: int = 99
) -> Space:
    """Nodes with that many cards; ``domain`` cards to an NVLink domain, ``rack`` nodes to a rack."""
    return Space(ClusterArrays(Cluster(tuple(
        Node(f"n{n}", tuple(Card(f"n{n}/{c}", memory_bytes=gib * GIB, domain=c // domain) for c in range(count)),
             cpu, memory, f"r{n // rack}")
        for n, count in enumerate(cards)
    ))))  # fmt: skip


def place_jobs(space: Space, policy: str, *jobs: Job) -> list[Placement]:
    """Place the jobs one after another; all of them must fit."""
    place, placements = registry.create("place", policy), []
    for each in jobs:
        outcome = place.propose(each, SpaceTrial(space, each, DEMAND))
        assert isinstance(outcome, Placement), (each.id, outcome)
        placements.append(outcome)
    return placements


def space_data(space: Space) -> tuple:
    return (*(getattr(space, name).tolist() for name in ARRAYS), space.idle_total, dict(space.sharers))


# -- the contract -------------------------------------------------------------------------------------------------

shares = st.builds(Share, st.integers(0, 16).map(lambda n: n * GIB), st.integers(1, 1000))
requests = st.one_of(
    st.builds(Request, gpus=st.integers(0, 5), cpu_milli=st.sampled_from([0, 500, 4000]),
              memory_bytes=st.sampled_from([0, GIB, 24 * GIB]), gpu_models=st.sampled_from([(), ("A",), ("A", "B")])),
    st.builds(Request, share=shares, cpu_milli=st.sampled_from([0, 500, 4000]),
              gpu_models=st.sampled_from([(), ("B",)])),
)  # fmt: skip


def jobs_of(rows: list[list[tuple[Request, int]]]) -> list[Job]:
    """One job for each list of roles, with different apps and profiles; some have no profile."""
    return [
        Job(
            f"j{i}",
            tuple(Role(f"r{k}", count, request) for k, (request, count) in enumerate(roles)),
            app="xyz"[i % 3],
            profile=Profile(0.1 * (i % 10)) if i % 4 else None,
        )
        for i, roles in enumerate(rows)
    ]


roles_strategy = st.lists(st.tuples(requests, st.integers(1, 3)), min_size=1, max_size=3)
jobs_strategy = st.lists(roles_strategy, min_size=1, max_size=12).map(jobs_of)
clusters = st.lists(
    st.tuples(st.integers(0, 5), st.sampled_from(["A", "B"]), st.sampled_from([4000, 16_000]), st.integers(0, 1)),
    min_size=1, max_size=6,
).map(lambda rows: Cluster(tuple(
    Node(f"n{n}", tuple(Card(f"n{n}/{c}", model, (8 + 8 * (c % 2)) * GIB, domain=c // 2) for c in range(cards)),
         cpu, 48 * GIB, f"r{rack}")
    for n, (cards, model, cpu, rack) in enumerate(rows)
)))  # fmt: skip


def check_every_task_is_placed(each: Job, placement: Placement) -> None:
    assert [part.request_index for part in placement.parts] == list(range(len(each.groups)))
    for part, (request, count) in zip(placement.parts, each.groups, strict=True):
        assert part.nodes.shape == (count,)
        assert part.cards.shape == (count, request.cards)


def check_nothing_is_over_allocated(cluster: Cluster, placed: list[tuple[Job, Placement]]) -> None:
    """Counted from the placements, without the arrays of the space."""
    fixed = ClusterArrays(cluster)
    sm, memory, whole = Counter(), Counter(), Counter()
    cpu, node_memory = Counter(), Counter()
    for each, placement in placed:
        for part in placement.parts:
            request = each.groups[part.request_index][0]
            for node, task_cards in zip(part.nodes.tolist(), part.cards.tolist(), strict=True):
                cpu[node] += request.cpu_milli
                node_memory[node] += request.memory_bytes
                assert len(set(task_cards)) == len(task_cards)
                for card in task_cards:
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
def test_every_place_meets_the_contract(name: str, cluster: Cluster, jobs: list[Job]):
    place, space = registry.create("place", name), Space(ClusterArrays(cluster))
    placed: list[tuple[Job, Placement]] = []
    for each in jobs:
        before = space_data(space)
        fits = space.fits(each)
        repeated = place.propose(each, SpaceTrial(space.copy(), each, DEMAND))
        outcome = place.propose(each, SpaceTrial(space, each, DEMAND))
        if isinstance(outcome, Refusal):
            assert isinstance(repeated, Refusal)
            assert space_data(space) == before, "a refusal does not change the space"
            assert not fits or len(each.groups) > 1, "a gang of one shape that fits is placed"
        else:
            assert isinstance(repeated, Placement)
            assert repeated.same_as(outcome), "the same state gives the same placement"
            assert fits
            check_every_task_is_placed(each, outcome)
            placed.append((each, outcome))
    check_nothing_is_over_allocated(cluster, placed)
    for each, outcome in placed:
        space.release(each, outcome)
    assert space_data(space) == space_data(Space(ClusterArrays(cluster)))


@pytest.mark.parametrize("name", PLACES)
def test_gang_that_fits_only_in_part_is_refused(name: str):
    space = make_space(4, 4)
    before = space_data(space)
    gang = job("gang", Request(gpus=2), share(500), count=5)
    assert isinstance(registry.create("place", name).propose(gang, SpaceTrial(space, gang, DEMAND)), Refusal)
    assert space_data(space) == before


@pytest.mark.parametrize("name", PLACES)
def test_named_card_is_used(name: str):
    space = make_space(2, 2)
    whole, part = place_jobs(
        space, name, job("a", Request(gpus=1, card="n1/0")), job("b", Request(share=Share(0, 100), card="n0/1"))
    )
    assert (whole.all_cards(), part.all_cards()) == ([2], [1])


@pytest.mark.parametrize("name", PLACES)
def test_drained_nodes_and_faulty_cards_are_not_used(name: str):
    space = make_space(2, 2, 2)
    space.set_node_up(0, False)
    space.set_card_ok(3, False)
    place_jobs(space, name, *(job(f"j{i}", share(600, 1)) for i in range(3)))
    assert sorted(space.sharers) == [2, 4, 5]


@pytest.mark.parametrize("name", [name for name in PLACES if hasattr(registry.find("place", name), "rank")])
def test_rank_keeps_every_job(name: str):
    jobs = [job("a", share(100, 2)), job("b", Request(gpus=4)), job("c", Request(cpu_milli=1)), job("d", share(900, 1))]
    assert sorted(j.id for j in registry.create("place", name).rank(jobs)) == ["a", "b", "c", "d"]


# -- balance, spread ----------------------------------------------------------------------------------------------


def test_balance_uses_the_card_with_the_least_total_utilisation():
    space = make_space(3)
    place_jobs(
        space,
        "balance",
        *(
            job(f"j{i}", share(10, 1), utilisation=utilisation)
            for i, utilisation in enumerate((0.9, 0.5, 0.3, 0.1, 0.3))
        ),
    )
    assert [sorted(j.id for j in space.sharers[card]) for card in range(3)] == [["j0"], ["j1"], ["j2", "j3", "j4"]]


def test_balance_uses_free_sms_when_there_are_no_profiles():
    space = make_space(2)
    place_jobs(space, "balance", job("a", share(700)), job("b", share(100)), job("c", share(100)))
    assert len(space.sharers[0]) == 1


def test_balance_puts_whole_gpus_on_the_node_with_most_idle_cards():
    space = make_space(4, 8)
    place_jobs(space, "balance", job("a", Request(gpus=3)))
    assert space.node_idle.tolist() == [4, 5]


@pytest.mark.parametrize(
    "request_", [Request(gpus=1), share(100, 1), Request(cpu_milli=1000)], ids=["whole", "share", "cpu"]
)
def test_spread_uses_every_node_before_any_twice(request_: Request):
    (placement,) = place_jobs(make_space(4, 2, 8, 1), "spread", job("gang", request_, count=4))
    assert sorted(placement.all_nodes()) == [0, 1, 2, 3]


def test_spread_counts_the_gang_over_all_its_roles():
    (placement,) = place_jobs(make_space(4, 2), "spread", job("gang", Request(gpus=1), share(100, 1)))
    assert sorted(placement.all_nodes()) == [0, 1]


# -- standalone ---------------------------------------------------------------------------------------------------


def test_standalone_joins_the_nearest_profile_when_no_card_is_idle():
    space = make_space(2)
    place_jobs(
        space,
        "standalone",
        job("a", share(100, 1), app="a", utilisation=0.9),
        job("b", share(100, 1), app="b", utilisation=0.2),
    )
    (placement,) = place_jobs(space, "standalone", job("c", share(100, 1), app="c", utilisation=0.3))
    assert placement.all_cards() == [1]
    assert placement.note == "c shares n0/1 with b: no card is idle"


def test_standalone_overcommits_memory_only_beside_the_same_application():
    space = make_space(2)
    spec = "standalone:overcommit=yes"
    place_jobs(space, spec, job("a1", share(400, 12), app="a"), job("a2", share(400, 12), app="a"))
    assert space.card_memory_free[0] == -8 * GIB
    place_jobs(space, spec, job("b", share(400, 12), app="b"))
    (placement,) = place_jobs(space, spec, job("a3", share(400, 4), app="a"))
    assert placement.all_cards() == [1]
    assert "a3 is not beside the same application on n0/0: it requests 4.3 GB and 40% of the SMs" in placement.note


def test_standalone_note_has_no_memory_when_the_card_memory_is_unknown():
    space = make_space(2, gib=0)
    place_jobs(space, "standalone", job("a1", share(600), app="a"))
    (placement,) = place_jobs(space, "standalone", job("a2", share(600), app="a"))
    assert placement.note == "a2 is not beside the same application on n0/0: it requests 60% of the SMs, free is 40%"


# -- topology -----------------------------------------------------------------------------------------------------


def test_topology_keeps_a_task_inside_the_fullest_domain_that_fits():
    space = make_space(8, domain=4)
    place_jobs(space, "topology", job("a", Request(gpus=1)))
    small, large = place_jobs(space, "topology", job("b", Request(gpus=2)), job("c", Request(gpus=4)))
    assert small.all_cards() == [1, 2]
    assert large.all_cards() == [4, 5, 6, 7]
    assert not large.note


def test_topology_spans_domains_only_if_needed_and_notes_it():
    space = make_space(8, domain=4)
    place_jobs(space, "topology", job("a", Request(gpus=1, card="n0/0")), job("b", Request(gpus=1, card="n0/4")))
    before = space_data(space)
    wide = job("c", Request(gpus=4))
    assert isinstance(registry.create("place", "topology:strict=true").propose(wide, SpaceTrial(space, wide)), Refusal)
    assert space_data(space) == before
    (placement,) = place_jobs(space, "topology", wide)
    assert placement.note == "1 tasks span NVLink domains"


def test_strict_topology_lets_a_task_larger_than_any_domain_span():
    (placement,) = place_jobs(make_space(8, domain=4), "topology:strict=true", job("a", Request(gpus=8)))
    assert placement.all_cards() == list(range(8))


def test_topology_keeps_a_gang_in_the_fullest_rack_that_holds_it():
    space = make_space(*[4] * 6, rack=2)
    place_jobs(space, "topology", job("a", Request(gpus=4), count=1))
    (placement,) = place_jobs(space, "topology", job("gang", Request(gpus=4), count=2))
    assert placement.all_nodes() == [2, 3]
    (mixed,) = place_jobs(
        make_space(*[4] * 6, rack=2), "topology", job("m", Request(gpus=4), share(100, 1), Request(cpu_milli=1))
    )
    assert len({node // 2 for node in mixed.all_nodes()}) == 1


# -- bestfit, random ----------------------------------------------------------------------------------------------


def test_bestfit_uses_the_fullest_card_of_the_node_with_the_least_free():
    space = make_space(8, 4, 2)
    place_jobs(space, "bestfit", job("a", share(300, 1)), job("b", share(400, 1)))
    assert [j.id for j in space.sharers[12]] == ["a", "b"]


def test_random_depends_only_on_the_seed_and_the_job():
    def cards_for_seed(seed: int) -> list[int]:
        jobs = [job(f"j{i}", Request(gpus=1)) for i in range(20)]
        return [
            card
            for placement in place_jobs(make_space(*[4] * 10), f"random:seed={seed}", *jobs)
            for card in placement.all_cards()
        ]

    assert cards_for_seed(1) == cards_for_seed(1)
    assert cards_for_seed(1) != cards_for_seed(2)
    assert len({card // 4 for card in cards_for_seed(1)}) > 5


# -- fragmentation ------------------------------------------------------------------------------------------------


def propose_fragmentation(space: Space, each: Job, demand=DEMAND) -> Placement | Refusal:
    return registry.create("place", "fragmentation").propose(each, SpaceTrial(space, each, demand))


def test_fragmentation_keeps_cards_idle_for_whole_card_requests():
    space = make_space(2, 2)
    place_jobs(space, "fragmentation", job("a", share(300, 4)), job("b", share(300, 4)), job("c", share(300, 4)))
    assert list(space.sharers) == [0]


def test_fragmentation_leaves_cpu_on_nodes_with_idle_gpus():
    space = Space(ClusterArrays(Cluster((
        Node("gpus", tuple(Card(f"c{i}") for i in range(4)), 8000, GIB),
        Node("cpus", (Card("c4"),), 64_000, GIB),
    ))))  # fmt: skip
    (placement,) = place_jobs(space, "fragmentation", job("a", Request(cpu_milli=4000)))
    assert placement.all_nodes() == [1]


def test_fragmentation_depends_on_the_usual_demand():
    """With CPU for two tasks left, the usual demand decides whether using the larger node causes fragmentation."""
    space = Space(ClusterArrays(Cluster((
        Node("pair", (Card("c0"), Card("c1")), 2000, GIB), Node("single", (Card("c2"),), 64_000, GIB),
    ))))  # fmt: skip
    each = job("a", Request(gpus=1, cpu_milli=1000))
    for usual, node in ((Request(gpus=2, cpu_milli=2000), 1), (Request(gpus=1, cpu_milli=32_000), 0)):
        outcome = propose_fragmentation(space.copy(), each, ((usual, 1.0),))
        assert isinstance(outcome, Placement)
        assert outcome.all_nodes() == [node]


def test_fragmentation_keeps_large_blocks_when_the_demand_is_unknown():
    space = make_space(8, 2)
    each = job("a", Request(gpus=1))
    outcome = propose_fragmentation(space, each, ())
    assert isinstance(outcome, Placement)
    assert outcome.all_nodes() == [1]


@given(cluster=clusters, jobs=jobs_strategy)
def test_cached_fragmentation_equals_a_new_computation(cluster: Cluster, jobs: list[Job]):
    space, placed = Space(ClusterArrays(cluster)), []
    for number, each in enumerate(jobs):
        if placed and number % 3 == 2:
            space.release(*placed.pop(0))
        if number % 5 == 4:
            space.set_node_up(0, not space.node_up[0])
        uncached = Space(ClusterArrays(cluster))
        for name in ARRAYS:
            getattr(uncached, name)[:] = getattr(space, name)
        uncached_outcome = propose_fragmentation(uncached, each)
        outcome = propose_fragmentation(space, each)
        assert type(uncached_outcome) is type(outcome)
        if isinstance(outcome, Placement) and isinstance(uncached_outcome, Placement):
            assert outcome.same_as(uncached_outcome)
            placed.append((each, outcome))


def test_fragmentation_cache_drops_a_deleted_cluster():
    space = make_space(2, 2)
    place_jobs(space, "fragmentation", job("a", share(300, 4)))
    fixed = space.fixed
    assert fixed in fragmentation._known
    count = len(fragmentation._known)
    del space, fixed
    assert len(fragmentation._known) < count


@given(clusters, jobs_strategy)
def test_expected_fragmentation_matches_its_definition(cluster: Cluster, jobs: list[Job]):
    """Free GPU capacity minus what the usual demand can use, for each card, in plain Python."""
    space = Space(ClusterArrays(cluster))
    for each in jobs:
        registry.create("place", "random").propose(each, SpaceTrial(space, each))
    fragments = fragmentation.Fragments(space, DEMAND, 2.0)
    demand = sorted(DEMAND, key=lambda item: -item[1])
    for node in range(len(cluster.nodes)):
        free = {int(card): free_milli(space, card) for card in np.flatnonzero(space.fixed.card_node == node)}
        expected = sum(
            round(weight * 2**20) * (sum(free.values()) - usable(space, node, request, free))
            for request, weight in demand
        )
        assert fragments._fragments[node] == pytest.approx(expected, rel=1e-9, abs=2**20)


def free_milli(space: Space, card: int) -> int:
    """The smaller of the free SMs and the free memory, in thousandths."""
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
