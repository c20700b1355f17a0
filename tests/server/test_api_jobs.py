"""API of jobs: submission, lookup, lists, updates and queries."""

from __future__ import annotations

import pytest

from gpusquad.server.params import MAX_ROWS
from gpusquad.server.schemas import cluster as cluster_schemas
from gpusquad.server.schemas import jobs as job_schemas
from gpusquad.store import audit, events, jobs
from gpusquad.store.jobs import JobRow
from tests.server.rig import JOB_FILE, Rig, error_of

SWEEP = JOB_FILE | {"name": "try-${lr}", "params": {}, "sweep": {"lr": [1, 2, 3]}}
HOSTILE = [
    "../../etc/passwd",
    "a/b",
    "%00",
    "x' OR '1'='1",
    "\u202eevil",
    "a" * 256,
    "🦑" * 60,
    "{job}",
    "..",
    "NUL\x00",
]


def test_submission_returns_the_job(rig: Rig) -> None:
    answer = rig.post("jobs", json={"file": JOB_FILE | {"name": "first", "count": 3}})
    assert answer.status_code == 201
    accepted = answer.json()
    assert accepted["group"] is None
    job = accepted["jobs"][0]
    assert (job["name"], job["state"], job["tasks"], job["gpus"], job["user"]) == ("first", "pending", 3, 3, "ann")
    assert rig.get(f"jobs/{job['id']}").json() == job | {
        "slo": None,
        "estimate_s": None,
        "limit_s": None,
        "hang_warnings": [],
        "held_s": None,
        "run_record": None,
        "auto": [],
        "estimator": None,
        "used": None,
    }


def test_share_is_shown_as_requested(rig: Rig) -> None:
    def shown_share(**request: object) -> object:
        file = {name: value for name, value in JOB_FILE.items() if name != "gpus"} | request
        return rig.post("jobs", json={"file": file}).json()["jobs"][0]["share"]

    share = {"memory": "8GiB", "sm": "40%"}
    assert shown_share(share=share) == {"sm": 0.4, "memory": 8 * 2**30, "isolation": "shared"}
    assert shown_share(share={"memory": "30%", "isolation": "isolated"}) == {
        "sm": None, "memory": "30%", "isolation": "isolated",
    }  # fmt: skip
    assert shown_share(gpus=2) is None
    roles = [{"name": "a", "share": share}, {"name": "b", "count": 2, "share": share}]
    assert shown_share(roles=roles) == shown_share(share=share)
    assert shown_share(roles=[*roles, {"name": "c", "gpus": 1}]) is None


def test_sweep_is_submitted_as_one_group(rig: Rig) -> None:
    accepted = rig.post("jobs", json={"file": SWEEP}).json()
    assert [job["name"] for job in accepted["jobs"]] == ["try-1", "try-2", "try-3"]
    assert {job["group"] for job in accepted["jobs"]} == {accepted["group"]} != {None}
    listed = rig.get(f"jobs?group={accepted['group']}&sort=submitted").json()["items"]
    assert listed == accepted["jobs"]


def test_same_key_of_one_user_is_one_submission(rig: Rig) -> None:
    request = {"json": {"file": JOB_FILE}, "headers": {"Idempotency-Key": "k1"}}
    first, second = rig.post("jobs", **request), rig.post("jobs", **request)
    assert first.status_code == second.status_code == 201
    assert first.json() == second.json()
    assert rig.post("jobs", "amy", **request).json() != first.json()
    assert len(rig.get("jobs").json()["items"]) == 2


@pytest.mark.parametrize("key", ["", " ", "a" * 129, "with space", "é"])
def test_invalid_idempotency_key_is_refused(rig: Rig, key: str) -> None:
    answer = rig.post("jobs", json={"file": JOB_FILE}, headers={"Idempotency-Key": key.encode()})
    assert answer.status_code == 422
    assert error_of(answer)["field"] == "Idempotency-Key"


def test_infeasible_job_is_refused_with_the_numbers(rig: Rig) -> None:
    answer = rig.post("jobs", json={"file": JOB_FILE | {"gpus": 100}})
    assert answer.status_code == 422
    error = error_of(answer)
    assert error["code"] == "never_fits"
    assert error["reason"]["numbers"] == {"needed": 100.0}


@pytest.mark.parametrize(
    ("body", "field"),
    [
        ({"file": JOB_FILE | {"gpu": 1}}, "file.gpu"),
        ({"file": {"gpus": 1}}, "file.command"),
        ({"file": JOB_FILE | {"name": "${nobody}"}}, "file.name"),
        ({"file": JOB_FILE | {"estimate": "soon"}}, "file.estimate"),
        ({"file": []}, "file"),
        ({"file": JOB_FILE, "params": {"a b": 1}}, "params.a b"),
        ({"file": JOB_FILE, "extra": 1}, "extra"),
        ({}, "file"),
        (None, "body"),
        ([], "body"),
        ("text", "body"),
    ],
)
def test_invalid_file_is_refused_with_the_field(rig: Rig, body: object, field: str) -> None:
    answer = rig.post("jobs", json=body)
    assert answer.status_code == 422
    error = error_of(answer)
    assert (error["code"], error["field"]) == ("invalid", field)


def test_job_with_an_unknown_secret_is_refused(rig: Rig) -> None:
    file = JOB_FILE | {"secrets": ["WANDB"]}
    answer = rig.post("jobs", json={"file": file})
    assert answer.status_code == 422
    assert "WANDB" in error_of(answer)["message"]
    rig.call("PUT", "secrets/WANDB", json={"value": "v"})
    assert rig.post("jobs", json={"file": file}).status_code == 201
    assert rig.post("jobs", "bob", json={"file": file}).status_code == 422


# -- lookup and lists ----------------------------------------------------------------------------------------------


def test_job_is_found_by_id_prefix_suffix_and_name(rig: Rig) -> None:
    job = rig.submit(name="solo")
    for ref in (job["id"], job["id"].upper(), job["id"][:12], job["id"][-7:], "solo"):
        assert rig.get(f"jobs/{ref}").json()["id"] == job["id"]
    assert rig.get(f"jobs/{job['id'][:5]}").status_code == 404


def test_ambiguous_reference_is_a_conflict(rig: Rig) -> None:
    first, second = rig.submit(name="twin"), rig.submit(name="twin")
    shared = first["id"][: next(at for at in range(26) if first["id"][at] != second["id"][at])]
    for ref in ("twin", shared):
        assert rig.get(f"jobs/{ref}").status_code == 409
    rig.scheduler.move(first["id"], "cancelled")
    assert rig.get("jobs/twin").json()["id"] == second["id"]
    rig.scheduler.move(second["id"], "cancelled")
    assert rig.get("jobs/twin").json()["id"] == second["id"]  # both have ended: the latest is returned


def test_pages_contain_all_jobs_in_order(rig: Rig) -> None:
    ids = [rig.submit()["id"] for _ in range(7)]
    seen, cursor = [], ""
    while cursor is not None:
        page = rig.get(f"jobs?limit=3&sort=submitted{cursor and '&cursor=' + cursor}").json()
        seen += [job["id"] for job in page["items"]]
        cursor = page["next"]
    assert seen == ids
    seen, cursor = [], ""
    while cursor is not None:
        page = rig.get(f"queue?limit=3{cursor and '&cursor=' + cursor}").json()
        seen += [job["id"] for job in page["items"]]
        cursor = page["next"]
    assert seen == ids


@pytest.mark.parametrize(
    "query",
    [
        "limit=0", "limit=1001", "limit=x", "cursor=%00", "cursor=nonsense", "state=asleep", "sort=name", "since_s=-1",
        "since_s=nan", "since_s=inf", "since_s=1e99", "sate=pending", "text=%01",
    ],
)  # fmt: skip
def test_invalid_query_is_refused_with_the_field(shared_rig: Rig, query: str) -> None:
    answer = shared_rig.get(f"jobs?{query}")
    assert answer.status_code == 422
    assert error_of(answer)["field"] == query.partition("=")[0].replace("state", "state.0")


def test_states_can_be_repeated_or_separated_by_commas(rig: Rig) -> None:
    held, pending = rig.submit()["id"], rig.submit()["id"]
    rig.post(f"jobs/{held}/hold")
    for query, expected in (
        ("state=held", {held}),
        ("state=held,pending", {held, pending}),
        ("state=held&state=pending", {held, pending}),
        ("state=running", set()),
    ):
        assert {job["id"] for job in rig.get(f"jobs?{query}").json()["items"]} == expected


def test_queue_has_running_jobs_on_its_first_page_only(rig: Rig) -> None:
    jobs_ = [rig.submit()["id"] for _ in range(3)]
    rig.scheduler.move(jobs_[0], "running", placement={"tasks": [{"node": "node0", "cards": ["node0/0"]}], "parts": []})
    page = rig.get("queue?limit=1").json()
    assert [job["id"] for job in page["running"]] == [jobs_[0]]
    assert page["running"][0]["placement"] == [{"task": 0, "node": "node0", "cards": ["node0/0"]}]
    assert page["items"][0]["eta_s"] is page["items"][0]["eta_high_s"] is None  # "never" is not a date
    assert page["counts"]["running"] == 1
    assert page["counts"]["pending"] == 2
    rig.scheduler.move(jobs_[2], "held")
    assert [job["id"] for job in rig.get("queue?limit=1").json()["held"]] == [jobs_[2]]
    following = rig.get(f"queue?limit=1&cursor={page['next']}").json()
    assert following["running"] == following["held"] == []


def test_page_has_at_most_the_maximum_of_rows(rig: Rig) -> None:
    accepted = rig.post("jobs", json={"file": JOB_FILE | {"sweep": {"n": list(range(1100))}}})
    assert len(accepted.json()["jobs"]) == 1100
    for path in ("jobs", "queue"):
        page = rig.get(f"{path}?limit={MAX_ROWS}").json()
        assert len(page["items"]) == MAX_ROWS
        assert page["next"] is not None


def test_hostile_names_cause_no_server_error(rig: Rig) -> None:
    for name in HOSTILE:
        answer = rig.post("jobs", json={"file": JOB_FILE | {"name": name}})
        assert answer.status_code in (201, 422)
        if answer.status_code == 201:
            assert rig.get(f"jobs/{answer.json()['jobs'][0]['id']}").status_code == 200
        for path in (
            f"jobs/{name}",
            f"nodes/{name}/drain",
            f"cards/{name}/cordon",
            f"secrets/{name}",
            f"jobs?text={name}",
        ):
            method = "POST" if path.endswith(("drain", "cordon")) else "GET"
            quoted = path.replace("%", "%25").replace("\x00", "%00").replace("#", "%23")
            assert rig.call(method, quoted, "root").status_code in (200, 404, 405, 409, 422)


# -- updates -------------------------------------------------------------------------------------------------------


def test_hold_release_cancel_and_resubmit_change_the_state(rig: Rig) -> None:
    job = rig.submit()["id"]
    assert rig.post(f"jobs/{job}/release").status_code == 409
    assert rig.post(f"jobs/{job}/hold", json={}).json()["state"] == "held"
    assert rig.post(f"jobs/{job}/release").json()["state"] == "pending"
    cancelled = rig.post(f"jobs/{job}/cancel", json={"cause": "no longer needed"}).json()
    assert (cancelled["state"], cancelled["cause"]) == ("cancelled", "no longer needed")
    assert rig.post(f"jobs/{job}/cancel").status_code == 409
    again = rig.post(f"jobs/{job}/resubmit").json()["jobs"][0]
    assert (again["state"], again["id"] == job) == ("pending", False)


def test_held_job_says_since_when(rig: Rig) -> None:
    job = rig.submit()["id"]
    assert rig.get(f"jobs/{job}").json()["held_s"] is None
    rig.scheduler.move(job, "held")
    with rig.database.write() as c:
        for at_us, kind in ((1_000_000, "held"), (2_000_000, "retry"), (3_000_000, "updated")):
            events.append(c, job, 10**16 + at_us, kind, "held", 0)
    assert rig.get(f"jobs/{job}").json()["held_s"] == 10**10 + 2
    (held,) = rig.get("queue").json()["held"]
    assert held["held_s"] == 10**10 + 2
    rig.scheduler.move(job, "pending")
    assert rig.get(f"jobs/{job}").json()["held_s"] is None


def test_job_has_its_goals(rig: Rig) -> None:
    job = rig.submit(slo={"deadline": "2h", "availability": 0.99}, limit="3h")
    detail = rig.get(f"jobs/{job['id']}").json()
    assert detail["slo"] == {
        "deadline_s": job["submitted_s"] + 7200, "latency_s": None, "throughput": None, "availability": 0.99,
        "deadline_met": None, "attainment_ratio": None, "unknown": False,
    }  # fmt: skip
    assert (detail["limit_s"], detail["estimate_s"]) == (10800, None)
    assert rig.get(f"jobs/{rig.submit()['id']}").json()["slo"] is None


def test_running_job_has_the_warnings_of_hang_detection_everywhere(rig: Rig) -> None:
    job = rig.submit()["id"]
    assert rig.get(f"jobs/{job}/why").json()["hang_warnings"] == []
    rig.scheduler.move(job, "running")
    (running,) = rig.get("queue").json()["running"]
    (warning,) = running["hang_warnings"]
    assert (warning["rule"], warning["message"], warning["stops_s"]) == ("silent", "no output", None)
    assert rig.get(f"jobs/{job}").json()["hang_warnings"] == [warning]
    assert rig.get(f"jobs/{job}/why").json()["hang_warnings"] == [warning]


def test_update_changes_a_job_and_refuses_invalid_fields(rig: Rig) -> None:
    job = rig.submit()["id"]
    assert rig.call("PATCH", f"jobs/{job}", json={"priority": "high", "estimate": "2h"}).json()["priority"] == "high"
    for body, field in (
        ({}, "body"),
        ({"priority": "nope"}, "priority"),
        ({"gpus": 2}, "gpus"),
        ({"estimate": "soon"}, "estimate"),
        ({"slo": {"speed": 1}}, "slo.speed"),
        ({"name": "a\nb"}, "name"),
        ({"memory": "8 parsecs"}, "memory"),
    ):
        answer = rig.call("PATCH", f"jobs/{job}", json=body)
        assert answer.status_code == 422
        assert error_of(answer)["field"] == field


@pytest.mark.parametrize(
    ("request_fields", "memory"),
    [
        ({"share": {"memory": "2GiB"}}, 2**31),
        ({"share": {"memory": "30%"}}, "30%"),
        ({"share": {"sm": 0.5}}, None),
        ({"gpus": 1}, None),
        ({"roles": [{"name": "a", "share": {"memory": "2GiB"}}, {"name": "b", "gpus": 1}]}, None),
    ],
)
def test_update_returns_the_current_memory_share(rig: Rig, request_fields: dict, memory: object) -> None:
    job = rig.post("jobs", json={"file": {"command": ["x"], **request_fields}}).json()["jobs"][0]["id"]
    answer = rig.call("PATCH", f"jobs/{job}", json={"name": "other"}).json()
    assert (answer["name"], answer["memory"]) == ("other", memory)


@pytest.mark.parametrize(
    ("memory", "message"),
    [("0.3", "write 30%"), (0.3, "write 30%"), (1.0, "write 100%"), ("130%", "more than one GPU")],
)
def test_invalid_memory_share_is_refused_as_in_job_files(rig: Rig, memory: object, message: str) -> None:
    job = rig.submit()["id"]
    of_change = error_of(rig.call("PATCH", f"jobs/{job}", json={"memory": memory}))
    of_file = error_of(rig.post("jobs", json={"file": {"command": ["x"], "share": {"memory": memory}}}))
    assert message in f"{of_change['message']} {of_change['cure']}"
    assert of_change["field"] == "memory"
    assert (of_change["message"], of_change["cure"]) == (of_file["message"], of_file["cure"])


def test_every_change_is_audited_without_secrets(rig: Rig) -> None:
    job = rig.submit(env={"PASSWORD": "hunter2"})["id"]
    rig.post(f"jobs/{job}/hold")
    rig.call("PATCH", f"jobs/{job}", json={"priority": "high"})
    rig.post(f"jobs/{job}/cancel")
    rows = rig.get("audit", "root").json()["items"]
    assert [row["action"] for row in rows] == ["job.cancel", "job.change", "job.hold", "job.submit"]
    assert {(row["actor"], row["target"]) for row in rows} == {("ann", job)}
    assert "hunter2" not in str(rows)


def test_audit_row_is_written_after_a_store_outage(rig: Rig, monkeypatch: pytest.MonkeyPatch) -> None:
    from gpusquad.store.errors import StoreUnavailable

    job = rig.submit()["id"]

    def broken(*_: object) -> int:
        raise StoreUnavailable("away")

    with monkeypatch.context() as patched:
        patched.setattr(audit, "append", broken)
        assert rig.post(f"jobs/{job}/hold").status_code == 200
    rig.post(f"jobs/{job}/release")
    actions = [row["action"] for row in rig.get("audit", "root").json()["items"]]
    assert actions == ["job.release", "job.hold", "job.submit"]


# -- queries -------------------------------------------------------------------------------------------------------


def test_why_when_and_story_follow_the_job(rig: Rig) -> None:
    job = rig.submit()["id"]
    why = rig.get(f"jobs/{job}/why").json()
    assert (why["state"], why["position"], why["reasons"][0]["code"]) == ("pending", 1, "no_cards")
    when = rig.get(f"jobs/{job}/when").json()
    assert when["high_s"] is None
    assert when["run"] == {"mid_s": 60.0, "high_s": None, "source": "history", "confidence": None}
    assert when["accuracy"]["count"] == 10
    rig.scheduler.move(job, "succeeded", started_us=5_000_000)
    assert rig.get(f"jobs/{job}/why").json() == {
        "state": "succeeded", "position": None, "reasons": [], "passed": [], "hang_warnings": [],
    }  # fmt: skip
    assert rig.get(f"jobs/{job}/when").json()["start_s"] == 5.0
    story = rig.get(f"jobs/{job}/story").json()
    assert [line["kind"] for line in story["items"]] == ["pending", "succeeded"]
    first = rig.get(f"jobs/{job}/story?limit=1").json()
    assert rig.get(f"jobs/{job}/story?cursor={first['next']}").json()["items"] == story["items"][1:]


def test_what_if_says_that_the_answer_of_an_estimator_is_missing(rig: Rig) -> None:
    answer = rig.post("whatif", json={"file": JOB_FILE | {"expect": {"by": "python3 estimate.py"}}}).json()
    assert any("its estimator (expect.by) runs first" in text for text in answer["warnings"])
    assert rig.post("whatif", json={"file": JOB_FILE}).json()["warnings"] == []


def test_what_if_answers_without_submitting(rig: Rig) -> None:
    answer = rig.post("whatif", json={"file": SWEEP}).json()
    assert (answer["starts_now"], answer["jobs"], answer["refused"]) == (True, 3, None)
    refused = rig.post("whatif", json={"file": JOB_FILE | {"gpus": 64}}).json()["refused"]
    assert refused["code"] == "never_fits"
    assert rig.get("jobs").json()["items"] == []


def test_source_is_visible_to_the_owner_only(rig: Rig) -> None:
    job = rig.submit(env={"A": "1"})["id"]
    assert rig.get(f"jobs/{job}/source").json()["spec"]["env"] == {"A": "1"}
    assert rig.get(f"jobs/{job}/source", "amy").status_code == 403


def test_rows_with_all_fields_fit_the_schemas(rig: Rig) -> None:
    """The API does not validate its answers at run time, so this test does."""
    full = JobRow(
        id="0" * 26, name="n", tenant="a", user="ann", state="failed", started_us=1, ended_us=2, group_id="g",
        forecast={"mid_us": 1, "high_us": 2, "source": "s"}, after=[{"job": "x", "on": "any"}],
        placement={"tasks": [{"node": "node0", "cards": ["node0/1"]}], "parts": []},
        result={"task": 1, "exit_code": 1, "signal": None, "oom": False, "more": 1},
        progress={"step": 1, "total": 2, "ratio": 0.5, "at_us": 1_000_000},
        core={"roles": [{"count": 2}, {"count": 3}]},
    )  # fmt: skip
    with rig.database.write() as c:
        jobs.insert(c, [full])
    detail = rig.get(f"jobs/{full.id}").json()
    assert job_schemas.JobDetail.model_validate(detail).tasks == 5
    assert detail["progress"]["at_s"] == 1.0
    rig.submit()
    job_schemas.QueuePage.model_validate(rig.get("queue").json())
    job_schemas.JobPage.model_validate(rig.get("jobs").json())
    cluster_schemas.NodePage.model_validate(rig.get("nodes").json())
    cluster_schemas.ClusterView.model_validate(rig.get("cluster").json())
    cluster_schemas.PolicyView.model_validate(rig.get("policy").json())
