"""The API with each supported database."""

from __future__ import annotations

from pathlib import Path

from gpusquad.store.database import Database
from tests.server.rig import JOB_FILE, Rig

READS = (
    "jobs", "queue", "nodes", "cluster", "policy", "policy/revisions", "usage", "usage?by=job", "me", "tenants",
    "users", "tokens", "audit", "secrets", "notices/rules", "notices/outbox", "windows",
    "cards/node0/1/samples?every_s=60", "audit?actor=ann&since_s=1",
    "jobs?text=100%25_x&state=held,pending&user=ann&since_s=0&until_s=9999999999&sort=-ended",
)  # fmt: skip


def test_reads_and_common_changes_work_with_each_database(tmp_path: Path, database: Database) -> None:
    rig = Rig(tmp_path, database)
    job = rig.submit(name="가나다 🦑 '\"%_")
    assert rig.post("jobs", json={"file": JOB_FILE | {"sweep": {"n": [1, 2]}}}).status_code == 201
    for path in READS:
        assert rig.get(path, "root").status_code == 200, path
    for ref in (job["id"], job["id"][:20], job["id"][-6:], job["name"]):
        assert rig.get(f"jobs/{ref.replace('%', '%25')}").json()["id"] == job["id"]
    for action in ("hold", "release", "cancel"):
        assert rig.post(f"jobs/{job['id']}/{action}").status_code == 200
    assert len(rig.get(f"jobs/{job['id']}/story").json()["items"]) == 4
    page = rig.get("jobs?limit=2").json()
    assert len(rig.get(f"jobs?limit=2&cursor={page['next']}").json()["items"]) == 1
    assert len(rig.get("audit", "root").json()["items"]) == 5
