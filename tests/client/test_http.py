"""Connections, retries and errors."""

import http.client
import socket
from email.utils import formatdate

import pytest

from gpusquad.client import ApiError, Client, ServiceUnreachable
from gpusquad.client.http import Http
from gpusquad.model.errors import Invalid
from tests.fake_service import TOKEN, FakeAnswer, error


def test_one_connection_is_kept_for_many_requests(client, service):
    client.cluster.summary()
    client.cluster.nodes()
    client.jobs.hold("llama-finetune")
    assert service.connections == 1
    assert all(request.headers["authorization"] == f"Bearer {TOKEN}" for request in service.requests)


def test_parts_of_a_path_are_encoded(client, service):
    client.cluster.cordon("n0/3")
    assert service.requests[-1].path == "/api/v1/cards/n0%2F3/cordon"
    with pytest.raises(ApiError, match="there is no"):
        client.jobs.get("a/../b?c#d é")
    assert service.requests[-1].path == "/api/v1/jobs/a%2F..%2Fb%3Fc%23d%20%C3%A9"


@pytest.mark.parametrize("name", ["", ".", ".."])
def test_names_that_would_mean_another_endpoint(client, service, name):
    with pytest.raises(Invalid):
        client.jobs.get(name)
    assert service.requests == []


def test_a_query_leaves_out_what_is_not_given(client, service):
    client.jobs.find(state=["held", "pending"], user="ana & bo", limit=5)
    assert service.requests[-1].query == {"state": ["held", "pending"], "user": ["ana & bo"], "limit": ["5"]}


def test_an_error_in_the_services_words(client, service):
    service.fail("POST", "/jobs", 422, "never_fits", "needs 9 GPUs, the largest node has 8", "gpus", "ask for 8")
    with pytest.raises(ApiError) as caught:
        client.jobs.submit({"gpus": 9})
    told = caught.value
    assert (told.status, told.code, told.field, told.cure) == (422, "never_fits", "gpus", "ask for 8")
    assert str(told) == "gpus: needs 9 GPUs, the largest node has 8 (ask for 8)"


@pytest.mark.parametrize("raw", [b"<html>proxy</html>", b'{"error": "text"}', b"[]", b"\xff"])
def test_an_error_that_is_not_ours(client, service, raw):
    service.set_answers("GET", "/cluster", FakeAnswer(raw=raw, status=418))
    with pytest.raises(ApiError) as caught:
        client.cluster.summary()
    assert (caught.value.status, caught.value.code) == (418, "unexpected")


def test_an_answer_that_is_not_json(client, service):
    service.set_answers("GET", "/cluster", FakeAnswer(raw=b"<html>"))
    with pytest.raises(ApiError, match="not JSON"):
        client.cluster.summary()


def test_a_redirect_is_not_followed(client, service):
    """The token must not go elsewhere."""
    service.set_answers("GET", "/cluster", FakeAnswer(status=307, headers={"Location": "http://elsewhere.invalid/"}))
    with pytest.raises(ApiError, match="307"):
        client.cluster.summary()


def test_reading_again_after_a_broken_connection(client, service):
    service.set_answers("GET", "/cluster", FakeAnswer(drop=True), FakeAnswer(drop=True), {"gpus": 1})
    assert client.cluster.summary() == {"gpus": 1}


def test_broken_for_good(client, service):
    service.set_answers("GET", "/cluster", FakeAnswer(drop=True))
    with pytest.raises(ServiceUnreachable):
        client.cluster.summary()
    assert len(service.requests) == 3


def test_an_action_is_never_sent_twice(client, service):
    service.set_answers("POST", "/jobs/llama-finetune/cancel", FakeAnswer(drop=True))
    with pytest.raises(ServiceUnreachable):
        client.jobs.cancel("llama-finetune")
    assert len(service.requests) == 1


def test_a_submission_is_sent_again_under_the_same_key(client, service):
    service.set_answers(
        "POST", "/jobs", FakeAnswer(drop=True), error(503, "unavailable", "busy"), {"group": None, "jobs": []}
    )
    assert client.jobs.submit({"gpus": 1}) == {"group": None, "jobs": []}
    keys = {request.headers["idempotency-key"] for request in service.requests}
    assert (len(service.requests), len(keys)) == (3, 1)
    client.jobs.submit({"gpus": 1})
    assert service.requests[-1].headers["idempotency-key"] not in keys


def test_a_service_that_asks_for_patience_gets_it(client, service, pauses):
    service.set_answers("GET", "/cluster", error(503, "unavailable", "starting", Retry_After="2"), {"gpus": 1})
    assert client.cluster.summary() == {"gpus": 1}
    assert pauses == [2.0]


def test_but_not_for_long(client, service, pauses):
    service.set_answers("GET", "/cluster", error(429, "rate_limited", "too fast", Retry_After="60"))
    with pytest.raises(ApiError) as caught:
        client.cluster.summary()
    assert (caught.value.retry_after_s, pauses, len(service.requests)) == (60.0, [], 1)


def test_what_is_gone_after_a_lost_answer_is_removed(client, service):
    service.set_answers(
        "DELETE", "/windows/w1", FakeAnswer(drop=True), error(404, "not_found", "there is no window w1")
    )
    client.windows.remove("w1")


def test_what_was_never_there_cannot_be_removed(client):
    with pytest.raises(ApiError, match="there is no"):
        client.windows.remove("w2")


def test_nobody_listens():
    with socket.socket() as free:
        free.bind(("127.0.0.1", 0))
        address = f"http://127.0.0.1:{free.getsockname()[1]}"
    pauses = []
    with pytest.raises(ServiceUnreachable, match="no gpusquad service answers") as caught:
        Client(address, pause=pauses.append, cure="start one").cluster.summary()
    assert (caught.value.cure, pauses) == ("start one", [])


def test_a_service_that_never_answers():
    with socket.socket() as silent:
        silent.bind(("127.0.0.1", 0))
        silent.listen()
        client = Client(f"http://127.0.0.1:{silent.getsockname()[1]}", answer_s=0.05)
        with pytest.raises(ServiceUnreachable, match="did not answer in time") as caught:
            client.cluster.summary()
        assert "may be busy" in caught.value.cure, "it is there, so there is none to start"


def test_an_action_after_a_rest_has_a_connection_of_its_own(client, service, monkeypatch):
    """The service may have closed the one before, and such a request is sent once only."""
    client.cluster.summary()
    monkeypatch.setattr("gpusquad.client.http.FRESH_S", -1.0)
    client.jobs.hold("llama-finetune")
    assert service.connections == 2


def test_an_interrupted_answer_is_not_read_as_the_next(client, monkeypatch):
    def interrupt(*_):
        raise KeyboardInterrupt

    with monkeypatch.context() as patch:
        patch.setattr(http.client.HTTPResponse, "read", interrupt)
        with pytest.raises(KeyboardInterrupt):
            client.cluster.nodes()
    assert client.cluster.summary()["gpus"] == 32


def test_times_go_by_the_services_clock_where_it_differs(client, service):
    client.cluster.nodes()
    assert abs(client.now_s() - service.now_s) < 600
    service.set_answers(
        "GET", "/cluster", FakeAnswer({}, headers={"Date": formatdate(service.now_s + 36_000, usegmt=True)})
    )
    client.cluster.summary()
    assert 35_000 < client.now_s() - service.now_s < 37_000


@pytest.mark.parametrize("url", ["", "localhost:80", "ftp://x", "http://", "http://x:port", "http://[::1"])
def test_addresses_that_are_none(url):
    with pytest.raises(Invalid, match="url"):
        Http(url)


def test_an_address_with_a_path_and_one_in_brackets():
    assert Http("http://host/gpu/").target(("a", "b"), {"c": 1}) == "/gpu/a/b?c=1"
    assert Http("http://[::1]:80").url == "http://[::1]:80"


def test_a_token_cannot_smuggle_headers():
    with pytest.raises(Invalid, match="token"):
        Http("http://host", "abc\r\nX-Evil: 1")
