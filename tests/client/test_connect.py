"""Which service is meant."""

import json

import pytest

from gpusquad.client import ServiceUnreachable
from gpusquad.client.connect import home_of, locate
from gpusquad.model.errors import Invalid

HERE = "http://127.0.0.1:8642"


@pytest.fixture
def home(tmp_path):
    (tmp_path / "server.json").write_text(json.dumps({"url": HERE, "pid": 1}))
    (tmp_path / "token").write_text("secret\n")
    return {"GPUSQUAD_HOME": str(tmp_path)}


def test_the_service_of_this_machine(home):
    found = locate(home)
    assert (found.url, found.token, found.is_local) == (HERE, "secret", True)
    assert "secret" not in repr(found)


def test_a_token_of_ones_own(home):
    assert locate(home | {"GPUSQUAD_TOKEN": " mine "}).token == "mine"


def test_another_service_never_sees_this_machines_token(home):
    assert locate(home | {"GPUSQUAD_URL": "http://elsewhere"}).token == ""
    assert locate(home | {"GPUSQUAD_URL": HERE + "/"}).token == "secret"
    assert locate(home | {"GPUSQUAD_URL": "http://elsewhere", "GPUSQUAD_TOKEN": "t"}).token == "t"


def test_nothing_runs_here(tmp_path):
    with pytest.raises(ServiceUnreachable, match="no gpusquad service is running here; start one with `gpusquad up`"):
        locate({"GPUSQUAD_HOME": str(tmp_path / "none")})


@pytest.mark.parametrize("text", ["", "[]", "{}", '{"url"'])
def test_a_broken_file(tmp_path, text):
    (tmp_path / "server.json").write_text(text)
    with pytest.raises(Invalid, match=r"server\.json"):
        locate({"GPUSQUAD_HOME": str(tmp_path)})


def test_where_the_folder_is(tmp_path):
    assert home_of({"HOME": str(tmp_path)}) == tmp_path / ".gpusquad"
    assert home_of({"HOME": "/x", "GPUSQUAD_HOME": str(tmp_path)}) == tmp_path
