"""The service that tests speak to answers in the shapes of the real one."""

import pytest

from tests.canned.answers import canned

schemas = pytest.importorskip("gpusquad.server.app")


def _models():
    from starlette.routing import compile_path

    rows = [(compile_path(path)[0], route) for path, route in schemas.all_routes()]
    for (method, path), body in canned(1.7e9).items():
        whole = path if path.startswith(("/healthz", "/readyz")) else f"/api/v1{path}"
        for pattern, route in rows:
            if method in route.methods and pattern.fullmatch(whole.replace("%2F", "/")):
                yield pytest.param(route.response_model, body, id=f"{method} {path}")
                break
        else:
            raise AssertionError(f"no route for {method} {path}")


@pytest.mark.parametrize(("model", "body"), list(_models()))
def test_canned_answers_fit_the_description(model, body):
    from pydantic import BaseModel

    if body is not None and isinstance(model, type) and issubclass(model, BaseModel):
        model.model_validate(body)
