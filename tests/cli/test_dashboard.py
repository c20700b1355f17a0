"""``gpusquad dashboard``: a link that logs in, shown to nobody by accident."""

import json
import os
import stat
from pathlib import Path
from urllib.parse import unquote, urlsplit

import pytest

from gpusquad.cli import dashboard
from tests.fake_service import TOKEN


@pytest.fixture
def link(service):
    """What the link should be."""
    return f"{os.environ['GPUSQUAD_URL']}/#token={TOKEN}"


def test_a_pipe_gets_the_address_without_the_token(gsq, link):
    done = gsq("dashboard")
    assert done.stdout == link.partition("#")[0] + "\n"
    assert "--print" in done.stderr
    assert TOKEN not in done.output
    told = json.loads(gsq("dashboard", "--json").stdout)
    assert told == {"url": link.partition("#")[0], "link": None, "built": True}


def test_the_link_where_it_is_asked_for(gsq, link):
    assert gsq("dashboard", "--print").stdout == link + "\n"
    assert json.loads(gsq("dashboard", "--print", "--json").stdout)["link"] == link


def test_a_token_is_encoded():
    made = dashboard._link("http://h:1/", "a#b&c+d/e")
    assert unquote(urlsplit(made).fragment.removeprefix("token=")) == "a#b&c+d/e"
    assert "&" not in made


def test_a_browser_is_sent_on_by_a_private_file(gsq, link, monkeypatch):
    seen = []

    def opened(address):
        file = Path(urlsplit(address).path)
        seen.append((address, file, stat.S_IMODE(file.stat().st_mode), file.read_text()))
        return True

    monkeypatch.setattr("webbrowser.open", opened)
    monkeypatch.setattr(dashboard, "READ_S", 0.0)
    assert TOKEN not in gsq("dashboard", "--open").output
    [(address, file, mode, text)] = seen
    assert TOKEN not in address  # it would stand in the list of processes
    assert mode == 0o600
    assert f"url={link}" in text
    assert not file.exists()


def test_no_browser(gsq, link, monkeypatch):
    monkeypatch.setattr("webbrowser.open", lambda address: False)
    assert "Open the link yourself" in gsq("dashboard", "--open").stderr


def test_a_service_without_the_page_says_how_to_build_it(gsq, service):
    service.fail("HEAD", "/index.html", 404, "not_found", "there is nothing here")
    assert "make web" in gsq("dashboard", code=5).stderr
    assert json.loads(gsq("dashboard", "--json", code=5).stdout)["built"] is False


def test_invalid_token_is_reported(gsq, service, monkeypatch):
    monkeypatch.setenv("GPUSQUAD_TOKEN", "gsq_wrong")
    assert "token is invalid" in gsq("dashboard", "--print", code=4).stderr


def test_link_with_a_lifetime_has_a_token_of_its_own(gsq, link, service):
    service.set_answers("POST", "/tokens", {"id": "t1", "user": "ada", "token": "gsq_new", "scopes": ["read"]})
    shown = gsq("dashboard", "--print", "--expires", "12h").stdout
    assert shown == link.replace(TOKEN, "gsq_new") + "\n"
    asked = service.requests_to("POST", "/tokens")[-1].body
    assert asked["expires_s"] > 0


def test_no_token_is_created_for_a_link_that_is_not_shown(gsq, link, service):
    assert TOKEN not in gsq("dashboard", "--expires", "12h").output
    assert not service.requests_to("POST", "/tokens")
