"""Tests of the variables by which the tasks of a gang find each other."""

from __future__ import annotations

import json

import pytest

from gpusquad.engines.frameworks import LOOPBACK, Gang, Member


def gang(*roles: str, cards: int = 0, host: str = "h{}") -> Gang:
    members = [Member(role, host.format(rank), 7000 + rank, cards) for rank, role in enumerate(roles)]
    return Gang(members, 29500, "/run")


def config(of: Gang, rank: int) -> dict:
    return json.loads(of.variables(rank)["TF_CONFIG"])


def test_unnamed_roles_are_workers_of_tensorflow() -> None:
    both = gang("task", "task")
    assert config(both, 1) == {
        "cluster": {"worker": ["h0:7000", "h1:7001"]},
        "task": {"type": "worker", "index": 1},
    }


def test_roles_of_tensorflow_keep_their_type() -> None:
    all_four = gang("Chief", "worker", "worker", "ps", "evaluator")
    tasks = [(config(all_four, rank)["task"]["type"], config(all_four, rank)["task"]["index"]) for rank in range(5)]
    assert tasks == [("chief", 0), ("worker", 0), ("worker", 1), ("ps", 0), ("evaluator", 0)]
    assert config(all_four, 0)["cluster"] == {"chief": ["h0:7000"], "worker": ["h1:7001", "h2:7002"], "ps": ["h3:7003"]}


def test_several_chiefs_are_workers() -> None:
    assert config(gang("chief", "chief"), 1)["task"] == {"type": "worker", "index": 1}


def test_roles_that_tensorflow_does_not_know_are_workers() -> None:
    assert config(gang("learner", "ps", "actor"), 2)["task"] == {"type": "worker", "index": 1}


@pytest.mark.parametrize("cards", [0, 1])
def test_task_with_at_most_one_card_is_one_process(cards: int) -> None:
    found = gang("task", "task", cards=cards).variables(1)
    assert (found["RANK"], found["NODE_RANK"], found["GROUP_RANK"], found["PET_NODE_RANK"]) == ("1",) * 4
    assert (found["LOCAL_RANK"], found["LOCAL_WORLD_SIZE"], found["WORLD_SIZE"]) == ("0", "1", "2")
    assert "PET_NPROC_PER_NODE" not in found


def test_task_with_several_cards_starts_its_own_processes() -> None:
    found = gang("task", "task", cards=4).variables(1)
    assert not {"LOCAL_RANK", "LOCAL_WORLD_SIZE"} & found.keys()
    assert (found["NODE_RANK"], found["PET_NNODES"], found["PET_NPROC_PER_NODE"]) == ("1", "2", "4")
    assert (found["PET_MASTER_ADDR"], found["PET_MASTER_PORT"]) == ("h0", "29500")


def test_launchers_do_not_wait_for_tasks_of_other_roles() -> None:
    found = gang("learner", "actor", "actor").variables(2)
    assert (found["RANK"], found["WORLD_SIZE"], found["MASTER_ADDR"]) == ("2", "3", "h0")
    launchers = [name for name in found if name.startswith(("PET_", "PL_", "LT_", "LOCAL_", "NODE_", "GROUP_"))]
    assert launchers == ["PET_MASTER_PORT"]


@pytest.mark.parametrize("roles", [("learner", "actor", "actor"), ("ps", "worker", "worker")])
def test_launchers_in_tasks_of_other_roles_use_different_ports(roles: tuple[str, ...]) -> None:
    all_tasks = gang(*roles, host=LOOPBACK)
    ports = [all_tasks.variables(rank)["PET_MASTER_PORT"] for rank in range(3)]
    assert len({*ports, all_tasks.variables(0)["MASTER_PORT"]}) == 4


def test_master_and_workers_are_one_world() -> None:
    assert gang("Master", "Worker", "Worker").variables(2)["PET_NODE_RANK"] == "2"


def test_jax_is_told_its_coordinator_and_rank() -> None:
    found = gang("task", "task").variables(1)
    assert found["JAX_COORDINATOR_ADDRESS"] == "h0:7000"
    assert (found["JAX_NUM_PROCESSES"], found["JAX_PROCESS_ID"]) == ("2", "1")


def test_host_files_list_the_cards_of_each_host() -> None:
    found = gang("task", "task", cards=4)
    assert found.files == {"hostfile": "h0 slots=4\nh1 slots=4\n", "machinefile": "h0:4\nh1:4\n"}
    variables = found.variables(0)
    assert variables["GPUSQUAD_HOSTFILE"] == variables["OMPI_MCA_orte_default_hostfile"] == "/run/hostfile"
    assert variables["GPUSQUAD_MACHINEFILE"] == variables["HYDRA_HOST_FILE"] == "/run/machinefile"


def test_mpi_keeps_its_own_default_on_one_machine() -> None:
    found = gang("task", "task", host=LOOPBACK)
    assert found.files["hostfile"] == "localhost slots=2\n"
    assert not [name for name in found.variables(0) if name.startswith(("OMPI_", "PRTE_", "HYDRA_", "I_MPI_"))]


def test_addresses_of_large_gangs_are_not_listed() -> None:
    found = gang(*["task"] * 257)
    assert not found.files
    variables = found.variables(256)
    assert variables["RANK"] == "256"
    assert not {"TF_CONFIG", "GPUSQUAD_HOSTFILE", "HYDRA_HOST_FILE"} & variables.keys()
