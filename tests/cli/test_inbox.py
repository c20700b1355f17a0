"""``gpusquad inbox``."""

import json

from tests.canned.answers import canned


def test_inbox_shows_notices_with_reasons_and_failed_jobs_of_a_batch(service, gsq, monkeypatch):
    monkeypatch.setenv("COLUMNS", "160")
    shown = gsq("inbox").stdout
    assert "diverged has failed" in shown
    assert "exit code 1" in shown
    assert "412 of 412 jobs ended: 400 succeeded, 12 failed" in shown
    assert "failed: sweep-7" in shown
    assert "1 unread" in shown
    assert [line.startswith("•") for line in shown.splitlines() if " ago" in line] == [True, False]


def test_inbox_is_only_marked_as_read_when_asked(service, gsq):
    gsq("inbox")
    assert not service.requests_to("POST", "/inbox/read")
    gsq("inbox", "--read")
    assert service.requests_to("POST", "/inbox/read")[-1].body == {"ids": [3], "up_to": None}
    gsq("inbox", "--all", "--read")
    assert service.requests_to("POST", "/inbox/read")[-1].body == {"ids": [], "up_to": 3}


def test_inbox_asks_for_what_it_shows(service, gsq):
    gsq("inbox", "--unread", "-n", 5)
    assert service.requests_to("GET", "/inbox")[-1].query == {"unread": ["true"], "limit": ["5"]}


def test_empty_inbox(service, gsq):
    service.set_answers("GET", "/inbox", {"items": [], "next": None, "unread": 0})
    assert gsq("inbox").stdout.strip() == "no notices"
    assert gsq("inbox", "--unread").stdout.strip() == "no unread notices"
    assert json.loads(gsq("inbox", "--json").stdout) == {"items": [], "next": None, "unread": 0}


def test_control_characters_of_a_job_name_are_not_printed(service, gsq):
    page = canned(1.7e9)["GET", "/inbox"]
    page["items"][0] |= {"title": "evil\x1b[2J has failed", "name": "evil\x1b[2J"}
    service.set_answers("GET", "/inbox", page)
    assert "\x1b" not in gsq("inbox").stdout
