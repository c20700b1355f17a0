"""Whatever goes wrong: one line on stderr, nothing on stdout, and an exit code that means something."""

import socket

import pytest

from gpusquad.cli import _exit
from tests.fake_service import FakeAnswer


def problem(result) -> str:
    assert result.stdout == ""
    line, *more = result.stderr.splitlines()
    assert more == []
    return line


@pytest.mark.parametrize(
    ("status", "code", "exit_code"),
    [
        (401, "unauthenticated", _exit.FORBIDDEN), (403, "forbidden", _exit.FORBIDDEN),
        (404, "not_found", _exit.NOT_FOUND), (409, "conflict", _exit.REFUSED), (409, "tenant_limit", _exit.REFUSED),
        (422, "invalid", _exit.BAD_INPUT), (422, "never_fits", _exit.REFUSED), (413, "too_large", _exit.BAD_INPUT),
        (429, "rate_limited", _exit.UNAVAILABLE), (500, "internal", _exit.UNAVAILABLE),
        (503, "unavailable", _exit.UNAVAILABLE),
    ],
)  # fmt: skip
def test_exit_codes(service, gsq, status, code, exit_code):
    service.fail("POST", "/jobs/x/hold", status, code, "so it is", "job", "do otherwise")
    said = problem(gsq("hold", "x", code=exit_code)) if status != 401 else ""
    assert not said or said == "error: x: job: so it is (do otherwise)"


def test_nobody_we_know(service, gsq, monkeypatch):
    monkeypatch.setenv("GPUSQUAD_TOKEN", "other")
    assert "set GPUSQUAD_TOKEN" in problem(gsq("queue", code=_exit.FORBIDDEN))


def test_no_service_here(gsq, monkeypatch, tmp_path):
    monkeypatch.delenv("GPUSQUAD_URL", raising=False)
    monkeypatch.setenv("GPUSQUAD_HOME", str(tmp_path))
    told = "error: no gpusquad service is running here; start one with `gpusquad up`"
    assert problem(gsq("queue", code=_exit.UNAVAILABLE)) == told


def test_no_service_there(gsq, monkeypatch):
    with socket.socket() as free:
        free.bind(("127.0.0.1", 0))
        monkeypatch.setenv("GPUSQUAD_URL", f"http://127.0.0.1:{free.getsockname()[1]}")
    assert "check GPUSQUAD_URL" in problem(gsq("queue", code=_exit.UNAVAILABLE))


def test_errors_cannot_act_on_the_terminal(service, gsq):
    service.fail("GET", "/queue", 422, "invalid", "a\nb\x1b[2J\u202e")
    assert problem(gsq("queue", code=2)) == "error: a b^[[2J\\u202e"


def test_interrupted(service, gsq, monkeypatch):
    def interrupt(*_, **__):
        raise KeyboardInterrupt

    monkeypatch.setattr("gpusquad.client.cluster.ClusterApi.queue", interrupt)
    assert gsq("queue", code=_exit.INTERRUPTED).stdout == ""


def test_one_of_several_fails_and_the_others_are_done(service, gsq):
    result = gsq("hold", "nope", "llama-finetune", code=_exit.NOT_FOUND)
    assert result.stdout == "llama-finetune (0004bxdf): held\n"
    assert "nope" in result.stderr


def test_a_service_that_breaks_off(service, gsq):
    service.set_answers("POST", "/jobs/x/hold", FakeAnswer(drop=True))
    problem(gsq("hold", "x", "llama-finetune", code=_exit.UNAVAILABLE))
    assert len(service.requests) == 1
