"""Fuzz tests of the API: valid and invalid requests never cause a 500 or an undocumented answer.

``GPUSQUAD_FUZZ_EXAMPLES`` sets the number of requests per operation (default: 5).
"""

from __future__ import annotations

import os
import shutil
from collections.abc import Callable, Iterator, Sequence
from pathlib import Path

import pytest
import schemathesis
from hypothesis import HealthCheck, Phase, given, settings
from hypothesis.errors import Unsatisfiable
from schemathesis import GenerationMode
from schemathesis.checks import not_a_server_error
from schemathesis.schemas import BaseSchema
from schemathesis.specs.openapi.checks import (
    content_type_conformance,
    response_headers_conformance,
    response_schema_conformance,
    status_code_conformance,
)

from gpusquad.core.ports import AttemptEnded, AttemptStarted, Launch, Report
from gpusquad.model.cluster import grid
from gpusquad.model.sharing_params import SharingParams
from gpusquad.registry import create
from gpusquad.server.app import OPENAPI, all_routes
from gpusquad.server.clock import Clock
from gpusquad.server.limits import ApiLimits
from gpusquad.server.services.scheduler import Scheduler, Setup
from gpusquad.store.database import Database
from tests.server.rig import Rig

EXAMPLES = int(os.environ.get("GPUSQUAD_FUZZ_EXAMPLES", "5"))
STREAMS = ("/events", "/stream")
"""Path ends of endless streams."""
OPERATIONS = sorted(
    f"{method} {path.replace(':path', '')}"
    for path, route in all_routes()
    for method in route.methods or ()
    if not path.endswith(STREAMS)
)
CHECKS = [
    not_a_server_error,
    status_code_conformance,
    content_type_conformance,
    response_headers_conformance,
    response_schema_conformance,
]
FUZZ_USERS = ("root", "ann", "vic")


class IdleEngine:
    """Reports that it started everything but runs nothing, because the commands are random."""

    def __init__(self, report: Callable[[Report], None]) -> None:
        self._report = report

    def launch(self, launch: Launch) -> None:
        self._report(AttemptStarted(launch.job_id, launch.attempt, (1,)))

    def stop(self, job_id: str, attempt: int, cause: str, grace_s: float) -> None:
        self._report(AttemptEnded(job_id, attempt, "stopped", cause))

    def change(self, job_id: str, attempt: int, tasks: int, sharing_params: SharingParams) -> None: ...

    def resize(self, job_id: str, attempt: int, tasks: int, before_bytes: int, memory_bytes: int) -> None: ...

    def peak_memory_bytes(self, job_id: str, attempt: int, tasks: int) -> Sequence[int]:
        return (0,) * tasks

    def recover(self, attempts: Sequence[tuple[str, int]]) -> None: ...

    def close(self) -> None: ...


def real_scheduler(database: Database, clock: Clock) -> Scheduler:
    """Create the real scheduler with an engine that runs nothing."""
    setup = Setup(
        database=database,
        clock=clock,
        cluster=grid("2x4"),
        make_engine=IdleEngine,
        predictor=create("predictor", "recent"),
        read_secret=lambda tenant, name: "",
        simulated=True,
    )
    scheduler = Scheduler(setup)
    scheduler.start()
    return scheduler


@pytest.fixture(scope="module", params=["fake", "real"])
def fuzz_rig(
    request: pytest.FixtureRequest, tmp_path_factory: pytest.TempPathFactory, empty_store: Path
) -> Iterator[Rig]:
    """One API for all requests, so that they also meet what earlier requests left behind."""
    home = tmp_path_factory.mktemp("fuzz")
    shutil.copyfile(empty_store, home / "fuzz.db")
    database = Database(home / "fuzz.db")
    limits = ApiLimits(hosts=("testserver",), requests_per_s=1e9, requests_burst=10**9)
    rig = Rig(home, database, limits, make_scheduler=real_scheduler if request.param == "real" else None)
    yield rig
    if isinstance(rig.scheduler, Scheduler):
        rig.scheduler.close()
    database.close()


@pytest.fixture(scope="module")
def api(fuzz_rig: Rig) -> BaseSchema:
    return schemathesis.openapi.from_asgi(OPENAPI, fuzz_rig.app)


@pytest.mark.parametrize("mode", list(GenerationMode))
@pytest.mark.parametrize("name", OPERATIONS)
def test_operation_answers_as_documented(name: str, mode: GenerationMode, api: BaseSchema, fuzz_rig: Rig) -> None:
    method, path = name.split()
    known = _existing_names(fuzz_rig)

    @given(case=api[path][method].as_strategy(generation_mode=mode))
    @settings(
        max_examples=EXAMPLES,
        deadline=None,
        phases=[Phase.explicit, Phase.generate],
        suppress_health_check=[HealthCheck.too_slow, HealthCheck.filter_too_much, HealthCheck.data_too_large],
    )
    def call_as_every_user(case: schemathesis.Case) -> None:
        for user in FUZZ_USERS:
            headers = {"Authorization": f"Bearer {fuzz_rig.tokens[user]}", "Host": "localhost"}
            case.call_and_validate(headers=headers, checks=CHECKS)
            # Random names rarely exist, so existing ones are used as well.
            if existing := {
                name_in_path: value for name_in_path, value in known.items() if f"{{{name_in_path}}}" in path
            }:
                case.path_parameters = {**case.path_parameters, **existing}
                case.call_and_validate(headers=headers, checks=CHECKS)

    try:
        call_as_every_user()
    except Unsatisfiable:
        assert mode is GenerationMode.NEGATIVE, "no request fits the schema"


def _existing_names(rig: Rig) -> dict[str, str]:
    """Return a running or pending job of a member, a node and a card."""
    job = rig.submit("ann")["id"]
    rig.logs.write(job, 0, 0, b"some output\n")
    node = rig.get("nodes", "root").json()["items"][0]
    return {"job": job, "node": node["id"], "card": node["cards"][0]["id"]}
