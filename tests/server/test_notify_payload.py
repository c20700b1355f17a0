"""Notices as data: what the guide shows is what a webhook gets."""

import json
import re
from pathlib import Path

import pytest

from gpusquad.server.notify.channels import AllowList
from gpusquad.server.notify.messages import NoticeMessage, write
from gpusquad.server.notify.payload import link_to, payload_of
from gpusquad.server.notify.sender import ChannelSender
from gpusquad.store.events import EventRow
from gpusquad.store.jobs import JobRow
from tests.server.webhook import webhook

GUIDE = Path(__file__).parents[2] / "docs" / "guide" / "administration.md"
S = 1_000_000
JOB_ID = "01m7temy2xg9wnytbkayc2dj86"
JOB = JobRow(JOB_ID, "train", "vision", "ann", gpus=8, submitted_us=1795110370 * S + S // 2,
             result={"task": 0, "exit_code": 3}, spec={"command": ["x"]})  # fmt: skip
EVENT = EventRow(4711, JOB_ID, 1795111371 * S + S // 2, "failed", "failed", 0, "task 0 (task 0) ended with exit code 3")
TIMES = (1795110371 * S + S // 4, 1795111371 * S + S // 4)


def message() -> NoticeMessage:
    text = write("failed", JOB, EVENT)
    return NoticeMessage(text.title, text.body, payload_of("failed", JOB, EVENT, TIMES, "https://gpus.example.org/"))


def example_of_the_guide() -> dict:
    section = GUIDE.read_text("utf-8").partition("### Notices as data")[2]
    found = re.search(r"^```json\n(.*?)^```", section, re.MULTILINE | re.DOTALL)
    assert found is not None
    return json.loads(found[1])


def test_webhook_gets_the_example_of_the_guide() -> None:
    with webhook() as hook:
        ChannelSender(AllowList.parse(["json@127.0.0.1"])).send(hook.url(), message())
    assert hook.received == [example_of_the_guide()]
    assert hook.headers_of[0]["Idempotency-Key"] == f"{JOB_ID}.4711"


def test_file_gets_the_same_data(tmp_path: Path) -> None:
    ChannelSender(AllowList.parse(["file"]), tmp_path).send("file://n.jsonl", message())
    (line,) = [json.loads(line) for line in (tmp_path / "n.jsonl").read_text().splitlines()]
    example = example_of_the_guide()
    assert line["body"] == example["message"]
    assert line.items() >= {name: example[name] for name in ("id", "event", "job", "reason", "times", "title")}.items()


def test_fields_that_the_address_renames_stay_renamed() -> None:
    with webhook() as hook:
        url = hook.url("/?:message=text&:team=vision&%2BX-Team=vision")
        ChannelSender(AllowList.parse(["json@127.0.0.1"])).send(url, message())
    assert "message" not in hook.received[0]
    assert (hook.received[0]["text"], hook.received[0]["team"]) == (message().body, "vision")
    assert hook.received[0]["event"] == "failed"


@pytest.mark.parametrize("name", ["a\nb", "\x1b[2J", "\u202e", "x" * 10_000])
def test_text_of_a_tenant_is_bounded_and_on_one_line(name: str) -> None:
    hostile = JobRow(JOB_ID, name, "vision", "ann")
    found = payload_of("failed", hostile, EventRow(1, JOB_ID, 0, "failed", "failed", 0, name), None, "")
    for text in (found["job"]["name"], found["reason"]["text"]):
        assert len(text) <= 500
        assert text.isprintable()


def test_link_needs_a_public_address() -> None:
    assert link_to("a/b", "") is None
    assert link_to("j", "https://x/gpus/") == "https://x/gpus/jobs/j"
