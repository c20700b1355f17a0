"""No GET route writes to the store."""

from __future__ import annotations

import re
import shutil
import traceback
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path

import pytest

from gpusquad.server.app import all_routes
from gpusquad.store.database import Database, StoreUnavailable
from tests.server.rig import Rig
from tests.server.test_fuzz import STREAMS, real_scheduler

ROUTES = sorted(path for path, route in all_routes() if "GET" in (route.methods or ()) and not path.endswith(STREAMS))


@pytest.fixture
def rig(tmp_path: Path, empty_store: Path) -> Iterator[Rig]:
    shutil.copyfile(empty_store, tmp_path / "api.db")
    rig = Rig(tmp_path, Database(tmp_path / "api.db"), make_scheduler=real_scheduler)
    yield rig
    rig.scheduler.close()
    rig.database.close()


def test_get_routes_answer_when_the_store_refuses_writes(rig: Rig, monkeypatch: pytest.MonkeyPatch) -> None:
    jobs = [rig.submit("ann", gpus=4, estimate=600)["id"] for _ in range(3)]  # two run, one is pending
    for user in ("ann", "root"):
        rig.get("me", user)  # writes the last use of the token, which happens only now and then
    node = rig.get("nodes").json()["items"][0]
    writes: list[str] = []

    @contextmanager
    def refuse(database: Database) -> Iterator[None]:
        writes.append("".join(traceback.format_stack(limit=8)))
        raise StoreUnavailable("read-only")
        yield

    rig.scheduler.close()  # its thread may write at any time
    monkeypatch.setattr(Database, "write", refuse)
    for path in ROUTES:
        for job in jobs[1:]:
            known = {"job": job, "node": node["id"], "card": node["cards"][0]["id"]}
            filled = re.sub(r"{(\w+)(:path)?}", lambda match: known.get(match[1], "none"), path)  # noqa: B023
            for user in ("ann", "root"):
                answer = rig.get(filled, user)
                assert not writes, f"{path} writes: {writes[0]}"
                if not filled.startswith("/readyz"):
                    assert answer.status_code < 500, f"{path}: {answer.text}"
    forecast = rig.get(f"jobs/{jobs[2]}/when").json()
    assert forecast["start_s"] is not None, "the pending job has a forecast"
