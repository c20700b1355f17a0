"""Test of a database outage while a service has running and pending jobs."""

from __future__ import annotations

import time

import pytest

from gpusquad.client.errors import ApiError

pytestmark = pytest.mark.slow
OUTAGE_S = 5.0


@pytest.mark.parametrize("blank_url", ["postgresql"], indirect=True)
def test_jobs_continue_and_none_is_lost_during_a_database_outage(make_service, postgresql_server) -> None:
    service = make_service()
    running = service.submit(name="runs", command="while [ ! -e go ]; do sleep 0.05; done; echo done")
    service.wait(running, "running")
    waiting = service.submit(name="waits", gpus=8, command="echo then")
    postgresql_server.stop()
    try:
        (service.home / "go").touch()  # the job ends while the service cannot store that
        deadline = time.monotonic() + OUTAGE_S
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
