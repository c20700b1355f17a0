"""Log format and redaction of secrets."""

import io
import json
import logging
import threading
from dataclasses import dataclass

import httpx
import pytest
import structlog
import uvicorn
from fastapi import FastAPI
from hypothesis import given
from hypothesis import strategies as st

from gpusquad.server.auth import new_token
from gpusquad.server.logging import configure
from gpusquad.server.redact import HIDDEN, _known, hide, redact_text, redacted

TOKEN = "gsq-Zx81kQ0vTq3mJ7s9"
LOGGERS = ("", "uvicorn", "uvicorn.error", "uvicorn.access", "urllib3", "httpx", "sqlalchemy", "alembic")


@pytest.fixture(autouse=True)
def _restore_logging():
    """Restore the process-wide logging configuration after each test."""
    before = [
        (logging.getLogger(name), logging.getLogger(name).handlers[:], logging.getLogger(name).level)
        for name in LOGGERS
    ]
    yield
    for logger, handlers, level in before:
        logger.handlers[:] = handlers
        logger.setLevel(level)
    structlog.reset_defaults()
    _known.clear()


class Terminal(io.StringIO):
    def isatty(self):
        return True


def written_lines(stream):
    return [json.loads(line) for line in stream.getvalue().splitlines()]


@pytest.fixture
def stream():
    stream = io.StringIO()
    configure(stream=stream)
    return stream


# -- format


def test_own_and_library_messages_are_logged_as_json(stream):
    structlog.get_logger("gpusquad.x").info("started", job="01J0", gpus=8)
    logging.getLogger("some.library").warning("look %s", "here")
    own_line, library_line = written_lines(stream)
    assert own_line.pop("at").endswith("Z")
    assert own_line == {"event": "started", "job": "01J0", "gpus": 8, "logger": "gpusquad.x", "level": "info"}
    assert (library_line["event"], library_line["logger"], library_line["level"]) == (
        "look here",
        "some.library",
        "warning",
    )


def test_terminal_gets_text():
    stream = Terminal()
    configure(stream=stream)
    structlog.get_logger("x").info("started", job="01J0")
    assert "started" in stream.getvalue()
    assert not stream.getvalue().startswith("{")


def test_level_applies_to_all_loggers(stream):
    structlog.get_logger("x").debug("no")
    logging.getLogger("y").debug("no")
    assert written_lines(stream) == []
    configure(stream=stream, level="debug")
    structlog.get_logger("x").debug("yes")
    assert [line["event"] for line in written_lines(stream)] == ["yes"]


def test_second_configuration_does_not_duplicate_lines(stream):
    configure(stream=stream)
    structlog.get_logger("x").info("once")
    assert len(written_lines(stream)) == 1


def test_loggers_created_before_the_configuration_use_it():
    early, stream = structlog.get_logger("early"), io.StringIO()
    early.bind()
    configure(stream=stream)
    early.info("heard")
    assert written_lines(stream)[0]["event"] == "heard"


def test_hostile_names_stay_on_one_line_without_control_characters():
    for style in ("json", "console"):
        stream = io.StringIO()
        configure(stream=stream, style=style)
        structlog.get_logger("x").info("started", name="evil\n2026 [error] fake\x1b[2J\u202e")
        assert len(stream.getvalue().splitlines()) == 1
        assert "\x1b[2J" not in stream.getvalue()


# -- secrets


@dataclass
class Row:
    user: str
    hash: str


@pytest.mark.parametrize("style", ["json", "console"])
@pytest.mark.parametrize(
    "log_with_token",
    [
        lambda log: log.info("hello", token=TOKEN),
        lambda log: log.info("hello", headers={"Authorization": f"Bearer {TOKEN}", "X-Api-Key": TOKEN}),
        lambda log: log.info("hello", headers=[("authorization", f"Bearer {TOKEN}")]),
        lambda log: log.info("hello", deep=[{"a": {"client_secret": [TOKEN]}}]),
        lambda log: log.info("hello", raw=f"authorization: bearer {TOKEN}".encode()),
        lambda log: log.info(f"got Bearer {TOKEN}"),
        lambda log: log.info(f"GET /events?token={TOKEN}&after=1"),
        lambda log: log.info("hello", text=f"{{'token': '{TOKEN}'}}"),
        lambda log: log.info("hello", text=f'{{"password": "{TOKEN} with more"}}'),
        lambda log: log.info("hello", row=Row("ann", TOKEN)),
        lambda log: log.info("hello", url=f"slack://{TOKEN}/b/c"),
        lambda log: log.info("hello", text=f"cannot send to tgram://{TOKEN}/1"),
        lambda log: log.info("hello", database=f"postgresql://gpusquad:{TOKEN}@db/gpusquad"),
        lambda log: log.info("hello", notice_url=f"https://hooks.slack.com/services/{TOKEN}"),
        lambda log: log.info("hello", error=ValueError(f"token={TOKEN}")),
        lambda log: log.bind(login_cookie=TOKEN).info("hello"),
        lambda log: log.info("hello", **{f"token={TOKEN}": 1}),
        lambda log: logging.getLogger("z").warning("Authorization: Bearer %s", TOKEN),
        lambda log: logging.getLogger("z").warning("%(token)s", {"token": f"Basic {TOKEN}"}),
    ],
)
def test_token_is_never_logged(style, log_with_token):
    stream = io.StringIO()
    configure(stream=stream, style=style)
    log_with_token(structlog.get_logger("x"))
    assert stream.getvalue()
    assert TOKEN not in stream.getvalue()


@pytest.mark.parametrize("style", ["json", "console"])
@pytest.mark.parametrize("ours", [True, False])
def test_token_in_a_traceback_is_never_logged(style, ours):
    stream = io.StringIO()
    configure(stream=stream, style=style)
    try:
        raise RuntimeError(f"no answer from https://x.example/hook/{TOKEN} with Bearer {TOKEN}")
    except RuntimeError:
        (structlog.get_logger("x") if ours else logging.getLogger("z")).exception("went wrong")
    assert "RuntimeError" in stream.getvalue()
    assert TOKEN not in stream.getvalue()


def test_registered_secret_is_hidden_everywhere(stream):
    hide(TOKEN)
    structlog.get_logger("x").info(f"odd {TOKEN} place", list=[f"x{TOKEN}y"])
    assert TOKEN not in stream.getvalue()
    assert written_lines(stream)[0]["list"] == [f"x{HIDDEN}y"]


def test_own_tokens_are_recognised_by_their_format(stream):
    token = new_token()
    structlog.get_logger("x").info(f"odd {token}", place=[token])
    assert token not in stream.getvalue()


def test_other_values_are_not_redacted():
    values = {
        "token_id": "01J0", "token_label": "laptop", "secret_name": "HF_TOKEN", "wait_s": 1.5, "ok": True,
        "url": "http://127.0.0.1:8642", "text": "8 GPUs for train-tokenizer of ann: basic training",
    }  # fmt: skip
    assert {name: redacted(value, name) for name, value in values.items()} == values


def test_values_that_cannot_be_shown_are_replaced():
    class Bad:
        def __repr__(self):
            raise ZeroDivisionError

    loop: list = []
    loop.append(loop)
    assert redacted(Bad()) == "<Bad>"
    json.dumps(redacted({"loop": loop}))


@given(st.text(alphabet="tokensecrhash-=: '\"/bBarer.", max_size=400), st.text(max_size=20))
def test_redaction_accepts_any_text(text, name):
    assert isinstance(redacted(text, name), str)


def test_long_texts_are_redacted_quickly():
    for text in ("a-" * 100_000, "token" * 40_000, "a" * 200_000, "x://" * 50_000, "token='" * 30_000):
        assert len(redact_text(text)) < 200_000


# -- uvicorn


def test_requests_are_logged_as_fields_without_the_query():
    stream = io.StringIO()
    configure(stream=stream)
    app, ready = FastAPI(), threading.Event()

    @app.get("/jobs/{job}")
    def job(job: str) -> str:
        return job

    class Server(uvicorn.Server):
        async def startup(self, sockets=None):
            await super().startup(sockets)
            ready.set()

    server = Server(uvicorn.Config(app, port=0, log_config=None, lifespan="off"))
    thread = threading.Thread(target=server.run)
    thread.start()
    try:
        assert ready.wait(30)
        port = server.servers[0].sockets[0].getsockname()[1]
        url = f"http://127.0.0.1:{port}/jobs/1?token={TOKEN}"
        assert httpx.get(url, headers={"Authorization": f"Bearer {TOKEN}"}).status_code == 200
    finally:
        server.should_exit = True
        thread.join(30)
    (line,) = [line for line in written_lines(stream) if line["logger"] == "uvicorn.access"]
    assert (line["event"], line["method"], line["path"], line["status"]) == ("request", "GET", "/jobs/1", 200)
    assert line["client"].startswith("127.0.0.1:")
    assert any(line["logger"] == "uvicorn.error" for line in written_lines(stream))
    assert TOKEN not in stream.getvalue()
