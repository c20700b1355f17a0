"""The client's types are those of the API's description."""

from gpusquad.client.types import JobView
from gpusquad.server.app import bare_app
from tools.client_types import PATH, generate


def test_types_are_up_to_date_with_the_api_description() -> None:
    text = generate(bare_app().openapi())
    assert PATH.read_text(encoding="utf-8") == text, "run: .venv/bin/python tools/client_types.py"


def test_generator_reads_references_unions_and_optional_fields() -> None:
    schemas = {
        "Page": {
            "properties": {"items": {"type": "array", "items": {"$ref": "#/components/schemas/Line"}}},
            "required": ["items"],
        },
        "Line": {
            "properties": {"at_s": {"anyOf": [{"type": "number"}, {"type": "null"}]}, "kind": {"enum": ["a", "b"]}},
            "required": ["at_s"],
        },
        "Unused": {"properties": {}},
    }  # fmt: skip
    answer = {"content": {"application/json": {"schema": {"$ref": "#/components/schemas/Page"}}}}
    text = generate({"paths": {"/x": {"get": {"responses": {"200": answer}}}}, "components": {"schemas": schemas}})
    assert "class Page(TypedDict):\n    items: list[Line]" in text
    assert (
        "class Line(TypedDict):\n    at_s: float | None\n    kind: NotRequired[Literal['a', 'b']]".replace("'", '"')
        in text
    )
    assert "Unused" not in text


def test_types_name_the_fields_of_a_job() -> None:
    assert {"id", "state", "placement", "progress"} <= set(JobView.__annotations__)
