"""``gpusquad wait``."""

import json

import pytest

from tests.canned.jobs import job
from tests.fake_service import FakeAnswer, error, sse


def ends(service, number: int, *states: str) -> str:
    """A job that is in one state after the other each time somebody looks."""
    views = [job(service.now_s, number, f"job-{number}", state) for state in states]
    service.set_answers("GET", f"/jobs/{views[0]['id']}", *views)
    return views[0]["id"]


def tells(service, *ids: str) -> None:
    service.set_answers("GET", "/events", FakeAnswer(parts=[sse("job", {"job": one}) for one in ids]))


def test_over_already(service, gsq):
    one = ends(service, 30, "succeeded")
    assert gsq("wait", one).stderr == "job-30 (0030bxdf) succeeded\n"
    assert service.requests_to("GET", "/events") == []


def test_until_all_are_over(service, gsq):
    first, second = ends(service, 30, "pending", "running", "succeeded"), ends(service, 31, "running", "failed")
    tells(service, second, "another", first)
    result = gsq("wait", first, second, code=1)
    assert result.stderr.splitlines() == [
        "job-30 (0030bxdf) pending", "job-31 (0031bxdf) running on n0: 0 1",
        "job-30 (0030bxdf) running on n0: 0 1", "job-31 (0031bxdf) failed", "job-30 (0030bxdf) succeeded",
    ]  # fmt: skip


def test_until_the_first_is_over(service, gsq):
    first, second = ends(service, 30, "pending"), ends(service, 31, "running", "succeeded")
    tells(service, second)
    data = json.loads(gsq("wait", "--any", first, second, "--json").stdout)
    assert [one["id"] for one in data["items"]] == [second]


def test_for_so_long_only(service, gsq):
    one = ends(service, 30, "running")
    tells(service)
    assert "Timed out after 0.05 s: job-30 (0030bxdf) running" in gsq("wait", one, "--timeout", "50ms", code=124).stderr


def test_a_service_that_restarts_meanwhile(service, gsq):
    one = ends(service, 30, "running")
    views = service.answers["GET", f"/jobs/{one}"]
    views += [
        error(503, "unavailable", "starting", Retry_After="60"),
        FakeAnswer(job(service.now_s, 30, "j", "succeeded")),
    ]
    service.set_answers("GET", "/events", FakeAnswer(drop=True), FakeAnswer(parts=[sse("job", {"job": one})]))
    gsq("wait", one)


@pytest.mark.parametrize(("words", "code"), [(("nope",), 3), (("x", "--timeout", "soon"), 2)])
def test_what_cannot_be_waited_for(service, gsq, words, code):
    gsq("wait", *words, code=code)


def test_interrupted(service, gsq, monkeypatch):
    def interrupt(*_, **__):
        raise KeyboardInterrupt
        yield

    monkeypatch.setattr("gpusquad.client.events.EventsApi.pulse", interrupt)
    assert "The jobs continue" in gsq("wait", ends(service, 30, "running"), code=130).stderr
