"""A burst of submissions to a running service is placed as one batch. Four simulated cards, real processes."""

from __future__ import annotations

from concurrent.futures import ThreadPoolExecutor

import pytest

from bench.running import PATIENCE_S, RunningService
from gpusquad.client.client import Client
from gpusquad.client.connect import find
from tests.core.test_batch import FIGURE_4, G, L, Q, T
from tests.server.test_api_batches import job_file

pytestmark = pytest.mark.slow
CARD_GB = 12
WORST_ORDER = [G, G, Q, Q, T, T, L, L]
"""One after another, the small jobs fill the card that a large one needs."""


def submit(service: RunningService, client: Client, name: str) -> str:
    file = job_file(name)
    memory = f"{float(file['share']['memory'].removesuffix('GB')) / CARD_GB:.1%}"
    file |= {"share": {"memory": memory}, "command": ["sleep", "600"], "workdir": str(service.home)}
    return client.jobs.submit(file)["jobs"][0]["id"]


@pytest.mark.parametrize("place", FIGURE_4)
def test_figure_4_comes_out_of_a_burst_of_requests(make_service, place: str) -> None:
    service: RunningService = make_service("--simulate", "4")
    service.client.policy.set({"place": place})
    clients = [find({"GPUSQUAD_HOME": str(service.home)}) for _ in WORST_ORDER]
    with ThreadPoolExecutor(len(clients)) as users:
        jobs = list(users.map(lambda client, name: submit(service, client, name), clients, WORST_ORDER))
    apps: dict[str, list[str]] = {}
    for job_id in jobs:
        job = service.wait(job_id, "running", patience_s=PATIENCE_S)
        apps.setdefault(job["placement"][0]["cards"][0], []).append(job["name"])
    assert sorted(map(sorted, apps.values())) == [cards for cards in sorted(FIGURE_4[place]) if cards]
    for job_id in jobs:
        service.client.jobs.cancel(job_id)
