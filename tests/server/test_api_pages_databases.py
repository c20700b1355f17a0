"""The routes of the dashboard pages with each supported database and filled tables."""

from __future__ import annotations

from pathlib import Path

import pytest

from gpusquad.model.units import US_PER_S
from gpusquad.store import attempts, audit, samples
from gpusquad.store.attempts import AttemptRow
from gpusquad.store.database import Database
from gpusquad.store.samples import SampleRow
from tests.server.rig import Rig


def test_routes_of_the_dashboard_work_with_each_database(tmp_path: Path, database: Database) -> None:
    rig = Rig(tmp_path, database)
    now_us = rig.clock.now_us()
    hour_us = 3600 * US_PER_S
    job = rig.submit(name="가나다 🦑 '\"%_", slo={"deadline": "1h"}, gpus=2)
    with database.write() as c:
        attempts.open(c, AttemptRow(job["id"], 0, "a", "ann", now_us - hour_us, None, 2000, ["node0/0", "node0/1"]))
        audit.append(c, now_us - hour_us, "root", "card.cordon", "node0/7")
        for at_us in range(now_us - 2 * hour_us, now_us, 60 * US_PER_S):
            samples.append(c, at_us, [SampleRow(f"node0/{at}", busy_ratio=0.5) for at in range(8)])
    rig.scheduler.move(job["id"], "running")
    assert [bar["name"] for bar in rig.get("timeline", "root").json()["bars"]] == [job["name"]]
    day_s = now_us / US_PER_S - 86_400
    assert rig.get(f"timeline?from_s={day_s}&to_s={day_s + 60}", "root").json()["bars"] == []
    hours = rig.get("efficiency?hours=1", "root").json()["total"]
    assert hours["busy"] == pytest.approx(1.0, rel=0.1), "two cards for one hour, half busy"
    assert hours["unhealthy"] == pytest.approx(1.0, rel=0.1)
    assert rig.get("goals", "root").json()["jobs"][0]["goal"]["deadline_s"] == pytest.approx(
        now_us / 1e6 + 3600, abs=60
    )
    for path in ("free?gpus=2", "interference", "predictions/series?points=10", f"jobs/{job['id']}/neighbours"):
        assert rig.get(path, "root").status_code == 200, path
