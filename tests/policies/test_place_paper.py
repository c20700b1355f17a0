"""The placements of a 2020 study: four kinds of container, two of each, on four cards of 12 GB."""

from collections import Counter

import numpy as np
import pytest

from gpusquad import registry
from gpusquad.core.capacity.cluster_arrays import ClusterArrays
from gpusquad.core.capacity.space import Space
from gpusquad.core.capacity.trial import SpaceTrial
from gpusquad.model.cluster import Card, Cluster, Node
from gpusquad.model.job import Job, Profile, Request, Role, Share
from gpusquad.model.placement import Placement

GB = 10**9
MEMORY_GB_AND_UTILISATION = {"L": (8.3, 0.23), "G": (0.6, 0.72), "T": (3.5, 0.88), "Q": (5.3, 0.467)}


def container(kind: str, number: int) -> Job:
    gb, ratio = MEMORY_GB_AND_UTILISATION[kind]
    memory = round(gb * GB)
    request = Request(share=Share(memory_bytes=memory), cpu_milli=1000)
    return Job(f"{kind}{number}", (Role("main", 1, request),), app=kind, profile=Profile(ratio, memory))


def paper_space() -> Space:
    gpus = tuple(Card(f"gpu{i}", "Titan Xp", 12 * GB, 30) for i in range(4))
    return Space(ClusterArrays(Cluster((Node("worker", gpus, 12_000, 64 * GB),))))


def place_all(spec: str) -> tuple[Space, dict[str, str]]:
    """Place all eight jobs in the order of the policy; returns the space and the note of each placement."""
    space, policy, notes = paper_space(), registry.create("place", spec), {}
    for job in policy.rank([container(kind, number) for kind in "LGTQ" for number in (1, 2)]):
        outcome = policy.propose(job, SpaceTrial(space, job))
        assert isinstance(outcome, Placement), (job.id, outcome)
        notes[job.id] = outcome.note
    return space, notes


def card_contents(space: Space) -> Counter[str]:
    """Number of cards for each combination of applications, for example ``LT``: 2."""
    return Counter("".join(sorted(job.app for job in space.sharers.get(card, ()))) for card in range(4))


@pytest.mark.parametrize(
    ("spec", "expected"),
    [
        ("balance", ["LT", "LT", "GQ", "GQ"]),
        ("standalone:overcommit=true", ["LL", "GG", "TT", "QQ"]),
        ("binpack", ["LT", "LT", "GGQQ", ""]),
    ],
)
def test_placements_match_the_study(spec: str, expected: list[str]):
    space, notes = place_all(spec)
    assert card_contents(space) == Counter(expected)
    assert not any(notes.values())


def test_card_memory_is_exceeded_only_with_overcommit():
    for spec in ("balance", "binpack", "standalone"):
        assert (place_all(spec)[0].card_memory_free >= 0).all(), spec
    free = place_all("standalone:overcommit=true")[0].card_memory_free
    assert free.min() == 12 * GB - 2 * 8_300_000_000


def test_standalone_without_overcommit_notes_jobs_apart_from_their_application():
    space, notes = place_all("standalone")
    assert card_contents(space) == Counter(["L", "L", "QQ", "GGTT"])
    assert notes["L2"] == "L2 is not beside the same application on gpu0: it requests 8.3 GB, free is 3.7 GB"
    assert notes["G1"].endswith("with T: no card is idle")
    assert not any(notes[job] for job in ("L1", "Q1", "Q2", "T1", "T2", "G2"))


def test_card_utilisation_may_exceed_one():
    space, _ = place_all("balance")
    assert np.allclose(sorted(space.card_load), [1.11, 1.11, 1.187, 1.187])
