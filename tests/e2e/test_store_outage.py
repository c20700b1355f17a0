"""The database goes away for a while, under a service with work to do."""

from __future__ import annotations

import time

import pytest

from gpusquad.client.errors import ApiError

pytestmark = pytest.mark.slow
AWAY_S = 5.0


@pytest.mark.parametrize("blank_url", ["postgresql"], indirect=True)
def test_jobs_go_on_and_nothing_is_lost_while_the_database_is_away(make_service, postgresql_server) -> None:
    service = make_service()
    running = service.submit(name="runs", command="while [ ! -e go ]; do sleep 0.05; done; echo done")
    service.wait(running, "running")
    waiting = service.submit(name="waits", gpus=8, command="echo then")
    postgresql_server.stop()
    try:
        (service.home / "go").touch()  # it ends while nobody can write that down
        deadline = time.monotonic() + AWAY_S
        refused: list[ApiError] = []
        while time.monotonic() < deadline:
            try:
                service.client.jobs.submit({"gpus": 1, "command": "true"}, key="unlucky")
            except ApiError as error:
                refused.append(error)
        assert {error.status for error in refused} == {503}
        assert service.client.health.alive()
    finally:
        postgresql_server.start()
    assert service.wait(running)["state"] == "succeeded"
    assert service.wait(waiting)["state"] == "succeeded"
    assert [service.client.jobs.get(job)["attempt"] for job in (running, waiting)] == [0, 0]
    assert service.client.health.ready().ok
